"""What people ask of a task while it exists, applied by the dispatcher: one way for all commands.

A command is applied in one superstep, which saves what came of it as well; its sender is told in
the next one, when that is durable. After a crash in between it is told then, and not applied again.
Each command is a function of `COMMANDS`; new remainders (`replan`) are wishes, see `wishes`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from surefoot.graph.ports import Command
from surefoot.graph.state import Applied, Back, TaskState
from surefoot.graph.values import Decision, JsonObject, Question, Record
from surefoot.nodes.context import TaskContext, Views, journal_record, note

TOLD_AT_MOST = 100
"""Applied commands that the state remembers: their senders heard long ago of older ones."""


class Refused(Exception):
    """A command that cannot be applied; nothing was changed. `code` is as in an error's JSON."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


@dataclass(slots=True)
class Change:
    """What the commands of one superstep changed; all of it is saved together."""

    records: dict[str, Record] = field(default_factory=dict[str, Record])
    decisions: list[Decision] = field(default_factory=list[Decision])
    questions: list[Question] | None = None
    """All questions that are open afterwards; None = as they were."""
    back: Back | None = None
    ends: bool = True
    """Whether an ending that stands still stands: a command that opens a way on says False."""
    applied: list[Applied] = field(default_factory=list[Applied])

    def record(self, id: str, state: TaskState) -> Record:
        """A copy of a record as it is now, to be changed and put back with `put`."""
        return Record(**(self.records.get(id) or (state.get("records") or {}).get(id) or Record()))

    def put(self, id: str, record: Record, context: TaskContext, seen: Views) -> None:
        """Change a record: in the state, the derived views and the projection."""
        self.records[id] = record
        note(context, seen, id, record)
        journal_record(context, seen, id, record)


Apply = Callable[[Command, TaskState, TaskContext, Views, Change], Awaitable[JsonObject]]
"""Applies one command to `Change` and returns what its sender is told. Raises Refused."""

COMMANDS: Mapping[str, Apply] = {}
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
    update: dict[str, Any] = {"applied": applied[-TOLD_AT_MOST:], "records": change.records}
    if change.decisions:
        first = len(state.get("decisions") or {})
        update["decisions"] = {str(first + n): d for n, d in enumerate(change.decisions)}
    if change.questions is not None:
        update["questions"] = change.questions
    if change.back is not None:
        update["back"] = change.back
    if not change.ends:
        update["ending"] = None
    return update


def tell_senders(state: TaskState, context: TaskContext) -> None:
    """Tell the senders of applied commands what came of them, now that it is saved."""
    context.applied = state.get("applied") or []
    if context.control.asked():
        context.tell_senders()
