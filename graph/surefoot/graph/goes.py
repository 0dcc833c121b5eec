"""When a host's go of the graph is over, in whatever way it ends.

A node hears of its own end. Between two nodes nobody of ours does: where a stream is left early,
at a static breakpoint, at the host's recursion limit, where its saver fails. LangGraph's callbacks
tell of every end.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler

from surefoot.graph.errors import AgentError, LeaseHeld

log = logging.getLogger("surefoot")


class Goes(AsyncCallbackHandler):
    """Tells of a go that has ended, by its thread; a second one of a thread that runs is refused.

    Args:
        ended: told the thread.
    """

    raise_error = True

    def __init__(self, ended: Callable[[str], Awaitable[None]]) -> None:
        self._ended = ended
        self._goes: dict[UUID, tuple[int, str]] = {}
        """Those that run: (loop, thread) by their run. Those of other loops meet the lease."""
        self._inner: set[UUID] = set()
        """Runs inside of them: of nodes and what these call."""

    async def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: dict[str, Any],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A go begins, or something inside of one.

        Raises:
            LeaseHeld: a go of this thread runs in this process already.
        """
        del serialized, inputs, kwargs
        thread = (metadata or {}).get("thread_id")
        if parent_run_id in self._goes or parent_run_id in self._inner:
            self._inner.add(run_id)
        elif thread is not None:
            go = id(asyncio.get_running_loop()), str(thread)
            if go in self._goes.values():
                raise LeaseHeld(go[1], "another run of its graph in this process")
            self._goes[run_id] = go

    async def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """It is over."""
        del outputs, kwargs
        await self._over(run_id)

    async def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """It is over by an error, or was left."""
        del error, kwargs
        await self._over(run_id)

    async def _over(self, run_id: UUID) -> None:
        self._inner.discard(run_id)
        go = self._goes.pop(run_id, None)
        if not self._goes:
            self._inner.clear()
        if go is None:
            return
        try:
            await self._ended(go[1])
        except AgentError as gone:  # the host is to hear how its go ended, not this
            log.warning("what task %s had open could not be let go of: %s", go[1], gone)
