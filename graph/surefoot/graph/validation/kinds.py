"""What each kind of work needs and what makes no sense on it: all `schema` faults."""

from pydantic import BaseModel, ValidationError

from surefoot.graph.plan import KIND_FIELDS, RungWork, Unit, Work
from surefoot.graph.references import find_references
from surefoot.graph.shapes import is_array
from surefoot.graph.task import Budget, Goal
from surefoot.graph.validation.outline import Case, Node
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.vote_rules import vote_faults
from surefoot.graph.validation.wording import did_you_mean, listed, short
from surefoot.graph.values import JsonObject

_CONTAINERS = ("foreach", "group")


def check_kinds(case: Case, findings: Findings) -> None:
    """Note missing and senseless fields, by kind."""
    for node in case.nodes:
        for where, work in node.works():
            checker = _Checker(node, where, findings)
            checker.check(work)
            for fault in vote_faults(work, case.tools):
                checker.fault(fault)


class _Checker:
    """Checks one work; every fault begins with where it is."""

    def __init__(self, node: Node, where: str, findings: Findings) -> None:
        self._node = node
        self._findings = findings
        inside = "each" if node.in_each else ""
        place = ".".join(part for part in (inside, where) if part)
        self._place = f"subtask {node.id!r}" + (f", {place}" if place else "")

    def check(self, work: Work) -> None:
        self._foreign_fields(work)
        if not self._node.damaged:
            self._needed_fields(work)
        self._outputs(work)
        if work.kind == "foreach":
            self._for_each(work)
        if work.kind == "group":
            self._inner_model("goal", work.goal, Goal)
            self._inner_model("budget", work.budget, Budget)
        if work.kind in _CONTAINERS:
            self._call_fields(work)
        if isinstance(work, RungWork) and work.kind in _CONTAINERS:
            self.fault(f"a rung is one tool call or one agent, not a {work.kind}")
        if isinstance(work, Unit):
            self._ladder(work)

    def fault(self, message: str) -> None:
        self._findings.fault("schema", f"{self._place}: {message}", [self._node.id])

    def _foreign_fields(self, work: Work) -> None:
        for kind, fields in KIND_FIELDS.items():
            for field in fields if kind != work.kind else ():
                if getattr(work, field) not in (None, "", [], {}):
                    self.fault(f"`{field}` belongs to kind {kind}, but this is kind {work.kind}")

    def _call_fields(self, work: Work) -> None:
        """Wishes about calls and attempts, which a container has none of: never passed over."""
        if work.retries is not None:
            self.fault(f"a {work.kind} is not retried itself; put `retries` on what is inside it")
        for field, stated in (
            ("undo", work.undo is not None),
            ("approve", work.approve != "unknown"),
        ):
            if stated:
                self.fault(f"a {work.kind} makes no call; put `{field}` on what is inside it")

    def _needed_fields(self, work: Work) -> None:
        if work.kind == "tool" and not work.tool:
            self.fault("kind tool needs `tool:`, the name of the tool to call")
        if work.kind == "agent" and not (work.instructions or "").strip():
            self.fault("kind agent needs `instructions:`")
        if work.kind == "foreach":
            if work.for_each is None:
                self.fault("kind foreach needs `for_each:`, a list or a reference to one")
            if work.each is None:
                self.fault("kind foreach needs `each:`, the work to do for every item")
        if work.kind == "group" and (work.plan is None) == (work.goal is None):
            both = "not both" if work.plan is not None else "to be planned by a model"
            self.fault(f"kind group needs `plan:` or `goal:`, {both}")

    def _for_each(self, work: Work) -> None:
        value = work.for_each
        if value is not None and not is_array(value) and not find_references(value):
            self.fault(f"`for_each` must be a list or a reference to one, not {short(value)}")
        if work.each is not None and work.each.kind == "foreach":
            self.fault("`each` may be a tool, an agent or a group; put an inner foreach in a group")

    def _outputs(self, work: Work) -> None:
        if isinstance(work.outputs, dict) and work.kind != "group":
            self.fault("`outputs` is a list of artifact names; only a group's maps names to values")
        names = work.artifact_names()
        for name in names:
            if not name.strip() or "/" in name or "${" in name or name in (".", ".."):
                self.fault(f"{name!r} is no artifact name: a plain file name without '/' and '${{'")
        twice = sorted({name for name in names if names.count(name) > 1}) if names else []
        if twice:
            self._findings.fault(
                "output_conflict",
                f"{self._place}: `outputs` names {listed(twice)} more than once",
                [self._node.id],
            )

    def _ladder(self, unit: Unit) -> None:
        words = [rung if isinstance(rung, str) else "" for rung in unit.on_failure]
        if "skip" in words and not unit.skippable:
            self.fault("a `skip` rung needs `skippable: true`")
        for n, word in enumerate(words[:-1]):
            if word in ("skip", "fail"):
                self._findings.warn(
                    "schema",
                    f"{self._place}: rungs after `{word}` in on_failure[{n}] are never reached",
                    [self._node.id],
                )
                break

    def _inner_model(self, field: str, value: JsonObject | None, model: type[BaseModel]) -> None:
        if value is None:
            return
        try:
            model.model_validate(value)
        except ValidationError as exc:
            for error in exc.errors(include_url=False):
                self.fault(_inner_message(field, error["loc"], error["type"], error["msg"], model))


def _inner_message(
    field: str, loc: tuple[str | int, ...], kind: str, says: str, model: type[BaseModel]
) -> str:
    where = ".".join(str(step) for step in (field, *loc))
    if kind != "extra_forbidden":
        return f"{where}: {says}"
    known = list(model.model_fields)
    hint = did_you_mean(str(loc[-1]), known) or f"; the keys here are {listed(known)}"
    return f"{field}: unknown key {str(loc[-1])!r}{hint}"
