"""How the request for a call ends, and what of it is told: results, failures, recoveries."""

from dataclasses import dataclass

from surefoot.graph.ports import EffectRow, ToolReply
from surefoot.graph.recovery import Evidence, LedgerSays, Recovery, choose, in_thread
from surefoot.graph.values import FAILS_ONCE, Failure, JsonObject, Question
from surefoot.tools.kept_values import KeptResult
from surefoot.tools.unknown_effects import CallRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """What came of a request: exactly one of `kept`, `failure` and `question` is set."""

    kept: KeptResult | None = None
    failure: Failure | None = None
    question: Question | None = None
    calls: int = 0
    """Tool calls made; 0 where the ledger or a probe answered."""
    recovery: JsonObject | None = None


def failure_of(reply: ToolReply) -> Failure:
    """The failure that a reply other than `ok` and `cut` means for its attempt."""
    if reply.status == "bad_result":
        return Failure(kind=reply.kind or "not_json", message=reply.message, retryable=False)
    kind = reply.status if reply.status in ("timeout", "crashed") else reply.kind or "tool_error"
    return Failure(
        kind=kind, message=reply.message, retryable=reply.retryable and kind not in FAILS_ONCE
    )


def answered(request: CallRequest, row: EffectRow) -> CallEnd:
    """The ledger answers: the first call's result stands, nothing is called."""
    recovery = recovered(request, evidence_of(row))
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


def evidence_of(row: EffectRow | None) -> Evidence:
    """What a ledger row alone says."""
    if row is None:
        return Evidence()
    says: LedgerSays = "rolled_back" if row.rolled_back else row.state
    return Evidence(ledger=says)


def recovered(request: CallRequest, evidence: Evidence) -> JsonObject | None:
    """How the call of a cut attempt is recovered, for the history; None where none was cut.

    A call that had only waited for a person's word was not begun: there is nothing to recover.
    """
    order = request.order
    if not order.recovering or (order.answered and evidence.ledger == "no row"):
        return None
    recovery: Recovery = choose(
        "cut",
        effect=request.effect,
        evidence=evidence,
        resumable=order.unit.resumable,
    )
    thread = order.work.kind == "agent"
    return (in_thread(recovery) if thread else recovery).as_json()
