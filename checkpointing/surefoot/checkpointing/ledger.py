"""The effect ledger in PostgreSQL: an intent before a call, its outcome after it, both durable.

Group commit: what was asked while a statement was on its way goes into the next one, so that eight
calls at a time cost a fraction of a commit each.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.json_text import json_text
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.queries import queries
from surefoot.checkpointing.weather import BAD_WEATHER
from surefoot.graph.errors import DatabaseUnavailable, LeaseLost
from surefoot.graph.ports import EffectCall, EffectRow, EffectState
from surefoot.graph.setbacks import Setbacks
from surefoot.graph.values import ArtifactRef, JsonObject, StoredValue

PATIENCE_SECONDS = 300.0
"""How long a lost database is waited for before the callers hear of it."""

CLOSE_SECONDS = 10.0
LONGEST_BATCH = 200


@dataclass(slots=True)
class _Request:
    row: JsonObject
    answer: asyncio.Future[DictRow]

    @property
    def settles(self) -> bool:
        return "state" in self.row

    @property
    def meaning(self) -> tuple[str, str, str]:
        return self.row["task_id"], self.row["key"], self.row["scope"]


class PostgresLedger:
    """The ledger of this process (`ports.Ledger`); one coroutine and one connection write it."""

    def __init__(self, database: Database, lease_of: Callable[[str], Lease]) -> None:
        self.database = database
        self.lease_of = lease_of
        self._waiting: list[_Request] = []
        self._writer: asyncio.Task[None] | None = None
        self._connection: AsyncConnection[DictRow] | None = None
        self._whole: set[tuple[str, int]] = set()
        """(task, epoch) of which nothing that was taken back stands."""

    async def find(self, task_id: str, key: str, scope: str) -> EffectRow | None:
        """The row that stands (`intent` or `done`), if any."""
        parameters = {"task_id": task_id, "key": key, "scope": scope}
        async with self.database.borrowed() as connection:
            cursor = await connection.execute(queries("ledger")["find"], parameters)
            row = await cursor.fetchone()
        return _effect_row(row) if row is not None else None

    async def adopt(self, call: EffectCall, removed: Sequence[str]) -> None:
        """Let a removed or taken back row of the same call answer this one (see `ports.Ledger`).

        Raises:
            LeaseLost: nothing was written.
            DatabaseUnavailable: at once; asking again is harmless.
        """
        parameters = {
            "task_id": call.task_id,
            "epoch": self.lease_of(call.task_id).epoch,
            "key": call.key,
            "scope": call.scope,
            "subtask": call.subtask,
            "removed": list(removed),
        }
        async with self.database.borrowed() as connection:
            cursor = await connection.execute(queries("ledger")["adopt"], parameters)
            if await cursor.fetchone() is None:
                raise LeaseLost(call.task_id)

    async def standing(
        self, task_id: str, subtasks: Sequence[str], *, attempt: int | None = None
    ) -> list[EffectRow]:
        """What subtasks (and their children) did and still stands, newest first.

        Raises:
            DatabaseUnavailable: asking again is harmless; so for the next two.
        """
        asked = {"task_id": task_id, "subtasks": list(subtasks), "attempt": attempt}
        return await self._rows("standing", asked)

    async def of_subtask(self, task_id: str, subtask: str) -> list[EffectRow]:
        """All that one subtask has called, whatever became of it, newest first."""
        return await self._rows("of_subtask", {"task_id": task_id, "subtask": subtask})

    async def left_standing(self, task_id: str, tool: str) -> list[EffectRow]:
        """Rows of a tool whose work was taken back while they stay done, newest first.

        A task in which nothing was taken back is asked about once a lease: only its holder takes
        work back, by `leave_standing`.
        """
        held = (task_id, self.lease_of(task_id).epoch)
        if held in self._whole:
            return []
        rows = await self._rows("left_standing", {"task_id": task_id})
        if not rows:
            self._whole.add(held)
        return [row for row in rows if row.tool == tool]

    async def leave_standing(self, task_id: str, rows: Sequence[EffectRow]) -> None:
        """Mark rows as `rolled_back`.

        Raises:
            LeaseLost: nothing was written.
        """
        epoch = self.lease_of(task_id).epoch
        self._whole.discard((task_id, epoch))
        parameters = {
            "task_id": task_id,
            "epoch": epoch,
            "keys": [row.key for row in rows],
            "scopes": [row.scope for row in rows],
        }
        async with self.database.borrowed() as connection:
            cursor = await connection.execute(queries("ledger")["leave_standing"], parameters)
            if await cursor.fetchone() is None:
                raise LeaseLost(task_id)

    async def _rows(self, name: str, parameters: JsonObject) -> list[EffectRow]:
        async with self.database.borrowed() as connection:
            cursor = await connection.execute(queries("ledger")[name], parameters)
            return [_effect_row(row) for row in await cursor.fetchall()]

    async def intend(self, call: EffectCall) -> EffectRow | None:
        """Write the intent, unless a row stands: then return that one (see `ports.Ledger`).

        Raises:
            LeaseLost: nothing was written.
            DatabaseUnavailable: the database stayed away for `PATIENCE_SECONDS`.
        """
        answer = await self._ask(call, {})
        return None if answer["written"] else _effect_row(answer["standing"])

    async def settle(
        self,
        call: EffectCall,
        state: EffectState,
        *,
        result: StoredValue | None = None,
        artifacts: Sequence[ArtifactRef] = (),
        note: str = "",
    ) -> None:
        """Write the outcome. Raises as `intend`."""
        outcome: JsonObject = {"state": state, "result": result, "note": note}
        listed = list(artifacts) or None
        at = None if state == "intent" else time.time()
        await self._ask(call, {**outcome, "artifacts": listed, "outcome_at": at})

    async def close(self) -> None:
        """End the writer and its connection; what still waits for a lost database fails."""
        if self._writer is not None:
            await asyncio.wait([self._writer], timeout=CLOSE_SECONDS)
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait([self._writer])
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _ask(self, call: EffectCall, outcome: JsonObject) -> DictRow:
        row: JsonObject = {
            "task_id": call.task_id,
            "epoch": self.lease_of(call.task_id).epoch,
            "key": call.key,
            "scope": call.scope,
            "subtask": call.subtask,
            "attempt": call.attempt,
            "tool": call.tool,
            "effect": call.effect,
            "args": call.args,
            "intent_at": time.time(),
        }
        request = _Request(row | outcome, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())
        answer = await request.answer
        if not answer["held"]:
            raise LeaseLost(call.task_id)
        return answer

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch = self._next_batch()
                try:
                    answers = await self._patiently(batch)
                except asyncio.CancelledError:
                    ended = DatabaseUnavailable("the ledger was closed before it could write")
                    _fail([*batch, *self._waiting], ended)
                    raise
                except Exception as exc:  # whatever it is, the callers must hear of it
                    _fail(batch, exc)
                    continue
                for request, answer in zip(batch, answers, strict=True):
                    if not request.answer.done():  # its caller may have been cancelled
                        request.answer.set_result(answer)
        finally:
            self._writer = None

    def _next_batch(self) -> list[_Request]:
        """The oldest requests of one sort, each meaning once: a statement touches a row once."""
        settles = self._waiting[0].settles
        batch: dict[tuple[str, str, str], _Request] = {}
        later: list[_Request] = []
        for request in self._waiting:
            fits = request.settles == settles and len(batch) < LONGEST_BATCH
            # An earlier request for the same row that waits must stay earlier.
            blocked = any(other.meaning == request.meaning for other in later)
            if fits and not blocked and request.meaning not in batch:
                batch[request.meaning] = request
            else:
                later.append(request)
        self._waiting = later
        return list(batch.values())

    async def _patiently(self, batch: list[_Request]) -> list[DictRow]:
        setbacks = Setbacks(PATIENCE_SECONDS)
        while True:
            try:
                answers = await self._write(batch)
                self.database.weather.is_good()
                return answers
            except (*BAD_WEATHER, DatabaseUnavailable) as exc:
                await self._disconnect()
                if not await self.database.sit_out(setbacks, exc):
                    raise self.database.unavailable(exc) from exc

    async def _write(self, batch: list[_Request]) -> list[DictRow]:
        if self._connection is None:
            self._connection = await self.database.connect(hot=True)
        rows = json_text([request.row for request in batch])
        if batch[0].settles:
            query, parameters = queries("ledger")["settle"], {"outcomes": rows}
        else:
            query, parameters = queries("ledger")["intend"], {"calls": rows}
        cursor = await self._connection.execute(query, parameters)
        return await cursor.fetchall()

    async def _disconnect(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


def _fail(batch: list[_Request], exc: Exception) -> None:
    for request in batch:
        if not request.answer.done():
            request.answer.set_exception(exc)


def _effect_row(row: dict[str, Any]) -> EffectRow:
    return EffectRow(
        key=row["key"],
        scope=row["scope"],
        subtask=row["subtask"],
        attempt=row["attempt"],
        tool=row["tool"],
        state=row["state"],
        args=row["args"],
        result=row["result"],
        artifacts=tuple(row["artifacts"] or ()),
        note=row["note"] or "",
        effect=row["effect"],
        rolled_back=row["rolled_back"],
    )
