"""What a person found out about a call that nobody knew of goes into the ledger at once.

Whatever becomes of its subtask then, nobody asks again, and `effects` says what is so.
"""

from typing import cast

from surefoot.graph.stored_values import stored_value
from surefoot.graph.values import JsonObject, Question
from surefoot.nodes.context import TaskContext

HAPPENED = "a person says that it happened"
DID_NOT = "a person says that it did not happen"


async def record_outcome(question: Question, answer: JsonObject, context: TaskContext) -> None:
    """Settle the ledger's row that an answered `unknown_effect` is about.

    Given up (`fail`), or settled otherwise meanwhile, it stays as it is.

    Args:
        question: that was answered.
        answer: as it was understood.
        context: of the plan that asked.

    Raises:
        LeaseLost, DatabaseUnavailable: from the ledger.
    """
    facts, choice = question.get("facts") or {}, answer.get("choice")
    if question["kind"] != "unknown_effect" or choice not in ("done", "not_done"):
        return
    key, scope = cast("str", facts.get("key")), cast("str", facts.get("scope"))
    row = await context.ledger.find(context.task_id, key, scope)
    if row is None or row.state != "intent":
        return
    call = row.call(context.task_id)
    if choice == "not_done":
        await context.ledger.settle(call, "failed", note=DID_NOT)
        return
    result = await stored_value(answer.get("result"), context.store.put_bytes)
    await context.ledger.settle(call, "done", result=result, note=HAPPENED)
