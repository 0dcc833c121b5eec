"""The threads of a task's groups, kept by the task's own saver behind its lease."""

import asyncio
import time
from collections.abc import Callable

from surefoot.checkpointing.group_journal import GroupJournal
from surefoot.checkpointing.saver import TaskSaver
from surefoot.graph.values import JsonObject

GONE_FOR_S = 300.0
"""A group gives up when the database is unreachable for this long; as its task does."""

PAUSE_S = 1.0
"""Before the next try where the database answers again."""


class SavedGroups:
    """`GroupThreads` over a `TaskSaver`: each group's rows leave with its own checkpoints."""

    rides_on_saver = True

    def __init__(self, saver: TaskSaver) -> None:
        self.saver = saver

    def begin(
        self, thread: str, group: str, on_plan: Callable[[JsonObject], None] | None
    ) -> GroupJournal:
        """See `GroupThreads.begin`."""
        journal = GroupJournal(self.saver.journal, group, on_plan=on_plan, clock=time.time)
        self.saver.groups[thread] = journal
        return journal

    async def has_begun(self, thread: str) -> bool:
        """See `GroupThreads.has_begun`."""
        return await self.saver.has_begun(thread)

    async def earlier(self, thread: str) -> str | None:
        """See `GroupThreads.earlier`."""
        return await self.saver.newest_thread(f"{thread.rpartition(':')[0]}:", besides=thread)

    async def recover(self, thread: str) -> None:
        """See `GroupThreads.recover`.

        Raises:
            DatabaseUnavailable: it stayed away.
        """
        self.saver.discard(thread)
        await self.saver.database.wait_until_back(GONE_FOR_S)
        await asyncio.sleep(PAUSE_S)

    def leave(self, thread: str) -> None:
        """See `GroupThreads.leave`."""
        self.saver.leave(thread)
