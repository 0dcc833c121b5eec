"""Holding tasks: the lease, the commands that arrive for it, and everything opened under it.

What the engine and a host app's graph have in common. One per process and event loop.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from langchain_core.tools import BaseTool

from surefoot.checkpointing.artifacts import ObjectArtifacts
from surefoot.checkpointing.database import Database
from surefoot.checkpointing.incarnation import Worker
from surefoot.checkpointing.journal import TaskJournal
from surefoot.checkpointing.lease import Lease, LeaseHold, LeaseKeeper
from surefoot.checkpointing.ledger import PostgresLedger
from surefoot.checkpointing.readers import Readers
from surefoot.checkpointing.saver import TaskSaver
from surefoot.checkpointing.tasks import apply_command, store_raised_limits, tell_stopping
from surefoot.graph.control import Stop, TaskControl
from surefoot.graph.errors import DatabaseUnavailable, LeaseHeld, LeaseLost, UsageError
from surefoot.graph.opening import OpenTask, Shared, Stored, open_task
from surefoot.graph.ports import Command
from surefoot.graph.settings import Settings
from surefoot.graph.values import JsonObject
from surefoot.tools.root_process import WarmRoot

WATCH_EVERY_S = 1.0


@dataclass(slots=True)
class _Running:
    """A task that this process holds or is about to hold."""

    control: TaskControl
    lease: Lease | None = None
    commands: list[Command] = field(default_factory=list[Command])
    on_stop: Callable[[], None] = lambda: None
    """Told of the first stop: readers are to see it before it is done."""

    def stop(self, how: Stop, by: str = "") -> None:
        """Ask for a stop. `by`: whose command it is."""
        if self.control.stopping() is None:
            self.on_stop()
        self.control.stop(how, by)

    def obey(self, command: Command) -> None:
        """A command arrived: a stop counts as applied once this go has ended.

        What the nodes apply is told of by them.
        """
        if command.name not in ("cancel", "pause"):
            self.control.ask(command)
            return
        self.commands.append(command)
        self.stop(command.name, command.by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A task under our lease, opened."""

    stored: Stored
    opened: OpenTask
    journal: TaskJournal
    saver: TaskSaver


class Holder:
    """Holds tasks in this process. Use as an async context manager, or `open` and `close`."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        warm: WarmRoot,
        *,
        worker: Worker,
        store: ObjectArtifacts,
    ) -> None:
        self.settings = settings
        self.database = database
        self._running: dict[str, _Running] = {}
        self._loop = asyncio.get_running_loop()
        self.leases = LeaseKeeper(database, worker=worker)
        self.ledger = PostgresLedger(database, self._lease_of)
        self.shared = Shared(
            settings=settings,
            database=database,
            ledger=self.ledger,
            store=store,
            warm=warm,
        )

    @classmethod
    async def open(cls, settings: Settings, warm: WarmRoot | None = None) -> Self:
        """Open the database (an embedded one is started) and migrate it.

        Args:
            settings: where things are.
            warm: a root of tool processes; ended by `close`, or here on an error. Without one it
                is started now, and imports its libraries while the database is opened.

        Raises:
            UsageError: the database cannot be reached, or the home folder cannot be written.
        """
        if warm is None:
            warm = WarmRoot()
            await warm.warm_up()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(warm.close)
            database = await Database.open(settings)
            stack.push_async_callback(database.close)
            # In a thread: the loop may be a server's, which nothing may block.
            worker = await asyncio.to_thread(Worker.this_process)
            store = await asyncio.to_thread(ObjectArtifacts, settings.artifacts_url)
            holder = cls(settings, database, warm, worker=worker, store=store)
            stack.pop_all()
            return holder

    async def close(self) -> None:
        """Let go of everything: no thread, connection or (if we were the last) server is left."""
        await self.shared.warm.close()
        await self.ledger.close()
        await self.leases.close()
        await self.database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def row(self, task_id: str) -> dict[str, Any]:
        """The task's row.

        Raises:
            UsageError: there is no such task.
        """
        row = await Readers(self.database).task_row(task_id)
        if row is None:
            raise UsageError(
                "unknown_task", f"there is no task {task_id!r}: `surefoot list` shows them"
            )
        return row

    @asynccontextmanager
    async def hold(
        self,
        task_id: str,
        objects: Sequence[BaseTool] = (),
        *,
        raise_limits: Mapping[str, float | None] | None = None,
    ) -> AsyncGenerator[Held]:
        """Take a task's lease and open it; everything is closed and given back at the end.

        Raises:
            UsageError: there is no such task.
            LeaseHeld: a live worker (or this process) holds it.
        """
        if task_id in self._running:
            raise LeaseHeld(task_id, "this process")
        running = self._running[task_id] = _Running(TaskControl())
        async with AsyncExitStack() as stack:
            stack.callback(self._running.pop, task_id)
            lease = running.lease = await self.leases.acquire(
                task_id, on_lost=running.control.lose, on_command=running.obey
            )
            stack.push_async_callback(self.leases.release, lease)
            stack.push_async_callback(self._report, running, lease)
            stack.push_async_callback(self._tell_settled(running.control, lease))
            stack.push_async_callback(self._tell_stopping(running, lease))
            yield await self._open(task_id, lease, running.control, objects, raise_limits, stack)

    async def _open(
        self,
        task_id: str,
        lease: Lease,
        control: TaskControl,
        objects: Sequence[BaseTool],
        raise_limits: Mapping[str, float | None] | None,
        stack: AsyncExitStack,
    ) -> Held:
        if raise_limits:
            await store_raised_limits(self.database, lease, dict(raise_limits))
        row = await self.row(task_id)
        stored = Stored.from_row(row)
        journal = TaskJournal(task_id)
        saver = TaskSaver(self.database, lease, journal)
        stack.push_async_callback(saver.close)
        # Agents save beside the nodes: what a node has queued leaves with its own superstep only.
        steps = TaskSaver(self.database, lease, TaskJournal(task_id))
        stack.push_async_callback(steps.close)
        opened = await open_task(
            stored,
            self.shared,
            saver=saver,
            control=control,
            steps=steps,
            hold=LeaseHold(self.leases, lease),
            objects=objects,
        )
        stack.push_async_callback(opened.close)
        await self.leases.set_children(lease, opened.host.child_pids())
        watch = asyncio.create_task(self._watch(lease, opened))
        stack.callback(watch.cancel)
        return Held(stored=stored, opened=opened, journal=journal, saver=saver)

    async def _watch(self, lease: Lease, opened: OpenTask) -> None:
        """Keep the lease, should its heartbeat fail, and its list of tool processes true.

        The list changes when their root had to be replaced.
        """
        listed = opened.host.child_pids()
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            with contextlib.suppress(DatabaseUnavailable, LeaseLost):
                if not self.leases.sure(lease):
                    await self.leases.make_sure(lease)
                if opened.host.child_pids() != listed:
                    await self.leases.set_children(lease, opened.host.child_pids())
                    listed = opened.host.child_pids()

    def stop(self, task_id: str, how: Stop) -> None:
        """Ask a task of this process to stop (from any thread): `pause`, `now` or `cancel`."""
        self._loop.call_soon_threadsafe(self._stop, task_id, how)

    def _stop(self, task_id: str, how: Stop) -> None:
        running = self._running.get(task_id)
        if running is not None:
            running.stop(how)

    def _lease_of(self, task_id: str) -> Lease:
        running = self._running.get(task_id)
        if running is None or running.lease is None:
            raise UsageError("not_held", f"this process does not hold task {task_id!r}")
        return running.lease

    def _tell_settled(self, control: TaskControl, lease: Lease) -> Callable[[], Awaitable[None]]:
        """Tell the senders of what the nodes apply at once; returns what waits for the telling."""
        telling: list[asyncio.Task[bool]] = []

        def tell(command: int, outcome: JsonObject) -> None:
            telling.append(
                asyncio.create_task(apply_command(self.database, lease, command, outcome))
            )

        async def told() -> None:
            await asyncio.gather(*telling, return_exceptions=True)

        control.on_settled = tell
        return told

    def _tell_stopping(self, running: _Running, lease: Lease) -> Callable[[], Awaitable[None]]:
        """Tell readers of the first stop at once; returns what waits for the telling."""
        telling: list[asyncio.Task[None]] = []

        async def told() -> None:
            await asyncio.gather(*telling, return_exceptions=True)

        def tell() -> None:
            telling.append(asyncio.create_task(tell_stopping(self.database, lease)))

        running.on_stop = tell
        return told

    async def _report(self, running: _Running, lease: Lease) -> None:
        """Tell the senders of commands that these are applied: nothing runs any more."""
        if not self.leases.lost(lease.task_id):
            for command in running.commands:
                await apply_command(self.database, lease, command.id)
