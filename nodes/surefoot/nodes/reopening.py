"""`retry`: a person has a subtask tried again by hand, with fresh tries of its full version."""

from surefoot.graph.dependants import Dependants
from surefoot.graph.going_back import afresh
from surefoot.graph.ports import Command
from surefoot.graph.state import TaskState
from surefoot.graph.values import JsonObject, Record
from surefoot.nodes.change import Change
from surefoot.nodes.context import TaskContext, Views
from surefoot.nodes.stepping import (
    close_questions_of,
    failed_children,
    gathering,
    in_flight,
    named,
    open_way,
    reopen,
    said_by,
    state_of,
    wrong_state,
)
from surefoot.nodes.unfinished import take_back


async def retry(
    command: Command, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> JsonObject:
    """Have a subtask tried again: one that failed, was skipped, waits for a person or a delay.

    Of a foreach whose children failed, these are meant.

    Raises:
        Refused: it is unknown, completed, runs, or has not been tried yet.
    """
    id = named(command, state, context, seen, change)
    record, full = change.record(id, state), context.full(id)
    children = failed_children(id, seen.index, state, change)
    if state_of(record) == "completed":
        raise wrong_state(full, "is completed: `surefoot edit` changes what it has made")
    if not children and (state_of(record) == "running" or in_flight(id, context)):
        raise wrong_state(full, "is running: `surefoot skip` stops it, or wait until it has ended")
    if state_of(record) == "pending" and not _is_held_back(record):
        raise wrong_state(full, "waits for its turn and has not failed: there is nothing to retry")
    await take_back([id], state, context, change, kinds=("held", "undoing"))
    users = _users_of_null(id, record, state, context, seen, change)
    close_questions_of(id, state, context, change)
    reason = said_by(command, "tried again")
    for one in children or [id]:
        change.put(one, _again(change.record(one, state), context), context, seen)
        change.decide("reopen", one, reason, context)
        context.journal.event("SubtaskReopened", subtask=one, by=command.by, reason=reason)
    reopen(users, command, f"{reason} {full}", state, change)
    change.regress = change.regress or state_of(record) == "skipped" or "n" in record
    for one in children or [id]:
        open_way(one, state, seen, change)
    again = [*(children or [id]), *users]
    return {
        "applied": "retry",
        "subtask": full,
        "reopened": [context.full(one) for one in again],
    }


def _is_held_back(record: Record) -> bool:
    """Whether something other than its turn holds it back: a delay, a question, a critic."""
    return bool(record.keys() & {"not_before", "question", "reflecting"})


def _again(record: Record, context: TaskContext) -> Record:
    """The record that is tried again; a mere delay is cut short, its tries stand."""
    delayed = record.get("not_before", 0.0) > context.clock() and "question" not in record
    if state_of(record) == "pending" and delayed:
        now = Record(**record)
        now.pop("not_before", None)
        return now
    if "n" in record and state_of(record) == "failed":
        return gathering(record)  # it failed at its end: its children stand
    again = afresh(record)
    if "cut" in record and "undoing" not in record:  # its effect is asked for first
        again["cut"] = True
        if "go" in record:
            again["go"] = record["go"]
    return again


def _users_of_null(
    id: str, record: Record, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> list[str]:
    """Who used the null of a skipped subtask."""
    if state_of(record) != "skipped" or id not in seen.index.raw:
        return []
    records = {**(state.get("records") or {}), **change.records}
    return Dependants(seen.index, records, context.specs).using(id, files=True)
