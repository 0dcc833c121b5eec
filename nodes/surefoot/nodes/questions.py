"""The life of a question in the state and the tables: opened, the same again, taken back.

What an answer does is `answering`; which answers there are is `surefoot.graph.questions`.
"""

from collections.abc import Collection, Mapping, Sequence

from surefoot.graph.questions import completed
from surefoot.graph.state import Back, TaskState
from surefoot.graph.values import Json, JsonObject, Question
from surefoot.nodes.change import Change
from surefoot.nodes.context import TaskContext

_UNANSWERED: JsonObject = dict.fromkeys(("answer", "answered_at", "answered_by", "closed_at"))
"""Of a row that another life of a lost state left: it is asked anew."""

LOOKED_AT_AGAIN = ("unknown_effect",)
"""Kinds that a resume may settle without a person: the probe is asked once more."""


def unanswered(question: Question, answers: Mapping[str, JsonObject]) -> Question:
    """The question under an id that no answer was given to: what counts no attempts asks again."""
    id, number = question["id"], 1
    while id in answers:
        number += 1
        id = f"{question['id']}.{number}"
    return {**question, "id": id}


def opened(
    question: Question, context: TaskContext, *, choices: Sequence[str] | None = None
) -> Question:
    """Put a question to people: its row, its event, and all that is needed to answer it.

    Args:
        question: what is unknown; `subtask` is an id of this plan.
        context: of the plan that asks.
        choices: of its kind, where not all are possible.
    """
    whole = completed(question, context.task_id, choices=choices)
    context.journal.question(
        whole["id"],
        subtask=whole["subtask"],
        kind=whole["kind"],
        text=whole["text"],
        choices=whole.get("choices"),
        schema=whole.get("schema"),
        open=True,
        **_UNANSWERED,
    )
    milestone = _facts(whole).get("milestone")
    context.journal.event(
        "QuestionAsked",
        subtask=whole["subtask"],
        question=whole["id"],
        reason=whole["text"],
        **({"milestone": milestone} if milestone else {}),
    )
    return whole


def open_questions(state: TaskState, change: Change) -> list[Question]:
    """The questions that are open as far as commands have changed that."""
    changed = change.questions
    return list((state.get("questions") or ()) if changed is None else changed)


def same_question(question: Question, asked: Sequence[Question]) -> Question | None:
    """The open question that asks the same about the same thing, if any: it keeps its id."""
    for one in asked:
        alike = one["subtask"] == question["subtask"] and one["kind"] == question["kind"]
        if alike and _facts(one).get("about") == _facts(question).get("about"):
            return one
    return None


def still_open(
    questions: Sequence[Question], gone: Collection[str], context: TaskContext
) -> list[Question]:
    """The questions that stay open when subtasks are taken back, replaced, skipped or decided.

    The others are closed without an answer.

    Args:
        questions: that are open.
        gone: the subtasks' ids in this plan; what is asked inside of them goes with them.
        context: of the plan.
    """
    kept: list[Question] = []
    for question in questions:
        if _is_about(question, gone):
            close(question, context)
        else:
            kept.append(question)
    return kept


def close(question: Question, context: TaskContext, **answer: Json) -> None:
    """Close a question's row.

    Args:
        question: that was answered, or that nobody has to answer any more.
        context: of the plan that asked.
        answer: the columns of what was answered, if it was.
    """
    id = question["id"]
    context.journal.question(id, open=False, closed_at=context.clock(), **answer)
    if not answer:
        context.journal.event("QuestionClosed", subtask=question["subtask"], question=id)


def inside_of(question: Question) -> str | None:
    """The group of this plan that a question was asked inside of; None: this plan asks it."""
    return _facts(question).get("group")


def number_of(answers: Mapping[str, JsonObject], begins: str) -> int:
    """Which question about a milestone this is, from 1: one more than were answered."""
    return 1 + sum(1 for id in answers if id.startswith(begins))


def _is_about(question: Question, gone: Collection[str]) -> bool:
    id = question["subtask"] or ""
    while id:
        if id in gone:
            return True
        id = id.rpartition("/")[0]
    return False


def _facts(question: Question) -> JsonObject:
    return question.get("facts") or {}


# --- of a way back -------------------------------------------------------------------------------


def is_blocked(state: TaskState) -> bool:
    """Whether people are asked about the way back: nothing else happens before they answer."""
    return any(is_about_back(question) for question in state.get("questions") or ())


def is_about_back(question: Question) -> bool:
    """Whether it is the way back that waits for its answer."""
    return bool((question.get("facts") or {}).get("back"))


def why_blocked(state: TaskState, task_id: str) -> str | None:
    """Why nothing else can be asked of a task whose way back waits for an answer."""
    if not is_blocked(state):
        return None
    going = state.get("back") or Back(by="", reason="")
    where = f" to {going['milestone']!r}" if "milestone" in going else ""
    return (
        f"task {task_id!r} is on its way back{where}, which waits for an answer: "
        f"`surefoot questions {task_id}` shows to what"
    )
