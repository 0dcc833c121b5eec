"""Not twice: every call with an effect goes through the ledger (contract §2, design §5).

Intent before the call, outcome after it and before anybody hears of it. Where an intent stands
without an outcome nobody knows what happened: the tool's probe is asked, then its compensation
tried, then a person asked. What a *failed attempt* leads to is decided by the nodes, not here;
what it leaves is taken back by `undoing`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from surefoot.graph.agent_ports import OnStep
from surefoot.graph.errors import BudgetExhausted
from surefoot.graph.ports import (
    ArtifactStore,
    EffectCall,
    EffectRow,
    EffectState,
    Ledger,
    ToolHost,
    ToolReply,
)
from surefoot.graph.recovery import Evidence, choose, why_unknown
from surefoot.graph.values import Failure, JsonObject
from surefoot.tools.before_calls import BeforeCalls, permitted
from surefoot.tools.bindings import ValueCache
from surefoot.tools.call_ends import (
    CallEnd,
    answered,
    failure_of,
    recovered,
)
from surefoot.tools.effect_questions import ask_unknown, what_became
from surefoot.tools.kept_values import KeptResult, keep_value
from surefoot.tools.outcomes import AttemptFailed, PersonNeeded
from surefoot.tools.stopping import Cut
from surefoot.tools.unknown_effects import FOUND, CallRequest, Finding, find_out


class EffectCalls:
    """Makes calls for one task. `ledger` rows are the only memory; locks are this process's own."""

    def __init__(
        self,
        *,
        host: ToolHost,
        ledger: Ledger,
        store: ArtifactStore,
        values: ValueCache,
        on_step: OnStep | None = None,
    ) -> None:
        self._host = host
        self._ledger = ledger
        self._store = store
        self._values = values
        self._on_step = on_step
        self._before = BeforeCalls(ledger)
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}

    async def make(self, request: CallRequest) -> CallEnd:
        """Make the call, or answer it from what is known of it.

        Raises:
            Cut: we are stopping; what the call may have done stands as an intent in the ledger.
            BudgetExhausted: no step is left for it; it was not made.
            PersonNeeded, AttemptFailed: what had to be undone first could not be.
            LeaseLost, DatabaseUnavailable: from the ledger.
        """
        if request.effect == "read":
            return permitted(request) or await self._read(request)
        if request.key.scope:
            return await self._make_recorded(request)
        async with self._turn(request):
            return await self._make_recorded(request)

    async def _read(self, request: CallRequest) -> CallEnd:
        request.count()
        reply = await self._call(request)
        return await self._end(request, reply, recovered(request, Evidence()))

    # --- the way through the ledger ----------------------------------------------------------

    async def _make_recorded(self, request: CallRequest) -> CallEnd:
        entry = request.entry
        ended = await self._before.look(request)
        if ended is not None:
            return ended
        row = await self._ledger.intend(entry)
        if row is not None and row.state == "done":
            return answered(request, row)
        evidence = Evidence()
        if row is not None:
            end, evidence = await self._settle_standing(request, row)
            if end is not None:
                return end
            await self._ledger.intend(entry)
        await self._begin(request, entry)
        reply = await self._call(request)
        return await self._settle_reply(request, entry, reply, recovered(request, evidence))

    async def settle_unknown(self, request: CallRequest, row: EffectRow) -> CallEnd | None:
        """Find out what became of a call that stands as an intent, and record it.

        None: nothing of it stands. Raises as `make`.
        """
        return (await self._settle_standing(request, row))[0]

    async def _settle_standing(
        self, request: CallRequest, row: EffectRow
    ) -> tuple[CallEnd | None, Evidence]:
        """Find out about an intent of an earlier attempt; without an end the call may be made."""
        finding = await self._find_out(request, row)
        if finding is None:
            why = "a person gave up what nobody knows about"
            return CallEnd(failure=_unknown_failure(f"{request.call.tool}: {why}")), FOUND
        if finding.evidence.probe != "happened" and request.clear is not None:
            finding = await self._cleared(request.clear, finding)
        if finding.evidence.probe == "happened" and row.result is not None:
            return await self._stands_again(request, row, finding), finding.evidence
        end = await self._settle_finding(request, request.entry, finding, attempt=row.attempt)
        return end, finding.evidence

    async def _stands_again(
        self, request: CallRequest, row: EffectRow, finding: Finding
    ) -> CallEnd:
        """It was being taken back and stands all the same: the first result is its result."""
        await self._ledger.settle(
            request.entry, "done", result=row.result, artifacts=row.artifacts, note=""
        )
        found = answered(request, row)
        return replace(found, recovery=recovered(request, finding.evidence))

    async def _find_out(self, request: CallRequest, row: EffectRow) -> Finding | None:
        """What a person said goes before what the world can be asked; None: it is given up."""
        answer = what_became(request, row.attempt)
        if answer == "fail":
            return None
        if answer is not None:
            happened = answer.status == "ok"
            said = replace(FOUND, asked="a person")
            return Finding(replace(said, probe="happened" if happened else "not_happened"), answer)
        known = None if row.result is None else await self._values.load(row.result)
        return await find_out(self._host, request, known)

    async def _cleared(self, clear: Callable[[], Awaitable[None]], finding: Finding) -> Finding:
        """The subtask's `undo` is the last way back where one call is all that it makes."""
        await clear()
        if not finding.evidence.is_unknown:
            return finding
        said = "cleared by the subtask's undo"
        cleared = replace(
            finding.evidence, ledger="compensated", way_back="done", way_back_said=said
        )
        return Finding(cleared)

    async def _begin(self, request: CallRequest, entry: EffectCall) -> None:
        """The last moment before a call; what does not begin is surely not done.

        Raises:
            Cut, BudgetExhausted: it does not.
            PersonNeeded, AttemptFailed: nor here, the workspace could not be made ready.
        """
        try:
            if request.ready is not None:
                await request.ready()
            if request.stop.requested:
                raise Cut
            request.count()
        except (Cut, BudgetExhausted, PersonNeeded, AttemptFailed):
            await self._ledger.settle(entry, "failed", note="stopped before the call")
            raise

    async def _settle_reply(
        self,
        request: CallRequest,
        entry: EffectCall,
        reply: ToolReply,
        recovery: JsonObject | None,
    ) -> CallEnd:
        if reply.status == "cut":
            raise Cut  # the intent stands: the next attempt finds out
        if reply.status in ("ok", "bad_result"):
            return await self._settle_done(request, entry, reply, recovery, calls=1)
        failed = CallEnd(failure=failure_of(reply), calls=1, recovery=recovery)
        if reply.status == "not_done" or request.effect == "idempotent":
            await self._ledger.settle(entry, "failed", note=reply.message)
            return failed
        finding = await find_out(self._host, request)
        if finding.evidence.is_unknown and request.clear is not None:
            return failed  # `undo` clears it when the failed attempt is taken back
        end = await self._settle_finding(
            request, entry, finding, attempt=entry.attempt, after=reply
        )
        return failed if end is None else end

    async def _settle_done(
        self,
        request: CallRequest,
        entry: EffectCall,
        reply: ToolReply,
        recovery: JsonObject | None,
        *,
        calls: int,
    ) -> CallEnd:
        """The effect happened: it is never made again, even if its result cannot be kept."""
        if reply.status == "bad_result":
            await self._ledger.settle(entry, "done", note=f"{reply.kind}: {reply.message}")
            return CallEnd(failure=failure_of(reply), calls=calls, recovery=recovery)
        kept = await self._keep(reply)
        await self._ledger.settle(entry, "done", result=kept.stored, artifacts=kept.artifacts)
        return CallEnd(kept=kept, calls=calls, recovery=recovery)

    # --- the unknown -------------------------------------------------------------------------

    async def _settle_finding(
        self,
        request: CallRequest,
        entry: EffectCall,
        finding: Finding,
        *,
        attempt: int,
        after: ToolReply | None = None,
    ) -> CallEnd | None:
        """Record a finding. None = nothing of the call stands any more, it may be made (again).

        `attempt`: the one that made the call.
        """
        calls, evidence = 0 if after is None else 1, finding.evidence
        recovery = recovered(request, evidence) if after is None else None
        if evidence.probe == "happened":
            reply = finding.reply or ToolReply(status="ok")
            return await self._settle_done(request, entry, reply, recovery, calls=calls)
        if evidence.probe == "not_happened" or evidence.way_back == "done":
            state: EffectState = "compensated" if evidence.way_back == "done" else "failed"
            why = choose("cut", effect=request.effect, evidence=evidence).reason
            await self._ledger.settle(entry, state, note=why)
            return None
        if request.may_ask:
            asked = ask_unknown(request, evidence, attempt, after)
            return CallEnd(question=asked, calls=calls, recovery=recovery)
        text = f"{request.call.tool} may or may not have taken effect: {why_unknown(evidence)}"
        if after is not None:
            text = f"{text} ({after.status}: {after.message})"
        return CallEnd(failure=_unknown_failure(text), calls=calls, recovery=recovery)

    # --- calling -----------------------------------------------------------------------------

    async def _call(self, request: CallRequest) -> ToolReply:
        if request.stop.requested:
            raise Cut
        call, tell = request.call, self._on_step
        if tell is None:
            return await self._host.call(call)
        tell(call.subtask, call.attempt, "calling", call.tool, request.step)
        reply = await self._host.call(call)
        state = "succeeded" if reply.status == "ok" else "failed"
        tell(call.subtask, call.attempt, state, call.tool, request.step)
        return reply

    async def _end(
        self, request: CallRequest, reply: ToolReply, recovery: JsonObject | None
    ) -> CallEnd:
        """The end of a call that left nothing outside."""
        if reply.status == "cut":
            raise Cut
        if reply.status != "ok":
            return CallEnd(failure=failure_of(reply), calls=1, recovery=recovery)
        return CallEnd(kept=await self._keep(reply), calls=1, recovery=recovery)

    async def _keep(self, reply: ToolReply) -> KeptResult:
        stored = await keep_value(self._store, reply.value)
        return KeptResult(stored=stored, artifacts=reply.artifacts, marks=reply.marks)

    @asynccontextmanager
    async def _turn(self, request: CallRequest) -> AsyncGenerator[None]:
        """One at a time per own key: two subtasks may mean the same effect.

        Raises:
            Cut: stopped while waiting.
        """
        key = request.key.key
        lock, users = self._turns.get(key, (asyncio.Lock(), 0))
        self._turns[key] = (lock, users + 1)
        try:
            await request.stop.guard(lock.acquire())
            try:
                yield
            finally:
                lock.release()
        finally:
            lock, users = self._turns.pop(key)
            if users > 1:
                self._turns[key] = (lock, users - 1)


def _unknown_failure(text: str) -> Failure:
    return Failure(kind="unknown_effect", message=text, retryable=False)
