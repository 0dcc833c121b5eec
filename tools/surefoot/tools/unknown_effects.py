"""A call whose outcome nobody knows: ask its probe, else take it back, else put it in words.

Nothing is written here; what a finding leads to is `effect_calls`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from surefoot.graph.keys import CallKey
from surefoot.graph.plain import compact_json
from surefoot.graph.ports import EffectKind, ToolCall, ToolHost, ToolReply, ToolSpec
from surefoot.tools.stopping import Cut, Stop

SHOWN_ARGS = 300
"""Characters of the arguments that a person is shown."""


def counted_already() -> None:
    """The step of a `tool` order's call was taken when it was ordered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """One call to be made at most once.

    Attributes:
        call: what the tool host gets; arguments resolved and validated.
        effect: what it does to the world (already narrowed for `run_command`).
        recovering: the attempt before was cut, so say how it was recovered.
        may_ask: a person may be asked when nobody knows what happened.
        step: which step of its attempt the call is, from 1.
        count: takes a step from the budget right before the call is made.
        removed: subtasks that are no longer in the plan: their same call answers this one.
    """

    task_id: str
    call: ToolCall
    spec: ToolSpec
    effect: EffectKind
    key: CallKey
    recovering: bool
    may_ask: bool
    stop: Stop
    step: int = 1
    removed: tuple[str, ...] = ()
    count: Callable[[], None] = counted_already


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about a call of unknown outcome, and how."""

    verdict: Literal["happened", "result_lost", "not_happened", "compensated", "unknown"]
    why: str
    reply: ToolReply | None = None


async def find_out(host: ToolHost, request: CallRequest) -> Finding:
    """Ask the world what became of a call, else take it back.

    Raises:
        Cut: we are stopping; still nobody knows.
    """
    spec, why = request.spec, "it has no probe"
    if request.stop.requested:
        raise Cut
    if spec.has_probe:
        reply = await host.probe(request.call)
        finding = _probed(reply)
        if finding is not None:
            return finding
        why = f"its probe could not tell ({reply.status}: {reply.message})"
    if not spec.has_compensate:
        return Finding("unknown", f"{why} and no compensation")
    if request.stop.requested:
        raise Cut
    reply = await host.compensate(request.call, None)
    if reply.status == "cut":
        raise Cut
    if reply.status == "ok":
        return Finding("compensated", f"{why}; its effect was compensated")
    return Finding("unknown", f"{why}; its compensation failed ({reply.message})")


def unknown_text(request: CallRequest, finding: Finding, after: ToolReply | None) -> str:
    """What a person is told: which call, what is unknown, how to go on."""
    call = request.call
    args = compact_json(call.args)
    shown = args if len(args) <= SHOWN_ARGS else f"{args[:SHOWN_ARGS]}... ({len(args)} characters)"
    how = f"{after.status}: {after.message}" if after else "its attempt was cut"
    goes_on = "asks its probe again" if request.spec.has_probe else "goes on"
    return (
        f"{call.tool}({shown}) of subtask {call.subtask!r} may or may not have taken effect "
        f"({how}); {finding.why}. Look outside what happened, then "
        f"`surefoot resume {request.task_id}` {goes_on}."
    )


def _probed(reply: ToolReply) -> Finding | None:
    """What a probe's reply says; None when it cannot tell.

    Raises:
        Cut: the probe was stopped by us.
    """
    if reply.status == "cut":
        raise Cut
    if reply.status == "bad_result":
        return Finding("result_lost", "its probe found the effect done", reply)
    if reply.status != "ok":
        return None
    if reply.value is None:
        return Finding("not_happened", "its probe says that it did not happen", reply)
    return Finding("happened", "its probe found the effect done", reply)
