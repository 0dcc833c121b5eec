"""What readers are told of a way back; all of it leaves with the superstep that goes back.

Rows of what is pending again, artifacts that are good no more, questions that are closed, and the
event with its reason.
"""

from typing import Any, cast

from surefoot.graph.going_back import DONE, is_touched
from surefoot.graph.index import container_of
from surefoot.graph.state import Back, TaskState
from surefoot.graph.values import JsonObject, Question, Record
from surefoot.nodes.context import TaskContext, Views, journal_record, journal_task, views
from surefoot.nodes.questions import close
from surefoot.nodes.segments import Segment, kept_artifacts
from surefoot.nodes.undoing import Undone
from surefoot.nodes.ways_back import rollbacks_made

STRATEGY = "roll back to the stable point"
SHOWN = 50
"""Ids that the event names."""

NO_STEP = {"step": None, "step_state": None, "tool": None, "since": None}


def tell(
    wish: Back,
    name: str,
    segments: list[Segment],
    undone: Undone,
    update: dict[str, Any],
    state: TaskState,
    context: TaskContext,
) -> list[Question]:
    """Queue all rows; returns the questions that stay open.

    Args:
        wish: that was fulfilled.
        name: of the point, '' where subtasks were reopened.
        segments: of the way back.
        undone: what came of undoing.
        update: of the state; its records are those of the first segment.
        state: as it was before.
        context: of the plan; its derived views are made anew.
    """
    before = _progress(context)
    for segment in segments:
        _withdraw(segments, segment, context)
    open_now = _still_open(segments[0], state, context)
    after = _after(update, segments[0], state, questions=open_now)
    _know_inside(segments[1:], context)
    context.forget()
    context.changed = True
    seen = views(after, context)
    for id, record in segments[0].changed().items():
        if (container_of(id) or id) in seen.index.raw:
            journal_record(context, seen, id, record)
            if record.get("state") not in DONE:
                context.journal.subtask(id, **NO_STEP)
    for segment in segments[1:]:
        for id, record in segment.changed().items():
            if is_touched(segment.record(id)):
                _row_inside(f"{segment.local}{id}", record, context)
    _event(wish, name, segments, undone, after, context)
    _tell_task(before, after, seen, context)
    return open_now


def _after(
    update: dict[str, Any], segment: Segment, state: TaskState, *, questions: list[Question]
) -> TaskState:
    """The state as it is afterwards."""
    merged: dict[str, Any] = {**state, **update, "records": segment.way.records}
    merged["milestones"] = update["milestones"].value
    merged["decisions"] = {**(state.get("decisions") or {}), **update["decisions"]}
    merged["questions"] = questions
    return cast("TaskState", merged)


# --- artifacts and questions -----------------------------------------------------------------


def _withdraw(segments: list[Segment], segment: Segment, context: TaskContext) -> None:
    for id in segment.way.taken:
        if container_of(id) in segment.way.whole or _is_told_inside(id, segment):
            continue
        kept = [] if id in segment.way.whole else kept_artifacts(segments, segment, id)
        context.journal.withdraw(f"{segment.local}{id}", [ref["sha256"] for ref in kept])


def _is_told_inside(id: str, segment: Segment) -> bool:
    """Whether what is inside it is told of one by one, and it has put nothing itself."""
    if id in segment.way.entered:
        return True
    in_part = id not in segment.way.whole and "n" in segment.way.records.get(id, Record())
    return in_part and not segment.record(id).get("artifacts")


def _still_open(segment: Segment, state: TaskState, context: TaskContext) -> list[Question]:
    """Questions about what nothing was changed of; the others are asked again where they come."""
    changed = segment.changed()
    kept: list[Question] = []
    for question in state.get("questions") or ():
        id = question["subtask"]
        while id and id not in segment.way.records:
            id = id.rpartition("/")[0]
        if question["kind"] == "inconsistent_state" or (id and id not in changed):
            kept.append(question)
        else:
            close(question, context)
    return kept


# --- rows ------------------------------------------------------------------------------------


def _row_inside(id: str, record: Record, context: TaskContext) -> None:
    done = record.get("state") in DONE
    context.journal.subtask(
        id,
        state=record.get("state", "pending"),
        attempt=record.get("attempt", 0),
        attempts=record.get("ended", 0),
        rung=record.get("rung", 0),
        degraded=bool(record.get("rung")) and record.get("state") == "completed",
        started_at=record.get("started"),
        ended_at=record.get("finished"),
        not_before=None,
        result=record.get("result"),
        failure=None,
        reason=record.get("reason"),
        n=record.get("n"),
        marks=record.get("marks"),
        **({} if done else NO_STEP),
    )


def _know_inside(inner: list[Segment], context: TaskContext) -> None:
    """What the task's progress knows of the groups that are taken back: what stands in them."""
    known = context.root.inner
    begins = tuple(segment.context.prefix for segment in inner)
    for full in [full for full in known.states if full.startswith(begins)]:
        del known.states[full]
    for full in [full for full in known.expanded if full.startswith(begins)]:
        del known.expanded[full]
    for segment in inner:
        for id, record in segment.way.records.items():
            full = segment.context.full(id)
            if record.get("state", "pending") != "pending":
                known.states[full] = record.get("state", "pending")
            if "n" in record:
                known.expanded[full] = record["n"]


# --- the event and the task ------------------------------------------------------------------


def _event(
    wish: Back,
    name: str,
    segments: list[Segment],
    undone: Undone,
    after: TaskState,
    context: TaskContext,
) -> None:
    redone = segments[0].way.redone
    anew, now = _moved(segments)
    again, inside = _begun_again(segments)
    milestones = (after.get("milestones") or {}).values()
    facts: dict[str, Any] = {
        "reason": wish["reason"],
        "by": wish["by"],
        "redone": [context.full(id) for id in redone[:SHOWN]],
        "subtasks": len(redone),
        "compensated": undone.compensated,
        "left_standing": undone.left_standing,
        "files": undone.files,
        "kept": undone.kept or [],
        "command": wish.get("command"),
        "anew": anew,
        "now": now,
        "again": again,
        "inside": inside,
        "passed": [context.full(record["id"]) for record in milestones if record["passed"]],
    }
    if name:
        context.journal.event("RolledBack", strategy=STRATEGY, milestone=name, **facts)
    else:
        context.journal.event("SubtasksReopened", strategy="rerun the subtask", **facts)


def _moved(segments: list[Segment]) -> tuple[list[str], JsonObject]:
    """What watchers move by: ids that begin anew with all inside, states of what else moved."""
    anew: list[str] = []
    now: JsonObject = {}
    for segment in segments:
        whole = segment.way.whole
        for id, record in segment.changed().items():
            if container_of(id) in whole or id in segment.way.gone:
                continue
            if id in whole:
                anew.append(segment.context.full(id))
            else:
                now[segment.context.full(id)] = record.get("state", "pending")
    return anew, now


def _begun_again(segments: list[Segment]) -> tuple[dict[str, int], JsonObject]:
    """What a state that is made anew must know.

    What begins anew, after which attempt; and what groups hold that are entered in the middle.
    """
    again: dict[str, int] = {}
    inside: JsonObject = {}
    for segment in segments:
        for id, record in segment.changed().items():
            if record.get("state", "pending") != "pending" or id in segment.way.gone:
                continue
            full = segment.context.full(id)
            again[full] = record.get("attempt", 0)
            if "inside" in record:
                inside[full] = record["inside"]
    return again, inside


def _tell_task(before: float, after: TaskState, seen: Views, context: TaskContext) -> None:
    """The task's row: what it can do again, and a progress that may have gone down, and says so."""
    passed = sum(1 for record in (after.get("milestones") or {}).values() if record["passed"])
    counts = {
        "total": len(seen.index.milestones),
        "passed": passed,
        "failed": context.milestones_failed,
        "rollbacks": rollbacks_made(after),
    }
    root = context.root
    if root is not context and root.meter is not None:
        for id, record in (after.get("records") or {}).items():
            if root.meter.knows(context.full(id)):
                root.meter.move(context.full(id), record.get("state", "pending"))
    journal_task(context, seen, milestones=counts)
    now = _progress(context)
    if now < before:
        why = f"from {before:.4f} to {now:.4f}: work is done again"
        context.journal.event("ProgressLowered", reason=why)


def _progress(context: TaskContext) -> float:
    """The whole task's progress by what is verified."""
    meter = context.root.meter
    return meter.progress() if meter is not None else 0.0
