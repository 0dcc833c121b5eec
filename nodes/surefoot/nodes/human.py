"""human: the only node with `interrupt()`; nothing with an effect happens in it before that.

A host app resumes it with `{question id: value}`; each value is an answer as any other. The engine
never resumes it: its answers come as commands, and its next go begins with `load`.
"""

from collections.abc import Sequence
from typing import Any, Literal

from langgraph.types import interrupt

from surefoot.graph.errors import UsageError
from surefoot.graph.shapes import is_object
from surefoot.graph.state import TaskState
from surefoot.graph.values import Json, JsonObject, Question
from surefoot.nodes.answering import Given, apply_answer
from surefoot.nodes.change import Change, Refused, changes_of
from surefoot.nodes.context import TaskContext, views

BY_HOST = "person"
"""Who answers through a host's interrupt, for the history."""


async def ask_people(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """Put the open questions to people, and apply what they answer.

    Raises:
        UsageError: the resume value answers nothing that is open, or what it answers does not
            fit; nothing was changed.
    """
    questions = state.get("questions") or []
    said = interrupt({"questions": questions})
    context.on_goal(state.get("goal") or {})
    seen, change = views(state, context), Change()
    for id, value in answers_in(said, questions, state).items():
        try:
            apply_answer(Given(question=id, value=value, by=BY_HOST), state, context, seen, change)
        except Refused as why:
            context.journal.discard()
            raise UsageError(why.code, str(why)) from None
    context.forget()
    return {**changes_of(change, state), "status": "running"}


def answers_in(said: Json, questions: Sequence[Question], state: TaskState) -> JsonObject:
    """The answers of a resume value, by question id.

    Args:
        said: a mapping of ids to answers, a subset too; with one question open also its answer.
        questions: that are open.
        state: knows what was answered before.

    Raises:
        UsageError: a bare value while several questions are open.
    """
    known = {*(question["id"] for question in questions), *(state.get("answers") or {})}
    if said is None:
        return {}
    if is_object(said) and (len(questions) != 1 or not said or known & said.keys()):
        return said
    if len(questions) == 1:
        return {questions[0]["id"]: said}
    ids = ", ".join(repr(question["id"]) for question in questions)
    raise UsageError(
        "which_question",
        f"{len(questions)} questions are open ({ids}): answer by id, as {{question id: value}}",
    )


def after_human(state: TaskState) -> Literal["load", "dispatcher", "reflector", "planner"]:
    """Back to work; where the world was not what the state says, it is looked at again first."""
    if state.get("finished"):
        return "reflector"
    if not state.get("plan"):
        return "planner"
    asked = state.get("questions") or ()
    answers = (state.get("answers") or {}).values()
    about_world = [*asked, *(answer["question"] for answer in answers)]
    if any(question["kind"] == "inconsistent_state" for question in about_world):
        return "load"
    return "dispatcher"
