"""What people ask of a task while it exists, applied by the dispatcher: one way for all commands.

A command is applied in one superstep, which saves what came of it as well; its sender is told in
the next one, when that is durable. After a crash in between it is told then, and not applied again.
Each command is a function of `COMMANDS`; new remainders (`replan`) are wishes, see `wishes`.
What is about the inside of a group is the group's to apply while it runs; see also `inside`.
"""

from collections.abc import Mapping
from typing import Any

from surefoot.graph.ports import Command
from surefoot.graph.state import Applied, TaskState
from surefoot.graph.values import JsonObject
from surefoot.nodes.answering import answer
from surefoot.nodes.change import Apply, Change, NotYet, Refused, changes_of
from surefoot.nodes.context import TaskContext, Views, views
from surefoot.nodes.editing import edit
from surefoot.nodes.going_back import rollback
from surefoot.nodes.inside import step_inside
from surefoot.nodes.places import Place, place_of
from surefoot.nodes.questions import why_blocked
from surefoot.nodes.reopening import retry
from surefoot.nodes.skipping import skip
from surefoot.nodes.unfinished import leave

TOLD_AT_MOST = 100
"""Applied commands that the state remembers: their senders heard long ago of older ones."""


COMMANDS: Mapping[str, Apply] = {
    "answer": answer,
    "skip": skip,
    "retry": retry,
    "edit": edit,
    "rollback": rollback,
    "leave": leave,
}
"""By name; the argument `subtask` of a command is an id of the plan that applies it."""


def left_to_apply(state: TaskState, context: TaskContext) -> list[Command]:
    """The commands that came in and were not applied yet, oldest first."""
    asked = context.control.asked()
    if not asked:
        return []
    done = {applied["id"] for applied in state.get("applied") or ()}
    return [
        command
        for command in asked
        if command.name in COMMANDS
        and command.id not in done
        and not _is_for_who_runs(command, state, context)
    ]


def _is_for_who_runs(command: Command, state: TaskState, context: TaskContext) -> bool:
    """Whether it is about the inside of a group that runs: that one applies it.

    What is asked of a group that runs was asked inside of it.
    """
    place = _place(command, state, context)
    if place is None or not (place.inner or command.name == "answer"):
        return False
    return any(id == place.id for id, _ in context.runner.known())


def _place(command: Command, state: TaskState, context: TaskContext) -> Place | None:
    index, records = views(state, context).index, state.get("records") or {}
    return place_of(str(command.args.get("subtask") or ""), index, records)


async def _apply(
    command: Command, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> JsonObject:
    if command.name != "answer":
        _after_what_is_taken_back(state, context, change)
    place = _place(command, state, context)
    if place is not None and place.inner:
        return await step_inside(place, command, state, context, seen, change)
    return await COMMANDS[command.name](command, state, context, seen, change)


def _after_what_is_taken_back(state: TaskState, context: TaskContext, change: Change) -> None:
    """A way back that was begun comes to its end before anything else is asked of its task.

    It has taken back some of what was done, and what people do meanwhile it would take away.

    Raises:
        NotYet: it is gone first, in this go.
        Refused: it waits for an answer.
    """
    going = state.get("back") or (change.back if "milestone" in (change.back or ()) else None)
    if going is None or not context.only_commands:
        return
    blocked = why_blocked(state, context.task_id)
    if blocked is not None:
        raise Refused("wrong_state", blocked)
    raise NotYet


async def apply_commands(state: TaskState, context: TaskContext, seen: Views) -> Change:
    """Apply what came in; a refused command changes nothing and says why."""
    change = Change()
    for command in left_to_apply(state, context):
        before = change.back
        try:
            outcome = await _apply(command, state, context, seen, change)
        except NotYet:
            continue
        except Refused as why:
            outcome = {"error": {"code": why.code, "message": str(why)}}
        else:
            context.journal.event(
                "CommandApplied",
                subtask=command.args.get("subtask"),
                command=command.name,
                by=command.by,
                outcome=outcome,
            )
            context.changed = True
        applied = Applied(id=command.id, outcome=outcome)
        if change.back is not before:
            applied["goes_back"] = True
            if context.only_commands:
                # It is not over any more, even if we are killed before the way back is gone.
                context.journal.task(status="paused", failure=None)
        change.applied.append(applied)
    return change


def update_of(change: Change, state: TaskState) -> dict[str, Any]:
    """The state's update for what commands changed; empty when nothing came in."""
    if not change.applied:
        return {"records": change.records} if change.records else {}
    applied = [*(state.get("applied") or ()), *change.applied]
    return {"applied": applied[-TOLD_AT_MOST:], **changes_of(change, state)}


def tell_senders(state: TaskState, context: TaskContext) -> None:
    """Tell the senders of applied commands what came of them, now that it is saved."""
    going_back = state.get("back") is not None
    context.applied = [
        one for one in state.get("applied") or () if not (going_back and one.get("goes_back"))
    ]
    if context.control.asked():
        context.tell_senders()
