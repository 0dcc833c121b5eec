"""Weighted progress, exact and cheap: what share of the plan's weight is verified.

By leaves: a foreach's children share its weight evenly, a group's leaves share its weight in
proportion, an unexpanded or empty foreach is one leaf. Weights are fixed-point integers, so that
a meter that was moved a million times and one that is built from the records agree to the bit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from surefoot.graph.values import JsonObject, SubtaskState

MOST_UNTIL_COMPLETED = 0.9999
"""Progress stays at most this until the task itself is completed."""

_SCALE = 1 << 80
"""Fixed-point units in the whole plan's weight: shares lose less than 1e-18 of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many leaves are in which state."""

    total: int = 0
    pending: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(slots=True)
class _Container:
    """A foreach or a group: its share of the weight and what lies directly below it."""

    weight: int
    unit: Mapping[str, Any]
    children: tuple[str, ...] = ()


class ProgressMeter:
    """Progress that nodes keep up to date: `move` a leaf, `expand` a foreach, read at any time.

    Reading and moving a leaf are O(1). A rollback or a new plan version builds a new meter.
    """

    def __init__(self, plan: JsonObject) -> None:
        """Start with every leaf pending.

        Args:
            plan: JSON-plain, as in a task file or dumped from `Plan`.
        """
        self._weights: dict[str, int] = {}
        self._states: dict[str, SubtaskState] = {}
        self._containers: dict[str, _Container] = {}
        self._number: dict[SubtaskState, int] = dict.fromkeys(_STATES, 0)
        self._weight: dict[SubtaskState, int] = dict.fromkeys(_STATES, 0)
        self._add_plan(plan, prefix="", share=_SCALE)

    def expand(self, subtask: str, n: int) -> None:
        """A foreach has found `n` items: from now on its `n` children are the leaves.

        Says nothing new (and changes nothing) for n = 0 and for one that is expanded already.
        """
        container = self._containers.get(subtask)
        if container is None:
            return
        if n == 0 or container.children:
            return
        self._forget(subtask)
        container.children = tuple(f"{subtask}/{i}" for i in range(n))
        each = cast("Mapping[str, Any]", container.unit.get("each") or {})
        for child in container.children:
            self._add_unit(child, each, container.weight // n)

    def nest(self, subtask: str, plan: JsonObject) -> None:
        """A group's plan was made: from now on its leaves share the group's weight.

        Says nothing new for an empty plan and for a group whose plan is known already.
        """
        container = self._containers.get(subtask)
        if container is None or container.children or not plan.get("subtasks"):
            return
        self._forget(subtask)
        container.children = self._add_plan(plan, prefix=f"{subtask}/", share=container.weight)

    def move(self, subtask: str, state: SubtaskState) -> None:
        """A subtask or child is in `state` now.

        A container that is completed (on a rung) or skipped takes with it those of its leaves
        that are neither; its other states say nothing about its leaves.
        """
        if subtask in self._weights:
            self._set(subtask, state)
        elif state in ("completed", "skipped"):
            for leaf in self.leaves(subtask):
                if self._states[leaf] not in ("completed", "skipped") or state == "skipped":
                    self._set(leaf, state)

    def leaves(self, subtask: str) -> Iterator[str]:
        """The leaves at or below a subtask, in order."""
        waiting = [subtask]
        while waiting:
            name = waiting.pop()
            if name in self._weights:
                yield name
            else:
                waiting.extend(reversed(self._containers[name].children))

    def is_leaf(self, subtask: str) -> bool:
        """Whether it is scheduled as a whole: no group, and no expanded foreach."""
        return subtask in self._weights

    def knows(self, subtask: str) -> bool:
        """Whether the plan, as far as it is expanded, has a subtask or child of this id."""
        return subtask in self._weights or subtask in self._containers

    def share(self, subtask: str) -> float:
        """A leaf's part of the whole weight, in [0, 1]."""
        return self._weights[subtask] / _SCALE

    def state(self, leaf: str) -> SubtaskState:
        """The state of one leaf."""
        return self._states[leaf]

    def counts(self) -> Counts:
        """Leaves by state."""
        return Counts(total=len(self._weights), **self._number)

    def progress(self, *, completed: bool = False) -> float:
        """Weight completed ÷ weight not skipped; by count where what is left has no weight.

        0 while there is no plan.

        Args:
            completed: the task itself is completed: then 1, else at most 0.9999.
        """
        if completed:
            return 1.0
        done, whole = self._weight["completed"], sum(self._weight.values())
        open_or_done = whole - self._weight["skipped"]
        if open_or_done == 0:
            done = self._number["completed"]
            open_or_done = len(self._weights) - self._number["skipped"]
        share = done / open_or_done if open_or_done else float(bool(self._weights))
        return min(share, MOST_UNTIL_COMPLETED)

    def _add_plan(self, plan: Mapping[str, Any], *, prefix: str, share: int) -> tuple[str, ...]:
        subtasks = cast("list[Mapping[str, Any]]", plan.get("subtasks") or [])
        parts = _parts(subtasks, evenly=bool(prefix))
        names = tuple(f"{prefix}{subtask['id']}" for subtask in subtasks)
        for name, subtask, part in zip(names, subtasks, parts, strict=True):
            self._add_unit(name, subtask, int(share * part))
        return names

    def _add_unit(self, name: str, unit: Mapping[str, Any], weight: int) -> None:
        kind, plan = unit.get("kind"), unit.get("plan")
        if kind in ("foreach", "group"):
            self._containers[name] = _Container(weight, unit)
        if kind == "group" and plan and plan.get("subtasks"):
            children = self._add_plan(plan, prefix=f"{name}/", share=weight)
            self._containers[name].children = children
            return
        self._weights[name] = weight
        self._states[name] = "pending"
        self._number["pending"] += 1
        self._weight["pending"] += weight

    def _forget(self, leaf: str) -> None:
        state, weight = self._states.pop(leaf), self._weights.pop(leaf)
        self._number[state] -= 1
        self._weight[state] -= weight

    def _set(self, leaf: str, state: SubtaskState) -> None:
        before, weight = self._states[leaf], self._weights[leaf]
        self._number[before] -= 1
        self._weight[before] -= weight
        self._states[leaf] = state
        self._number[state] += 1
        self._weight[state] += weight


def meter_of(
    plan: JsonObject,
    states: Mapping[str, SubtaskState],
    expanded: Mapping[str, int],
    plans: Mapping[str, JsonObject] | None = None,
) -> ProgressMeter:
    """Build the meter of a plan from what the records say, containers last.

    Args:
        plan: JSON-plain.
        states: state by subtask or child id; what is missing is pending, what is unknown to
            the plan (left from an older version) is passed over.
        expanded: number of children of each expanded foreach.
        plans: plans that were made for groups, by the group's id.
    """
    meter = ProgressMeter(plan)
    made = plans or {}
    for subtask in sorted({**expanded, **made}, key=lambda name: name.count("/")):
        if subtask in made:
            meter.nest(subtask, made[subtask])
        else:
            meter.expand(subtask, expanded[subtask])
    known = [subtask for subtask in states if meter.knows(subtask)]
    # Leaves first, then containers from the inside out: what is outside has the last word.
    for subtask in sorted(known, key=lambda name: (not meter.is_leaf(name), -name.count("/"))):
        meter.move(subtask, states[subtask])
    return meter


def retry_rate(attempts: int, attempted: int) -> float:
    """(attempts - leaves attempted) ÷ leaves attempted, to 3 decimals; 0 before the first.

    Args:
        attempts: ended attempts of all leaves, rungs included.
        attempted: leaves with at least one ended attempt.
    """
    return round((attempts - attempted) / attempted, 3) if attempted else 0.0


_STATES: tuple[SubtaskState, ...] = ("pending", "running", "completed", "failed", "skipped")


def _parts(subtasks: list[Mapping[str, Any]], *, evenly: bool) -> list[float]:
    """Each subtask's part of its siblings' weight, in [0, 1].

    Where all weigh nothing: even parts inside a group, 0 at the top (progress then counts leaves).
    """
    raw = [float(subtask.get("weight", 1)) for subtask in subtasks]
    most = max(raw, default=0.0)
    if most == 0:
        return [1 / len(raw) if evenly else 0.0] * len(raw)
    scaled = [weight / most for weight in raw]
    whole = sum(scaled)
    return [weight / whole for weight in scaled]
