"""Watching a task: a live tree on a terminal, plain lines elsewhere, nothing when quiet.

A view never disturbs the run it watches: a terminal that went away or a database that is gone for
a moment only makes it silent.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

from surefoot.checkpointing.database import Database
from surefoot.graph.errors import DatabaseUnavailable
from surefoot.service.feed import Feed
from surefoot.service.output import abandon_stdout, write

REFRESH_S = 0.25
LINES_EVERY_S = 0.5
LAST_LOOK_S = 5.0
"""How long the last picture may take."""


class View(Protocol):
    """Shows a feed again and again."""

    async def show(self, feed: Feed) -> None:
        """Refresh the feed and show what is new. Raises OSError: nobody looks any more."""
        ...

    def close(self) -> None:
        """Leave the terminal as it should stay."""
        ...


class LiveTree:
    """The tree on a terminal, redrawn in place (rich)."""

    every_s = REFRESH_S

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        class TerminalConsole(Console):
            def on_broken_pipe(self) -> None:
                """Rich would end the process here, and with it the run that is watched."""
                abandon_stdout()
                raise BrokenPipeError

        self._console = TerminalConsole()
        self._live = Live(
            console=self._console, auto_refresh=False, transient=False, vertical_overflow="crop"
        )
        self._live.start()

    async def show(self, feed: Feed) -> None:
        """Redraw the tree."""
        from surefoot.service.tree import draw

        await feed.refresh()
        await feed.notice_stop()
        await feed.estimate()
        height = max(8, self._console.size.height - 1)
        drawn = draw(feed.picture, eta=feed.eta, now=time.time(), height=height)
        # In a thread: a terminal that takes nothing (Ctrl-S) must not hold up the run.
        await asyncio.to_thread(self._live.update, drawn, refresh=True)

    def close(self) -> None:
        """Leave the last picture standing."""
        self._live.stop()


class PlainLines:
    """One line per event, on stdout or stderr as they are."""

    every_s = LINES_EVERY_S

    async def show(self, feed: Feed) -> None:
        """Write the new lines."""
        from surefoot.service.lines import tell

        lines = list(tell(await feed.refresh()))
        if lines:
            # In a thread: a pager that stands still must not hold up the run.
            await asyncio.to_thread(write, "\n".join(lines) + "\n")

    def close(self) -> None:
        """Nothing is to be left."""


def make_view() -> LiveTree | PlainLines:
    """The view that fits stdout."""
    return LiveTree() if sys.stdout.isatty() else PlainLines()


@asynccontextmanager
async def watching(database: Database, task_id: str) -> AsyncGenerator[None]:
    """Show a task while the body runs, and once more at its end."""
    feed = Feed(database, task_id)
    await feed.begin()
    view = make_view()
    over = asyncio.Event()
    watch = asyncio.create_task(_watch(view, feed, over))
    try:
        yield
    finally:
        over.set()
        # A database that is gone must not keep us: what it would show is what was shown last.
        await asyncio.wait({watch}, timeout=LAST_LOOK_S)
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch
        with contextlib.suppress(OSError):
            view.close()


async def watch_until_over(database: Database, task_id: str) -> None:
    """Show a task that others run until it rests."""
    from surefoot.service.look import OVER, Looker, is_alive

    looker = Looker(database)
    async with watching(database, task_id):
        while True:
            row = await looker.task(task_id)
            if row["status"] in OVER or not is_alive(row, time.time()):
                return
            await asyncio.sleep(LINES_EVERY_S)


async def _watch(view: LiveTree | PlainLines, feed: Feed, over: asyncio.Event) -> None:
    """Show the feed until it is over, and once more then; stop when nobody looks any more."""
    try:
        while True:
            last = over.is_set()
            with contextlib.suppress(DatabaseUnavailable):
                await view.show(feed)
            if last:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), view.every_s)
    except OSError:
        return
