"""What must be so before a call is recorded as begun: allowed, cleared for, and not done already.

Everything here costs a question to the ledger, so it is asked only where something calls for it: a
plan that wants approval or has an `undo`, a replan, or work of this task that was taken back.
"""

from collections import Counter

from surefoot.graph.keys import call_digest, is_undo
from surefoot.graph.ports import EffectCall, EffectRow, Ledger
from surefoot.graph.values import Failure
from surefoot.tools.call_ends import CallEnd, answered
from surefoot.tools.effect_questions import (
    ask_approval,
    ask_other,
    is_approved,
    what_about_other,
)
from surefoot.tools.unknown_effects import CallRequest


class BeforeCalls:
    """Looks at one call before its intent is written."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def look(self, request: CallRequest) -> CallEnd | None:
        """How the request ends without a call; None: it goes on.

        Raises:
            PersonNeeded, AttemptFailed, Cut: from the subtask's `undo`.
            LeaseLost, DatabaseUnavailable: from the ledger.
        """
        entry = request.entry
        end = await self._taken_over(request, entry)
        clear = request.clear if _goes_on(request) else None
        if end is not None or not (request.needs_approval or clear):
            return end
        stands = await self._ledger.find(request.task_id, entry.key, entry.scope)
        if stands is not None and request.effect != "idempotent":
            return None  # it answers, or is found out about: nothing new begins here
        if clear is not None:
            await clear()
        return permitted(request)

    async def _taken_over(self, request: CallRequest, entry: EffectCall) -> CallEnd | None:
        """Let what removed or taken back work has left answer; ask where it means another thing."""
        if request.effect == "idempotent" or is_undo(entry.key):
            return None
        left: list[EffectRow] = []
        if request.effect == "irreversible":
            left = await self._ledger.left_standing(request.task_id, entry.tool)
        own = [row for row in left if row.subtask == entry.subtask]
        if request.effect == "irreversible" and request.made is not None:
            known = {row.key for row in own}
            own += [row for row in await self._of_failed(request) if row.key not in known]
        same = any(row.key == entry.key for row in (*left, *own))
        if left or (request.order.removed and request.key.scope):
            await self._ledger.adopt(entry, request.order.removed)
        if same or not own:
            return None
        if await self._ledger.find(request.task_id, entry.key, entry.scope) is not None:
            return None  # it was begun already
        return self._other(request, own)

    async def _of_failed(self, request: CallRequest) -> list[EffectRow]:
        """What failed attempts of an agent did with this tool, and this one has not asked for yet.

        A model that is asked anew may word the same thing otherwise.
        """
        rows = await self._ledger.of_subtask(request.task_id, request.order.subtask)
        asked: Counter[str] = Counter(request.made or ())
        left: list[EffectRow] = []
        for row in reversed(rows):  # oldest first, as they are asked for again
            earlier = row.attempt < request.order.go and row.tool == request.call.tool
            if not earlier or row.effect != "irreversible" or row.state != "done":
                continue
            call = call_digest(row.tool, row.args)
            if asked[call] > 0:
                asked[call] -= 1
            else:
                left.append(row)
        return left[::-1]

    def _other(self, request: CallRequest, own: list[EffectRow]) -> CallEnd | None:
        match what_about_other(request):
            case "do":
                return None
            case "reuse":
                done = [row for row in own if row.state == "done"]
                if done:
                    return answered(request, done[0])
                return _refused("other_effect", "nothing that stands has a result", request)
            case "fail":
                return _refused("other_effect", "a person gave the call up", request)
            case None if request.may_ask:
                return CallEnd(question=ask_other(request, own))
            case None:
                text = "another call of it stands from before; nobody may be asked"
                return _refused("other_effect", text, request)


def _goes_on(request: CallRequest) -> bool:
    """Whether it is taken up where it was cut; what starts from scratch was cleared before."""
    return request.order.recovering and request.order.unit.resumable


def permitted(request: CallRequest) -> CallEnd | None:
    """The end of a call that a person must allow and has not; None: it may be made."""
    if not request.needs_approval:
        return None
    approved = is_approved(request)
    if approved:
        return None
    if approved is None:
        return CallEnd(question=ask_approval(request))
    return _refused("not_approved", "a person did not allow the call", request)


def _refused(kind: str, why: str, request: CallRequest) -> CallEnd:
    message = f"{request.call.tool}: {why}"
    return CallEnd(failure=Failure(kind=kind, message=message, retryable=False))
