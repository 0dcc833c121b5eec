"""What of a plan is still to be done, as a graph of timed items: the input of the estimate.

Leaves take time and a slot; containers become a gate before and a gate after their children,
which take neither. Built from the plan and from what the records say; estimates nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from surefoot.graph.values import JsonObject, SubtaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known of one subtask or child: its state and, in POSIX seconds, its times."""

    state: SubtaskState = "pending"
    started: float | None = None
    finished: float | None = None
    children: int | None = None
    """A foreach's number of children, once expanded."""


@dataclass(slots=True, kw_only=True)
class Item:
    """A leaf, or a gate (`slot` False). `needs` are positions of earlier or later items."""

    id: str
    state: SubtaskState = "pending"
    slot: bool = True
    like: str = ""
    """Tool name, or kind: what its durations are compared by."""
    family: str = ""
    """A finer likeness: the tool, the phase and the id without its numbers."""
    weight: float = 1.0
    """As in the plan, shared out below containers; 1 where the plan weighs all alike."""
    estimated_s: float | None = None
    took_s: float | None = None
    """Completed: its duration. Running: how long it runs already."""
    needs: list[int] = field(default_factory=list[int])

    @property
    def done(self) -> bool:
        """Nothing of it is left to do."""
        return self.state in ("completed", "skipped", "failed")


def workload_of(
    plan: JsonObject,
    seen: Mapping[str, Seen],
    *,
    now: float,
    plans: Mapping[str, JsonObject] | None = None,
) -> list[Item]:
    """List the plan's leaves and gates with what is known of them.

    Args:
        plan: JSON-plain.
        seen: by subtask or child id; what is missing is pending.
        now: POSIX seconds, for what is running.
        plans: those that were made for groups, by the group's id.
    """
    weights = {s.get("weight", 1) for s in cast("list[JsonObject]", plan.get("subtasks") or [])}
    builder = _Builder(seen, now, weighed=len(weights) > 1, plans=plans or {})
    builder.add_plan(plan, prefix="", weight=1.0, entry=None)
    return builder.items


class _Builder:
    def __init__(
        self,
        seen: Mapping[str, Seen],
        now: float,
        *,
        weighed: bool,
        plans: Mapping[str, JsonObject],
    ) -> None:
        self._plans = plans
        self.items: list[Item] = []
        self._weighed = weighed
        self._seen = seen
        self._now = now

    def add_plan(
        self, plan: Mapping[str, Any], *, prefix: str, weight: float, entry: int | None
    ) -> list[int]:
        """Add every subtask of a plan; returns the items after which each is over."""
        subtasks = cast("list[Mapping[str, Any]]", plan.get("subtasks") or [])
        whole = sum(float(s.get("weight", 1)) for s in subtasks) if prefix else 1.0
        ends: dict[str, int] = {}
        links: list[tuple[int, Sequence[str]]] = []
        for subtask in subtasks:
            part = weight * float(subtask.get("weight", 1)) / (whole or 1.0)
            start, end = self.add_unit(prefix + subtask["id"], subtask, weight=part)
            ends[subtask["id"]] = end
            links.append((start, subtask.get("depends_on") or ()))
        for start, needs in links:
            known = [ends[name] for name in needs if name in ends]
            self.items[start].needs.extend(known or ([entry] if entry is not None else []))
        return list(ends.values())

    def add_unit(self, name: str, unit: Mapping[str, Any], *, weight: float) -> tuple[int, int]:
        """Add a leaf or a container; returns the items where it starts and where it is over."""
        seen = self._seen.get(name) or Seen()
        kind, inner = unit.get("kind"), unit.get("plan") or self._plans.get(name)
        first = len(self.items)
        if kind == "foreach" and seen.children:
            self._add_children(name, unit, weight=weight, n=seen.children)
        elif kind == "group" and inner:
            gate = self._add_gate(name)
            ends = self.add_plan(inner, prefix=f"{name}/", weight=weight, entry=gate)
            self._add_gate(name, needs=ends)
        else:
            self._add_leaf(name, unit, seen, weight=weight)
        last = len(self.items) - 1
        if seen.state in ("completed", "skipped", "failed"):
            self._close(first, last)
        return first, last

    def _close(self, first: int, last: int) -> None:
        """A container is over: what of it did not run will not."""
        for item in self.items[first : last + 1]:
            if not item.done:
                item.state = "skipped"

    def _add_children(self, name: str, unit: Mapping[str, Any], *, weight: float, n: int) -> None:
        gate = self._add_gate(name)
        each = dict(cast("Mapping[str, Any]", unit.get("each") or {}))
        each.setdefault("phase", unit.get("phase"))
        if each.get("estimated_seconds") is None and unit.get("estimated_seconds") is not None:
            each["estimated_seconds"] = unit["estimated_seconds"] / n
        ends: list[int] = []
        for i in range(n):
            start, end = self.add_unit(f"{name}/{i}", each, weight=weight / n)
            self.items[start].needs.append(gate)
            ends.append(end)
        self._add_gate(name, needs=ends)

    def _add_gate(self, name: str, needs: Sequence[int] = ()) -> int:
        self.items.append(Item(id=name, slot=False, needs=list(needs)))
        return len(self.items) - 1

    def _add_leaf(self, name: str, unit: Mapping[str, Any], seen: Seen, *, weight: float) -> int:
        like = str(unit.get("tool") or unit.get("kind"))
        self.items.append(
            Item(
                id=name,
                state=seen.state,
                like=like,
                family=f"{like} {unit.get('phase') or ''} {_NUMBERS.sub('', name)}",
                weight=weight if self._weighed else 1.0,
                estimated_s=unit.get("estimated_seconds"),
                took_s=_took(seen, self._now),
            )
        )
        return len(self.items) - 1


_NUMBERS = re.compile(r"[-_/.]*\d+")


def _took(seen: Seen, now: float) -> float | None:
    if seen.started is None or seen.state not in ("running", "completed"):
        return None
    end = seen.finished if seen.state == "completed" and seen.finished is not None else now
    return max(0.0, end - seen.started)
