"""The main process's end of the root of tool processes (`child`): start it, ask it, see it go."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from surefoot.graph.errors import ToolUnavailable
from surefoot.graph.processes import TOOLS_MARK, process_started, processes_marked
from surefoot.graph.tool_ports import ToolSpec
from surefoot.graph.values import JsonObject
from surefoot.tools.output import OutputPipe, Sink
from surefoot.tools.tool_fault import ToolFault
from surefoot.tools.wire import Frames, message

IMPORTS_WITHIN_S = 120.0
"""The tools modules must have been imported by then."""

CLOSE_WITHIN_S = 10.0
START = "import gc; gc.disable(); from surefoot.tools.child import main; main()"
"""Without the collector: it takes a sixth of the time of the imports and finds nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootListener:
    """Who hears of what happens to workers; all are called in the event loop."""

    forked: Callable[[int, int], None]
    """(number, pid)."""
    ended: Callable[[int, int | None, str], None]
    """(number, exit status or None, why it could not be forked)."""
    lost: Callable[[], None]
    """The root itself is gone."""


class RootLost(ToolUnavailable):
    """The root ended before it was ready, by no fault of a module: start another one."""


class ImportStuck(Exception):
    """The root died or hung while importing this module; `killed`: somebody may have killed it."""

    def __init__(self, module: str, why: str, *, killed: bool = False) -> None:
        self.module = module
        self.why = why
        self.killed = killed
        super().__init__(f"{module}: {why}")


class RootProcess:
    """One root process, from its start to its end. `attach` says who hears of its workers.

    Made by `begin` or `start`; one that is only constructed has no process yet.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._listener: RootListener | None = None
        self._sink: Sink | None = None
        self._mark = uuid.uuid4().hex
        self._frames = Frames()
        self._importing = ""
        self._ready: asyncio.Future[None] = loop.create_future()
        self._open = True
        self.specs: dict[str, ToolSpec] = {}
        self.faults: list[ToolFault] = []
        self._loaded: tuple[tuple[str, ...], object] | None = None
        self._output = OutputPipe(loop, self._pass_on)
        self._control, self._theirs = socket.socketpair()
        self._control.setblocking(False)

    @classmethod
    def begin(cls, loop: asyncio.AbstractEventLoop) -> Self:
        """Start one at once: it imports while we import. Blocks the loop for some milliseconds.

        Raises:
            ToolUnavailable: no process can be started here.
        """
        root = cls(loop)
        try:
            root._watch(root._launch())
        except BaseException:
            root._drop_pipes()
            raise
        return root

    @classmethod
    async def start(cls) -> Self:
        """Start one without blocking the loop, which may be somebody else's.

        Raises:
            ToolUnavailable: no process can be started here.
        """
        root = cls(asyncio.get_running_loop())
        launching = asyncio.ensure_future(asyncio.to_thread(root._launch))
        try:
            root._watch(await asyncio.shield(launching))
        except asyncio.CancelledError:
            with contextlib.suppress(ToolUnavailable):
                root._watch(await launching)
                await root.discard()
            raise
        except BaseException:
            root._drop_pipes()
            raise
        return root

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._output.close_write_end()
        self.pid = process.pid
        self.started = process_started(self.pid) or 0.0
        self._loop.add_reader(self._control.fileno(), self._on_readable)

    def _drop_pipes(self) -> None:
        """Nothing was started."""
        self._close_control()
        self._output.close()

    def attach(self, listener: RootListener | None, sink: Sink | None) -> None:
        """Name who hears of workers, and where what the root itself prints goes."""
        self._listener, self._sink = listener, sink

    def suits(self, modules: Sequence[str], setting: JsonObject) -> bool:
        """Whether it can load these modules, or has loaded just these, from the same folder."""
        wanted = (tuple(modules), setting["task_dir"])
        return self.is_alive and self._loaded in (None, wanted)

    @property
    def is_alive(self) -> bool:
        """Whether workers can still be asked of it."""
        return self._open

    async def load(self, modules: Sequence[str], setting: JsonObject) -> None:
        """Let it import the modules; `specs` and `faults` are there afterwards.

        One that has loaded them before (see `suits`) only learns for whom it works now.

        Raises:
            ImportStuck: it ended, or hung, in the import of one module.
            RootLost: it ended before that.
            ToolUnavailable: it hung before that.
        """
        loaded = self._loaded is not None
        order = (
            {"op": "setting", "setting": setting}
            if loaded
            else {**setting, "modules": list(modules)}
        )
        try:
            self._send(order)
        except OSError as exc:  # it ended, and we were not told yet
            raise RootLost(f"the tool process ended while starting ({exc})") from exc
        if loaded:
            return
        why, hung = "the import ended the process", False
        try:
            await asyncio.wait_for(asyncio.shield(self._ready), IMPORTS_WITHIN_S)
            self._loaded = (tuple(modules), setting["task_dir"])
            return
        except TimeoutError:
            why, hung = f"the import did not end within {IMPORTS_WITHIN_S:g} s", True
            if not self._importing:
                await self.end()
                raise ToolUnavailable(
                    f"the tool process did not start within {IMPORTS_WITHIN_S:g} s"
                ) from None
        except ToolUnavailable:
            if not self._importing:
                raise
        await self.end()
        killed = not hung and self._process.returncode == -signal.SIGKILL
        raise ImportStuck(self._importing, why, killed=killed)

    def fork(self, number: int, fds: Sequence[int]) -> None:
        """Ask for a worker with these descriptors (its line, its output).

        Raises:
            ToolUnavailable: the root does not take requests any more.
        """
        try:
            socket.send_fds(self._control, [message({"op": "fork", "id": number})], list(fds))
        except OSError as exc:
            raise ToolUnavailable(f"no tool process could be started: {exc}") from exc

    def kill(self, number: int) -> None:
        """Ask for the end of a worker with all it started; `ended` tells when that is so."""
        try:
            self._send({"op": "kill", "id": number})
        except OSError:
            self.give_up()

    def give_up(self) -> None:
        """It does not answer: end it the hard way; `lost` follows."""
        if self._process.poll() is None:
            self._process.kill()
        self._on_lost()

    async def discard(self) -> None:
        """End it, at once where it was asked for nothing yet and so has nothing to end."""
        if self._loaded is None and self._process.poll() is None:
            self._process.kill()
        await self.end()

    async def end(self) -> None:
        """Let it end everything and itself; returns when nothing is left of it."""
        self._close_control()
        try:
            await asyncio.to_thread(self._process.wait, CLOSE_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
        if self._process.returncode != 0:  # else it ended last, after all it had started
            await self.sweep()
        self._output.close()

    async def sweep(self) -> None:
        """Kill whatever still carries the mark, until nothing does (needed when it died itself)."""
        await asyncio.to_thread(self._process.wait)
        marked = f"{TOOLS_MARK}={self._mark}"
        for _ in range(200):
            left = [pid for pid in processes_marked(marked) if pid != os.getpid()]
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    continue
            if not left:
                return
            await asyncio.sleep(0.005)

    def _pass_on(self, subtask: str, attempt: int, line: str) -> None:
        if self._sink is not None:
            self._sink(subtask, attempt, line)

    def _launch(self) -> "subprocess.Popen[bytes]":
        with self._theirs as theirs:
            fd = theirs.fileno()
            # -P: the current folder must not come before the standard library.
            argv = [sys.executable, "-P", "-c", START, str(fd)]
            try:
                return subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=self._output.write_fd,
                    stderr=self._output.write_fd,
                    pass_fds=[fd],
                    env={**os.environ, TOOLS_MARK: self._mark},
                    start_new_session=True,
                )
            except OSError as exc:
                raise ToolUnavailable(f"no tool process can be started here: {exc}") from exc

    def _send(self, content: JsonObject) -> None:
        data = message(content)
        sent = self._control.send(data)
        if sent < len(data):
            raise BlockingIOError("the root of the tool processes does not read")

    def _on_readable(self) -> None:
        try:
            data = self._control.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._on_lost()
            return
        for content in self._frames.feed(data):
            self._on_message(content)

    def _on_message(self, content: JsonObject) -> None:
        listener = self._listener
        match content["op"]:
            case "importing":
                self._importing = str(content["module"])
            case "ready":
                self._take_tools(content)
            case _ if listener is None:
                return  # nobody asked for a worker yet
            case "forked":
                listener.forked(content["id"], content["pid"])
            case "exit":
                listener.ended(content["id"], content["status"], "")
            case _:
                listener.ended(content["id"], None, str(content["message"]))

    def _take_tools(self, content: JsonObject) -> None:
        specs = cast("list[dict[str, Any]]", content["specs"])
        faults = cast("list[Mapping[str, str]]", content["faults"])
        self.specs = {spec["name"]: ToolSpec(**spec) for spec in specs}
        self.faults = [ToolFault(**fault) for fault in faults]
        if not self._ready.done():
            self._ready.set_result(None)

    def _on_lost(self) -> None:
        if not self._open:
            return
        self._close_control()
        if not self._ready.done():
            self._ready.set_exception(RootLost("the tool process ended while starting"))
            self._ready.exception()  # seen, if nobody waits for it any more
        if self._listener is not None:
            self._listener.lost()

    def _close_control(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._control.fileno())
            self._control.close()


class WarmRoot:
    """A root kept ready: started ahead of its use, or left by who only asked what tools there are.

    It imports libraries and modules while we open the database, and no module twice. Holds at most
    one. Use it in the loop it was made in.
    """

    def __init__(self) -> None:
        self._root: RootProcess | None = None

    def warm(self) -> None:
        """Start one, unless one is waiting. Where that fails nothing is lost but time."""
        if self._root is None:
            with contextlib.suppress(ToolUnavailable):
                self._root = RootProcess.begin(asyncio.get_running_loop())

    async def warm_up(self) -> None:
        """The same without blocking the loop."""
        if self._root is None:
            with contextlib.suppress(ToolUnavailable):
                await self._keep(await RootProcess.start())

    async def take(self, modules: Sequence[str], setting: JsonObject) -> RootProcess:
        """The one that waits, if it lives and suits; else a new one.

        Raises:
            ToolUnavailable: no process can be started here.
        """
        root, self._root = self._root, None
        if root is not None and root.suits(modules, setting):
            return root
        if root is not None:
            await root.end()
        return await RootProcess.start()

    async def give_back(self, root: RootProcess) -> None:
        """Keep a root that has no workers, for who needs the same modules next."""
        root.attach(None, None)
        await self._keep(root)

    async def _keep(self, root: RootProcess) -> None:
        if self._root is None and root.is_alive:
            self._root = root
        else:
            await root.end()

    async def close(self) -> None:
        """End the one that waits."""
        root, self._root = self._root, None
        if root is not None:
            await root.discard()
