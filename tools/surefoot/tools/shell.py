"""Running commands: the built-in tool run_command, and what `command` checks share with it.

Output is bounded, a time limit ends the command with all its children, and a non-zero exit code
is a result. Runs in a tool child, which makes itself the keeper of orphans (see `child`).
"""

import os
import selectors
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypedDict

from langchain_core.tools import BaseTool, tool
from pydantic import Field

from surefoot.graph.processes import descendants_of
from surefoot.tools.context import ToolContext
from surefoot.tools.effects import Refused, effect
from surefoot.tools.files import decode

MAX_OUTPUT_BYTES = 1024 * 1024
"""Kept of each of stdout and stderr: the first and the last half of it."""

TASK_DIR = "SUREFOOT_TASK_DIR"
SECRETS = ("OPENAI_API_KEY", "SUREFOOT_DATABASE_URL")
_POLL_S = 0.02
_LAST_READS = 64
"""After the end: enough for what the pipes hold, and an end to what others still write."""


class CommandResult(TypedDict):
    """How a command ended: its exit code (minus the signal that ended it) and its output."""

    exit_code: int
    stdout: str
    stderr: str


@effect("irreversible")
@tool
def run_command(
    context: ToolContext,
    command: Annotated[
        str | list[str], Field(description="A line for the shell, or the program with arguments.")
    ],
    timeout_seconds: Annotated[
        float | None, Field(description="End it after this time, with its children.", gt=0)
    ] = None,
    env: Annotated[
        dict[str, str] | None, Field(description="Environment variables to add.")
    ] = None,
) -> CommandResult:
    """Run a command in the workspace. A non-zero exit code is a result, not an error."""
    return run(
        command,
        cwd=context.workspace,
        env=command_env(context.task_dir, env),
        timeout_s=timeout_seconds,
    )


def run(
    command: str | list[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float | None = None,
    limit_bytes: int = MAX_OUTPUT_BYTES,
) -> CommandResult:
    """Run a command to its end; what it leaves running in the background is not waited for.

    Raises:
        TimeoutError: it was ended, with its children, after `timeout_s`.
        Refused: there is no such program.
    """
    try:
        process = subprocess.Popen(
            command_argv(command),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (FileNotFoundError, PermissionError, NotADirectoryError, ValueError) as exc:
        raise Refused("missing_resource", f"{_shown(command)} cannot be started: {exc}") from exc
    with process:
        kept = _Output(process, limit_bytes)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        if not kept.read_until_exit(deadline):
            end_with_descendants(process.pid)
            raise TimeoutError(f"{_shown(command)} did not end within {timeout_s:g} s")
        return {"exit_code": process.wait(), "stdout": kept.text(0), "stderr": kept.text(1)}


def command_argv(command: str | list[str]) -> list[str]:
    """What is executed: text through the shell; `python` as a program means our interpreter.

    Raises:
        Refused: the command is empty.
    """
    if not (command.strip() if isinstance(command, str) else command):
        raise Refused("bad_arguments", "the command is empty")
    if isinstance(command, str):
        return ["/bin/sh", "-c", command]
    return [sys.executable if command[0] == "python" else command[0], *command[1:]]


def command_env(task_dir: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of commands: ours, SUREFOOT_TASK_DIR, and our interpreter's folder first.

    Our own secrets are left out: an agent chooses commands, and what they print is kept and shown
    to a model.
    """
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join([own, os.environ.get("PATH", os.defpath)])
    ours = {name: value for name, value in os.environ.items() if name not in SECRETS}
    return {**ours, "PATH": path, TASK_DIR: str(task_dir), **(extra or {})}


def end_with_descendants(pid: int) -> None:
    """Kill a process, its group and all below it, also what left the group."""
    below = descendants_of(pid)
    for group in (pid, *below):
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    for one in below:
        try:
            os.kill(one, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


class _Output:
    """Both streams of a process, read as they come, kept up to a limit."""

    def __init__(self, process: "subprocess.Popen[bytes]", limit_bytes: int) -> None:
        self._process = process
        self._half = limit_bytes // 2
        self._heads = [bytearray(), bytearray()]
        self._tails = [bytearray(), bytearray()]
        self._dropped = [0, 0]
        self._selector = selectors.DefaultSelector()
        for place, stream in enumerate((process.stdout, process.stderr)):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self._selector.register(stream.fileno(), selectors.EVENT_READ, place)

    def read_until_exit(self, deadline: float | None) -> bool:
        """Read until the process has ended; False when `deadline` (monotonic) came first.

        A child left in the background may hold the streams open for ever, so it is the process
        that is waited for, not their end.
        """
        with self._selector, _ExitWatch(self._process.pid, self._selector):
            while self._process.poll() is None:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._read(min(_POLL_S, left) if left is not None else _POLL_S)
            for _ in range(_LAST_READS):
                if not self._read(0):
                    break
        return True

    def text(self, place: int) -> str:
        """What was kept of stdout (0) or stderr (1), with a note where something was left out."""
        note = f"\n... ({self._dropped[place]} bytes left out) ...\n".encode()
        middle = note if self._dropped[place] else b""
        return decode(bytes(self._heads[place]) + middle + bytes(self._tails[place]))

    def _read(self, wait_s: float) -> bool:
        some = False
        for key, _ in self._selector.select(wait_s):
            if key.data is not None:
                some = self._take(key.fd, key.data) or some
        return some

    def _take(self, fd: int, place: int) -> bool:
        data = _read_now(fd)
        if data:
            self._keep(place, data)
        elif data is not None:
            self._selector.unregister(fd)
        return bool(data)

    def _keep(self, place: int, data: bytes) -> None:
        head, tail = self._heads[place], self._tails[place]
        room = self._half - len(head)
        head += data[:room]
        tail += data[max(room, 0) :]
        over = len(tail) - self._half
        if over > 0:
            del tail[:over]
            self._dropped[place] += over


class _ExitWatch:
    """Wakes a selector when a process ends, where the system can (Linux)."""

    def __init__(self, pid: int, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        try:
            self._fd = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self._fd = -1

    def __enter__(self) -> None:
        if self._fd >= 0:
            self._selector.register(self._fd, selectors.EVENT_READ, None)

    def __exit__(self, *exc: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _read_now(fd: int) -> bytes | None:
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return None


def _shown(command: str | list[str]) -> str:
    text = command if isinstance(command, str) else shlex.join(command)
    return text if len(text) <= 200 else text[:200] + " ..."


TOOLS: list[BaseTool] = [run_command]
