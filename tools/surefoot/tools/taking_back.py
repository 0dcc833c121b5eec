"""What a taken-back segment did outside: compensated newest first, then cleared by its `undo`.

Stops at the first way back that is blocked, so that nothing older is taken back before it. Every
step is in the ledger: what is taken back already is left alone when it is asked for again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from surefoot.graph.ports import EffectRow, Ledger, WorkOrder
from surefoot.graph.shapes import is_object
from surefoot.graph.values import Json, JsonObject, Question
from surefoot.tools.call_requests import CallRequests
from surefoot.tools.compensating import Compensations
from surefoot.tools.effect_questions import shown_args, undo_of
from surefoot.tools.outcomes import PersonNeeded
from surefoot.tools.stopping import Stop
from surefoot.tools.undoing import BY_HAND, Undoing


@dataclass(frozen=True, slots=True, kw_only=True)
class TakingBack:
    """Takes back what a segment of one task did outside."""

    ledger: Ledger
    requests: CallRequests
    compensations: Compensations
    undoing: Undoing

    async def take(
        self,
        orders: Sequence[WorkOrder],
        rows: Sequence[EffectRow],
        *,
        said: Mapping[str, Json],
        number: int,
        stop: Stop,
    ) -> list[Question]:
        """See `Runner.undo`.

        Raises:
            Cut: stopped meanwhile; asked for again it goes on from there.
            LeaseLost, DatabaseUnavailable: from the ledger.
        """
        for row in rows:
            blocked = await self._row(row, said, number, stop)
            if blocked is not None:
                return [blocked]
        for order in orders:
            blocked = await self._order(replace(order, said=said, attempt=number), order, stop)
            if blocked is not None:
                return [blocked]
        return []

    async def _row(
        self, row: EffectRow, said: Mapping[str, Json], number: int, stop: Stop
    ) -> Question | None:
        begins = f"undo_failed-{row.subtask.replace('/', '.')}-"
        begins += f"{undo_of(row.key, row.scope, row.attempt)}-"
        if any(id.startswith(begins) and _is_undone(answer) for id, answer in said.items()):
            entry = row.call(self.compensations.task_id)
            await self.ledger.settle(entry, "compensated", note=BY_HAND)
            return None
        why = await self.compensations.take_back(row, stop)
        if why is None:
            return None
        what = f"{row.tool}({shown_args(row.args)})"
        facts: JsonObject = {"tool": row.tool, "args": row.args, "key": row.key}
        return Question(
            id=f"{begins}{number}",
            subtask=row.subtask,
            kind="undo_failed",
            text=(
                f"{what} of subtask {row.subtask!r} is to be taken back, and could not be:"
                f" {why}. Undo it outside and answer `undone`, or mend the cause and answer"
                " `retry`."
            ),
            choices=["undone", "retry"],
            facts={**facts, "scope": row.scope},
        )

    async def _order(self, asking: WorkOrder, order: WorkOrder, stop: Stop) -> Question | None:
        """Run the `undo`; `asking` names the question, so that each time it is another one."""
        try:
            scope = self.requests.scope(order)
            await self.undoing.taken_back(asking, scope, stop, order.attempt)
        except PersonNeeded as needed:
            return needed.question
        return None


def _is_undone(answer: Json) -> bool:
    word = answer.get("choice") if is_object(answer) else answer
    return word == "undone"
