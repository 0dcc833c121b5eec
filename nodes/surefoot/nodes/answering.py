"""Answers: matched by their question's id alone, checked, applied, kept.

One way for the command and for the resume value of a host's interrupt. What is answered waits no
longer; what follows is `following_answers`. An answer that was given is never changed.
"""

from dataclasses import dataclass
from typing import cast

from surefoot.graph.errors import UsageError
from surefoot.graph.ports import Command
from surefoot.graph.questions import answer_words, parse_answer
from surefoot.graph.state import TaskState
from surefoot.graph.values import Decision, Json, JsonObject, Question
from surefoot.nodes.change import Change, Refused
from surefoot.nodes.context import TaskContext, Views
from surefoot.nodes.following_answers import Answered, follow
from surefoot.nodes.found_out import record_outcome
from surefoot.nodes.inside import step_inside
from surefoot.nodes.places import Place
from surefoot.nodes.questions import close, inside_of, open_questions


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An answer on its way.

    Attributes:
        question: the id.
        value: as it was given.
        by: who gave it.
    """

    question: str
    value: Json
    by: str


async def answer(
    command: Command, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> JsonObject:
    """The command `answer`: `{question, value}`; the same answer once more changes nothing.

    Returns:
        `{question, answer}`: what was understood.

    Raises:
        Refused: no such question is open, the answer does not fit, or another one was given.
        NotYet: it is being looked at whether the question still stands.
    """
    id = str(command.args.get("question") or "")
    group = next((inside_of(q) for q in open_questions(state, change) if q["id"] == id), None)
    if group is not None:
        return await step_inside(Place(group), command, state, context, seen, change)
    given = Given(question=id, value=command.args.get("value"), by=command.by)
    question, parsed = understood(given, state, context, change)
    if question is not None:
        follow(
            Answered(
                question=question,
                answer=parsed,
                by=given.by,
                state=state,
                context=context,
                seen=seen,
                change=change,
            )
        )
        await record_outcome(question, parsed, context)
        _settle(question, parsed, given, state, context, change)
    return {"question": id, "answer": parsed}


def understood(
    given: Given, state: TaskState, context: TaskContext, change: Change
) -> tuple[Question | None, JsonObject]:
    """The open question that an answer is for, and what it means; changes nothing.

    None where the same answer was given before.

    Raises:
        Refused: no such question is open, the answer does not fit, or another one was given.
    """
    earlier = {**(state.get("answers") or {}), **change.answers}.get(given.question)
    if earlier is not None:
        return None, _repeated(given, earlier)
    question = next((q for q in open_questions(state, change) if q["id"] == given.question), None)
    if question is None:
        raise Refused("unknown_question", _unknown(given.question, context))
    return question, _parsed(question, given.value)


# --- matching --------------------------------------------------------------------------------


def _repeated(given: Given, earlier: JsonObject) -> JsonObject:
    """The same answer again is no mistake; another one is refused."""
    question = cast("Question", earlier["question"])
    if _parsed(question, given.value) == earlier["answer"]:
        return earlier["answer"]
    raise Refused(
        "answered",
        f"question {given.question!r} was answered with {earlier['answer']['choice']!r} already; "
        "an answer is not changed",
    )


def _unknown(id: str, context: TaskContext) -> str:
    return (
        f"task {context.task_id!r} has no open question {id!r}: `surefoot questions "
        f"{context.task_id}` lists those that are open"
    )


def _parsed(question: Question, value: Json) -> JsonObject:
    try:
        return parse_answer(question, value)
    except UsageError as refused:
        raise Refused(refused.code, str(refused)) from None


# --- settling --------------------------------------------------------------------------------


def _settle(
    question: Question,
    parsed: JsonObject,
    given: Given,
    state: TaskState,
    context: TaskContext,
    change: Change,
) -> None:
    """The question is closed and the answer kept, told and remembered for models."""
    _remove(question, state, change)
    change.answers[question["id"]] = _kept(question, parsed, given)
    words = answer_words(question, parsed, context.task_id)
    change.decisions.append(
        Decision(at=context.clock(), kind="answer", subtask=question["subtask"], reason=words)
    )
    _tell(question, parsed, given, words, context)


def _kept(question: Question, parsed: JsonObject, given: Given) -> JsonObject:
    """What the state remembers: the answer, and what it takes to compare it with another one."""
    about: JsonObject = {"id": question["id"], "kind": question["kind"]}
    about["choices"] = question.get("choices")
    return {"question": about, "answer": parsed, "by": given.by}


def _tell(
    question: Question, parsed: JsonObject, given: Given, words: str, context: TaskContext
) -> None:
    now = context.clock()
    close(question, context, answer=parsed, answered_at=now, answered_by=given.by)
    context.journal.event(
        "QuestionAnswered",
        subtask=question["subtask"],
        question=question["id"],
        by=given.by,
        answer=parsed,
        reason=words,
    )


def _remove(question: Question, state: TaskState, change: Change) -> None:
    left = [q for q in open_questions(state, change) if q["id"] != question["id"]]
    change.questions = left
