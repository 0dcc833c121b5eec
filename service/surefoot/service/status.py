"""The status document: where a task is, composed from table rows alone (contract §3).

Pure: the rows, the plan and the present time come in, one JSON-plain document goes out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import TypedDict  # pydantic reads these, below Python 3.12 only from there

from surefoot.graph.durations import History
from surefoot.graph.eta import Interval, remaining_time
from surefoot.graph.progress import Counts, meter_of, retry_rate
from surefoot.graph.values import JsonObject
from surefoot.graph.workload import Item, workload_of
from surefoot.service.rows import Row, children_of, iso, posix, seen_of, states_of

STALLED_AFTER_S = 600.0
"""A running task without verified progress for this long is stalled (or 3 × its estimate)."""


class Eta(TypedDict):
    """Seconds until the end, as an interval."""

    low: float
    high: float


class SubtaskCounts(TypedDict):
    """Leaves by state."""

    total: int
    pending: int
    running: int
    completed: int
    failed: int
    skipped: int


class Current(TypedDict):
    """A leaf that runs now."""

    subtask: str
    attempt: int
    step: int | None
    step_state: str | None
    tool: str | None
    since: str | None


class MilestoneCounts(TypedDict):
    """Milestones of the plan, and rollbacks so far."""

    total: int
    passed: int
    failed: int
    rollbacks: int


PLANNING = "(planning)"
"""What stands for the subtask in `current` while a model plans; no subtask can be called so."""


class UsageDocument(TypedDict):
    """What the task has used."""

    steps: int
    tokens: int
    cost_usd: float
    seconds: float
    failures: int


class FailureDocument(TypedDict):
    """Why a task ended without success."""

    code: str
    message: str
    subtask: str | None


class OpenQuestion(TypedDict):
    """Something only a person can decide."""

    id: str
    subtask: str | None
    kind: str
    text: str
    choices: list[str]
    asked_at: str | None


class WorkerDocument(TypedDict):
    """Whether a live worker holds the task."""

    alive: bool


class StatusDocument(TypedDict):
    """The document of `surefoot status --json`."""

    id: str
    name: str
    status: str
    stopping: bool
    progress: float
    progress_at: str | None
    stalled: bool
    eta_seconds: Eta | None
    subtasks: SubtaskCounts
    current: list[Current]
    plan_version: int
    attempts: int
    retry_rate: float
    degraded: list[str]
    milestones: MilestoneCounts
    usage: UsageDocument
    limits: dict[str, float | None]
    failure: FailureDocument | None
    questions: list[OpenQuestion]
    worker: WorkerDocument
    concurrency: int
    workspace: str
    created_at: str | None
    updated_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRows:
    """Everything that the tables hold of one task's state at one moment."""

    task: Row
    plan: JsonObject
    subtasks: Sequence[Row] = ()
    questions: Sequence[Row] = ()
    planning: Row | None = None
    """The event of the question that a planner is answering, while there is no plan."""
    history: Mapping[str, History] = field(default_factory=dict[str, History])
    made: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """Plans that a model made for groups, by the group's id."""


def status_document(rows: TaskRows, *, now: float, alive: bool) -> StatusDocument:
    """Compose the status document.

    Args:
        rows: of the task.
        now: POSIX seconds.
        alive: whether a live worker holds the task.
    """
    task, subtasks = rows.task, rows.subtasks
    attempts = sum(row["attempts"] for row in subtasks)
    rate = retry_rate(attempts, sum(1 for row in subtasks if row["attempts"]))
    items = workload_of(rows.plan, seen_of(subtasks), now=now, plans=rows.made)
    left = eta(rows.task, items, history=rows.history, retries=rate)
    return StatusDocument(
        id=task["id"],
        name=task["name"],
        status=task["status"],
        stopping=bool(task["stopping"]),
        progress=1.0 if task["status"] == "completed" else round(float(task["progress"]), 6),
        progress_at=iso(task["progress_at"]),
        stalled=_stalled(task, items, now),
        eta_seconds=left,
        subtasks=_counts(leaf_counts(rows)),
        current=_current(subtasks) or _planning(rows.planning),
        plan_version=task["plan_version"],
        attempts=attempts,
        retry_rate=rate,
        degraded=sorted(row["id"] for row in subtasks if row["degraded"]),
        milestones=_milestones(task, rows.plan),
        usage=_usage(task),
        limits=dict(task["limits"] or {}),
        failure=_failure(task["failure"]),
        questions=[
            OpenQuestion(
                id=q["id"],
                subtask=q["subtask"],
                kind=q["kind"],
                text=q["text"],
                choices=list(q.get("choices") or ()),
                asked_at=iso(q.get("asked_at")),
            )
            for q in rows.questions
            if q["open"]
        ],
        worker={"alive": alive},
        concurrency=task["concurrency"],
        workspace=task["workspace"],
        created_at=iso(task["created_at"]),
        updated_at=iso(task["updated_at"]),
    )


def leaf_counts(rows: TaskRows) -> Counts:
    """Leaves by state."""
    states, children = states_of(rows.subtasks), children_of(rows.subtasks)
    return meter_of(rows.plan, states, children, rows.made).counts()


def eta(
    task: Row, items: Sequence[Item], *, history: Mapping[str, History], retries: float
) -> Eta | None:
    """The remaining time; nothing for a task that will not go on by itself."""
    if task["status"] in ("failed", "cancelled"):
        return None
    if task["status"] == "completed":
        return Eta(low=0.0, high=0.0)
    left = remaining_time(
        items, concurrency=task["concurrency"], history=history, retry_rate=min(retries, 2.0)
    )
    return None if left is None or not items else rounded(left)


def rounded(interval: Interval) -> Eta:
    """An interval to a tenth of a second."""
    return Eta(low=round(interval.low, 1), high=round(interval.high, 1))


def list_entry(task: Row, *, alive: bool) -> JsonObject:
    """One flat object of `surefoot list --json`."""
    failure: JsonObject = task["failure"] or {}
    return {
        "id": task["id"],
        "name": task["name"],
        "status": task["status"],
        "stopping": bool(task["stopping"]),
        "progress": 1.0 if task["status"] == "completed" else round(float(task["progress"]), 6),
        "total": task["total"],
        "failure": failure.get("code"),
        "worker_alive": alive,
        "created_at": iso(task["created_at"]),
        "updated_at": iso(task["updated_at"]),
    }


def _stalled(task: Row, items: Sequence[Item], now: float) -> bool:
    since = posix(task["progress_at"])
    if task["status"] != "running" or since is None:
        return False
    estimates = [i.estimated_s or 0.0 for i in items if i.slot and i.state == "running"]
    return now - since > max(STALLED_AFTER_S, 3 * max(estimates, default=0.0))


def _counts(counts: Counts) -> SubtaskCounts:
    return SubtaskCounts(
        total=counts.total,
        pending=counts.pending,
        running=counts.running,
        completed=counts.completed,
        failed=counts.failed,
        skipped=counts.skipped,
    )


def _current(subtasks: Sequence[Row]) -> list[Current]:
    running = [
        row
        for row in subtasks
        if (row["state"] == "running" or _is_improved(row))
        and row["kind"] not in ("foreach", "group")
    ]
    return [
        Current(
            subtask=row["id"],
            attempt=row["attempt"],
            step=row["step"],
            step_state=row["step_state"],
            tool=row["tool"],
            since=iso(row["since"] or row["started_at"]),
        )
        for row in sorted(running, key=lambda row: (posix(row["started_at"]) or 0.0, row["id"]))
    ]


def _is_improved(row: Row) -> bool:
    """Whether a degraded result stands while its full version is tried once more."""
    return row["state"] == "completed" and row["step_state"] in ("calling", "retrying")


def _planning(asked: Row | None) -> list[Current]:
    """A round of planning, shown like the attempt of a subtask."""
    if asked is None:
        return []
    facts: JsonObject = asked["facts"] or {}
    return [
        Current(
            subtask=PLANNING,
            attempt=facts.get("round", 1),
            step=1,
            step_state="calling",
            tool=facts.get("stage"),
            since=iso(asked["time"]),
        )
    ]


def _milestones(task: Row, plan: JsonObject) -> MilestoneCounts:
    stored: dict[str, Any] = task["milestones"] or {}
    return MilestoneCounts(
        total=stored.get("total", len(plan.get("milestones") or ())),
        passed=stored.get("passed", 0),
        failed=stored.get("failed", 0),
        rollbacks=stored.get("rollbacks", 0),
    )


def _usage(task: Row) -> UsageDocument:
    return UsageDocument(
        steps=task["steps"],
        tokens=task["tokens"],
        cost_usd=float(task["cost_usd"]),
        seconds=round(float(task["seconds"]), 3),
        failures=task["failures"],
    )


def _failure(failure: Mapping[str, Any] | None) -> FailureDocument | None:
    if failure is None:
        return None
    return FailureDocument(
        code=failure["code"], message=failure["message"], subtask=failure.get("subtask")
    )
