"""How long a task will still take: an interval, or nothing while nothing is known.

Possible durations are drawn for every open leaf (`durations`), the remaining graph is scheduled
with them as the dispatcher would do it, a few dozen times, and the interval spans nearly all the
ends. Pure: the seed is given, so the same facts give the same interval.
"""

import heapq
import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surefoot.graph.durations import DurationModel, History
from surefoot.graph.workload import Item

_WORK = 60_000
"""Leaves scheduled per estimate, over all draws: a few tenths of a second."""

_FEWEST_DRAWS, _MOST_DRAWS = 6, 60
_LEFT_OUT = 0.05
"""Share of the draws outside the interval at each end."""

_MARGIN = 0.05
"""The interval is widened by this share at each end: the schedule itself is idealised."""

_NAIVE = 0.8
"""Where durations hang on nothing, the naive answer and this share of it belong inside too."""

_FAR = 6.0
"""... and more than 6 times that is not worth saying."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Seconds from now; 0 <= low <= high."""

    low: float
    high: float


def remaining_time(
    items: Sequence[Item],
    *,
    concurrency: int,
    history: Mapping[str, History] | None = None,
    retry_rate: float = 0.0,
    seed: int = 0,
) -> Interval | None:
    """Estimate the time until the last open leaf ends.

    Args:
        items: all leaves and gates of the plan (`workload.workload_of`).
        concurrency: leaves that run at once, at least 1.
        history: earlier durations by tool.
        retry_rate: retries per leaf seen so far; every open leaf is expected to need as many.
        seed: of the draws.

    Returns:
        None while there is neither an estimate nor three like leaves that finished.
    """
    left = _Remaining(items, concurrency=concurrency)
    if not any(item.slot for item in left.items):
        return Interval(0.0, 0.0)
    model = DurationModel(items, history or {})
    if not model.informed:
        return None
    rng = random.Random(seed)
    draws = max(_FEWEST_DRAWS, min(_MOST_DRAWS, _WORK // len(left.items)))
    outlooks = model.prepare(left.items)
    ends = sorted(left.makespan(model.draw(outlooks, rng)) for _ in range(draws))
    low = ends[math.floor(_LEFT_OUT * (draws - 1))] * (1 - _MARGIN)
    high = ends[math.ceil((1 - _LEFT_OUT) * (draws - 1))] * (1 + _MARGIN)
    if any(item.slot and model.basis(item) == "none" for item in left.items):
        naive = _naive(items, concurrency)
        if naive is not None:
            low = min(low, naive * _NAIVE)
            high = min(max(high, naive / _NAIVE), max(naive, ends[draws // 2]) * _FAR)
    return Interval(low * (1 + retry_rate), high * (1 + retry_rate))


def _naive(items: Sequence[Item], concurrency: int) -> float | None:
    """The time worked so far, times leaves to go ÷ leaves done (running ones half)."""
    done = sum(1 for i in items if i.state == "completed" and i.slot)
    running = sum(1 for i in items if i.state == "running" and i.slot)
    left = sum(1 for i in items if i.slot and not i.done)
    worked = sum(i.took_s or 0.0 for i in items if i.slot) / concurrency
    share = done + running / 2
    return worked * (left - running / 2) / share if share and worked else None


class _Remaining:
    """The part of the graph that is still open, ready to be scheduled again and again."""

    def __init__(self, items: Sequence[Item], *, concurrency: int) -> None:
        numbers = [n for n, item in enumerate(items) if not item.done]
        self.items = [items[n] for n in numbers]
        self._slots = concurrency
        place = {n: i for i, n in enumerate(numbers)}
        self._dependants: list[list[int]] = [[] for _ in numbers]
        self._waits_for = [0] * len(numbers)
        for i, item in enumerate(self.items):
            for need in item.needs:
                if need in place:
                    self._dependants[place[need]].append(i)
                    self._waits_for[i] += 1
        self._takes_slot = [item.slot for item in self.items]
        self._running = [i for i, item in enumerate(self.items) if _runs(item)]
        self._ready = [
            i for i, item in enumerate(self.items) if not self._waits_for[i] and not _runs(item)
        ]

    def makespan(self, seconds: Sequence[float]) -> float:
        """When the last item ends under first-come list scheduling.

        The inner loop of everything here: it calls nothing of ours.
        """
        slots, waits_for, ready = self._slots, self._waits_for[:], deque(self._ready)
        takes_slot, dependants = self._takes_slot, self._dependants
        in_flight = [(seconds[i], i) for i in self._running]
        heapq.heapify(in_flight)
        now = 0.0
        while ready or in_flight:
            if not ready or (len(in_flight) >= slots and takes_slot[ready[0]]):
                now, ended = heapq.heappop(in_flight)
            else:
                ended = ready.popleft()
                if takes_slot[ended]:
                    heapq.heappush(in_flight, (now + seconds[ended], ended))
                    continue
            for i in dependants[ended]:
                waits_for[i] -= 1
                if not waits_for[i]:
                    ready.append(i)
        return now


def _runs(item: Item) -> bool:
    return item.slot and item.state == "running"
