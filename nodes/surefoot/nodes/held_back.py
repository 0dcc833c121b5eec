"""Subtasks that wait for people: what was asked about them, or inside of them, holds them back.

A question that is still open is not asked a second time: it keeps its id, its row and its age.
"""

from collections.abc import Collection, Sequence
from typing import cast

from surefoot.graph.state import TaskState
from surefoot.graph.values import JsonObject, Outcome, Question, Record
from surefoot.nodes.context import TaskContext
from surefoot.nodes.failing import Reflection
from surefoot.nodes.questions import (
    LOOKED_AT_AGAIN,
    close,
    inside_of,
    opened,
    same_question,
    unanswered,
)

DECIDES_ATTEMPT = ("check", "verdict")
"""Kinds that are about a result that was made: it is kept until they are answered."""


def ask(
    outcome: Outcome, old: Record, state: TaskState, context: TaskContext, found: Reflection
) -> Record:
    """Put an attempt's question to people and hold its subtask back until it is answered.

    The result that a check is about is kept with the record; so is how an attempt has failed,
    where the question is how to undo what it did.
    """
    question = cast("Question", outcome.get("question"))
    known = same_question(question, state.get("questions") or ())
    asked = known or opened(unanswered(question, state.get("answers") or {}), context)
    found.asked.add(asked["id"])
    if known is None:
        found.questions.append(asked)
    record = Record(**old)
    record["question"] = asked["id"]
    if outcome["action"] != "improve":  # else what there is stands meanwhile
        record["state"] = "pending"
        record["cut"] = True
    failed = outcome.get("failure")
    if failed is not None:
        record["undoing"] = failed
    if question["kind"] in DECIDES_ATTEMPT:
        record["held"] = cast("JsonObject", {k: v for k, v in outcome.items() if k != "question"})
        record.pop("cut", None)
    return record


def ask_inside(outcome: Outcome, old: Record, found: Reflection) -> Record:
    """Hold a group back for what is asked inside it; the group itself has told of the questions."""
    told = [outcome.get("question"), *outcome.get("more_questions", ())]
    asked = [question for question in told if question is not None]
    found.questions.extend(asked)
    record = Record(**old)
    record["state"] = "pending"
    record["question"] = asked[0]["id"]
    record["cut"] = True
    return record


def left_open(
    asked: Sequence[Question], judged: Collection[str], found: Reflection, context: TaskContext
) -> list[Question]:
    """The questions that are open after outcomes came in.

    What was asked about a subtask and is not asked again is settled; of what is asked inside a
    group, the group has just told.

    Args:
        asked: that were open before.
        judged: the subtasks of the outcomes.
        found: what became of them.
        context: of the plan.
    """
    kept: list[Question] = []
    for question in asked:
        group = inside_of(question)
        if (group or question["subtask"]) not in judged or question["id"] in found.asked:
            kept.append(question)
        elif group is None:
            close(question, context)
    return [*kept, *found.questions]


def looked_at_again(questions: Sequence[Question], records: dict[str, Record]) -> dict[str, Record]:
    """The records that a resume takes up although a person is asked: a probe may tell by now.

    Their questions stay open until it does. A group goes on for what is inside of it.
    """
    changed: dict[str, Record] = {}
    for question in questions:
        id = inside_of(question) or question["subtask"] or ""
        record = records.get(id)
        if question["kind"] in LOOKED_AT_AGAIN and record and "question" in record:
            again = Record(**record)
            again.pop("question", None)
            changed[id] = again
    return changed
