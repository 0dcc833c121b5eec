"""The consistency report: whether the world is what a task's state says. Facts in, checks out.

Pure. Who gathers the facts is `nodes.consistency` for a task that goes on, and `service.doctor`
for one that is looked at. A check that does not hold never leads to "go on": the task waits with a
question, whose choices are worked out here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from surefoot.graph.plain import digest
from surefoot.graph.recovery import World
from surefoot.graph.values import JsonObject, Question

CheckName = Literal[
    "graph_version",
    "state",
    "artifacts",
    "results",
    "workspace",
    "inputs",
    "tools",
    "commands",
    "models",
]
Choice = Literal["recheck", "restore", "accept", "redo"]

SHOWN = 10
"""Faults that a check or a question spells out; the others are counted."""

_ACCEPTABLE: tuple[CheckName, ...] = ("workspace", "inputs", "tools")
"""What people may declare to be right as it is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    check: CheckName
    ok: bool
    detail: str
    """What was found, or how much was looked at."""
    ids: tuple[str, ...] = ()
    """Subtasks, paths or modules that it is about, where it does not hold."""

    def as_dict(self) -> JsonObject:
        """As people and programs see it."""
        return {"check": self.check, "ok": self.ok, "detail": self.detail, "ids": [*self.ids]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Blobs:
    """What became of stored contents: `wanted` names each sha256 by who needs it."""

    wanted: Mapping[str, Sequence[tuple[str, str]]] = field(
        default_factory=dict[str, Sequence[tuple[str, str]]]
    )
    """sha256 -> (subtask, what it is: `artifact a/x.txt`, `result of a`), of all that need it."""
    missing: frozenset[str] = frozenset()
    damaged: frozenset[str] = frozenset()
    """There, and not what its name says."""
    read: int = 0
    """How many were read and compared with their hash; of the others only the presence is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was found; what was not looked at stays empty and holds."""

    versions: tuple[int, int] = (0, 0)
    """Graph version of the state, and of the program."""
    head_fault: str = ""
    """Why the pinned head and the goal do not belong together."""
    plan_versions: tuple[int, int] = (0, 0)
    """Of the state, and the newest of the table."""
    behind: Sequence[str] = ()
    """Subtasks of which the table knows more than the state."""
    milestones: Sequence[str] = ()
    """Passed ones whose stored records are not those that were judged."""
    artifacts: Blobs = Blobs()
    results: Blobs = Blobs()
    standing: Sequence[str] = ()
    """Subtasks whose effect stands and answers with contents that are lost: no way to do it again
    brings these back."""
    workspace: Sequence[str] = ()
    """What is not as the manifests say, one line each (`out.txt has changed`)."""
    vouched: str = "nothing is vouched for"
    """Which manifests were compared, in words."""
    expected: JsonObject = field(default_factory=dict[str, Any])
    """Digests as the task was made with, by kind (`input`, `tools module`) and name."""
    found: JsonObject = field(default_factory=dict[str, Any])
    """The same as they are now."""
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Programs that are not installed, and the subtasks that run them."""
    modelless: Sequence[str] = ()
    """Subtasks that need a model where none is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All checks, and what follows from them."""

    checks: tuple[Check, ...]
    found: JsonObject = field(default_factory=dict[str, Any])
    """Digests of inputs and tools as they are: another change of one file is another report."""

    standing: tuple[str, ...] = ()
    """See `Facts.standing`."""

    @property
    def consistent(self) -> bool:
        """Whether everything is as the state says."""
        return all(check.ok for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that do not hold."""
        return tuple(check for check in self.checks if not check.ok)

    def summary(self) -> str:
        """What does not hold, in one line."""
        return "; ".join(check.detail for check in self.failed)

    def world(self) -> World:
        """What the recovery choice is told."""
        if self.consistent:
            return "holds"
        lost = any(check.check in ("state", "graph_version") for check in self.failed)
        return "state lost" if lost else "differs"

    def choices(self) -> list[Choice]:
        """What a person may answer: looking again is always possible."""
        names = {check.check for check in self.failed}
        offered: list[Choice] = ["recheck"]
        if names == {"workspace"}:
            offered.append("restore")
        if names and names <= set(_ACCEPTABLE):
            offered.append("accept")
        if self.redo():
            offered.append("redo")
        return offered

    def redo(self) -> list[str]:
        """The subtasks that would have to be done again; empty where that mends nothing."""
        others = {check.check for check in self.failed} - {"artifacts", "results"}
        if others or self.standing:
            return []
        return list(dict.fromkeys(id for check in self.failed for id in check.ids))

    def _by_hand(self, task_id: str) -> str:
        """What else is possible where nothing done again brings back what is lost."""
        if not self.standing:
            return ""
        return (
            f" What {listed(self.standing)} did stands and cannot be done again: `surefoot edit "
            f"{task_id} {self.standing[0]}` gives by hand what is lost of it."
        )

    def as_list(self) -> list[JsonObject]:
        """All checks as flat objects."""
        return [check.as_dict() for check in self.checks]

    def question(self, task_id: str, *, id: str | None = None) -> Question:
        """The question that such a report leads to; the same report gives the same id.

        Args:
            task_id: for the commands that are named.
            id: where this report was asked about before.
        """
        failed = [check.as_dict() for check in self.failed]
        return Question(
            id=id or f"inconsistent-{digest([failed, self.found])[:12]}",
            subtask=None,
            kind="inconsistent_state",
            text=(
                f"The world is not what the task's state says: {self.summary()}. Put it back as "
                f"it was, then `surefoot resume {task_id}` checks again.{self._by_hand(task_id)}"
            ),
            choices=[*self.choices()],
            facts={"failed": failed, "redo": self.redo()},
        )


def report(facts: Facts) -> Report:
    """Judge what was found, check by check."""
    return Report(
        checks=(
            _versions(facts),
            _state(facts),
            _blobs("artifacts", facts.artifacts),
            _blobs("results", facts.results),
            _lines("workspace", facts.workspace, f"as {facts.vouched}"),
            _digests("inputs", "input", facts),
            _digests("tools", "tools module", facts),
            _commands(facts),
            _models(facts),
        ),
        found=facts.found,
        standing=tuple(facts.standing),
    )


def _versions(facts: Facts) -> Check:
    stored, ours = facts.versions
    ok = stored == ours
    detail = f"graph version {ours}" if ok else f"graph version {stored}, the program's is {ours}"
    return Check(check="graph_version", ok=ok, detail=detail)


def _state(facts: Facts) -> Check:
    faults = [facts.head_fault] if facts.head_fault else []
    mine, newest = facts.plan_versions
    if mine != newest:
        faults.append(f"the state has plan version {mine}, the tables have {newest}")
    if facts.behind:
        faults.append(f"the tables know more than the state of {listed(facts.behind)}")
    if facts.milestones:
        faults.append(f"the records stored at {listed(facts.milestones)} are not those judged")
    ids = (*facts.behind, *facts.milestones)
    return Check(
        check="state",
        ok=not faults,
        detail="; ".join(faults) or "head, plan, records and milestones belong together",
        ids=tuple(ids),
    )


def _blobs(name: Literal["artifacts", "results"], blobs: Blobs) -> Check:
    lost = [sha for sha in blobs.wanted if sha in blobs.missing]
    bad = [sha for sha in blobs.wanted if sha in blobs.damaged and sha not in blobs.missing]
    lines = [f"{what} is missing" for sha in lost for _, what in blobs.wanted[sha]]
    lines += [f"{what} does not match its hash" for sha in bad for _, what in blobs.wanted[sha]]
    if lines:
        ids = dict.fromkeys(id for sha in (*lost, *bad) for id, _ in blobs.wanted[sha])
        return Check(check=name, ok=False, detail=spelled(lines), ids=tuple(ids))
    n = len(blobs.wanted)
    read = "all of them" if blobs.read >= n else f"{blobs.read} of them"
    detail = f"{n} stored, {read} read and compared with their hash" if n else "none is stored"
    return Check(check=name, ok=True, detail=detail)


def _lines(name: CheckName, lines: Sequence[str], fine: str) -> Check:
    if not lines:
        return Check(check=name, ok=True, detail=fine)
    return Check(check=name, ok=False, detail=f"{name}: {spelled(lines)}", ids=tuple(lines))


def _digests(name: Literal["inputs", "tools"], kind: str, facts: Facts) -> Check:
    before: JsonObject = facts.expected.get(kind) or {}
    now: JsonObject = facts.found.get(kind) or {}
    lost = [one for one in before if one not in now]
    changed = [one for one in before if one in now and now[one] != before[one]]
    lines = [f"{kind} {one} is missing" for one in lost]
    lines += [f"{kind} {one} has changed" for one in changed]
    if lines:
        return Check(check=name, ok=False, detail=spelled(lines), ids=(*lost, *changed))
    detail = f"{len(before)} unchanged" if before else "none is declared"
    return Check(check=name, ok=True, detail=detail)


def _commands(facts: Facts) -> Check:
    lines = [f"the command {program!r} is not installed" for program in facts.commands]
    users = dict.fromkeys(id for ids in facts.commands.values() for id in ids)
    detail = spelled(lines) if lines else "every command that the plan names is installed"
    return Check(check="commands", ok=not lines, detail=detail, ids=tuple(users))


def _models(facts: Facts) -> Check:
    if not facts.modelless:
        return Check(check="models", ok=True, detail="every role that the plan needs has a model")
    need = "needs" if len(facts.modelless) == 1 else "need"
    detail = f"{listed(facts.modelless)} {need} a model, and none is named"
    return Check(check="models", ok=False, detail=detail, ids=tuple(facts.modelless))


def spelled(lines: Sequence[str]) -> str:
    """Lines in one, the first few spelled out."""
    more = f"; and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return "; ".join(lines[:SHOWN]) + more


def listed(ids: Sequence[str]) -> str:
    """Ids in words, the first few by name."""
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return ", ".join(repr(id) for id in ids[:SHOWN]) + more
