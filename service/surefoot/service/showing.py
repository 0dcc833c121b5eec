"""Where a task is, for a person: the tree once or live, and the list of tasks."""

import asyncio
import sys
import time

from surefoot.service.client import Surefoot
from surefoot.service.output import Output, write
from surefoot.service.words import result_line, waiting_lines

LIST_EVERY_S = 2.0


async def show_status(surefoot: Surefoot, id: str | None, out: Output, *, watch: bool) -> None:
    """The status of a task: a document, a tree, or the live view until it rests."""
    looker = await surefoot.looker()
    task_id = (await looker.task(id))["id"]
    if watch:
        from surefoot.service.view import watch_until_over

        if out.json:
            await _until_it_rests(surefoot, task_id)
        else:
            await watch_until_over(await surefoot.database(), task_id)
    elif not out.json:
        await _print_tree(surefoot, task_id)
    status = await surefoot.status(task_id)
    if out.json:
        out.document(dict(status))
        return
    out.line(result_line(status))
    for line in waiting_lines(status):
        out.line(line)
    out.next_step(status)


async def show_list(surefoot: Surefoot, out: Output, *, watch: bool) -> None:
    """All tasks; watching redraws them until interrupted."""
    columns = ["id", "name", "status", "progress", "total", "failure", "updated_at"]
    while True:
        if watch and not out.json and sys.stdout.isatty():
            write("\x1b[2J\x1b[H")
        out.rows(await surefoot.list(), columns, none="there is no task yet")
        if not watch or out.json:
            return
        await asyncio.sleep(LIST_EVERY_S)


async def _print_tree(surefoot: Surefoot, task_id: str) -> None:
    from rich.console import Console

    from surefoot.service.feed import Feed
    from surefoot.service.tree import draw

    feed = Feed(await surefoot.database(), task_id)
    await feed.refresh()
    await feed.estimate()
    console = Console(width=None if sys.stdout.isatty() else 120)
    drawn = draw(feed.picture, eta=feed.eta, now=time.time(), height=max(30, console.size.height))
    with console.capture() as capture:
        console.print(drawn)
    write(capture.get())


async def _until_it_rests(surefoot: Surefoot, task_id: str) -> None:
    async for _ in surefoot.events(task_id, follow=True):
        pass
