"""The slots of a task: how many attempts run at once over all of its plans.

A task's own runner and those of its groups share one `Slots`. A free slot goes round: who waited
longest for one is offered it first, one order at a time.
"""

from collections.abc import Callable
from typing import Protocol


class Waiter(Protocol):
    """A runner that has orders waiting for a slot."""

    def offer(self) -> bool:
        """Start one order in the slot that is offered; False if there is none to start."""
        ...

    @property
    def wants_slot(self) -> bool:
        """Whether another order waits that may start."""
        ...


class Slots:
    """At most `total` taken at a time; used in the loop's thread.

    Args:
        total: slots.
        closed: whether none is handed out any more: from the moment that a stop is asked for, and
            not only once the nodes have heard of it.
    """

    def __init__(self, total: int, closed: Callable[[], bool] = lambda: False) -> None:
        self.total = total
        self._closed = closed
        self.taken = 0
        self._queue: dict[Waiter, None] = {}

    def fill(self, waiter: Waiter) -> None:
        """Start what `waiter` has as far as slots are free; it is offered the next ones in turn."""
        if waiter.wants_slot:
            self._queue.setdefault(waiter)
        self._hand_out()

    def give_back(self) -> None:
        """An attempt has ended: its slot goes to who waits."""
        self.taken -= 1
        self._hand_out()

    def leave(self, waiter: Waiter) -> None:
        """`waiter` wants nothing any more."""
        self._queue.pop(waiter, None)

    def _hand_out(self) -> None:
        while self._queue and self.taken < self.total and not self._closed():
            first = next(iter(self._queue))
            del self._queue[first]
            self.taken += 1
            if not first.offer():
                self.taken -= 1
            elif first.wants_slot:
                self._queue[first] = None
