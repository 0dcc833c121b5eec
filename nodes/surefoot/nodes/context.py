"""What a node may touch: ports, the process's derived views of the state, and small counters.

Never stored. Everything derived (`ready`, `index`, `meter`) is rebuilt from the state when it is
missing, so that a node can be the first to run after a restart.
"""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surefoot.graph.budget import effective_limits
from surefoot.graph.index import PlanIndex, container_of
from surefoot.graph.model_ports import ModelClient, NoModels
from surefoot.graph.ports import (
    ArtifactStore,
    Binding,
    Clock,
    Control,
    Draw,
    Journal,
    Runner,
    ToolSpec,
)
from surefoot.graph.progress import ProgressMeter, meter_of
from surefoot.graph.readiness import ReadySet
from surefoot.graph.state import TaskState
from surefoot.graph.task import Budget
from surefoot.graph.values import EffectiveLimits, JsonObject, Record, Usage


@dataclass(kw_only=True)
class TaskContext:
    """One task in this process. `usage` is what is durable or leaves with the outbox."""

    task_id: str
    runner: Runner
    journal: Journal
    control: Control
    store: ArtifactStore
    specs: Mapping[str, ToolSpec]
    slots: int
    usage: Usage
    models: ModelClient = field(default_factory=NoModels)
    raised: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    manifest: JsonObject = field(default_factory=dict[str, Any])
    """Digests of declared inputs and tool modules as they are now (consistency check)."""
    expected: JsonObject = field(default_factory=dict[str, Any])
    """The same as they were when the task was created."""
    clock: Clock = time.time
    draw: Draw = random.random
    held_since: float = field(default_factory=time.time)
    """When this worker took the task; seconds before that are in `seconds_before`."""
    seconds_before: float = 0.0
    index: PlanIndex | None = None
    ready: ReadySet | None = None
    meter: ProgressMeter | None = None
    validated: bool = False
    """The plan in the task file was validated when the task was created."""
    checkpoint_id: str = ""
    """The checkpoint that the present node runs from."""
    milestones_failed: int = 0
    progress: float = -1.0
    """As last told to readers."""
    durations: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Seconds of accepted attempts by tool, for the history that estimates come from."""
    bindings: dict[tuple[str, bool], tuple[Record | None, Binding]] = field(
        default_factory=dict[tuple[str, bool], tuple[Record | None, Binding]]
    )
    """What orders may see of a subtask, kept while its record stays the same."""
    reserved: int = 0
    """Steps reserved for orders in flight."""
    over: bool = False
    """This go has ended (END or a question): the host may let go of the task."""

    def forget(self) -> None:
        """Drop derived views: the next node builds them anew from the state."""
        self.index = self.ready = self.meter = None
        self.reserved = 0
        self.bindings.clear()

    def seconds(self) -> float:
        """Seconds a worker has held the task, this go included."""
        return self.seconds_before + max(0.0, self.clock() - self.held_since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """The derived views of one state, complete."""

    index: PlanIndex
    ready: ReadySet
    meter: ProgressMeter


def views(state: TaskState, context: TaskContext) -> Views:
    """The derived views, built from the state where this process has none yet."""
    if context.index is None or context.ready is None or context.meter is None:
        plan = state.get("plan") or {"subtasks": []}
        records = state.get("records") or {}
        passed = [id for id, m in (state.get("milestones") or {}).items() if m["passed"]]
        context.index = PlanIndex(plan)
        context.ready = ReadySet(context.index, records, passed)
        context.meter = meter_of(
            plan,
            {id: r.get("state", "pending") for id, r in records.items()},
            {id: r["n"] for id, r in records.items() if "n" in r},
        )
        context.reserved = sum(
            1
            for id, record in records.items()
            if record.get("state") == "running" and not _is_container(context.index, id)
        )
    return Views(index=context.index, ready=context.ready, meter=context.meter)


def _is_container(index: PlanIndex, id: str) -> bool:
    """A running foreach reserves nothing; its children do."""
    return container_of(id) is None and index.is_container(id)


def limits_of(state: TaskState, context: TaskContext, seen: Views) -> EffectiveLimits:
    """The limits in force for the plan as it is now."""
    budget = Budget.model_validate((state.get("task") or {}).get("budget") or {})
    return effective_limits(budget, leaves=seen.meter.counts().total, raised=context.raised)


def note(context: TaskContext, seen: Views, id: str, record: Record) -> None:
    """Tell the derived views that a record changed."""
    seen.ready.update(id, record)
    if "n" in record:
        seen.meter.expand(id, record["n"])
    seen.meter.move(id, record.get("state", "pending"))


def journal_record(context: TaskContext, seen: Views, id: str, record: Record) -> None:
    """Queue the projection row of a changed record."""
    container = container_of(id)
    context.journal.subtask(
        id,
        parent=container,
        kind=seen.index.unit(id).kind,
        state=record.get("state", "pending"),
        attempt=record.get("attempt", 0),
        attempts=record.get("ended", 0),
        rung=record.get("rung", 0),
        degraded=bool(record.get("rung")) and record.get("state") == "completed",
        started_at=record.get("started"),
        ended_at=record.get("finished"),
        not_before=record.get("not_before"),
        result=record.get("result"),
        failure=record.get("failure"),
        reason=record.get("reason"),
        n=record.get("n"),
        marks=record.get("marks"),
        **_settled_step(seen.index.unit(id).kind, record),
    )


def _settled_step(kind: str, record: Record) -> dict[str, str]:
    """The step's state where no call said so: cut in it, or answered by the ledger afterwards.

    Else the row of a killed call would say `calling` for ever.
    """
    if kind == "foreach" or not record.get("attempt"):
        return {}
    if record.get("state") == "completed":
        return {"step_state": "succeeded"}
    return {"step_state": "pending"} if record.get("cut") else {}


def journal_task(context: TaskContext, seen: Views, **columns: Any) -> None:
    """Queue the task row's moving columns: usage, progress, and what is given."""
    context.usage["seconds"] = context.seconds()
    moving: dict[str, Any] = {"total": seen.meter.counts().total, **context.usage, **columns}
    progress = columns.get("progress", seen.meter.progress())
    if progress != context.progress:
        context.progress = progress
        moving |= {"progress": progress, "progress_at": context.clock()}
    context.journal.task(**moving)
