"""Open questions and how they are taken up again when a task goes on."""

from collections.abc import Mapping, Sequence

from surefoot.graph.index import PlanIndex
from surefoot.graph.plan import rung_work
from surefoot.graph.values import Question, Record
from surefoot.nodes.context import TaskContext


def close_questions(
    questions: Sequence[Question],
    records: Mapping[str, Record],
    index: PlanIndex,
    context: TaskContext,
) -> dict[str, Record]:
    """Close every open question; what waited for one is pending again and will be tried anew.

    An unknown effect is probed again by the next attempt. After an `ask` rung the full version
    is tried once, then the ladder is gone down as before.
    """
    for question in questions:
        context.journal.question(question["id"], open=False)
    changed: dict[str, Record] = {}
    for question in questions:
        id = _holder(question, records)
        if id is None:
            continue
        record = records[id]
        again = Record(**record)
        again.pop("question", None)
        unit = index.unit(id)
        if again.get("rung") and rung_work(unit, again.get("rung", 0)) is None:
            again["rung"] = 0
            again.pop("cut", None)
        changed[id] = again
    return changed


def _holder(question: Question, records: Mapping[str, Record]) -> str | None:
    """The subtask that a question holds back: its own, or the group it was asked inside of."""
    id = question["subtask"]
    while id and (records.get(id) or Record()).get("question") != question["id"]:
        id = id.rpartition("/")[0]
    return id or None
