"""The threads of a task's groups, kept by the task's own saver behind its lease."""

import time
from collections.abc import Callable

from surefoot.checkpointing.group_journal import GroupJournal
from surefoot.checkpointing.saver import TaskSaver
from surefoot.graph.errors import DatabaseUnavailable
from surefoot.graph.setbacks import Setbacks
from surefoot.graph.values import JsonObject

GONE_FOR_S = 300.0
"""A group gives up when nothing could be saved for this long; as its task does."""


class SavedGroups:
    """`GroupThreads` over a `TaskSaver`: each group's rows leave with its own checkpoints."""

    rides_on_saver = True

    def __init__(self, saver: TaskSaver) -> None:
        self.saver = saver
        self._setbacks: dict[str, Setbacks] = {}

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

    async def recover(self, thread: str, error: DatabaseUnavailable) -> None:
        """See `GroupThreads.recover`; given up as its task is, after `GONE_FOR_S`."""
        self.saver.discard(thread)
        setbacks = self._setbacks.setdefault(thread, Setbacks(GONE_FOR_S))
        if not await self.saver.database.sit_out(setbacks, error, saved=self.saver.saved):
            raise error

    def leave(self, thread: str) -> None:
        """See `GroupThreads.leave`."""
        self._setbacks.pop(thread, None)
        self.saver.leave(thread)
