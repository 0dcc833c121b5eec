"""The slots of a task: how many attempts run at once over all of its plans.

A task's own runner and those of its groups share one `Slots`. A free slot goes round: who waited
longest for one is offered it first, one order at a time.
"""

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
    """At most `total` taken at a time; used in the loop's thread."""

    def __init__(self, total: int) -> None:
        self.total = total
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
        while self._queue and self.taken < self.total:
            first = next(iter(self._queue))
            del self._queue[first]
            self.taken += 1
            if not first.offer():
                self.taken -= 1
            elif first.wants_slot:
                self._queue[first] = None
