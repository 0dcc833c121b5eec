"""Looking at tasks: documents read from the tables, without the graph and without a lease.

What the command line and the client show comes from here; what it means is composed in `status`
and `documents`.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.incarnation import Worker
from surefoot.checkpointing.readers import Readers
from surefoot.graph.durations import History
from surefoot.graph.errors import UsageError
from surefoot.graph.values import Json, JsonObject, StoredValue
from surefoot.service import documents
from surefoot.service.rows import Row, posix
from surefoot.service.status import StatusDocument, TaskRows, list_entry, status_document

if TYPE_CHECKING:
    from surefoot.graph.ports import ArtifactStore

FOLLOW_EVERY_S = 0.3
PAGE = 5000
"""Events read at once."""

OVER = ("completed", "failed", "cancelled")
DONE = ("completed", "skipped")


class Looker:
    """Reads documents about tasks. Methods that take an id raise UsageError `unknown_task`."""

    def __init__(self, database: Database) -> None:
        self.readers = Readers(database)

    async def task(self, id: str | None) -> Row:
        """The row of a task, of the newest one without an id."""
        chosen = id or await self.readers.newest_task_id()
        if chosen is None:
            raise UsageError("unknown_task", "there is no task yet: `surefoot run FILE` makes one")
        row = await self.readers.task_row(chosen)
        if row is None:
            raise UsageError(
                "unknown_task", f"there is no task {chosen!r}: `surefoot list` shows them"
            )
        return row

    async def rows(self, id: str | None) -> TaskRows:
        """Everything the status is composed of."""
        task = await self.task(id)
        plan = await self.plan_of(task)
        return TaskRows(
            task=task,
            planning=await self._planning(task),
            plan=plan,
            made=await self.made_plans(task["id"], plan),
            subtasks=await self.readers.subtask_rows(task["id"]),
            questions=await self.readers.question_rows(task["id"]),
            history=await self.durations(),
        )

    async def questions(self, id: str | None) -> list[JsonObject]:
        """The open questions of a task, of all tasks without an id."""
        task = None if id is None else (await self.task(id))["id"]
        rows = await self.readers.question_rows(task)
        return [documents.question_entry(row) for row in rows]

    async def _planning(self, task: Row) -> Row | None:
        """The newest question to a planner, while there is no plan yet."""
        if task["status"] != "running" or task["plan_version"]:
            return None
        asked = await self.readers.event_rows(task["id"], types=["PlanningAsked"])
        return asked[-1] if asked else None

    async def refused_plans(self, id: str | None) -> list[JsonObject]:
        """What planners answered in vain, one flat object a fault; the last answer with each."""
        task = await self.task(id)
        rows = await self.readers.event_rows(task["id"], types=["PlanRejected"])
        return [entry for row in rows for entry in documents.refusal_entries(row)]

    async def status(self, id: str | None) -> StatusDocument:
        """The status document."""
        rows = await self.rows(id)
        now = time.time()
        return await asyncio.to_thread(
            status_document, rows, now=now, alive=is_alive(rows.task, now)
        )

    async def tasks(self) -> list[JsonObject]:
        """All tasks, newest first, one flat object each."""
        now = time.time()
        rows = await self.readers.task_rows()
        return [list_entry(row, alive=is_alive(row, now)) for row in rows]

    async def plan_of(self, task: Row, version: int | None = None) -> JsonObject:
        """A task's plan as a mapping: the newest version, or the one asked for.

        Raises:
            UsageError: `unknown_version`.
        """
        row = await self.readers.plan_row(task["id"], version)
        if row is not None:
            return row["plan"]
        if version is not None:
            raise UsageError(
                "unknown_version",
                f"task {task['id']!r} has no plan version {version}: its newest is"
                f" {task['plan_version']}",
            )
        return await self.readers.given_plan(task["id"]) or {"subtasks": []}

    async def plan(self, id: str | None, version: int | None = None) -> list[JsonObject]:
        """The plan's subtasks with their states, flat; without one what was refused as a plan."""
        task = await self.task(id)
        shown = await self.plan_of(task, version)
        if not shown.get("subtasks"):
            return await self.refused_plans(task["id"])
        rows = {row["id"]: row for row in await self.readers.subtask_rows(task["id"])}
        return documents.plan_entries(shown, rows, await self.made_plans(task["id"], shown))

    async def made_plans(self, id: str, plan: JsonObject) -> dict[str, JsonObject]:
        """The newest plan that a model made for each group, by the group's id."""
        if not documents.has_made_plans(plan):
            return {}
        return await self.readers.group_plans(id)

    async def events(
        self, id: str | None, *, after: int = 0, follow: bool = False
    ) -> AsyncGenerator[JsonObject]:
        """The events of a task, oldest first; `follow` waits for more until nothing can come."""
        task = await self.task(id)
        phases = documents.phases_of(await self.plan_of(task))
        async for row in self._event_rows(task["id"], after=after, follow=follow):
            yield documents.event_entry(row, phases=phases)

    async def history(self, id: str | None) -> list[JsonObject]:
        """Every decision and turn, with strategy and reason."""
        task = await self.task(id)
        entries: list[JsonObject] = []
        async for row in self._event_rows(task["id"]):
            entry = documents.history_entry(row)
            if entry is not None:
                entries.append(entry)
        return entries

    async def logs(
        self, id: str | None, subtask: str | None = None, *, follow: bool = False
    ) -> AsyncGenerator[JsonObject]:
        """What tools logged, of one subtask (its children too) or of all.

        Raises:
            UsageError: `unknown_subtask`.
        """
        task = await self.task(id)
        if subtask is not None:
            await self._known_subtask(task, subtask)
        async for row in self._event_rows(task["id"], types=["Log"], follow=follow):
            name: str = row["subtask"] or ""
            if subtask is None or name == subtask or name.startswith(f"{subtask}/"):
                yield documents.log_entry(row)

    async def result(
        self, store: "ArtifactStore", id: str | None, subtask: str | None = None
    ) -> Json:
        """A subtask's result, or for a whole task the results its plan leads to, by subtask.

        Raises:
            UsageError: `unknown_subtask`, or `no_result` where it has none yet.
        """
        task = await self.task(id)
        if subtask is None:
            return await self._end_results(store, task)
        row = await self._known_subtask(task, subtask)
        if row is None or row["state"] not in DONE:
            state = row["state"] if row else "pending"
            raise UsageError("no_result", f"subtask {subtask!r} is {state}: it has no result yet")
        return await stored_value(store, row["result"])

    async def artifacts(self, id: str | None) -> list[JsonObject]:
        """All visible artifact versions, flat."""
        task = await self.task(id)
        rows = await self.readers.artifact_rows(task["id"])
        return [documents.artifact_entry(row) for row in rows]

    async def effects(self, id: str | None) -> list[JsonObject]:
        """The task's ledger in order of the calls, flat: what it did outside and what stands."""
        task = await self.task(id)
        rows = await self.readers.effect_rows(task["id"])
        return [documents.effect_entry(row) for row in rows]

    async def artifact(
        self, store: "ArtifactStore", id: str | None, name: str, version: int | None = None
    ) -> tuple[JsonObject, bytes]:
        """One artifact: its entry and its content; the newest good version unless one is named.

        Raises:
            UsageError: `unknown_artifact`, or `ambiguous_artifact` (several subtasks have one of
                this bare name).
        """
        task = await self.task(id)
        rows = documents.matching_artifacts(await self.readers.artifact_rows(task["id"]), name)
        found = [
            row
            for row in rows
            if row["version"] == version or (version is None and row["withdrawn_at"] is None)
        ]
        owners = sorted({row["subtask"] for row in found})
        if not found:
            which = name if version is None else f"{name} version {version}"
            raise UsageError(
                "unknown_artifact",
                f"task {task['id']!r} has no artifact {which}: `surefoot artifacts {task['id']}`"
                " lists them",
            )
        if len(owners) > 1:
            full = ", ".join(f"{owner}/{name}" for owner in owners[:3])
            raise UsageError(
                "ambiguous_artifact",
                f"{len(owners)} subtasks have an artifact {name!r}; name one of {full} ...",
            )
        newest = max(found, key=lambda row: row["version"])
        return documents.artifact_entry(newest), await store.get_bytes(newest["sha256"])

    async def durations(self) -> dict[str, History]:
        """Durations of earlier tasks, by tool."""
        return {
            name: History(n=row["n"], log_mean=row["log_mean"], log_m2=row["log_m2"])
            for name, row in (await self.readers.durations()).items()
        }

    async def newest_event_id(self, id: str) -> int:
        """The number of the newest event, 0 where there is none: where to go on from."""
        async with self.readers.database.borrowed() as connection:
            cursor = await connection.execute(
                "select coalesce(max(id), 0) as id from surefoot.events where task_id = %s", [id]
            )
            row = await cursor.fetchone()
        return row["id"] if row else 0

    async def _event_rows(
        self,
        id: str,
        *,
        after: int = 0,
        types: list[str] | None = None,
        follow: bool = False,
    ) -> AsyncGenerator[Row]:
        """The raw rows, page by page. Following ends when the task is over or nobody runs it."""
        while True:
            resting = not follow or await self._rests(id)
            page = await self.readers.event_rows(id, after=after, types=types, limit=PAGE)
            for row in page:
                after = row["id"]
                yield row
            if not page:
                if resting:
                    return
                await asyncio.sleep(FOLLOW_EVERY_S)

    async def _rests(self, id: str) -> bool:
        """Whether nothing new will come: the task is over, or nobody is on it."""
        row = await self.readers.task_row(id)
        return row is None or row["status"] in OVER or not is_alive(row, time.time())

    async def _known_subtask(self, task: Row, subtask: str) -> Row | None:
        """The row of a subtask or child; None for one that is in the plan and was not touched."""
        row = await self.readers.subtask_row(task["id"], subtask)
        if row is None and not await self._is_planned(task, subtask):
            raise UsageError(
                "unknown_subtask",
                f"task {task['id']!r} has no subtask {subtask!r}:"
                f" `surefoot plan {task['id']}` lists them",
            )
        return row

    async def _is_planned(self, task: Row, subtask: str) -> bool:
        """Whether an untouched subtask is in the plan: in a group, or an expanded foreach, too."""
        plan = await self.plan_of(task)
        made = await self.made_plans(task["id"], plan)
        unit: JsonObject = {"kind": "group", "plan": plan}
        name = ""
        for step in subtask.split("/"):
            row = await self.readers.subtask_row(task["id"], name) if name else None
            children = (row["n"] or 0) if row else 0
            found = documents.unit_below(name, unit, step, children=children, made=made)
            if found is None:
                return False
            name, unit = f"{name}/{step}" if name else step, dict(found)
        return True

    async def _end_results(self, store: "ArtifactStore", task: Row) -> JsonObject:
        results: dict[str, Any] = {}
        for name in documents.ends_of(await self.plan_of(task)):
            row = await self.readers.subtask_row(task["id"], name)
            if row is not None and row["state"] in DONE:
                results[name] = await stored_value(store, row["result"])
        return results


async def stored_value(store: "ArtifactStore", stored: StoredValue | None) -> Json:
    """A result, wherever it lies."""
    if not stored:
        return None
    if "sha256" in stored:
        return json.loads(await store.get_bytes(stored["sha256"]))
    return stored.get("value")


def is_alive(task: Row, now: float) -> bool:
    """Whether a live worker holds the task: its lease is fresh and, here, its process runs."""
    until = posix(task["acquired_until"])
    if until is None or until < now:
        return False
    return task["worker"] is None or not Worker.parse(task["worker"]).gone()
