"""Plain reads for status, list, events, history, logs, results and artifacts.

Rows come as dicts, times as aware datetimes in UTC, `jsonb` as plain values.
"""

import math
from collections.abc import Sequence
from typing import Any

from psycopg.rows import DictRow

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.queries import queries
from surefoot.graph.plain import clean_text
from surefoot.graph.values import JsonObject

ALL = 2**62
"""A limit that never cuts."""

ENOUGH_CALLS = 3
"""Calls of a tool before its history says anything."""


class Readers:
    """Reads through the pool, one statement each. All methods raise DatabaseUnavailable."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def task_row(self, id: str) -> DictRow | None:
        """The row of a task, its spec without the plan; None where there is no such task."""
        return await self._one("task_row", id=id)

    async def given_plan(self, id: str) -> JsonObject | None:
        """The plan that a task's file gave, None where it gave none."""
        row = await self._one("given_plan", id=id)
        return row["plan"] if row else None

    async def newest_task_id(self) -> str | None:
        """The task that was created last."""
        row = await self._one("newest_task_id")
        return row["id"] if row else None

    async def task_rows(self) -> list[DictRow]:
        """All tasks, newest first, without their specs."""
        return await self._all("task_rows")

    async def plan_row(self, id: str, version: int | None = None) -> DictRow | None:
        """A plan version, or the newest."""
        return await self._one("plan_row", id=id, version=version)

    async def plan_versions(self, id: str) -> list[DictRow]:
        """All versions, oldest first, without the plans."""
        return await self._all("plan_versions", id=id)

    async def subtask_rows(self, id: str) -> list[DictRow]:
        """The subtasks that were touched (a missing one is pending)."""
        return await self._all("subtask_rows", id=id)

    async def subtask_row(self, id: str, subtask: str) -> DictRow | None:
        """One subtask's row, None while it is untouched."""
        return await self._one("subtask_row", id=id, subtask=subtask)

    async def inner_rows(self, id: str) -> list[DictRow]:
        """Id, state and number of children of what is inside groups; empty without groups."""
        return await self._all("inner_rows", id=id)

    async def group_plans(self, id: str) -> dict[str, JsonObject]:
        """The newest plan that a model made for each group, by the group's id."""
        return {row["subtask"]: row["plan"] for row in await self._all("group_plans", id=id)}

    async def event_rows(
        self,
        id: str,
        *,
        after: int = 0,
        subtask: str | None = None,
        types: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[DictRow]:
        """Events in order, those with an id above `after`.

        One writer at a time makes a task's ids appear in order: a reader that goes on from the last
        id it saw misses nothing.
        """
        wanted = None if types is None else list(types)
        return await self._all(
            "event_rows", id=id, after=after, subtask=subtask, types=wanted, limit=limit or ALL
        )

    async def artifact_rows(self, id: str) -> list[DictRow]:
        """All versions of all artifacts, by subtask, name, version."""
        return await self._all("artifact_rows", id=id)

    async def artifact_row(
        self, id: str, full_name: str, version: int | None = None
    ) -> DictRow | None:
        """One version (the newest by default) of `SUBTASK/NAME`."""
        subtask, _, name = full_name.rpartition("/")
        return await self._one("artifact_row", id=id, subtask=subtask, name=name, version=version)

    async def question_rows(
        self, id: str | None = None, *, open_only: bool = True
    ) -> list[DictRow]:
        """Questions of one task or of all, oldest first."""
        return await self._all("question_rows", id=id, open_only=open_only)

    async def effect_rows(self, id: str) -> list[DictRow]:
        """The task's ledger, in order of the intents."""
        return await self._all("effect_rows", id=id)

    async def durations(self) -> dict[str, DictRow]:
        """The learnt history by tool or kind: `n`, `log_mean`, `log_m2`."""
        return {row["name"]: row for row in await self._all("durations")}

    async def typical_seconds(self) -> dict[str, float]:
        """Median seconds of a call by tool, of those with a history worth the name."""
        rows = (await self.durations()).items()
        return {name: math.exp(row["log_mean"]) for name, row in rows if row["n"] >= ENOUGH_CALLS}

    async def counts(self, id: str) -> dict[str, int]:
        """Touched subtasks by state."""
        return {row["state"]: row["n"] for row in await self._all("counts", id=id)}

    async def _all(self, query: str, /, **parameters: Any) -> list[DictRow]:
        # Names come from outside; PostgreSQL refuses what no stored name can hold anyway.
        asked = {k: clean_text(v) if isinstance(v, str) else v for k, v in parameters.items()}
        async with self.database.borrowed() as connection:
            cursor = await connection.execute(queries("readers")[query], asked)
            return await cursor.fetchall()

    async def _one(self, query: str, /, **parameters: Any) -> DictRow | None:
        rows = await self._all(query, **parameters)
        return rows[0] if rows else None
