"""A call whose outcome nobody knows: ask its probe, else take it back.

Nothing is written here; what a finding leads to is `effect_calls`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from surefoot.graph.keys import CallKey
from surefoot.graph.ports import (
    EffectCall,
    EffectKind,
    ToolCall,
    ToolHost,
    ToolReply,
    ToolSpec,
    WorkOrder,
)
from surefoot.graph.recovery import Evidence
from surefoot.graph.values import Json
from surefoot.tools.stopping import Cut, Stop

FOUND = Evidence(ledger="intent")

PROBES = 3
"""How often a probe is asked whose process dies in it: somebody may have killed it."""


def counted_already() -> None:
    """The step of a `tool` order's call was taken when it was ordered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """One call to be made at most once.

    Attributes:
        order: the attempt that it belongs to.
        call: what the tool host gets; arguments resolved and validated.
        effect: what it does to the world (already narrowed for `run_command`).
        step: which step of its attempt the call is, from 1.
        count: takes a step from the budget right before the call is made.
        needs_approval: a person must allow it before it is made.
        clear: runs the subtask's `undo`, where the call is all that the subtask makes: its way
            back. Raises what `Undoing` raises.
        made: of an agent that has had an attempt before: digests of what this one has called so
            far and took effect. None: no attempt before can have meant anything else.
        ready: makes the workspace ready right before the call. Raises what `AttemptFiles` raises.
    """

    order: WorkOrder
    call: ToolCall
    spec: ToolSpec
    effect: EffectKind
    key: CallKey
    stop: Stop
    step: int = 1
    count: Callable[[], None] = counted_already
    needs_approval: bool = False
    clear: Callable[[], Awaitable[None]] | None = None
    made: tuple[str, ...] | None = None
    ready: Callable[[], Awaitable[None]] | None = None

    @property
    def task_id(self) -> str:
        """The task."""
        return self.order.task_id

    @property
    def entry(self) -> EffectCall:
        """The call as the ledger records it."""
        return EffectCall(
            task_id=self.task_id,
            key=self.key.key,
            scope=self.key.scope,
            subtask=self.call.subtask,
            attempt=self.call.attempt,
            tool=self.call.tool,
            effect=self.effect,
            args=self.call.args,
        )

    @property
    def may_ask(self) -> bool:
        """Whether a person may be asked when nobody knows what happened."""
        return self.order.work.approve != "never"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about a call of unknown outcome; `reply` is a probe's."""

    evidence: Evidence
    reply: ToolReply | None = None


async def find_out(host: ToolHost, request: CallRequest, known: Json = None) -> Finding:
    """Ask the world what became of a call, else take it back.

    Args:
        host: runs probe and compensation.
        request: the call.
        known: its result, where it was recorded before it became unknown again.

    Raises:
        Cut: we are stopping; still nobody knows.
    """
    spec, found = request.spec, Finding(FOUND)
    if request.stop.requested:
        raise Cut
    if spec.has_probe:
        found = _probed(await probed(host, request.call))
        if found.evidence.probe != "cannot_tell":
            return found
    if not spec.has_compensate:
        return found
    if request.stop.requested:
        raise Cut
    reply = await host.compensate(request.call, known)
    if reply.status == "cut":
        raise Cut
    if reply.status == "ok":
        return Finding(replace(found.evidence, ledger="compensated", way_back="done"))
    return Finding(replace(found.evidence, way_back="failed", way_back_said=reply.message))


async def probed(host: ToolHost, call: ToolCall) -> ToolReply:
    """Ask a call's probe; once more where its process died, which tells nothing of the call."""
    reply = await host.probe(call)
    for _ in range(PROBES - 1):
        if reply.status != "crashed":
            break
        reply = await host.probe(call)
    return reply


def _probed(reply: ToolReply) -> Finding:
    """What a probe's reply says.

    Raises:
        Cut: the probe was stopped by us.
    """
    if reply.status == "cut":
        raise Cut
    if reply.status not in ("ok", "bad_result"):
        said = f"{reply.status}: {reply.message}"
        return Finding(replace(FOUND, probe="cannot_tell", probe_said=said), reply)
    happened = reply.status == "bad_result" or reply.tells_of_effect
    return Finding(replace(FOUND, probe="happened" if happened else "not_happened"), reply)
