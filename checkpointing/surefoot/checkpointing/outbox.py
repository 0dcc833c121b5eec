"""What waits to leave with the next checkpoint, and the one statement that takes it along.

`Outbox` is the rows; `fenced_statement` composes the parts that are needed into one statement
behind the lease's fence; `Fence` runs such a statement in a transaction of its own.
"""

import functools
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.json_text import json_text
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.queries import queries
from surefoot.graph.errors import LeaseLost
from surefoot.graph.values import JsonObject


@dataclass(slots=True)
class Outbox:
    """Queued rows, ready as JSON objects; the rows of keyed tables are merged by their id."""

    subtasks: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    events: list[JsonObject] = field(default_factory=list[JsonObject])
    artifacts: list[JsonObject] = field(default_factory=list[JsonObject])
    withdrawals: list[JsonObject] = field(default_factory=list[JsonObject])
    snapshots: list[JsonObject] = field(default_factory=list[JsonObject])
    plans: dict[int, JsonObject] = field(default_factory=dict[int, JsonObject])
    questions: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    task: JsonObject = field(default_factory=dict[str, Any])
    sent: int = 0
    """So many leading events were in a statement whose answer never came: ask before repeating."""

    def __bool__(self) -> bool:
        keyed = self.subtasks or self.plans or self.questions or self.task
        listed = self.events or self.artifacts or self.withdrawals or self.snapshots
        return bool(keyed or listed)

    def parameters(self) -> dict[str, Any]:
        """The filled parts as `jsonb` texts, by part name."""
        rows: JsonObject = {
            "subtasks": list(self.subtasks.values()),
            "events": self.events,
            "artifacts": self.artifacts,
            "withdrawals": self.withdrawals,
            "snapshots": self.snapshots,
            "plans": list(self.plans.values()),
            "questions": list(self.questions.values()),
            "task": self.task,
        }
        return {part: json_text(some) for part, some in rows.items() if some}

    def parts(self) -> tuple[str, ...]:
        """Names of the filled parts for `fenced_statement`; the task's with its columns."""
        columns = ",".join(sorted(self.task))
        filled = {
            "subtasks": self.subtasks,
            "events": self.events,
            "artifacts": self.artifacts,
            "withdrawals": self.withdrawals,
            "snapshots": self.snapshots,
            "plans": self.plans,
            "questions": self.questions,
            f"task:{columns}": self.task,
        }
        return tuple(part for part, rows in filled.items() if rows)

    def followed_by(self, later: "Outbox") -> "Outbox":
        """Both, where `later` was queued after this one: its columns win."""
        for own, more in ((self.subtasks, later.subtasks), (self.questions, later.questions)):
            for id, row in more.items():
                own.setdefault(id, {}).update(row)
        self.events += later.events
        self.artifacts += later.artifacts
        self.withdrawals += later.withdrawals
        self.snapshots += later.snapshots
        self.plans.update(later.plans)
        self.task.update(later.task)
        return self


@functools.cache
def fenced_statement(parts: tuple[str, ...]) -> bytes:
    """One statement: the fence, these parts (see `sql/outbox.sql`), and the verdict."""
    room = queries("outbox")
    body = b", ".join(_part(room, part) for part in ("fence", *parts))
    return b"with " + body + b" " + room["verdict"]


def _part(room: dict[str, bytes], part: str) -> bytes:
    name, _, columns = part.partition(":")
    changes = ", ".join(f"{column} = {_source(column)}" for column in columns.split(","))
    return room[name].replace(b"COLUMNS", changes.encode())


def _source(column: str) -> str:
    """Where a column of the task's row comes from; steps of calls are counted by `spending`."""
    return "n.steps + t.call_steps" if column == "steps" else f"n.{column}"


async def run_fenced(
    connection: AsyncConnection[DictRow],
    lease: Lease,
    parts: tuple[str, ...],
    parameters: dict[str, Any],
) -> None:
    """Run the statement of these parts; all of it is written, or nothing.

    Raises:
        LeaseLost: the epoch moved on; nothing was written.
        psycopg.OperationalError: the connection is gone; whether it was written is not known.
    """
    fence = {"task_id": lease.task_id, "epoch": lease.epoch, "notify": False}
    cursor = await connection.execute(fenced_statement(parts), fence | parameters)
    if await cursor.fetchone() is None:
        raise LeaseLost(lease.task_id)


class Fence:
    """Writes an outbox in a transaction of its own, behind the lease's epoch."""

    def __init__(self, database: Database, lease: Lease) -> None:
        self.database = database
        self.lease = lease

    async def write(self, outbox: Outbox, *, notify: bool = True) -> None:
        """Write the rows.

        Raises:
            LeaseLost: nothing was written.
            DatabaseUnavailable: it may or may not have been written; `outbox.sent` remembers.
        """
        async with self.database.borrowed() as connection:
            await drop_landed(connection, self.lease.task_id, outbox)
            outbox.sent = len(outbox.events)
            rows = outbox.parameters() | {"notify": notify}
            await run_fenced(connection, self.lease, outbox.parts(), rows)


async def drop_landed(connection: AsyncConnection[DictRow], task_id: str, outbox: Outbox) -> None:
    """Drop the events of an earlier statement that was committed after all.

    Rows of the other tables are upserts: writing them twice changes nothing.
    """
    if not outbox.sent:
        return
    first = outbox.events[0]
    marker = {"task_id": task_id, "time": first["time"], "type": first["type"]}
    cursor = await connection.execute(queries("outbox")["event_landed"], marker)
    if await cursor.fetchone() is not None:
        del outbox.events[: outbox.sent]
    outbox.sent = 0
