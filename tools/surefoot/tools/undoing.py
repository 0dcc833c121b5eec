"""Of a failed attempt nothing is left: its effects are taken back, its subtask's `undo` is run.

At the end of every failed attempt, before its outcome is told; and before work that may not be
resumed starts from scratch. What a way back cannot reach is put to a person. Every step is in the
ledger, so a kill in the middle changes nothing: what was taken back is not taken back again, and an
`undo` that was run is not run again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from surefoot.graph.attempts import max_tries
from surefoot.graph.keys import CallKey, is_undo
from surefoot.graph.ports import EffectRow, Ledger, ToolHost, WorkOrder
from surefoot.graph.values import Failure, JsonObject
from surefoot.tools.bindings import Scope
from surefoot.tools.call_requests import CallRequests
from surefoot.tools.compensating import (
    TAKEN_BACK,
    TAKING_BACK,
    Compensations,
)
from surefoot.tools.effect_calls import EffectCalls
from surefoot.tools.effect_questions import ask_undo, shown_args, undo_of, what_about_undo
from surefoot.tools.outcomes import AttemptFailed, PersonNeeded, asked_by
from surefoot.tools.stopping import Stop
from surefoot.tools.unknown_effects import CallRequest

NOT_OVER = ("budget_exhausted",)
"""Failures after which the attempt goes on later: nothing of it is taken back."""

TOOK_EFFECT = ("not_json", "result_too_large")
"""Failures of an `undo` that did its work all the same."""

BY_HAND = "a person undid it"
CLEARED = "the subtask's undo cleared it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """Takes back what attempts of one task leave outside."""

    host: ToolHost
    ledger: Ledger
    requests: CallRequests
    calls: EffectCalls
    compensations: Compensations

    async def after_failure(
        self, order: WorkOrder, scope: Scope, stop: Stop, failure: Failure
    ) -> None:
        """Take back what a failed attempt did; an agent's: what its whole go did.

        Raises:
            PersonNeeded: a way back is blocked, and a person must say what to do.
            AttemptFailed: it is blocked, and nobody may be asked.
            Cut: stopped meanwhile; taken up again by the next attempt.
            LeaseLost, DatabaseUnavailable: from the ledger.
        """
        if failure["kind"] not in NOT_OVER and self._may_leave(order, "reversible"):
            await self._take_back(order, scope, stop)

    async def before_restart(self, order: WorkOrder, scope: Scope, stop: Stop) -> None:
        """Before work that was cut and may not be resumed starts from scratch. Raises the same.

        What cannot be taken back and nobody knows about is found out, or asked about.
        """
        if order.recovering and not order.unit.resumable:
            if self._may_leave(order, "reversible", "irreversible"):
                await self._take_back(order, scope, stop, cut=True)

    async def replaced(self, order: WorkOrder, scope: Scope, stop: Stop, key: CallKey) -> None:
        """Compensate what a degraded version did in whose place a full one stands now.

        Args:
            order: the full version's; nothing is done for others (`since` 0).
            scope: of its references.
            stop: ends it.
            key: of its call: where the ledger answered it from before, that stands.

        Raises:
            PersonNeeded, AttemptFailed, Cut: as `after_failure`.
            LeaseLost, DatabaseUnavailable: from the ledger.
        """
        if not order.since:
            return
        rows = await self.ledger.of_subtask(order.task_id, order.subtask)
        before = [row for row in rows if row.attempt < order.since and row.key != key.key]
        standing = [row for row in before if row.state in ("intent", "done")]
        simpler = [r for r in standing if r.effect == "reversible" and not is_undo(r.key)]
        if simpler:
            writes = await self._writes(order, scope, stop)
            for row in simpler:
                await self._compensate(order, row, stop, writes)

    async def taken_back(self, order: WorkOrder, scope: Scope, stop: Stop, attempt: int) -> None:
        """Run the `undo` of work that is taken back after it was done. Raises as `after_failure`.

        Args:
            order: whose answers count; a question that it asks is named by its own attempt.
            scope: what the undo's arguments may look up.
            stop: ends it.
            attempt: the attempt whose work is taken back.
        """
        rows = await self.ledger.of_subtask(order.task_id, order.subtask)
        stays = [
            row
            for row in rows
            if row.effect == "irreversible"
            and row.state in ("intent", "done")
            and not is_undo(row.key)
        ]
        await self._clear_by_undo(order, scope, stop, attempt, stays)

    async def was_under_way(self, order: WorkOrder) -> bool:
        """Whether a go that is taken up again was being taken back when its worker stopped."""
        if not (order.recovering and self._may_leave(order, "reversible")):
            return False
        rows = await self.ledger.of_subtask(order.task_id, order.subtask)
        marks = (TAKING_BACK, TAKEN_BACK, BY_HAND)
        return any(r.attempt >= order.go and (is_undo(r.key) or r.note in marks) for r in rows)

    def clear_of(
        self, order: WorkOrder, scope: Scope, stop: Stop
    ) -> Callable[[], Awaitable[None]] | None:
        """What runs the `undo` before the call of a cut attempt is made again (`CallRequest`)."""
        return None if order.work.undo is None else partial(self._clear, order, scope, stop)

    async def _clear(self, order: WorkOrder, scope: Scope, stop: Stop) -> None:
        rows = await self._effects(order)
        if rows:
            await self._undo(order, scope, stop, max(row.attempt for row in rows))

    def _may_leave(self, order: WorkOrder, *effects: str) -> bool:
        work = order.work
        names = [work.tool or ""] if work.kind == "tool" else work.tools or []
        specs = [self.host.specs[name] for name in names if name in self.host.specs]
        return work.undo is not None or any(spec.effect in effects for spec in specs)

    async def _effects(self, order: WorkOrder) -> list[EffectRow]:
        rows = await self.ledger.of_subtask(order.task_id, order.subtask)
        return [row for row in rows if row.attempt >= order.since and not is_undo(row.key)]

    async def _take_back(
        self, order: WorkOrder, scope: Scope, stop: Stop, *, cut: bool = False
    ) -> None:
        rows = await self._effects(order)
        standing = [row for row in rows if row.state in ("intent", "done")]
        writes = await self._writes(order, scope, stop)
        for row in standing:
            if row.effect == "reversible":
                await self._compensate(order, row, stop, writes)
        stays = [row for row in standing if row.effect == "irreversible"]
        if order.work.undo is None:
            await self._find_out(order, stays if cut else (), stop)
        elif rows or not cut:
            begun = max((row.attempt for row in rows), default=order.go or order.attempt)
            await self._clear_by_undo(order, scope, stop, begun, stays)
            if order.work.kind != "tool":
                await self._find_out(order, stays if cut else (), stop)

    async def _writes(self, order: WorkOrder, scope: Scope, stop: Stop) -> tuple[str, ...] | None:
        return await stop.guard(self.requests.writes(order, scope))

    # --- compensations -----------------------------------------------------------------------

    async def _compensate(
        self, order: WorkOrder, row: EffectRow, stop: Stop, writes: tuple[str, ...] | None
    ) -> None:
        about = undo_of(row.key, row.scope, row.attempt)
        if what_about_undo(order, about) == "undone":
            await self.ledger.settle(row.call(order.task_id), "compensated", note=BY_HAND)
            return
        why = await self.compensations.take_back(row, stop, writes=writes)
        if why is not None:
            facts: JsonObject = {"tool": row.tool, "args": row.args, "key": row.key}
            what = f"{row.tool}({shown_args(row.args)})"
            self._blocked(order, what, why, about, {**facts, "scope": row.scope})

    async def _find_out(self, order: WorkOrder, rows: Sequence[EffectRow], stop: Stop) -> None:
        """Find out about calls that nobody knows about, before anything like them is made."""
        for row in rows:
            spec = self.host.specs.get(row.tool)
            if row.state != "intent" or spec is None:
                continue
            request = CallRequest(
                order=order,
                call=self.compensations.call_of(row, spec),
                spec=spec,
                effect=row.effect,
                key=CallKey(key=row.key, scope=row.scope, idempotency_key=""),
                stop=stop,
            )
            end = await self.calls.settle_unknown(request, row)
            if end is not None and end.question is not None:
                raise PersonNeeded(end.question)
            failure = None if end is None else end.failure
            if failure is not None and failure["kind"] not in TOOK_EFFECT:
                raise AttemptFailed.of(failure)

    # --- undo --------------------------------------------------------------------------------

    async def _clear_by_undo(
        self,
        order: WorkOrder,
        scope: Scope,
        stop: Stop,
        attempt: int,
        stays: Sequence[EffectRow],
    ) -> None:
        """Run the `undo`; of a `tool` subtask it is the way back of the one call that it makes."""
        own = stays if order.work.kind == "tool" else ()
        for row in own:
            await self.compensations.begin(row)
        await self._undo(order, scope, stop, attempt)
        for row in own:
            await self.ledger.settle(row.call(order.task_id), "compensated", note=CLEARED)

    async def _undo(self, order: WorkOrder, scope: Scope, stop: Stop, attempt: int) -> None:
        """Run the `undo` of one attempt, once."""
        undo = order.work.undo
        if undo is None:
            return
        facts: JsonObject = {"tool": undo.tool, "attempt": attempt}
        about, what = undo_of("undo", order.subtask, attempt), f"undo ({undo.tool})"
        answer = what_about_undo(order, about)
        try:
            request = await self.requests.undo(order, scope, stop, attempt)
        except AttemptFailed as wrong:
            if answer != "undone":
                self._blocked(order, what, str(wrong), about, facts)
            return
        if answer == "undone":
            await self._by_hand(request)
            return
        if answer == "retry":
            await self._forget_unknown(order, request, about)
        why = await self._run(request, stop)
        if why is not None:
            self._blocked(order, f"{what} {shown_args(request.call.args)}", why, about, facts)

    async def _run(self, request: CallRequest, stop: Stop) -> str | None:
        """Call it until it works, or is given up; returns why it was."""
        why = ""
        for failed in range(max_tries(request.spec, request.effect)):
            if failed:
                await stop.guard(asyncio.sleep(self.compensations.delay_s(failed - 1)))
            end = await self.calls.make(request)
            if end.kept is not None:
                return None
            if end.failure is None:
                return "nobody knows whether it took effect"
            if end.failure["kind"] in TOOK_EFFECT:
                return None
            why = end.failure["message"]
            if not end.failure["retryable"]:
                break
        return why

    async def _by_hand(self, request: CallRequest) -> None:
        if request.effect == "read":
            return
        await self.ledger.intend(request.entry)
        await self.ledger.settle(request.entry, "done", result={"value": None}, note=BY_HAND)

    async def _forget_unknown(self, order: WorkOrder, request: CallRequest, about: str) -> None:
        """A person wants it tried again: what nobody knew about before counts as not done."""
        row = await self.ledger.find(order.task_id, request.key.key, request.key.scope)
        asked = asked_by(order, "undo_failed", about)
        if row is not None and row.state == "intent" and row.attempt <= asked:
            await self.ledger.settle(request.entry, "failed", note="a person wants it tried again")

    def _blocked(
        self, order: WorkOrder, what: str, why: str, about: str, facts: JsonObject
    ) -> None:
        if order.work.approve == "never":
            text = f"{what} could not be undone: {why}"
            raise AttemptFailed("undo_failed", text, retryable=False)
        raise PersonNeeded(ask_undo(order, what=what, why=why, about=about, facts=facts))
