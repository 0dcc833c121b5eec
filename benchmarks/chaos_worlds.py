"""The plans that are killed, and what must be true outside when one of them has come to its end.

An effect is named `KIND/ID`. What may be repeated is said here; all else must stand exactly once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crash import groups, plans

from benchmarks.chaos_peers import LENGTH

TESTS = Path(__file__).resolve().parent.parent / "tests"

TOOLS = TESTS / "crash" / "crash_tools.py"
AGENTS, ROUNDS = 3, 3
TRIES = {"max_attempts": 60, "backoff_seconds": 0.01}
"""A tool's process that is killed costs an attempt: of these there must be enough."""

BUDGET = {"max_failures": 100_000, "max_steps": 1_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A task file and its logical effects."""

    name: str
    task: Mapping[str, Any]
    effects: Mapping[str, Iterable[str]]
    repeatable: tuple[str, ...] = plans.REPEATABLE
    undone: tuple[str, ...] = ("book",)
    """Kinds that may be taken back and done again."""

    goes_back: tuple[str, ...] = ()
    """Milestones to which a person goes back now and then."""

    points: Mapping[str, int] = field(default_factory=dict[str, int])
    """Where it can die besides the common places, and at most at the how many-th time."""

    def verdict(self, facts: Iterable[Mapping[str, Any]], task: str) -> tuple[int, int]:
        """(lost, repeated): logical effects that do not stand, and times that were too many."""
        counted = Counter((fact["effect"], fact["fact"]) for fact in facts)
        lost = repeated = 0
        for kind, ids in self.effects.items():
            for id in ids:
                done, undone = (counted[f"{task}/{kind}/{id}", fact] for fact in ("do", "undo"))
                lost += done - undone < 1
                if kind not in self.repeatable:
                    times = done - undone if kind in self.undone else done
                    repeated += max(0, times - 1)
        return lost, repeated


def chain() -> World:
    """The chain that the peers run as well."""
    leaves = plans.leaves("send", range(LENGTH))
    subtasks = [
        {**leaf.subtask("one", [f"send{n - 1}"] if n else []), "args": {"id": f"e{n}"}}
        for n, leaf in enumerate(leaves)
    ]
    for n, one in enumerate(subtasks):
        one["success"] = [{"type": "result", "path": "id", "equals": f"e{n}"}]
    task = _task({"phases": [{"id": "one"}], "subtasks": subtasks})
    return World(name="chain", task=task, effects={"send": [f"e{n}" for n in range(LENGTH)]})


def wide() -> World:
    """31 leaves, most of them ready at once, a foreach and two milestones."""
    task = plans.task()
    points = {"check": 1, "before milestone": 1, "after milestone": 1}
    return World(name="wide", task=_lenient(task), effects=plans.EFFECTS, points=points)


def grouped() -> World:
    """The same, two groups deep."""
    return World(name="groups", task=_lenient(groups.grouped()), effects=plans.EFFECTS)


def agents() -> World:
    """Agents that call tools twice in every round."""
    agents = [
        {
            "id": f"a{n}",
            "kind": "agent",
            "phase": "one",
            "instructions": f"Send, as [a{n}].",
            "tools": ["send"],
            "success": [{"type": "result", "equals": "done"}],
        }
        for n in range(AGENTS)
    ]
    task = _task({"phases": [{"id": "one"}], "subtasks": agents}, model="m")
    sent = [f"a{n}-{r}-{half}" for n in range(AGENTS) for r in range(ROUNDS) for half in "xy"]
    return World(name="agents", task=task, effects={"send": sent})


def rollbacks() -> World:
    """Two segments; the check of the second fails once, and people go back as they like."""
    first = _some(range(2), "one", [])
    second = _some(range(2, 5), "two", ["send0"])
    python = {"type": "python", "call": "crash_tools:verified"}
    strict = {"type": "python", "call": "crash_tools:verified_later"}
    task = _task(
        {
            "phases": [{"id": "one"}, {"id": "two"}],
            "subtasks": [*first, *second],
            "milestones": [
                {"id": "half", "after": "one", "checks": [python]},
                {"id": "whole", "after": "two", "checks": [strict]},
            ],
        },
        limits={"rollbacks": 1000},
    )
    kinds = ("send", "book", "put")
    return World(
        name="rollbacks",
        task=task,
        effects={kind: [f"{kind}{n}" for n in range(5)] for kind in kinds},
        goes_back=("half", "start"),
        points={"undoing": 2, "undone": 2, "before milestone": 1, "check": 2},
    )


def questions() -> World:
    """Calls that a person must allow, and a result that a person must look at, beside others."""
    subtasks = _some(range(3), "one", [])
    asked = [leaf.subtask("one", []) for leaf in plans.leaves("send", range(3, 6))]
    for one in asked[:2]:
        one["approve"] = "always"
    asked[2]["success"] += [{"type": "person", "question": "Is it well sent?"}]
    last = [leaf.subtask("one", ["send3", "send5"]) for leaf in plans.leaves("send", range(6, 7))]
    given = [*subtasks, *asked, *last]
    task = _task({"phases": [{"id": "one"}], "subtasks": given})
    effects = {kind: [f"{kind}{n}" for n in range(3)] for kind in ("book", "put")}
    return World(
        name="questions", task=task, effects=effects | {"send": [f"send{n}" for n in range(7)]}
    )


def worlds() -> list[World]:
    """All plans, the peers' chain first."""
    return [chain(), wide(), grouped(), agents(), rollbacks(), questions()]


def _some(numbers: range, phase: str, needs: list[str]) -> list[dict[str, Any]]:
    leaves = [leaf for kind in ("send", "book", "put") for leaf in plans.leaves(kind, numbers)]
    return [leaf.subtask(phase, needs) for leaf in leaves]


def _task(plan: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": "chaos",
        "goal": {"objective": "Every effect once."},
        "concurrency": 8,
        "tools": ["./crash_tools.py"],
        "budget": BUDGET,
        "plan": _with_tries(plan),
        **more,
    }


def _lenient(task: dict[str, Any]) -> dict[str, Any]:
    """The task with attempts enough for killed tool processes."""
    return {**task, "budget": BUDGET, "plan": _with_tries(task["plan"])}


def _with_tries(plan: dict[str, Any]) -> dict[str, Any]:
    return {**plan, "subtasks": [_tried(subtask) for subtask in plan["subtasks"]]}


def _tried(subtask: dict[str, Any]) -> dict[str, Any]:
    if subtask["kind"] == "group":
        return {**subtask, "plan": _with_tries(subtask["plan"])}
    if subtask["kind"] == "foreach":
        return {**subtask, "each": {**subtask["each"], "retries": TRIES}}
    return {**subtask, "retries": TRIES}
