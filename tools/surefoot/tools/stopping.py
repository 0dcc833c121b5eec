"""Stopping one attempt from outside without losing what its call has done.

A call in a child is ended by the tool host; waiting and checking are ended here. What must not be
torn (storing a result, writing the ledger) is simply not guarded.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class Cut(Exception):
    """The attempt was stopped by us; nothing of it counts."""


class Stop:
    """One attempt's stop sign. All methods are called in the loop's thread."""

    def __init__(self) -> None:
        self.requested = False
        self.easing = False
        """Stop at the end of the present step; nothing is torn."""
        self.on_change: Callable[[], None] = lambda: None
        """Told when one of the two changes: work that ends in good order by itself listens."""
        self._guarded: asyncio.Task[object] | None = None

    def ease(self) -> None:
        """Ask for an end at the end of the present step."""
        if not self.easing:
            self.easing = True
            self.on_change()

    def request(self) -> None:
        """Stop: end what is guarded now, and let nothing guarded begin."""
        if self.requested:
            return
        self.requested = True
        self.on_change()
        if self._guarded is not None:
            self._guarded.cancel()

    def wind_down(self) -> None:
        """Stop at the end of the present step, or now where it may be torn."""
        self.easing = True
        if self._guarded is not None:
            self.request()

    async def guard(self, awaitable: Awaitable[T]) -> T:
        """Await something that may be torn at any moment.

        Raises:
            Cut: a stop was requested before or while it was awaited.
        """
        task = asyncio.current_task()
        if self.requested:
            if asyncio.iscoroutine(awaitable):
                awaitable.close()
            raise Cut
        self._guarded = task
        try:
            return await awaitable
        except asyncio.CancelledError:
            if not self.requested or task is None or task.uncancel() > 0:
                raise  # somebody else cancelled the whole attempt
            raise Cut from None
        finally:
            self._guarded = None
