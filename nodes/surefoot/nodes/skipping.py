"""`skip`: a person leaves a subtask out. It counts as done; what looks it up finds null.

A person may skip what the plan calls not skippable. What runs is stopped first.
"""

from surefoot.graph.ports import Command
from surefoot.graph.state import TaskState
from surefoot.graph.values import JsonObject, Record
from surefoot.nodes.change import Change
from surefoot.nodes.context import TaskContext, Views
from surefoot.nodes.stepping import (
    at_rest,
    close_questions_of,
    named,
    open_way,
    said_by,
    state_of,
    wrong_state,
)
from surefoot.nodes.unfinished import take_back

DONE = ("completed", "skipped")

_GONE = (
    *("not_before", "question", "cut", "reflecting", "choices", "result", "artifacts"),
    *("held", "undoing", "said", "answered"),
)


async def skip(
    command: Command, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> JsonObject:
    """Skip a subtask, a child, or a container with all that is open below it.

    Raises:
        Refused: it is unknown, completed or skipped already.
        NotYet: it runs, and was told to stop.
    """
    id = named(command, state, context, seen, change)
    if state_of(change.record(id, state)) in DONE:
        raise wrong_state(context.full(id), f"is {state_of(change.record(id, state))} already")
    await at_rest(id, state, context, seen, change)
    children = [f"{id}/{child}" for child in range(change.record(id, state).get("n", 0))]
    await take_back([*children, id], state, context, change)
    close_questions_of(id, state, context, change)
    reason = said_by(command, "skipped")
    for one in (*children, id):
        _leave_out(one, reason, state, context, seen, change)
    change.decide("skip", id, reason, context)
    context.journal.event("SubtaskSkipped", subtask=id, by=command.by, reason=reason)
    open_way(id, state, seen, change)
    return {"applied": "skip", "subtask": context.full(id), "reopened": []}


def _leave_out(
    id: str, reason: str, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> None:
    old = change.record(id, state)
    if state_of(old) in DONE:
        return
    record = Record(**{k: v for k, v in old.items() if k not in _GONE})  # pyright: ignore[reportArgumentType]
    record["state"] = "skipped"
    record["reason"] = reason
    record["finished"] = context.clock()
    record["edited"] = True
    change.put(id, record, context, seen)
