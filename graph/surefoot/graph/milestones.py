"""Where a plan should stop and verify: milestones that a program adds to a model's plan. Pure.

A milestone is a barrier, so it costs parallel work; without one there is nothing to go back to. So
they go where little is in flight anyway: where a phase ends, and behind the densest joins of the
dependency graph. Distances are counted in leaves, in an order in which needs come first.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from surefoot.graph.values import JsonObject

FEWEST_BETWEEN = 2
"""Leaves between two milestones; fewer are too close."""

MOST_WITHOUT = 25
"""Leaves without a milestone; more are too far apart."""

JOIN_NEEDS = 3
"""From so many needs on a subtask is a join."""

LEAVES_PER_JOIN = 10
"""At most one join milestone for so many leaves."""

MOST_CHECKS = 20

ON_FAILURE = ["rollback", "replan", "ask", "fail"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The leaves of a plan in an order in which needs come first.

    Attributes:
        rank: position of each subtask, from 0.
        needs: the ids each depends on.
        members: the subtasks of each phase, phases in the plan's order.
    """

    rank: Mapping[str, int]
    needs: Mapping[str, Sequence[str]]
    members: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, plan: JsonObject) -> "Layout":
        """Lay out an accepted plan (unique ids, no cycles)."""
        needs = {s["id"]: list(dict.fromkeys(s.get("depends_on") or ())) for s in plan["subtasks"]}
        members: dict[str, list[str]] = {p["id"]: [] for p in plan.get("phases") or ()}
        for subtask in plan["subtasks"]:
            if subtask.get("phase") is not None:
                members.setdefault(subtask["phase"], []).append(subtask["id"])
        return cls(_ranks(needs), needs, members)

    def reached(self, after: str) -> int | None:
        """Leaves done at the latest when the milestone after this is reached; None: unknown."""
        inside = [after] if after in self.rank else self.members.get(after, ())
        return max((self.rank[id] + 1 for id in inside), default=None)


def added_milestones(plan: JsonObject) -> list[JsonObject]:
    """The milestones a program adds to an accepted plan, in order; those of the plan stay."""
    layout = Layout.of(plan)
    proposed = [layout.reached(m["after"]) for m in plan.get("milestones") or ()]
    taken = [place for place in proposed if place is not None]
    chosen: list[str] = []
    for phase in layout.members:
        _take(layout, phase, taken, chosen, apart=FEWEST_BETWEEN)
    joins = [id for id, needs in layout.needs.items() if len(needs) >= JOIN_NEEDS]
    joins.sort(key=lambda id: (-len(layout.needs[id]), layout.rank[id]))
    before = len(chosen)
    for id in joins:
        if len(chosen) - before >= len(layout.rank) // LEAVES_PER_JOIN:
            break
        _take(layout, id, taken, chosen, apart=LEAVES_PER_JOIN // 2)
    chosen.sort(key=lambda after: layout.reached(after) or 0)
    return _named(chosen, plan, layout)


def distance_warnings(plan: JsonObject) -> list[str]:
    """What is odd about the distances between a plan's milestones, in words."""
    layout = Layout.of(plan)
    places = [(layout.reached(m["after"]), str(m["id"])) for m in plan.get("milestones") or ()]
    known = sorted((place, id) for place, id in places if place is not None)
    found = [
        f"milestones {first!r} and {second!r} lie close together: {b - a} leaves between them"
        for (a, first), (b, second) in pairwise(known)
        if b - a < FEWEST_BETWEEN
    ]
    ends = [(0, "the start"), *((n, repr(id)) for n, id in known), (len(layout.rank), "the end")]
    found += [
        f"{b - a} leaves lie between {first} and {second} without a milestone"
        for (a, first), (b, second) in pairwise(ends)
        if b - a > MOST_WITHOUT
    ]
    return found


def _take(layout: Layout, after: str, taken: list[int], chosen: list[str], *, apart: int) -> None:
    """Choose a place, unless it is too near another one or the end, where acceptance verifies."""
    place = layout.reached(after)
    if place is None or len(layout.rank) - place < FEWEST_BETWEEN or place < FEWEST_BETWEEN:
        return
    if all(abs(place - other) >= apart for other in taken):
        taken.append(place)
        chosen.append(after)


def _named(chosen: Sequence[str], plan: JsonObject, layout: Layout) -> list[JsonObject]:
    used = {m["id"] for m in plan.get("milestones") or ()} | {*layout.rank, *layout.members}
    by_id = {s["id"]: s for s in plan["subtasks"]}
    made: list[JsonObject] = []
    for after in chosen:
        id = _free(f"{after[:180]}-done", used)
        used.add(id)
        inside = [after] if after in by_id else layout.members[after]
        checks = _checks(by_id[one] for one in inside)
        made.append({"id": id, "after": after, "checks": checks, "on_failure": list(ON_FAILURE)})
    return made


def _checks(subtasks: Iterable[JsonObject]) -> list[JsonObject]:
    """The declared artifacts are there: of those that surely ran, for skipped ones have none."""
    names = [
        f"{subtask['id']}/{name}"
        for subtask in subtasks
        if isinstance(subtask.get("outputs"), list) and not subtask.get("skippable")
        for name in subtask["outputs"]
    ]
    return [{"type": "artifact", "name": name} for name in names[:MOST_CHECKS]]


def _free(id: str, used: Iterable[str]) -> str:
    taken, n, name = set(used), 2, id
    while name in taken:
        name, n = f"{id}-{n}", n + 1
    return name


def _ranks(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Kahn's order, among the ready ones the earlier in the plan first."""
    position = {id: n for n, id in enumerate(needs)}
    open_needs = {id: sum(1 for need in of if need in position) for id, of in needs.items()}
    dependants: dict[str, list[str]] = {}
    for id, of in needs.items():
        for need in of:
            dependants.setdefault(need, []).append(id)
    ready = [(position[id], id) for id, n in open_needs.items() if n == 0]
    heapq.heapify(ready)
    ranks: dict[str, int] = {}
    while ready:
        _, id = heapq.heappop(ready)
        ranks[id] = len(ranks)
        for dependant in dependants.get(id, ()):
            open_needs[dependant] -= 1
            if open_needs[dependant] == 0:
                heapq.heappush(ready, (position[dependant], dependant))
    return ranks
