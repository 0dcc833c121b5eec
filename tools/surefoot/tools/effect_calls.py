"""Not twice: every call with an effect goes through the ledger (contract §2, design §5).

Intent before the call, outcome after it and before anybody hears of it. Where an intent stands
without an outcome nobody knows what happened: the tool's probe is asked, then its compensation
tried, then a person asked. What a *failed attempt* leads to is decided by the nodes, not here.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

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
from surefoot.graph.values import FAILS_ONCE, Failure, JsonObject
from surefoot.tools.kept_values import KeptResult, keep_value
from surefoot.tools.stopping import Cut
from surefoot.tools.unknown_effects import CallRequest, Finding, find_out, unknown_text


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """What came of a request: exactly one of `kept`, `failure` and `question` is set."""

    kept: KeptResult | None = None
    failure: Failure | None = None
    question: str | None = None
    calls: int = 0
    """Tool calls made; 0 where the ledger or a probe answered."""
    recovery: JsonObject | None = None


class EffectCalls:
    """Makes calls for one task. `ledger` rows are the only memory; locks are this process's own."""

    def __init__(
        self, *, host: ToolHost, ledger: Ledger, store: ArtifactStore, on_step: OnStep | None = None
    ) -> None:
        self._host = host
        self._ledger = ledger
        self._store = store
        self._on_step = on_step
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}

    async def make(self, request: CallRequest) -> CallEnd:
        """Make the call, or answer it from what is known of it.

        Raises:
            Cut: we are stopping; what the call may have done stands as an intent in the ledger.
            BudgetExhausted: no step is left for it; it was not made.
            LeaseLost, DatabaseUnavailable: from the ledger.
        """
        if request.effect == "read":
            request.count()
            reply = await self._call(request)
            return await self._end(request, reply, _resumed(request, "the tool only reads"))
        if request.key.scope:
            return await self._make_recorded(request)
        async with self._turn(request):
            return await self._make_recorded(request)

    # --- the way through the ledger ----------------------------------------------------------

    async def _make_recorded(self, request: CallRequest) -> CallEnd:
        entry = _entry(request)
        if request.removed and request.key.scope and request.effect != "idempotent":
            await self._ledger.adopt(entry, request.removed)
        row = await self._ledger.intend(entry)
        recovery = _rerun(request, "no effect of it stands in the ledger")
        if request.effect == "idempotent":
            recovery = _rerun(request, "the effect is idempotent")
        if row is not None and row.state == "done":
            return _answered(request, row)
        if row is not None:
            finding = await find_out(self._host, request)
            end = await self._settle_finding(request, entry, finding)
            if end is not None:
                return end
            recovery = _strategy("rerun the subtask", finding.why)
            await self._ledger.intend(entry)
        await self._begin(request, entry)
        reply = await self._call(request)
        return await self._settle_reply(request, entry, reply, recovery)

    async def _begin(self, request: CallRequest, entry: EffectCall) -> None:
        """The last moment before a call; what does not begin is surely not done.

        Raises:
            Cut, BudgetExhausted: it does not.
        """
        try:
            if request.stop.requested:
                raise Cut
            request.count()
        except (Cut, BudgetExhausted):
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
        end = await self._settle_finding(request, entry, finding, after=reply)
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
        after: ToolReply | None = None,
    ) -> CallEnd | None:
        """Record a finding. None = nothing of the call stands any more, it may be made (again)."""
        calls = 0 if after is None else 1
        match finding.verdict:
            case "happened" | "result_lost":
                reply = finding.reply or ToolReply(status="ok")
                recovery = _strategy("resume at the step", finding.why) if after is None else None
                return await self._settle_done(request, entry, reply, recovery, calls=calls)
            case "not_happened" | "compensated":
                undone = finding.verdict == "compensated"
                state: EffectState = "compensated" if undone else "failed"
                await self._ledger.settle(entry, state, note=finding.why)
                return None
            case "unknown":
                return _unknown(request, finding, after)

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


def failure_of(reply: ToolReply) -> Failure:
    """The failure that a reply other than `ok` and `cut` means for its attempt."""
    if reply.status == "bad_result":
        return Failure(kind=reply.kind or "not_json", message=reply.message, retryable=False)
    kind = reply.status if reply.status in ("timeout", "crashed") else reply.kind or "tool_error"
    return Failure(
        kind=kind, message=reply.message, retryable=reply.retryable and kind not in FAILS_ONCE
    )


def _entry(request: CallRequest) -> EffectCall:
    call = request.call
    return EffectCall(
        task_id=request.task_id,
        key=request.key.key,
        scope=request.key.scope,
        subtask=call.subtask,
        attempt=call.attempt,
        tool=call.tool,
        effect=request.effect,
        args=call.args,
    )


def _answered(request: CallRequest, row: EffectRow) -> CallEnd:
    """The ledger answers: the first call's result stands, nothing is called."""
    recovery = _resumed(request, "the ledger has the result of the call")
    if row.result is not None:
        kept = KeptResult(stored=row.result, artifacts=row.artifacts)
        return CallEnd(kept=kept, recovery=recovery)
    kind, _, why = row.note.partition(": ")
    failure = Failure(
        kind=kind if kind in FAILS_ONCE else "not_json",
        message=f"the call took effect, but its result could not be kept: {why or 'not JSON'}",
        retryable=False,
    )
    return CallEnd(failure=failure, recovery=recovery)


def _unknown(request: CallRequest, finding: Finding, after: ToolReply | None) -> CallEnd:
    """Nobody knows: a person is asked, or where that is not allowed the attempt fails for good."""
    text = unknown_text(request, finding, after)
    calls = 0 if after is None else 1
    recovery = _strategy("ask a person", finding.why) if after is None else None
    if request.may_ask:
        return CallEnd(question=text, calls=calls, recovery=recovery)
    failure = Failure(kind="unknown_effect", message=text, retryable=False)
    return CallEnd(failure=failure, calls=calls, recovery=recovery)


def _strategy(strategy: str, reason: str) -> JsonObject:
    return {"strategy": strategy, "reason": reason}


def _resumed(request: CallRequest, reason: str) -> JsonObject | None:
    return _strategy("resume at the step", reason) if request.recovering else None


def _rerun(request: CallRequest, reason: str) -> JsonObject | None:
    return _strategy("rerun the subtask", reason) if request.recovering else None
