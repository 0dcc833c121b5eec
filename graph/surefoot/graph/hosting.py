"""Contexts for a graph that runs in somebody else's app: Studio, a web handler, a notebook.

The thread id is the task id. The database is opened on first use and closed when no task of the
loop is left in a go; every go takes the task's lease and gives it back. Rows leave in fenced
transactions of their own, since the host's checkpointer knows nothing of them.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from langchain_core.tools import BaseTool

from surefoot.graph.creation import create_task
from surefoot.graph.errors import UsageError
from surefoot.graph.holding import Holder
from surefoot.graph.plain import digest
from surefoot.graph.settings import Settings
from surefoot.graph.state import TaskState
from surefoot.nodes.context import TaskContext


@dataclass(slots=True)
class _Guest:
    """One open task of a host, and how it is closed."""

    context: TaskContext
    stack: AsyncExitStack


class HostedContexts:
    """The contexts of a host's threads (`build.Contexts`)."""

    rides_on_saver = False

    def __init__(self, tools: Sequence[BaseTool]) -> None:
        self._tools = tools
        self._guests: dict[tuple[int, str], _Guest] = {}
        self._holders: dict[int, Holder] = {}
        self._locks: dict[int, asyncio.Lock] = {}

    async def of(self, state: TaskState, thread_id: str) -> TaskContext:
        """The context of a thread, opened on the first node of a go."""
        loop = id(asyncio.get_running_loop())
        guest = self._guests.get((loop, thread_id))
        if guest is None:
            async with self._locks.setdefault(loop, asyncio.Lock()):
                guest = self._guests.get((loop, thread_id)) or await self._open(
                    loop, state, thread_id
                )
        return guest.context

    async def leave(self, context: TaskContext) -> None:
        """Close a task; with the last one of a loop its database too."""
        loop = id(asyncio.get_running_loop())
        async with self._locks.setdefault(loop, asyncio.Lock()):
            guest = self._guests.pop((loop, context.task_id), None)
            if guest is None:
                return
            if context.over:
                context.tell_senders()
            await guest.stack.aclose()
            await self._close_idle(loop)

    async def go_ended(self, thread_id: str) -> None:
        """Let go of a task that is still open when its go has ended: between two nodes."""
        guest = self._guests.get((id(asyncio.get_running_loop()), thread_id))
        if guest is not None:
            await self.leave(guest.context)

    async def _open(self, loop: int, state: TaskState, thread_id: str) -> _Guest:
        stack = AsyncExitStack()
        try:
            if loop not in self._holders:
                settings = await asyncio.to_thread(Settings.from_environment)
                self._holders[loop] = await Holder.open(settings)
            holder = self._holders[loop]
            await self._ensure(holder, state, thread_id)
            held = await stack.enter_async_context(holder.hold(thread_id, self._tools))
        except BaseException:
            await stack.aclose()
            await self._close_idle(loop)
            raise
        held.opened.context.rows_ride = False
        guest = self._guests[(loop, thread_id)] = _Guest(held.opened.context, stack)
        return guest

    async def _ensure(self, holder: Holder, state: TaskState, thread_id: str) -> None:
        """The task's row: there, or made from the task file that the thread was begun with.

        Raises:
            UsageError: `id_taken`: the thread is new to this saver, and its id is another task's.
        """
        task = state.get("task") or {}
        try:
            row = await holder.row(thread_id)
        except UsageError:
            plan = {k: v for k, v in (state.get("plan") or {}).items() if k != "version"}
            if plan and not task.get("plan"):
                task = {**task, "plan": plan}
            spec = {"task": task, "task_dir": state.get("task_dir") or "."}
            await create_task(spec, holder.shared, task_id=thread_id, objects=self._tools)
            return
        begun = "graph_version" in state
        if task and not begun and row["spec_digest"] != digest(task):
            raise UsageError(
                "id_taken",
                f"task {thread_id!r} exists with a different file: nothing was changed; the thread "
                "id is the task's id, so choose another one",
            )

    async def _close_idle(self, loop: int) -> None:
        if not any(key[0] == loop for key in self._guests) and loop in self._holders:
            await self._holders.pop(loop).close()
