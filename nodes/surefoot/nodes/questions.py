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
        id = question["subtask"]
        record = records.get(id) if id else None
        if id is None or record is None or record.get("question") != question["id"]:
            continue
        again = Record(**record)
        again.pop("question", None)
        unit = index.unit(id)
        if again.get("rung") and rung_work(unit, again.get("rung", 0)) is None:
            again["rung"] = 0
            again.pop("cut", None)
        changed[id] = again
    return changed
