"""LangGraph's saver for one task: a whole superstep in one statement behind the lease's fence.

Same tables and formats as the stock `AsyncPostgresSaver`, which can read everything written here.
What differs: writes wait in memory for the checkpoint that follows them (a lost buffer is a crash
one moment earlier); the journal's rows leave with it; a lost lease writes nothing.
Only for `durability="sync"`.
"""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot  # pyright: ignore[reportPrivateUsage] - the saver's own wrapper has no public name
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import DictRow, dict_row

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.journal import TaskJournal
from surefoot.checkpointing.json_text import json_text
from surefoot.checkpointing.kept_connection import KeptConnection
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.outbox import Fence, Outbox, drop_landed, run_fenced
from surefoot.checkpointing.queries import queries
from surefoot.checkpointing.serializer import StrictSerializer
from surefoot.graph.errors import LeaseLost

PUSH = "__pregel_push"
"""Written by `update_state` after its checkpoint; nothing follows that would take it along."""

Place = tuple[str, str, str]
"""(thread, namespace, checkpoint): where writes belong."""

Write = tuple[str, str, int, str, str, bytes]
"""(task, task path, index, channel, type, blob), the columns of `checkpoint_writes`."""


class TaskSaver(AsyncPostgresSaver):
    """The saver of one task and of its subtasks' threads, for as long as the lease is held.

    Raises (all methods): LeaseLost when another worker owns the task; DatabaseUnavailable when the
    connection was lost and one repeat on a new one failed.
    """

    def __init__(
        self,
        database: Database,
        lease: Lease,
        journal: TaskJournal,
        *,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(database.pool, serde=serde or StrictSerializer())
        self.database = database
        self.lease = lease
        self.journal = journal
        journal.bind(Fence(database, lease))
        self.groups: dict[str, TaskJournal] = {}
        """Journals of the groups that run, by thread: each leaves with its own checkpoints."""
        self.saved = 0
        """Checkpoints written so far."""
        self._kept = KeptConnection(database)
        self._buffered: dict[Place, dict[str, list[Write]]] = {}
        self._direct: dict[tuple[str, str], str] = {}
        """Per (thread, namespace) the checkpoint whose further writes cannot wait any more."""

    async def close(self) -> None:
        """Give up the connection. What is still buffered is forgotten."""
        self._buffered.clear()
        await self._kept.close()

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> "TaskSaver":
        """This saver itself, where LangGraph would make a copy in strict mode.

        The state is JSON-plain, so no further type is allowed; and a copy's counters and buffers
        would go their own way.
        """
        del extra_allowlist
        return self

    async def has_begun(self, thread_id: str) -> bool:
        """Whether a thread has a checkpoint beside that of its first input."""
        async with self._cursor() as cursor:
            await cursor.execute(queries("outbox")["thread_begun"], {"thread_id": thread_id})
            return await cursor.fetchone() is not None

    async def newest_thread(self, prefix: str, *, besides: str) -> str | None:
        """The thread whose name begins so that was written last; None where there is none."""
        async with self._cursor() as cursor:
            parameters = {"prefix": prefix, "besides": besides}
            await cursor.execute(queries("outbox")["newest_thread"], parameters)
            row = await cursor.fetchone()
            return None if row is None else row["thread_id"]

    def discard(self, thread_id: str | None = None) -> None:
        """Forget what a superstep had written and queued: it will run again.

        Args:
            thread_id: a group's; None = the task's own (and its agents').
        """
        for place in list(self._buffered):
            if place[0] == thread_id or (thread_id is None and place[0] not in self.groups):
                del self._buffered[place]
        self.groups.get(thread_id or "", self.journal).discard()

    async def remove(self, thread_id: str) -> None:
        """Remove a thread with all that was saved of it."""
        self.leave(thread_id)
        parameters = {
            "thread_id": thread_id,
            "task_id": self.lease.task_id,
            "epoch": self.lease.epoch,
        }

        async def statement(connection: AsyncConnection[DictRow], again: bool) -> None:
            del again  # removing twice changes nothing
            cursor = await connection.execute(queries("retention")["remove_thread"], parameters)
            if await cursor.fetchone() is None:
                raise LeaseLost(self.lease.task_id)

        await self._kept.run(statement)

    def leave(self, thread_id: str) -> None:
        """A thread beside the task's is not written any more here: forget what belongs to it."""
        self.discard(thread_id)
        self.groups.pop(thread_id, None)
        for key in [key for key in self._direct if key[0] == thread_id]:
            del self._direct[key]

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep writes for the next checkpoint; those that none follows are written at once."""
        place = _place(config)
        rows: list[Write] = [
            (task_id, task_path, WRITES_IDX_MAP.get(channel, index), channel, *self._dump(value))
            for index, (channel, value) in enumerate(writes)
        ]
        special = [channel in WRITES_IDX_MAP for channel, _ in writes]
        ends = any(special) or any(channel == PUSH for channel, _ in writes)
        if not ends and self._direct.get(place[:2]) != place[2]:
            self._buffered.setdefault(place, {})[task_id] = rows
            return
        self._direct[place[:2]] = place[2]
        earlier = _flat(self._buffered.pop(place, {}))
        if earlier:
            await self._write_now(place, earlier, part="writes")
        await self._write_now(place, rows, part="special_writes" if all(special) else "writes")

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Write the checkpoint, the writes that led to it and the journal, in one statement."""
        thread, ns, parent = place = _place(config)
        values = checkpoint["channel_values"]
        parameters: dict[str, Any] = {
            "thread_id": thread,
            "ns": ns,
            "parent_id": parent or None,
            "checkpoint_id": checkpoint["id"],
            "checkpoint": json_text({**checkpoint, "channel_values": _inline(values)}),
            "metadata": json_text(get_serializable_checkpoint_metadata(config, metadata)),
        }
        writes = self._buffered.get(place, {})
        parts = ["checkpoint"]
        if writes:
            parts.append("writes")
            parameters |= _write_columns(_flat(writes))
        blobs = self._blobs(values, new_versions)
        if blobs:
            parts.append("blobs")
            parameters |= blobs
        async with self.groups.get(thread, self.journal).leaving() as outbox:
            await self._save(tuple(parts), parameters, outbox)
        self.saved += 1
        self._buffered.pop(place, None)
        self._direct[thread, ns] = parent
        return {
            "configurable": {
                "thread_id": thread,
                "checkpoint_ns": ns,
                "checkpoint_id": checkpoint["id"],
            }
        }

    async def _save(
        self, parts: tuple[str, ...], parameters: dict[str, Any], outbox: Outbox
    ) -> None:
        async def statement(connection: AsyncConnection[DictRow], again: bool) -> None:
            if again and await _landed(connection, parameters):
                return
            await drop_landed(connection, self.lease.task_id, outbox)
            rows = outbox.parameters()
            outbox.sent = len(outbox.events)
            everything = parameters | rows | {"notify": bool(rows) and self.journal.notify_due()}
            await run_fenced(connection, self.lease, (*parts, *outbox.parts()), everything)

        await self._kept.run(statement)

    async def _write_now(self, place: Place, rows: list[Write], *, part: str) -> None:
        thread, ns, checkpoint_id = place
        parameters: dict[str, Any] = _write_columns(rows) | {
            "thread_id": thread,
            "ns": ns,
            "parent_id": checkpoint_id,
        }

        async def statement(connection: AsyncConnection[DictRow], again: bool) -> None:
            await run_fenced(connection, self.lease, (part,), parameters)

        await self._kept.run(statement)

    def _blobs(self, values: dict[str, Any], versions: ChannelVersions) -> dict[str, Any]:
        changed = {name: v for name, v in versions.items() if _is_blob(values.get(name))}
        if not changed:
            return {}
        dumped = [self._dump(values[name]) for name in changed]
        return {
            "b_channel": list(changed),
            "b_version": [str(version) for version in changed.values()],
            "b_type": [kind for kind, _ in dumped],
            "b_blob": [blob for _, blob in dumped],
        }

    def _dump(self, value: Any) -> tuple[str, bytes]:
        return self.serde.dumps_typed(value)

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncGenerator[AsyncCursor[DictRow]]:
        """A cursor for the inherited reads: on a checked connection of the pool, without a lock."""
        async with (
            self.database.borrowed() as connection,
            connection.cursor(binary=True, row_factory=dict_row) as cursor,
        ):
            yield cursor


async def _landed(connection: AsyncConnection[DictRow], parameters: dict[str, Any]) -> bool:
    names = ("thread_id", "ns", "checkpoint_id")
    marker = {name: parameters[name] for name in names}
    cursor = await connection.execute(queries("outbox")["checkpoint_landed"], marker)
    return await cursor.fetchone() is not None


def _place(config: RunnableConfig) -> Place:
    where = config.get("configurable", {})
    return (
        str(where["thread_id"]),
        str(where.get("checkpoint_ns", "")),
        str(where.get("checkpoint_id") or ""),
    )


def _is_blob(value: Any) -> bool:
    return isinstance(value, _DeltaSnapshot) or not (
        value is None or isinstance(value, str | int | float | bool)
    )


def _inline(values: dict[str, Any]) -> dict[str, Any]:
    """What stays in the checkpoint's own JSON, as the stock saver does it."""
    inline: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, _DeltaSnapshot):
            inline[name] = True  # the marker that a snapshot blob exists
        elif not _is_blob(value):
            inline[name] = value
    return inline


def _flat(by_task: dict[str, list[Write]]) -> list[Write]:
    return [row for rows in by_task.values() for row in rows]


def _write_columns(rows: list[Write]) -> dict[str, Any]:
    names = ("w_task", "w_path", "w_idx", "w_channel", "w_type", "w_blob")
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
