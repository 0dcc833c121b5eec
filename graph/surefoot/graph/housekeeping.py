"""Keeping house (`surefoot gc`): what no resume, no rollback and no audit needs any more goes.

Task by task under its lease, so never beside a live worker: superseded checkpoints, threads of
agents that are over, snapshots that nobody goes back to, read-only copies. Then the object store.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langgraph.types import Overwrite

from surefoot.checkpointing.artifacts import ObjectArtifacts
from surefoot.checkpointing.journal import TaskJournal
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.readers import Readers
from surefoot.checkpointing.retention import Retention, Spare, Weight
from surefoot.checkpointing.saver import TaskSaver
from surefoot.checkpointing.sweeping import Swept, sweep
from surefoot.graph.assembly import assemble
from surefoot.graph.errors import LeaseHeld
from surefoot.graph.going_back import START
from surefoot.graph.inspection import NoContexts
from surefoot.graph.session import Engine
from surefoot.graph.state import DELTAS, TaskState
from surefoot.graph.thread_names import AgentThread, thread_of_name
from surefoot.graph.values import JsonObject, MilestoneRecord, StoredValue
from surefoot.graph.whole_states import is_whole

HOUR_S = 3600.0
FINISHED = ("completed", "cancelled")
OVER = ("completed", "skipped", "failed")
COUNTS = ("checkpoints", "threads", "snapshots", "folders", "bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is kept. `keep_milestones`: the newest of each task, besides the start."""

    keep_milestones: int = 3
    keep_finished: bool = False
    """Whether completed and cancelled tasks keep as much as others."""
    older_than_s: float = 24 * HOUR_S
    """Contents of the store that are younger stay; while a worker lives, at least an hour."""


async def keep_house(
    engine: Engine, policy: Policy, *, task_id: str | None = None, dry_run: bool = False
) -> JsonObject:
    """Keep house for all tasks, or one.

    Args:
        engine: of this process.
        policy: what is kept.
        task_id: only this task's rows.
        dry_run: nothing is removed, only counted; contents that are freed by removing rows first
            are not among them.

    Returns:
        `{"dry_run", "tasks": [{"task", "skipped", ...}], "blobs", "litter", "skipped", ...}` with
        sums of what was removed.

    Raises:
        UsageError: there is no such task.
    """
    asked_at = time.time()  # who begins later has stored nothing before that
    everyone = await Readers(engine.database).task_rows()
    rows = [await engine.row(task_id)] if task_id else everyone
    begun = [row for row in rows if row["graph_version"]]
    looked_at = {row["id"] for row in begun}
    held = any(row["acquired_by"] and row["id"] not in looked_at for row in everyone)
    tasks = [await _Task(engine, row, policy, dry_run=dry_run).kept() for row in begun]
    older_than_s = policy.older_than_s
    if held or any(task["skipped"] for task in tasks):
        older_than_s = max(older_than_s, HOUR_S)  # its newest contents are in no row yet
    store = await asyncio.to_thread(ObjectArtifacts, engine.settings.artifacts_url)
    before = asked_at - older_than_s
    swept = await sweep(engine.database, store, before=before, dry_run=dry_run)
    return _document(tasks, swept, dry_run=dry_run)


def _document(tasks: list[JsonObject], swept: Swept, *, dry_run: bool) -> JsonObject:
    sums: JsonObject = {name: sum(task[name] for task in tasks) for name in COUNTS}
    sums["bytes"] += swept.bytes
    return {
        "dry_run": dry_run,
        **sums,
        "blobs": swept.blobs,
        "litter": swept.litter,
        "skipped": swept.skipped or None,
        "tasks": tasks,
    }


class _Task:
    """One task whose rows are looked through."""

    def __init__(
        self, engine: Engine, row: Mapping[str, Any], policy: Policy, *, dry_run: bool
    ) -> None:
        self._engine, self._row, self._policy = engine, row, policy
        self._dry_run = dry_run
        self._id: str = row["id"]
        self._finished = row["status"] in FINISHED and not policy.keep_finished
        self._done: JsonObject = {
            "task": self._id,
            "skipped": None,
            **dict.fromkeys(COUNTS, 0),
            "milestones": [],
        }

    async def kept(self) -> JsonObject:
        """Remove what is not needed; says what, or why nothing was."""
        if self._dry_run:
            if _is_held(self._row):
                return {**self._done, "skipped": "a live worker holds it"}
            await self._rows(None)
            return self._done
        try:
            lease = await self._engine.leases.acquire(self._id)
        except LeaseHeld:
            return {**self._done, "skipped": "a live worker holds it"}
        try:
            await self._rows(lease)
        finally:
            await self._engine.leases.release(lease)
        return self._done

    async def _rows(self, lease: Lease | None) -> None:
        retention = Retention(self._engine.database, self._id, lease)
        spare = await retention.spare_snapshots(
            keep=self._policy.keep_milestones, everything=self._finished
        )
        if self._row["status"] == "waiting":
            # Its thread is left alone (see `_shorten`), so it could not say what is gone.
            spare = [one for one in spare if one.tier != "complete"]
        pruned = await self._pruned(spare)
        await self._threads(retention, lease, pruned)
        if spare and lease is not None:
            await retention.drop_snapshots(spare)
        self._done["snapshots"] = len(spare)
        self._done["milestones"] = sorted(pruned)
        if self._finished:
            await self._folder(self._engine.settings.task_folder(self._id))

    async def _pruned(self, spare: list[Spare]) -> set[str]:
        """The milestones that nobody can go back to afterwards; the start needs no snapshot."""
        gone = {one.id for one in spare}
        left = await _complete(self._engine, self._id)
        kept = {milestone for id, milestone in left if id not in gone}
        return {one.milestone for one in spare if one.milestone} - kept - {START}

    # --- threads -----------------------------------------------------------------------------

    async def _threads(self, retention: Retention, lease: Lease | None, pruned: set[str]) -> None:
        states = await self._states()
        newest = await self._newest_gos(retention)
        for thread, weight in (await retention.inner_threads()).items():
            name = thread_of_name(self._id, thread)
            is_agents = isinstance(name, AgentThread)
            over = states.get(name.subtask) in OVER
            older = isinstance(name, AgentThread) and name.go < newest.get(name.subtask, 0)
            if self._finished or older or (is_agents and over):
                await self._remove(retention, thread, weight)
            elif not is_agents:
                await self._shorten(retention, lease, thread, set())
        await self._shorten(retention, lease, self._id, pruned)

    async def _states(self) -> dict[str, str]:
        rows = await Readers(self._engine.database).subtask_rows(self._id)
        return {row["id"]: row["state"] for row in rows}

    async def _newest_gos(self, retention: Retention) -> dict[str, int]:
        newest: dict[str, int] = {}
        for thread in await retention.inner_threads():
            name = thread_of_name(self._id, thread)
            if isinstance(name, AgentThread):
                newest[name.subtask] = max(newest.get(name.subtask, 0), name.go)
        return newest

    async def _remove(self, retention: Retention, thread: str, weight: Weight) -> None:
        if not self._dry_run:
            await retention.remove_thread(thread)
        self._done["threads"] += 1
        self._done["checkpoints"] += weight.rows
        self._done["bytes"] += weight.bytes

    async def _shorten(
        self, retention: Retention, lease: Lease | None, thread: str, pruned: set[str]
    ) -> None:
        """Leave of a thread nothing but a head that needs nothing before it.

        Of a task that waits it is left alone: in a host's app its question is part of it.
        """
        older = await retention.superseded(thread)
        if (older.rows < 2 and not pruned) or self._row["status"] == "waiting":
            return
        if lease is not None:
            head = await self._new_head(lease, thread, pruned)
            if head is None:
                return
            await retention.drop_superseded(thread, head)
        self._done["checkpoints"] += older.rows
        self._done["bytes"] += older.bytes

    async def _new_head(self, lease: Lease, thread: str, pruned: set[str]) -> str | None:
        """Write a checkpoint with whole snapshots of all channels; None where it is not whole."""
        saver = TaskSaver(self._engine.database, lease, TaskJournal(self._id))
        try:
            graph = assemble(NoContexts()).compile(checkpointer=saver)
            config: Any = {"configurable": {"thread_id": thread}}
            state: TaskState = (await graph.aget_state(config)).values
            if not is_whole(state, planned=False):
                return None
            whole: dict[str, Any] = {name: state.get(name) or {} for name in DELTAS}
            whole["milestones"] = {
                id: _pruned(record) if id in pruned else record
                for id, record in whole["milestones"].items()
            }
            update = {name: Overwrite(value) for name, value in whole.items()}
            written = await graph.aupdate_state(config, update, as_node="load")
            return written["configurable"]["checkpoint_id"]
        finally:
            await saver.close()

    # --- files -------------------------------------------------------------------------------

    async def _folder(self, folder: Path) -> None:
        """The read-only copies and half-made files of a finished task; made again when needed."""
        files, size = await asyncio.to_thread(_weigh, folder)
        if not files:
            return
        self._done["folders"] = 1
        self._done["bytes"] += size
        if not self._dry_run:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _pruned(record: MilestoneRecord) -> MilestoneRecord:
    """A passed milestone that nobody can go back to: it names no contents any more."""
    bare: MilestoneRecord = {**record, "snapshot": StoredValue(), "pruned": True}
    bare.pop("manifest", None)
    return bare


def _is_held(row: Mapping[str, Any]) -> bool:
    until = row["acquired_until"]
    return until is not None and until.timestamp() > time.time()


async def _complete(engine: Engine, task_id: str) -> list[tuple[int, str]]:
    """(id, milestone) of the complete snapshots of a task."""
    async with engine.database.borrowed() as connection:
        cursor = await connection.execute(
            "select id, milestone from surefoot.snapshots where task_id = %s and tier = 'complete'",
            [task_id],
        )
        return [(row["id"], row["milestone"]) for row in await cursor.fetchall()]


def _weigh(folder: Path) -> tuple[int, int]:
    files = size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            files += 1
            size += (Path(place) / name).lstat().st_size
    return files, size
