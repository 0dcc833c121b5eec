"""human: the only node with `interrupt()`; nothing with an effect happens in it before that.

A host app resumes it with `{question id: value}`; each value is an answer as any other. The engine
never resumes it: its answers come as commands, and its next go begins with `load`.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from langgraph.types import interrupt
from pydantic import PlainValidator, WithJsonSchema

from surefoot.graph.errors import UsageError
from surefoot.graph.plain import digest
from surefoot.graph.ports import Command
from surefoot.graph.shapes import is_object
from surefoot.graph.state import TaskState
from surefoot.graph.values import Json, JsonObject, Question
from surefoot.nodes.answering import Given, answer, understood
from surefoot.nodes.change import Change, Refused, changes_of
from surefoot.nodes.context import TaskContext, views

BY_HOST = "person"
"""Who answers through a host's interrupt, for the history."""


async def ask_people(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """Put the open questions to people, and apply what they answer.

    Raises:
        UsageError: the resume value answers nothing that is open, or what it answers does not
            fit; nothing was changed, and the same interrupt can be answered again.
    """
    questions = state.get("questions") or []

    def check(said: Json) -> JsonObject:
        return _checked(said, questions, state, context)

    # What is refused here is not saved: LangGraph would give it to every later go of this node.
    answers: Any = Annotated[Any, PlainValidator(check), WithJsonSchema(_schema_of(questions))]
    said: JsonObject = interrupt({"questions": questions}, response_schema=answers)
    context.on_goal(state.get("goal") or {})
    seen, change = views(state, context), Change()
    for id, value in said.items():
        args: JsonObject = {"question": id, "value": value}
        # A host's answer has no number of a command's: below 0 it is nobody's.
        command = Command(id=-int(digest(id)[:8], 16), name="answer", args=args, by=BY_HOST)
        await answer(command, state, context, seen, change)
    context.forget()
    return {**changes_of(change, state), "status": "running"}


def _checked(
    said: Json, questions: Sequence[Question], state: TaskState, context: TaskContext
) -> JsonObject:
    """The answers of a resume value, each of which can be applied. Raises UsageError."""
    answers = answers_in(said, questions, state)
    for id, value in answers.items():
        try:
            understood(Given(question=id, value=value, by=BY_HOST), state, context, Change())
        except Refused as why:
            raise UsageError(why.code, str(why)) from None
    return answers


def _schema_of(questions: Sequence[Question]) -> JsonObject:
    """JSON Schema of a resume value, for whoever shows a form."""
    properties = {question["id"]: question.get("schema") or {} for question in questions}
    return {"type": "object", "properties": properties}


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
