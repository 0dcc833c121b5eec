"""Wishes to go back: whether one may be uttered without a person, and how many there were."""

from surefoot.graph.going_back import points_before
from surefoot.graph.plain import digest
from surefoot.graph.state import TaskState
from surefoot.graph.values import Record
from surefoot.nodes.context import TaskContext
from surefoot.nodes.wishes import limits_on_replans


def rollbacks_made(state: TaskState) -> int:
    """All rollbacks so far, those of people included."""
    decisions = (state.get("decisions") or {}).values()
    return sum(1 for decision in decisions if decision["kind"] == "rollback")


def rollbacks_left(state: TaskState, context: TaskContext) -> int:
    """Rollbacks that may still be made without a person asking for them, at least 0."""
    return max(0, limits_on_replans(state, context).rollbacks - state.get("rollbacks", 0))


def milestone_may_go_back(state: TaskState, context: TaskContext) -> bool:
    """Whether a failed milestone may be answered with a rollback."""
    return bool(state.get("records")) and rollbacks_left(state, context) > 0


def failure_may_go_back(id: str, state: TaskState, context: TaskContext, blocker: str) -> bool:
    """Whether a model may go back because of a failed attempt: to a milestone that has passed.

    Not twice for the same failure, and only where that does more than try the subtask again. To the
    start only people and milestones go back: a plan without milestones asks no model about it.
    """
    if rollbacks_left(state, context) == 0 or blocker in (state.get("gone_back") or ()):
        return False
    records = state.get("records") or {}
    points = points_before(state.get("milestones") or {}, digest({}))
    if not points:
        return False
    since = points[0]["at"]
    return any(
        other != id and not id.startswith(f"{other}/") and _done_since(record, since)
        for other, record in records.items()
    )


def _done_since(record: Record, since: float) -> bool:
    return record.get("state") == "completed" and record.get("finished", 0.0) > since
