"""How a go ends: the update and the rows of completed, failed, cancelled and paused tasks."""

from typing import Any

from surefoot.graph.attempts import INCONSISTENT
from surefoot.graph.errors import InconsistentState
from surefoot.graph.state import TaskState
from surefoot.graph.values import EffectiveLimits, Record, TaskFailure
from surefoot.nodes.context import TaskContext, Views, journal_task, limits_of, note, views

EVENTS = {
    "completed": "TaskCompleted",
    "failed": "TaskFailed",
    "cancelled": "TaskCancelled",
    "paused": "TaskPaused",
}


def end(
    context: TaskContext,
    seen: Views,
    status: str,
    failure: TaskFailure | None,
    limits: EffectiveLimits,
) -> dict[str, Any]:
    """End this go: queue the task's row and event, and return the state's update."""
    columns: dict[str, Any] = {"status": status, "failure": failure, "stopping": False}
    if status == "completed":
        columns["progress"] = 1.0
    journal_task(context, seen, limits=dict(limits), **columns)
    facts: dict[str, Any] = (
        {"reason": failure["message"], "code": failure["code"]} if failure else {}
    )
    by = context.control.stopped_by() if status in ("paused", "cancelled") else ""
    if by:
        facts["by"] = by
    context.journal.event(EVENTS[status], **facts)
    context.over = True
    context.ended = status, failure
    return {"status": status, "ending": failure}


def end_inconsistent(
    state: TaskState, context: TaskContext, error: InconsistentState
) -> dict[str, Any]:
    """End this go because what is stored contradicts itself: nothing may be sent to a model."""
    seen = views(state, context)
    failure = TaskFailure(code=INCONSISTENT, message=str(error), subtask=None)
    return end(context, seen, "failed", failure, limits_of(state, context, seen))


def withdraw(
    state: TaskState, context: TaskContext, seen: Views, records: dict[str, Record]
) -> None:
    """Take back what the runner has not started: those subtasks are pending as before."""
    current = state.get("records") or {}
    for id, attempt in context.runner.recall():
        record = Record(**(current.get(id) or Record()))
        if attempt:
            context.held.discard(id)
            record["attempt"] = max(0, record.get("attempt", 1) - 1)
        if record.get("state") == "running":
            record["state"] = "pending"
        records[id] = record
        note(context, seen, id, record)
