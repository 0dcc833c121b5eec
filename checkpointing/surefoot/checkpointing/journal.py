"""The outbox of one task: rows that nodes and runner queue and that leave with the checkpoint.

Projection, events and checkpoint are written by one statement, so they can never disagree.
Readers are woken by NOTIFY at most every 100 ms; those who listen poll as well.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Protocol, cast

from surefoot.checkpointing.outbox import Outbox
from surefoot.graph.errors import LeaseLost
from surefoot.graph.ports import Clock
from surefoot.graph.values import ArtifactRef, Json, JsonObject, StoredValue

SUBTASK_COLUMNS = frozenset(
    "parent kind state attempt attempts rung degraded tool step step_state since started_at "
    "ended_at not_before result failure reason n marks".split()
)
QUESTION_COLUMNS = frozenset(
    "subtask kind text open answer asked_at closed_at schema choices answered_at "
    "answered_by".split()
)
SNAPSHOT_COLUMNS = frozenset("subtask attempt milestone state environment files bytes".split())
USAGE_COLUMNS = frozenset("steps tokens cost_usd seconds failures".split())
TASK_COLUMNS = USAGE_COLUMNS | frozenset(
    "name status stopping graph_version concurrency plan_version total progress progress_at "
    "limits failure milestones inputs_manifest tools_digest priority workspace spec "
    "spec_digest".split()
)
TIME_COLUMNS = frozenset(
    "since started_at ended_at not_before asked_at closed_at answered_at progress_at".split()
)
MOVING_COLUMNS = USAGE_COLUMNS | {"progress", "progress_at", "total"}
"""What a task's groups tell as well: whichever journal leaves last, the newest values stand."""

NOTIFY_EVERY_S = 0.1


class Writer(Protocol):
    """What writes an outbox behind the fence (`outbox.Fence`)."""

    async def write(self, outbox: Outbox, *, notify: bool = True) -> None:
        """Write all rows or none."""
        ...


class TaskJournal:
    """The journal of one task (`ports.Journal`). Not for several threads."""

    def __init__(self, task_id: str, *, clock: Clock = time.time) -> None:
        self.task_id = task_id
        self._clock = clock
        self._queued = Outbox()
        self._leaving = asyncio.Lock()
        self.writer: Writer | None = None
        self._notified = 0.0
        self.newest: JsonObject = {}
        """Moving columns of the task's row as last told to any of its journals."""

    def bind(self, writer: Writer) -> None:
        """Name who writes at `flush`; `TaskSaver` does it for its own journal."""
        self.writer = writer

    def event(
        self, type: str, *, subtask: str | None = None, attempt: int | None = None, **facts: Json
    ) -> None:
        """A past fact, at the present time."""
        row: JsonObject = {"time": self._clock(), "type": type}
        if subtask is not None:
            row["subtask"] = subtask
        if attempt is not None:
            row["attempt"] = attempt
        if facts:
            row["facts"] = facts
        self._queued.events.append(row)

    def subtask(self, id: str, **columns: Json) -> None:
        """Set these columns of a subtask's row; times are POSIX seconds.

        Raises:
            ValueError: there is no such column.
        """
        row = self._queued.subtasks.setdefault(id, {"id": id})
        row.update(_known(columns, SUBTASK_COLUMNS))

    def artifact(self, subtask: str, attempt: int, ref: ArtifactRef) -> None:
        """A new visible version; the same version again changes nothing."""
        at = {"subtask": subtask, "attempt": attempt, "at": self._clock()}
        self._queued.artifacts.append({**at, **ref})

    def withdraw(self, subtask: str, kept: Sequence[str] = ()) -> None:
        """Its artifacts (and its children's) are no longer good, besides those of these sha256."""
        row: JsonObject = {"subtask": subtask, "kept": list(kept), "at": self._clock()}
        self._queued.withdrawals.append(row)

    def snapshot(self, tier: str, *, manifest: StoredValue, **columns: Json) -> None:
        """A snapshot (see the table): `full` of a subtask, or `complete` at a milestone."""
        row: JsonObject = {"tier": tier, "manifest": manifest, "at": self._clock()}
        self._queued.snapshots.append({**row, **_known(columns, SNAPSHOT_COLUMNS)})

    def plan(self, version: int, plan: JsonObject, reason: str) -> None:
        """A plan version."""
        row = {"version": version, "plan": plan, "reason": reason, "at": self._clock()}
        self._queued.plans[version] = row

    def question(self, id: str, **columns: Json) -> None:
        """Set these columns of a question's row; a new one is open and asked now."""
        row = self._queued.questions.setdefault(id, {"id": id})
        row.update(_known(columns, QUESTION_COLUMNS))

    def task(self, **columns: Json) -> None:
        """Set these columns of the task's row; `usage` stands for its five columns."""
        usage = cast("Mapping[str, Json]", columns.pop("usage", None) or {})
        known = _known({**columns, **usage}, TASK_COLUMNS)
        self._queued.task.update(known)
        self.newest.update({name: known[name] for name in MOVING_COLUMNS & known.keys()})

    def pending(self) -> bool:
        """Whether anything is queued."""
        return bool(self._queued)

    def discard(self) -> None:
        """Drop what is queued (the superstep that queued it runs again)."""
        self._queued = Outbox()

    def take(self) -> Outbox:
        """Hand over what is queued; the queue is empty afterwards."""
        taken, self._queued = self._queued, Outbox()
        for name in taken.task.keys() & self.newest.keys():
            taken.task[name] = self.newest[name]
        return taken

    def give_back(self, outbox: Outbox) -> None:
        """Put rows that were not surely written back in front of what was queued since."""
        sent = outbox.sent
        self._queued = outbox.followed_by(self._queued)
        self._queued.sent = sent

    @asynccontextmanager
    async def leaving(self) -> AsyncGenerator[Outbox]:
        """Take the outbox for one statement; given back when that fails for the database.

        One at a time, so that rows of a flush and of a checkpoint never overtake each other.
        """
        async with self._leaving:
            outbox = self.take()
            try:
                yield outbox
            except LeaseLost:
                raise
            except BaseException:
                self.give_back(outbox)
                raise

    async def flush(self) -> None:
        """Write what is queued now, in a fenced transaction of its own.

        Raises:
            LeaseLost: the task is another worker's now.
            DatabaseUnavailable: the rows stay queued.
        """
        if self.writer is None:
            raise RuntimeError("bind the journal to a fence first")
        async with self.leaving() as outbox:
            if outbox:
                await self.writer.write(outbox, notify=self.notify_due())

    def notify_due(self) -> bool:
        """True at most every `NOTIFY_EVERY_S`: many notifying commits would queue in PostgreSQL."""
        now = time.monotonic()
        if now - self._notified < NOTIFY_EVERY_S:
            return False
        self._notified = now
        return True


def _known(columns: Mapping[str, Json], allowed: frozenset[str]) -> JsonObject:
    if not columns.keys() <= allowed:
        raise ValueError(f"no such columns: {sorted(columns.keys() - allowed)}")
    if TIME_COLUMNS.isdisjoint(columns):
        return dict(columns)
    return {name: _time(v) if name in TIME_COLUMNS else v for name, v in columns.items()}


def _time(value: Any) -> str | None:
    """A POSIX time as the ISO text that `jsonb_populate_record` turns into a timestamptz."""
    if value is None:
        return None
    moment = value if isinstance(value, datetime) else datetime.fromtimestamp(value, UTC)
    return moment.isoformat()
