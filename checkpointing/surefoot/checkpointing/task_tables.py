"""The tables of one task as its state is checked with, or made anew from (`tables.Tables`)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg.rows import DictRow

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.queries import queries
from surefoot.checkpointing.readers import Readers
from surefoot.graph.tables import Row, Saved, Snapshot, Tally
from surefoot.graph.thread_names import AgentThread, thread_of_name
from surefoot.graph.values import ArtifactRef, JsonObject


class TaskTables:
    """The tables of one task.

    Args:
        database: where they are.
        row: the task's row as it was read when the task was opened.
    """

    def __init__(self, database: Database, row: Row) -> None:
        self._database = database
        self._row = _plain(row)
        self._id: str = row["id"]

    @property
    def row(self) -> Row:
        """See `Tables.row`."""
        return self._row

    async def tally(self, prefix: str, foreaches: Sequence[str]) -> Tally:
        """See `Tables.tally`."""
        (row,) = await self._all("tally", prefix=prefix, foreaches=list(foreaches))
        return Tally(done=row["done"], ended=int(row["ended"]), attempts=int(row["attempts"]))

    async def rows(self, prefix: str, foreaches: Sequence[str]) -> dict[str, Row]:
        """See `Tables.rows`."""
        found = await self._all("rows", prefix=prefix, foreaches=list(foreaches))
        return {row["local"]: _plain(row) for row in found}

    async def saved(
        self, prefix: str, foreaches: Sequence[str], plan: JsonObject | None, types: Sequence[str]
    ) -> Saved:
        """See `Tables.saved`."""
        rows = await self.rows(prefix, foreaches)
        asked = await self._all("asked", prefix=prefix)
        return Saved(
            rows=rows,
            plan=plan,
            artifacts=await self._artifacts(prefix),
            events=[
                _local(event, prefix)
                for event in await self._all("told", types=list(types))
                if (event["subtask"] or "").startswith(prefix) or _is_about(event, prefix)
            ],
            answered=[_plain(one) for one in asked if one["answer"] is not None],
            open_questions=[
                one["id"] for one in asked if one["open"] and (one["local"] or not prefix)
            ],
            gos=await self._gos(prefix),
        )

    async def plan(self, prefix: str) -> JsonObject | None:
        """See `Tables.plan`."""
        if not prefix:
            row = await Readers(self._database).plan_row(self._id)
            return None if row is None else row["plan"]
        rows = await self._all("group_plan", group=prefix.removesuffix("/"))
        return {**rows[0]["plan"], "version": rows[0]["version"] or 1} if rows else None

    async def snapshots(self) -> list[Snapshot]:
        """See `Tables.snapshots`."""
        return [
            Snapshot(
                milestone=row["milestone"],
                at=row["at"],
                manifest=row["manifest"],
                state=row["state"],
            )
            for row in await self._all("whole_workspaces")
        ]

    async def _artifacts(self, prefix: str) -> dict[str, list[ArtifactRef]]:
        found: dict[str, list[ArtifactRef]] = {}
        for row in await self._all("good_artifacts", prefix=prefix):
            ref = ArtifactRef(
                name=row["name"],
                sha256=row["sha256"],
                size=row["size"],
                media_type=row["media_type"],
            )
            found.setdefault(row["local"], []).append(ref)
        return found

    async def _gos(self, prefix: str) -> dict[str, int]:
        """The newest go of each agent by its threads, `TASK/SUBTASK/GO` and `TASK/SUBTASK/GO:N`."""
        newest: dict[str, int] = {}
        begin = f"{self._id}/{prefix}"
        for row in await self._all("threads", prefix=begin):
            name = thread_of_name(begin.removesuffix("/"), row["thread_id"])
            if isinstance(name, AgentThread):
                newest[name.subtask] = max(newest.get(name.subtask, 0), name.go)
        return newest

    async def _all(self, query: str, **parameters: Any) -> list[DictRow]:
        async with self._database.borrowed() as connection:
            asked = {"task_id": self._id, **parameters}
            cursor = await connection.execute(queries("tables")[query], asked)
            return await cursor.fetchall()


def _plain(row: Mapping[str, Any]) -> Row:
    """A row with times as POSIX seconds."""
    return {k: v.timestamp() if isinstance(v, datetime) else v for k, v in row.items()}


def _local(event: Mapping[str, Any], prefix: str) -> Row:
    """An event as the plan below a prefix would have told it."""
    told = dict(_plain(event))
    facts: JsonObject = dict(told["facts"] or {})
    if told["subtask"]:
        told["subtask"] = told["subtask"].removeprefix(prefix)
    if prefix and facts.get("milestone"):
        facts["milestone"] = facts["milestone"].removeprefix(prefix)
    return {**told, "facts": facts}


def _is_about(event: Mapping[str, Any], prefix: str) -> bool:
    """Whether it tells of a milestone inside: those are events of the group itself."""
    facts: JsonObject = event["facts"] or {}
    return bool(prefix) and str(facts.get("milestone") or "").startswith(prefix)
