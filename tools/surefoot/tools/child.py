"""The root of a task's tool processes: imports the tools modules once, then forks warm workers.

Started by `root_process` with a descriptor as its argument. One thread, its own session. It is the
parent of all workers and adopts what they leave behind, so that a call ends with everything it
started, and it ends last: whoever sees it gone knows that nothing of the tools runs any more.
"""

import ctypes
import gc
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from surefoot.graph.processes import children_of
from surefoot.graph.values import JsonObject
from surefoot.tools.registry import Registry
from surefoot.tools.wire import Frames, message, receive
from surefoot.tools.worker import Line, Worker

END_WITHIN_S = 3.0
"""How long a killed process may take to go (it may hang in the kernel)."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Root:
    """Forks and ends workers as the main process asks, until that is gone."""

    def __init__(self, control: socket.socket, registry: Registry, setting: JsonObject) -> None:
        self._control = control
        self._registry = registry
        self._setting = setting
        self._workers: dict[int, int] = {}  # pid -> the main process's number for it
        self._fds: deque[int] = deque()
        self._frames = Frames()
        self._own = set(children_of(os.getpid()))
        """Started by the modules' imports; they live as long as we do."""
        self._woken, self._waker = os.pipe()

    def serve(self) -> None:
        """Work until the main process is gone, then end everything."""
        for fd in (self._woken, self._waker):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, _let_pass)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while self._serve_once(selector):
                pass
        self._end_all()

    def _serve_once(self, selector: selectors.BaseSelector) -> bool:
        for key, _ in selector.select():
            if key.fd == self._woken:
                os.read(self._woken, 4096)
                self._reap()
            elif not self._take_requests():
                return False
        return True

    def _take_requests(self) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, 65536, 64)
        except ConnectionError:
            return False
        self._fds.extend(fds)
        for request in self._frames.feed(data):
            if request["op"] == "fork":
                self._fork(int(request["id"]))
            elif request["op"] == "setting":
                self._setting = request["setting"]
            else:
                self._end(int(request["id"]))
        return bool(data)

    def _fork(self, number: int) -> None:
        fds = (self._fds.popleft(), self._fds.popleft())
        root = os.getpid()
        # Until the worker has handlers of its own a signal would find those of the root.
        signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)
        try:
            pid = os.fork()
        except OSError as exc:
            self._tell({"op": "fork_failed", "id": number, "message": str(exc)})
            pid = -1
        if pid == 0:
            self._become_worker(root, *fds)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _IGNORED)
        for fd in fds:
            os.close(fd)
        if pid > 0:
            self._workers[pid] = number
            self._tell({"op": "forked", "id": number, "pid": pid})

    def _become_worker(self, root: int, sock_fd: int, log_fd: int) -> None:
        """Never returns: what follows in the parent's loop is not for a worker."""
        try:
            os.setsid()
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != root:
                os._exit(1)
            prctl(_PR_SET_CHILD_SUBREAPER, 1)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            outlive_signals()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _IGNORED)
            for fd in (self._control.detach(), self._woken, self._waker):
                os.close(fd)
            redirect_output(log_fd)
            gc.enable()
            line = Line(socket.socket(fileno=sock_fd))
            Worker(line, self._registry, self._setting).serve()
        finally:
            os._exit(0)

    def _end(self, number: int) -> None:
        """Kill a worker with all it started, now."""
        for pid in [p for p, n in self._workers.items() if n == number]:
            kill_group(pid)
            wait_for_end(pid, END_WITHIN_S, self._ended)

    def _reap(self) -> None:
        while (pid := _ended_child()) is not None:
            # Not yet reaped: its number still names its group and nobody else's.
            if pid in self._workers:
                kill_group(pid)
            wait_for_end(pid, END_WITHIN_S, self._ended if pid in self._workers else None)

    def _ended(self, pid: int, status: int) -> None:
        number = self._workers.pop(pid)
        self._end_orphans()
        self._tell({"op": "exit", "id": number, "status": os.waitstatus_to_exitcode(status)})

    def _end_orphans(self) -> None:
        """Kill what dead workers left: a live one adopts its own, so all strangers here are that.

        Killing one hands its children to us; repeated until there is none.
        """
        until = time.monotonic() + END_WITHIN_S
        while time.monotonic() < until:
            known = self._workers.keys() | self._own
            orphans = [pid for pid in children_of(os.getpid()) if pid not in known]
            if not orphans:
                return
            for pid in orphans:
                kill_group(pid)
            for pid in orphans:
                wait_for_end(pid, until - time.monotonic())

    def _end_all(self) -> None:
        signal.set_wakeup_fd(-1)
        for pid in [*self._workers, *self._own]:
            kill_group(pid)
        self._workers.clear()
        self._own.clear()
        self._end_orphans()

    def _tell(self, content: JsonObject) -> None:
        try:
            self._control.sendall(message(content))
        except OSError:  # the main process is gone; reading will say so, too
            return


def prctl(option: int, value: int) -> None:
    """Set a property of this process (Linux; elsewhere nothing happens)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, int(value), 0, 0, 0)


def outlive_signals() -> None:
    """Do not end by the signals that end the main process: it says itself when work is to stop.

    A handler and not SIG_IGN, which commands would inherit and then could not be terminated.
    """
    owner = os.getpid()

    def pass_over(number: int, _frame: object) -> None:
        if os.getpid() != owner:  # forked by a tool: as if there were no handler
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    for number in _IGNORED:
        signal.signal(number, pass_over)


def redirect_output(log_fd: int) -> None:
    """Let everything printed, by subprocesses too, go to the log."""
    for fd in (1, 2):
        os.dup2(log_fd, fd)
    os.close(log_fd)
    for stream in (sys.stdout, sys.stderr):
        cast("Any", stream).reconfigure(
            encoding="utf-8", errors="backslashreplace", line_buffering=True
        )


def kill_group(pid: int) -> None:
    """SIGKILL to a process and to the group it leads."""
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def wait_for_end(pid: int, within_s: float, ended: Any = None) -> None:
    """Reap a child that was killed and pass it on to `ended(pid, status)`."""
    until = time.monotonic() + within_s
    while True:
        try:
            found, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return
        if found:
            if ended is not None:
                ended(pid, status)
            return
        if time.monotonic() > until:
            return
        time.sleep(0.0005)


def _ended_child() -> int | None:
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return found.si_pid if found is not None else None


def _let_pass(_number: int, _frame: object) -> None:
    """Only the wakeup counts."""


def _load(control: socket.socket, setting: JsonObject) -> Registry:
    registry, task_dir = Registry(), Path(str(setting["task_dir"]))
    registry.add_builtin()
    for module in cast("list[str]", setting["modules"]):
        control.sendall(message({"op": "importing", "module": module}))
        registry.add_module(module, task_dir)
    control.sendall(message({"op": "importing", "module": ""}))
    return registry


def main() -> None:
    """Load the tools, say what there is, serve."""
    outlive_signals()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # While foreign imports run nothing here watches the main process; so the kernel does.
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    control = socket.socket(fileno=int(sys.argv[1]))
    setting = receive(control)
    if setting is None:
        return
    registry = _load(control, setting)
    gc.freeze()
    specs = [asdict(spec) for spec in registry.specs.values()]
    faults = [asdict(fault) for fault in registry.faults]
    control.sendall(message({"op": "ready", "specs": specs, "faults": faults}))
    prctl(_PR_SET_PDEATHSIG, 0)
    Root(control, registry, setting).serve()
    os._exit(0)
