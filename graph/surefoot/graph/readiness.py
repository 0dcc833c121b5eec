"""What may start now: the ready set, kept up to date one record at a time.

The theory is Kahn's: a subtask is ready when the count of its unmet needs is zero. Counting anew
at every superstep costs O(plan); here every change of a record costs its own dependants only.
Process-local and derived: `ReadySet` is built from plan and records after a restart, after a new
plan version, and whenever a superstep was lost. It decides nothing about budgets or people.
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from surefoot.graph.attempts import BACKOFF_CAP_S, wants_improvement
from surefoot.graph.index import PlanIndex, container_of
from surefoot.graph.values import Record, SubtaskState

DONE: tuple[SubtaskState, ...] = ("completed", "skipped")


@dataclass(slots=True)
class _Container:
    """An expanded foreach: how many children are open, and whose turn it is one by one."""

    open: int
    children: int
    turn: int | None
    """None: they run side by side."""


def _is_child(id: str, records: Mapping[str, Record]) -> bool:
    """Whether an id is a child of an expanded foreach; one that began anew has none yet."""
    container, _, number = id.rpartition("/")
    return bool(container) and int(number) < records.get(container, Record()).get("n", 0)


def _is_over(not_before: float, now: float) -> bool:
    """Whether a delay is over; one that seems longer than any can be: the clock was set back."""
    return not_before <= now or not_before > now + BACKOFF_CAP_S


class ReadySet:
    """Ready, delayed and blocked subtasks, open containers, and milestones that are due.

    `take` hands out ready ids in plan order (children in item order); whoever takes one must
    report the record's changes back through `update`.
    """

    def __init__(
        self, index: PlanIndex, records: Mapping[str, Record], passed: Iterable[str]
    ) -> None:
        self.index = index
        self.states: dict[str, SubtaskState] = {}
        self.open = len(index.raw)
        self._to_expand: list[str] = []
        self._to_nest: list[tuple[int, int, str]] = []
        self._on_rung: set[str] = set()
        self._to_gather: list[str] = []
        self._to_improve: dict[str, bool] = {}
        self._to_reflect: list[str] = []
        self.reflecting: set[str] = set()
        self.due: list[str] = []
        self.blocked: set[str] = set()
        self.failed: set[str] = set()
        self._unmet = {id: sum(1 for _ in index.needs(id)) for id in index.raw}
        self._ready: list[tuple[int, int, str]] = []
        self._delayed: list[tuple[float, int, int, str]] = []
        self._not_before: dict[str, float] = {}
        self._containers: dict[str, _Container] = {}
        self._milestones_of: dict[str, list[str]] = {}
        self._remaining: dict[str, set[str]] = {}
        self._watch_milestones(set(passed))
        for id, unmet in self._unmet.items():
            if unmet == 0:
                self._unlock(id)
        known = [id for id in records if (container_of(id) or id) in index.raw]
        for id in (i for i in known if container_of(i) is None):
            self.update(id, records[id])
        for id in (i for i in known if _is_child(i, records)):
            self.update(id, records[id])

    def _watch_milestones(self, passed: set[str]) -> None:
        for milestone in self.index.milestones:
            if milestone in passed:
                continue
            members = self.index.members(milestone)
            self._remaining[milestone] = set(members)
            for member in members:
                self._milestones_of.setdefault(member, []).append(milestone)
            if not members:
                self.due.append(milestone)

    # --- changes ---------------------------------------------------------------------------

    def update(self, id: str, record: Record) -> None:
        """A record changed: its new value."""
        state = record.get("state", "pending")
        before = self.states.get(id, "pending")
        self.states[id] = state
        waited = id in self.blocked
        self.blocked.discard(id)
        self.failed.discard(id)
        self.reflecting.discard(id)
        self._note_rung(id, record)
        if state in DONE:
            self._note_improvement(id, record)
            if "question" in record:
                self.blocked.add(id)  # its last full try waits for people
            elif waited and id in self._to_improve:
                self._to_improve[id] = not record.get("improved")
            if before not in DONE:
                self._done(id)
        elif state == "failed":
            self.failed.add(id)
        elif state == "running":
            self._note_running(id, record)
        elif "question" in record:
            self.blocked.add(id)
        elif "reflecting" in record:
            self.reflecting.add(id)
            self._to_reflect.append(id)
        else:
            self._requeue(id, record)

    def _note_rung(self, id: str, record: Record) -> None:
        """A container on a rung is one piece of work: what it had inside counts no more."""
        if record.get("rung"):
            self._on_rung.add(id)
            self._containers.pop(id, None)
        else:
            self._on_rung.discard(id)

    def milestone_passed(self, milestone: str) -> None:
        """A milestone was judged and passed: it holds nothing back any more."""
        self._remaining.pop(milestone, None)
        self.due = [m for m in self.due if m != milestone]

    def _done(self, id: str) -> None:
        container = container_of(id)
        if container is not None:
            self._child_done(container, int(id.rpartition("/")[2]))
            return
        self.open -= 1
        for dependant in self.index.dependants.get(id, ()):
            self._unmet[dependant] -= 1
            if self._unmet[dependant] == 0:
                self._unlock(dependant)
        for milestone in self._milestones_of.get(id, ()):
            remaining = self._remaining.get(milestone)
            if remaining is not None:
                remaining.discard(id)
                if not remaining:
                    self.due.append(milestone)

    def _child_done(self, container: str, child: int) -> None:
        state = self._containers.get(container)
        if state is None:
            return
        state.open -= 1
        if state.open == 0:
            self._to_gather.append(container)
        elif state.turn == child:
            self._next_turn(container, state)

    def _next_turn(self, container: str, state: _Container) -> None:
        """Whose turn it is after a child that goes one by one; people may have settled others."""
        turn = (state.turn or 0) + 1
        while turn < state.children and self.states.get(f"{container}/{turn}") in DONE:
            turn += 1
        state.turn = turn
        if turn < state.children:
            self._push(f"{container}/{turn}")

    def _has_turn(self, id: str) -> bool:
        """Whether it is no child that waits for others to end."""
        container = self._containers.get(container_of(id) or "")
        return container is None or container.turn in (None, int(id.rpartition("/")[2]))

    def _note_running(self, id: str, record: Record) -> None:
        if "n" in record and container_of(id) is None and id not in self._containers:
            self._expand(id, record)

    def _expand(self, id: str, record: Record) -> None:
        n = record.get("n", 0)
        serial = bool(record.get("serial"))
        self._containers[id] = _Container(n, n, 0 if serial else None)
        if n == 0:
            self._to_gather.append(id)
        for child in range(min(n, 1) if serial else n):
            self._push(f"{id}/{child}")

    def _unlock(self, id: str) -> None:
        if self.states.get(id, "pending") == "pending":
            self._push(id)

    def _requeue(self, id: str, record: Record) -> None:
        if container_of(id) is None and self._unmet[id] > 0:
            return
        if not self._has_turn(id):
            return
        due = record.get("not_before")
        if due is None:
            self._not_before.pop(id, None)
            self._push(id)
        else:
            self._not_before[id] = due
            heapq.heappush(self._delayed, (due, *self._rank(id), id))

    def _push(self, id: str) -> None:
        kind = "" if id in self._on_rung else self.index.kind(id)
        if kind == "foreach":
            self._to_expand.append(id)
        else:
            heap = self._to_nest if kind == "group" else self._ready
            heapq.heappush(heap, (*self._rank(id), id))

    def _rank(self, id: str) -> tuple[int, int]:
        container, slash, child = id.rpartition("/")
        if not slash:
            return self.index.position[id], -1
        return self.index.position[container], int(child)

    def _note_improvement(self, id: str, record: Record) -> None:
        unit = self.index.unit(id) if record.get("rung") else None
        # A foreach has no last full try: its children were its full version, and they are done.
        if unit is not None and unit.kind != "foreach" and wants_improvement(unit, record):
            self._to_improve.setdefault(id, True)

    # --- questions -------------------------------------------------------------------------

    def take(self, count: int, now: float) -> list[str]:
        """Up to `count` ids to start, in plan order; they leave the ready set."""
        while self._delayed and _is_over(self._delayed[0][0], now):
            _, position, child, id = heapq.heappop(self._delayed)
            heapq.heappush(self._ready, (position, child, id))
        return self._take(self._ready, count, now)

    def take_nests(self, count: int, now: float) -> list[str]:
        """Up to `count` groups whose plan can begin or go on, as `take`; they leave the set."""
        return self._take(self._to_nest, count, now)

    def is_open_group(self, id: str) -> bool:
        """Whether it is a group whose plan runs."""
        running = self.states.get(id) == "running" and id not in self._on_rung
        return running and self.index.kind(id) == "group"

    def _take(self, heap: list[tuple[int, int, str]], count: int, now: float) -> list[str]:
        taken: dict[str, None] = {}
        while heap and len(taken) < count:
            id = heapq.heappop(heap)[2]
            if self._may_start(id, now):
                taken[id] = None
        return list(taken)

    def _may_start(self, id: str, now: float) -> bool:
        # The heap may hold an id twice (unlocked, then requeued): what it is now decides.
        held = id in self.blocked or id in self.reflecting
        pending = self.states.get(id, "pending") == "pending" and not held
        return pending and _is_over(self._not_before.get(id, 0.0), now)

    def take_expansions(self) -> list[str]:
        """The foreaches whose list can be read now; they leave the set."""
        taken, self._to_expand = self._to_expand, []
        pending = [i for i in dict.fromkeys(taken) if self.states.get(i, "pending") == "pending"]
        # One that people judge after its last child has its list already.
        return [id for id in pending if id not in self.reflecting and id not in self.blocked]

    def take_gathers(self) -> list[str]:
        """The foreaches whose last child has ended; they leave the set."""
        taken, self._to_gather = self._to_gather, []
        return [id for id in dict.fromkeys(taken) if self.states.get(id) == "running"]

    def take_reflections(self) -> list[str]:
        """The subtasks whose failure a model is to criticise; they leave the set."""
        taken, self._to_reflect = self._to_reflect, []
        return [id for id in dict.fromkeys(taken) if id in self.reflecting]

    def take_improvements(self, count: int) -> list[str]:
        """Up to `count` degraded subtasks that are owed one full try; each is handed out once."""
        owed = [id for id, open in self._to_improve.items() if open][:count]
        self._to_improve |= dict.fromkeys(owed, False)
        return owed

    def next_due(self) -> float | None:
        """When the first delayed subtask may start again (POSIX seconds), None without any."""
        return self._delayed[0][0] if self._delayed else None

    def may_reach_milestone(self, running: Iterable[str]) -> bool:
        """Whether ending what runs now could bring a milestone due.

        While it could, nothing may be queued behind it: a queued order would start before the
        milestone is judged.
        """
        active = {id for id in running if container_of(id) is None}
        near = {m for id in active for m in self._milestones_of.get(id, ())}
        return any(self._remaining.get(m, {""}) <= active for m in near)

    def idle(self) -> bool:
        """Nothing to start, expand, gather or wait for: only what runs can change anything."""
        ready = self._ready or self._to_nest or self._delayed or self._to_reflect
        return not (ready or self._to_expand or self._to_gather)
