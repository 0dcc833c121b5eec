"""Warm workers on demand: one call each, kept for the next call, replaced when killed.

Keeps one root process alive while it is open. Nothing of a tool runs after `close`.
"""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from itertools import count

from surefoot.graph.errors import ToolUnavailable
from surefoot.graph.ports import ToolReply, ToolSpec
from surefoot.graph.processes import process_started
from surefoot.graph.tool_ports import Hold
from surefoot.graph.values import JsonObject
from surefoot.tools.output import OutputPipe, Sink
from surefoot.tools.root_process import ImportStuck, RootListener, RootLost, RootProcess, WarmRoot
from surefoot.tools.tool_fault import ToolFault
from surefoot.tools.worker_process import ArtifactDesk, Job, WorkerProcess, refused

GONE_WITHIN_S = 3.0
"""How long a killed process may take to go (it may hang in the kernel)."""

MOST_STARTS = 3
"""A root that somebody kills while it starts is started so often; then its modules are to blame."""

ANSWER_WITHIN_S = 8.0
"""A kill that the root does not confirm by then is done by hand, the root with it."""


class WorkerPool:
    """The workers of one task. `slots` of them stay warm; more are forked when asked for."""

    def __init__(
        self,
        modules: Sequence[str],
        *,
        setting: JsonObject,
        desk: ArtifactDesk,
        slots: int,
        sink: Sink,
        warm: WarmRoot | None = None,
        hold: Hold | None = None,
    ) -> None:
        self._warm = warm or WarmRoot()
        self._hold = hold
        self._modules = list(dict.fromkeys(modules))
        self._setting = setting
        self._desk = desk
        self._slots = slots
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._numbers = count(1)
        self._workers: dict[int, WorkerProcess] = {}
        self._idle: list[WorkerProcess] = []
        self._root: RootProcess | None = None
        self._opening = asyncio.Lock()
        self._cleaning: asyncio.Task[None] | None = None
        self._closed = False
        self.specs: dict[str, ToolSpec] = {}
        self.faults: list[ToolFault] = []

    async def open(self) -> None:
        """Start the root and learn the tools; a module that kills or blocks it becomes a fault.

        Raises:
            ToolUnavailable: tool processes cannot be started here at all.
        """
        async with self._opening:
            await self._open_root()

    async def run(self, job: Job, request: bytes) -> ToolReply:
        """Run a request in a worker; its time limit is the job's. Never raises for the tool.

        Raises:
            LeaseLost, DatabaseUnavailable: it did not begin, from the hold.
        """
        try:
            worker = await self._sure_worker()
        except ToolUnavailable as exc:
            return refused("tool_unavailable", str(exc))
        worker.start(job, request)
        try:
            return await job.reply
        except asyncio.CancelledError:
            worker.stop("cut")
            raise

    async def cut(self, subtasks: Sequence[str] | None) -> None:
        """Kill the calls of these subtasks (None = all); returns when they are gone."""
        cut = [
            worker.job
            for worker in list(self._workers.values())
            if worker.job is not None and (subtasks is None or worker.job.subtask in subtasks)
        ]
        for worker in list(self._workers.values()):
            if worker.job in cut:
                worker.stop("cut")
        await asyncio.gather(*(job.reply for job in cut), return_exceptions=True)

    def root(self) -> tuple[int, float] | None:
        """(pid, start time) of the root, which ends last of all."""
        return None if self._root is None else (self._root.pid, self._root.started)

    async def release(self) -> None:
        """Close a pool that never ran anything, and leave its root to who comes next."""
        async with self._opening:
            if not self._workers and not self.faults and self._root is not None:
                root, self._root = self._root, None
                await self._warm.give_back(root)
        await self.close()

    async def close(self) -> None:
        """End every process; returns when none is left."""
        self._closed = True
        await self.cut(None)
        async with self._opening:
            root, self._root = self._root, None
            if self._cleaning is not None:
                await self._cleaning
            if root is not None:
                await root.end()
        for worker in list(self._workers.values()):
            worker.ended(None)
        self._workers.clear()
        self._idle.clear()

    async def _sure_worker(self) -> WorkerProcess:
        """A worker for a call that begins in this very moment, while the task is surely ours.

        Whoever takes the task over from a process that stands still kills these workers: if we
        stand still from here on, the request finds nobody.
        """
        while True:
            worker = self._idle.pop() if self._idle else await self._new_worker()
            if self._hold is None or self._hold.sure():
                return worker
            self._take_back(worker)
            await self._hold.make_sure()

    async def _new_worker(self) -> WorkerProcess:
        if self._closed:
            raise ToolUnavailable("the tools of this task are closed")
        root = self._root
        if root is None or not root.is_alive:
            async with self._opening:
                root = await self._open_root()
        output = OutputPipe(self._loop, self._sink)
        worker = WorkerProcess(
            next(self._numbers),
            loop=self._loop,
            desk=self._desk,
            output=output,
            when_idle=self._take_back,
            kill=self._kill,
        )
        try:
            root.fork(worker.number, [worker.theirs.fileno(), output.write_fd])
        except ToolUnavailable:
            worker.close()
            raise
        worker.theirs.close()
        output.close_write_end()
        self._workers[worker.number] = worker
        return worker

    async def _open_root(self) -> RootProcess:
        if self._root is not None and self._root.is_alive:
            return self._root
        if self._cleaning is not None:
            await self._cleaning
        self._root = None
        stuck: list[ToolFault] = []
        starts = count(1)
        while True:
            may_try_again = next(starts) < MOST_STARTS
            listener = RootListener(forked=self._forked, ended=self._ended, lost=self._lost)
            root = await self._warm.take(self._modules, self._setting)
            root.attach(listener, self._sink)
            try:
                await root.load(self._modules, self._setting)
            except ImportStuck as exc:
                if exc.killed and may_try_again:
                    continue
                text = f"tools module {exc.module}: {exc.why}"
                stuck.append(ToolFault(module=exc.module, message=text))
                self._modules.remove(exc.module)
                starts = count(1)
                continue
            except BaseException as exc:
                await root.end()
                if isinstance(exc, RootLost) and may_try_again:
                    continue
                raise
            self._root = root
            self.specs, self.faults = root.specs, [*self.faults, *stuck, *root.faults]
            return root

    def _take_back(self, worker: WorkerProcess) -> None:
        if len(self._idle) < self._slots:
            self._idle.append(worker)
        else:
            self._kill(worker.number)

    def _kill(self, number: int) -> None:
        worker = self._workers.get(number)
        if worker is None or self._root is None:
            return
        if worker in self._idle:
            self._idle.remove(worker)
        self._loop.call_later(ANSWER_WITHIN_S, self._insist, self._root, number)
        self._root.kill(number)

    def _insist(self, root: RootProcess, number: int) -> None:
        if number in self._workers and root is self._root and root.is_alive:
            root.give_up()

    def _forked(self, number: int, pid: int) -> None:
        if number in self._workers:
            self._workers[number].pid = pid

    def _ended(self, number: int, status: int | None, why: str) -> None:
        worker = self._workers.pop(number, None)
        if worker is not None:
            if worker in self._idle:
                self._idle.remove(worker)
            worker.ended(status, why)

    def _lost(self) -> None:
        root, workers = self._root, list(self._workers.values())
        self._idle.clear()
        self._workers.clear()
        if root is not None:
            self._cleaning = self._loop.create_task(self._clean_up(root, workers))

    async def _clean_up(self, root: RootProcess, workers: Sequence[WorkerProcess]) -> None:
        for worker in workers:
            if worker.pid is not None:
                _kill_group(worker.pid)
        await root.end()
        for worker in workers:
            if worker.pid is not None:
                await _until_gone(worker.pid)
            worker.ended(None)


async def _until_gone(pid: int) -> None:
    """Wait for a killed process: while it exits it has no environment to be found by any more."""
    until = time.monotonic() + GONE_WITHIN_S
    while time.monotonic() < until:
        if process_started(pid) is None:
            return
        await asyncio.sleep(0.002)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
