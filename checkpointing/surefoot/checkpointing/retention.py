"""Which rows of a task are not needed any more, and removing them behind its lease."""

from dataclasses import dataclass
from typing import Any

from psycopg.rows import DictRow

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.queries import queries
from surefoot.graph.errors import LeaseLost


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """Rows and the bytes they hold."""

    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spare:
    """A snapshot that may go. `milestone` is set of complete ones."""

    id: int
    tier: str
    milestone: str | None


class Retention:
    """The rows of one task. All methods raise DatabaseUnavailable; those that remove, LeaseLost.

    Args:
        database: where they are.
        task_id: the task.
        lease: needed to remove anything.
    """

    def __init__(self, database: Database, task_id: str, lease: Lease | None = None) -> None:
        self._database, self._id, self._lease = database, task_id, lease

    async def superseded(self, thread: str) -> Weight:
        """What of a thread is older than its newest checkpoint."""
        (row,) = await self._all("superseded", thread_id=thread)
        return Weight(rows=row["checkpoints"], bytes=int(row["bytes"]))

    async def drop_superseded(self, thread: str, head: str) -> None:
        """Remove what is older than this checkpoint, which needs nothing before it."""
        await self._fenced("drop_superseded", thread_id=thread, head=head)

    async def inner_threads(self) -> dict[str, Weight]:
        """The threads of the task's agents and groups."""
        rows = await self._all("inner_threads", prefix=f"{self._id}/")
        return {
            row["thread_id"]: Weight(rows=row["checkpoints"], bytes=int(row["bytes"]))
            for row in rows
        }

    async def remove_thread(self, thread: str) -> None:
        """Remove a thread with all that was saved of it."""
        await self._fenced("remove_thread", thread_id=thread)

    async def spare_snapshots(self, *, keep: int, everything: bool) -> list[Spare]:
        """The snapshots that nobody goes back to any more.

        Args:
            keep: so many milestones are kept, the newest, and the start.
            everything: none is kept.
        """
        rows = await self._all("spare_snapshots", keep=keep, all=everything)
        return [Spare(id=r["id"], tier=r["tier"], milestone=r["milestone"]) for r in rows]

    async def drop_snapshots(self, spare: list[Spare]) -> None:
        """Remove these rows; what they name is swept later."""
        await self._fenced("drop_snapshots", ids=[one.id for one in spare])

    async def _fenced(self, query: str, **parameters: Any) -> None:
        if self._lease is None:
            raise LeaseLost(self._id)
        if not await self._all(query, epoch=self._lease.epoch, **parameters):
            raise LeaseLost(self._id)

    async def _all(self, query: str, **parameters: Any) -> list[DictRow]:
        asked = {"task_id": self._id, **parameters}
        async with self._database.borrowed() as connection:
            cursor = await connection.execute(queries("retention")[query], asked)
            return await cursor.fetchall()


async def named(database: Database, query: str) -> set[str]:
    """The sha256 that rows name; `query` is `named_by_people` or `named_by_state`."""
    async with database.borrowed() as connection:
        cursor = await connection.execute(queries("retention")[query])
        return {row["sha256"] for row in await cursor.fetchall()}


async def identity(database: Database) -> str:
    """What tells this database from any other that may share a store."""
    async with database.borrowed() as connection:
        cursor = await connection.execute(queries("retention")["database_identity"])
        row = await cursor.fetchone()
    return str(row["identity"]) if row else "unknown"
