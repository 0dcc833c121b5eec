"""Taking one recorded effect back by its tool's compensation, whatever happens meanwhile.

While an effect is being taken back its row is an intent again: after a kill nobody takes it for
done, and it is found out as any other. A compensation counts as idempotent, by contract: where its
own outcome is unknown it is simply made again.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from surefoot.graph.attempts import DEFAULTS, full_jitter_delay_s, max_tries
from surefoot.graph.errors import PermanentError
from surefoot.graph.keys import given_key
from surefoot.graph.ports import Draw, EffectRow, Ledger, ToolCall, ToolHost, ToolReply, ToolSpec
from surefoot.graph.values import Json
from surefoot.tools.bindings import ValueCache
from surefoot.tools.prohibitions import Prohibitions
from surefoot.tools.stopping import Cut, Stop
from surefoot.tools.unknown_effects import probed

TAKING_BACK = "being taken back"
"""The note of such an intent."""

NOT_THERE = "its probe says that it did not happen"
TAKEN_BACK = "its compensation took it back"

BACKOFF_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Compensations:
    """Takes back effects of one task."""

    task_id: str
    host: ToolHost
    ledger: Ledger
    values: ValueCache
    readable: Sequence[Path] = ()
    prohibitions: Callable[[], Prohibitions]
    draw: Draw = field(default=random.random)

    async def take_back(
        self, row: EffectRow, stop: Stop, *, writes: tuple[str, ...] | None = None
    ) -> str | None:
        """Take the effect of a row back, and settle it.

        Args:
            row: in state intent or done.
            stop: ends the waits between two tries, and what is tried.
            writes: the workspace paths that the compensation may change; None = any.

        Returns:
            None when nothing of it stands any more, else what is in the way.

        Raises:
            Cut: we are stopping; the row is an intent and will be found out.
            LeaseLost, DatabaseUnavailable: from the ledger.
        """
        spec = self.host.specs.get(row.tool)
        if spec is None:
            return f"there is no tool {row.tool!r} any more"
        entry, call = row.call(self.task_id), self.call_of(row, spec, writes)
        known, lost = await self._result(row)
        if (row.state == "intent" or lost) and spec.has_probe:
            reply = await self._asked(call)
            if reply.status == "ok" and not reply.tells_of_effect:
                await self.ledger.settle(entry, "failed", note=NOT_THERE)
                return None
            if reply.status == "ok":
                known, lost = reply.value, ""
        if not spec.has_compensate:
            return "it has no compensation"
        if lost:
            # Told that nothing is known of it, a compensation might take it for never done.
            return f"its compensation needs the result, and {lost}"
        await self.begin(row)
        why = await self._compensated(call, known, stop, max_tries(spec, "idempotent"))
        if why is None:
            await self.ledger.settle(entry, "compensated", note=TAKEN_BACK)
        return why

    async def begin(self, row: EffectRow) -> None:
        """From here on nobody knows what of it stands, until it is settled."""
        if row.state == "done":
            entry = row.call(self.task_id)
            await self.ledger.settle(
                entry, "intent", result=row.result, artifacts=row.artifacts, note=TAKING_BACK
            )

    async def _result(self, row: EffectRow) -> tuple[Json, str]:
        """The recorded result, and why it cannot be read."""
        try:
            return None if row.result is None else await self.values.load(row.result), ""
        except PermanentError as lost:
            return None, str(lost)

    async def _asked(self, call: ToolCall) -> ToolReply:
        """What the probe says."""
        reply = await probed(self.host, call)
        if reply.status == "cut":
            raise Cut
        return reply

    async def _compensated(self, call: ToolCall, known: Json, stop: Stop, tries: int) -> str | None:
        why = ""
        for failed in range(tries):
            if failed:
                await stop.guard(asyncio.sleep(self.delay_s(failed - 1)))
            if stop.requested:
                raise Cut
            reply = await self.host.compensate(call, known)
            if reply.status == "cut":
                raise Cut
            if reply.status == "ok":
                return None
            why = f"its compensation failed ({reply.status}: {reply.message})"
            if not reply.retryable:
                break
        return why

    def delay_s(self, failed: int) -> float:
        """Seconds to wait between two tries of a way back."""
        return full_jitter_delay_s(failed, backoff_s=BACKOFF_S, draw=self.draw())

    def call_of(
        self, row: EffectRow, spec: ToolSpec, writes: tuple[str, ...] | None = None
    ) -> ToolCall:
        """A recorded call as the tool host sees it."""
        prohibitions = self.prohibitions()
        return ToolCall(
            tool=row.tool,
            args=row.args,
            subtask=row.subtask,
            attempt=row.attempt,
            failed_attempts=0,
            idempotency_key=given_key(self.task_id, row.tool, row.key, row.scope),
            timeout_s=spec.timeout_s or DEFAULTS["reversible"][0],
            writes=writes,
            readable=tuple(self.readable),
            denied_hosts=prohibitions.denied_hosts,
            denied_paths=prohibitions.denied_paths,
        )
