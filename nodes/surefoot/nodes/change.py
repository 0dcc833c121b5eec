"""What a command of a person changes: gathered in one value, saved in one superstep."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from surefoot.graph.ports import Command
from surefoot.graph.state import Applied, Back, Judging, Replan, TaskState
from surefoot.graph.values import (
    Decision,
    DecisionKind,
    JsonObject,
    Outcome,
    Question,
    Record,
    TaskFailure,
)
from surefoot.nodes.context import TaskContext, Views, journal_record, note


class Refused(Exception):
    """A command that cannot be applied; nothing was changed. `code` is as in an error's JSON."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class NotYet(Exception):
    """What runs has to end first, and was told to: the command comes again once it has."""


@dataclass(slots=True)
class Change:
    """What the commands of one superstep changed; all of it is saved together."""

    records: dict[str, Record] = field(default_factory=dict[str, Record])
    decisions: list[Decision] = field(default_factory=list[Decision])
    questions: list[Question] | None = None
    """All questions that are open afterwards; None = as they were."""
    back: Back | None = None
    replan: Replan | None = None
    ending: TaskFailure | None = None
    """How the task ends: a person has given something up; with `ends` False what has failed too."""
    finished: list[Outcome] = field(default_factory=list[Outcome])
    """Attempts that people have decided about: the reflector takes them as it takes any."""
    answers: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """What people answered, by question id."""
    judging: Judging | None = None
    ends: bool = True
    """Whether an ending that stands still stands: a command that opens a way on says False."""
    keeps_wish: bool = True
    """Whether a wish for a new remainder stands: False once what it was about is mended."""
    regress: bool = False
    """What was done is done no more: the derived views, which only go forwards, are made anew."""
    applied: list[Applied] = field(default_factory=list[Applied])

    def record(self, id: str, state: TaskState) -> Record:
        """A copy of a record as it is now, to be changed and put back with `put`."""
        return Record(**(self.records.get(id) or (state.get("records") or {}).get(id) or Record()))

    def put(self, id: str, record: Record, context: TaskContext, seen: Views) -> None:
        """Change a record: in the state, the derived views and the projection."""
        self.records[id] = record
        note(context, seen, id, record)
        journal_record(context, seen, id, record)

    def decide(self, kind: DecisionKind, subtask: str, reason: str, context: TaskContext) -> None:
        """Add a decision: every request to a model carries it from now on."""
        at = context.clock()
        self.decisions.append(Decision(at=at, kind=kind, subtask=subtask, reason=reason))


Apply = Callable[[Command, TaskState, TaskContext, Views, Change], Awaitable[JsonObject]]
"""Applies one command to `Change` and returns what its sender is told.

The argument `subtask` of a command is an id of the plan that applies it; ids in what the sender is
told are full ones. Raises Refused, and NotYet; both before anything is changed.
"""


def changes_of(change: Change, state: TaskState) -> dict[str, Any]:
    """The state's update for a change, without the commands that asked for it."""
    update: dict[str, Any] = {"records": change.records}
    if change.decisions:
        first = len(state.get("decisions") or {})
        update["decisions"] = {str(first + n): d for n, d in enumerate(change.decisions)}
    if change.answers:
        update["answers"] = {**(state.get("answers") or {}), **change.answers}
    given = {
        "questions": change.questions,
        "judging": change.judging,
        "back": change.back,
        "finished": change.finished or None,
    }
    update |= {name: value for name, value in given.items() if value is not None}
    return update | _ways_on(change, state)


def _ways_on(change: Change, state: TaskState) -> dict[str, Any]:
    """A wish and an ending; those that stand already stay, unless a way on was opened."""
    update: dict[str, Any] = {}
    if not change.keeps_wish:
        update["replan"] = change.replan
    elif change.replan is not None and state.get("replan") is None:
        update["replan"] = change.replan
    if not change.ends:
        update["ending"] = change.ending
    elif change.ending is not None and state.get("ending") is None:
        update["ending"] = change.ending
    return update
