"""Halting tasks from outside: cancel for good, pause until `resume`.

Through the holder where somebody holds the task; where nobody does, under the lease, at once.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from surefoot.checkpointing.journal import TaskJournal
from surefoot.checkpointing.outbox import Fence
from surefoot.checkpointing.readers import Readers
from surefoot.checkpointing.tasks import command_outcome, record_command, withdraw_command
from surefoot.graph.errors import LeaseHeld, UsageError
from surefoot.graph.holding import Holder

LOOK_EVERY_S = 0.1
LOOKS = 10
"""After so many looks it is asked whether the holder is still there."""

How = Literal["cancel", "pause"]

_ENDS: Mapping[How, str] = {"cancel": "cancelled", "pause": "paused"}
_EVENTS: Mapping[How, str] = {"cancel": "TaskCancelled", "pause": "TaskPaused"}
OVER = ("completed", "failed", "cancelled")


async def _nothing() -> str:
    return ""


async def halt(
    holder: Holder,
    task_id: str,
    how: How,
    *,
    wait: bool = True,
    by: str = "person",
    first: Callable[[], Awaitable[str]] = _nothing,
) -> None:
    """Cancel or pause a task; a task that is so already is left alone.

    Args:
        holder: of this process.
        task_id: of the task.
        how: for good, or until it is resumed.
        wait: until nothing of it runs any more.
        by: who asked, for the history.
        first: what is done before a task is halted that nobody holds (any more): says what was in
            the way of it, and raises LeaseHeld where somebody holds the task.

    Raises:
        UsageError: there is no such task, or it has ended otherwise.
    """
    row = await holder.row(task_id)
    if row["status"] == _ENDS[how] and row["acquired_by"] is None:
        return
    if row["status"] in OVER and row["status"] != _ENDS[how]:
        raise UsageError(
            "wrong_state", f"task {task_id!r} is {row['status']}: there is nothing to {how}"
        )

    async def unheld() -> None:
        await _unheld(holder, task_id, how, by, in_the_way=await first())

    try:
        await unheld()
    except LeaseHeld:
        command = await record_command(holder.database, task_id, how, {}, by=by)
        if wait:
            await _applied(holder, command, unheld)


async def _applied(holder: Holder, command: int, unheld: Callable[[], Awaitable[None]]) -> None:
    """Wait for the holder to have stopped; do it ourselves when it is gone."""
    while True:
        for _ in range(LOOKS):
            found = await command_outcome(holder.database, command)
            if found is None or found["applied_at"] is not None:
                return
            await asyncio.sleep(LOOK_EVERY_S)
        with contextlib.suppress(LeaseHeld):
            await unheld()
            await withdraw_command(holder.database, command)
            return


async def _unheld(holder: Holder, task_id: str, how: How, by: str, *, in_the_way: str = "") -> None:
    """Halt a task that nobody holds. Raises LeaseHeld where somebody does."""
    lease = await holder.leases.acquire(task_id)
    try:
        row = await holder.row(task_id)
        if row["status"] in (*OVER, _ENDS[how]):
            return
        journal = TaskJournal(task_id)
        journal.bind(Fence(holder.database, lease))
        readers = Readers(holder.database)
        for subtask in await readers.subtask_rows(task_id):
            if _seems_to_run(subtask):  # its worker died in it
                journal.subtask(subtask["id"], state="pending", step_state="pending")
        if how == "cancel":
            for question in await readers.question_rows(task_id):
                journal.question(question["id"], open=False)
        if in_the_way:
            journal.event("NotTakenBack", reason=in_the_way)
        journal.task(status=_ENDS[how], stopping=False)
        journal.event(_EVENTS[how], by=by)
        await journal.flush()
    finally:
        await holder.leases.release(lease)


def _seems_to_run(row: Mapping[str, Any]) -> bool:
    return row["state"] == "running" and row["kind"] not in ("foreach", "group")
