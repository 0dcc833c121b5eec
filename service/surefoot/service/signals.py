"""SIGINT, SIGTERM, SIGHUP: the first asks the task to save and stop, a second stops it at once."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from surefoot.service.exits import StoppedBySignal

T = TypeVar("T")
How = Literal["pause", "now"]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Turns signals into wishes while it is entered; used in the main thread's event loop."""

    def __init__(self) -> None:
        self.asked: How | None = None
        self._on_stop: Callable[[How], None] | None = None
        self._stage: asyncio.Future[Any] | None = None

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._heard)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Handlers stay until the loop closes: a late signal must not cut the tidying up.
        self._on_stop = None

    def tell(self, on_stop: Callable[[How], None]) -> None:
        """From now on a wish goes to `on_stop`; one that came before is passed on now."""
        self._on_stop = on_stop
        self.repeat()

    def repeat(self) -> None:
        """Pass on again what was asked for (the task may not have listened yet)."""
        if self.asked is not None and self._on_stop is not None:
            self._on_stop(self.asked)

    async def before_running(self, stage: Awaitable[T]) -> T:
        """Await something that comes before the run: a signal lets it end, a second one cuts it.

        Raises:
            StoppedBySignal: there was a signal, so the run must not begin.
        """
        self._stage = future = asyncio.ensure_future(stage)
        try:
            result = await future
        except asyncio.CancelledError:
            if self.asked is None:
                raise
            raise StoppedBySignal("stopped before the task was made; nothing was changed") from None
        finally:
            self._stage = None
        return result

    def _heard(self) -> None:
        self.asked = "pause" if self.asked is None else "now"
        if self._on_stop is not None:
            self._on_stop(self.asked)
        elif self.asked == "now" and self._stage is not None:
            self._stage.cancel()
