"""What people ask of a task while it exists, applied by the dispatcher: one way for all commands.

A command is applied in one superstep, which saves what came of it as well; its sender is told in
the next one, when that is durable. After a crash in between it is told then, and not applied again.
Each command is a function of `COMMANDS`; new remainders (`replan`) are wishes, see `wishes`.
"""

from collections.abc import Mapping
from typing import Any

from surefoot.graph.ports import Command
from surefoot.graph.state import Applied, TaskState
from surefoot.nodes.answering import answer
from surefoot.nodes.change import Apply, Change, Refused, changes_of
from surefoot.nodes.context import TaskContext, Views

TOLD_AT_MOST = 100
"""Applied commands that the state remembers: their senders heard long ago of older ones."""


COMMANDS: Mapping[str, Apply] = {"answer": answer}
"""By name; the argument `subtask` of a command is an id of the plan that applies it."""


def left_to_apply(state: TaskState, context: TaskContext) -> list[Command]:
    """The commands that came in and were not applied yet, oldest first."""
    done = {applied["id"] for applied in state.get("applied") or ()}
    return [
        command
        for command in context.control.asked()
        if command.name in COMMANDS and command.id not in done
    ]


async def apply_commands(state: TaskState, context: TaskContext, seen: Views) -> Change:
    """Apply what came in; a refused command changes nothing and says why."""
    change = Change()
    for command in left_to_apply(state, context):
        try:
            outcome = await COMMANDS[command.name](command, state, context, seen, change)
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
        change.applied.append(Applied(id=command.id, outcome=outcome))
    return change


def update_of(change: Change, state: TaskState) -> dict[str, Any]:
    """The state's update for what commands changed; empty when nothing came in."""
    if not change.applied:
        return {}
    applied = [*(state.get("applied") or ()), *change.applied]
    return {"applied": applied[-TOLD_AT_MOST:], **changes_of(change, state)}


def tell_senders(state: TaskState, context: TaskContext) -> None:
    """Tell the senders of applied commands what came of them, now that it is saved."""
    context.applied = state.get("applied") or []
    if context.control.asked():
        context.tell_senders()
