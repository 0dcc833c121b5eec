"""What the plans of groups need of whoever keeps their threads."""

from collections.abc import Callable
from typing import Any, Protocol

from langgraph.checkpoint.base import BaseCheckpointSaver

from surefoot.graph.errors import DatabaseUnavailable
from surefoot.graph.ports import Journal
from surefoot.graph.values import JsonObject


class GroupThreads(Protocol):
    """Where the threads of groups are kept, and the rows that leave with them."""

    rides_on_saver: bool
    """Whether the saver writes a group's journal with each checkpoint."""

    @property
    def saver(self) -> BaseCheckpointSaver[Any]:
        """Keeps the checkpoints."""
        ...

    def begin(
        self, thread: str, group: str, on_plan: Callable[[JsonObject], None] | None
    ) -> Journal:
        """The journal of a group that runs now (see `GroupJournal`)."""
        ...

    async def has_begun(self, thread: str) -> bool:
        """Whether the thread has a checkpoint beside that of its first input."""
        ...

    async def earlier(self, thread: str) -> str | None:
        """The last thread of the same group before it meant what it means now."""
        ...

    async def recover(self, thread: str, error: DatabaseUnavailable) -> None:
        """The database could not be used: forget what was queued; return when to try again.

        Raises:
            DatabaseUnavailable: it is given up.
        """
        ...

    def leave(self, thread: str) -> None:
        """The group does not run any more."""
        ...
