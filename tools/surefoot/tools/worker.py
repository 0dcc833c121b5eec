"""Inside a warm tool process: take a request, run the tool's code, answer, wait for the next.

One thread, one request at a time. Its standard output is the log of the subtask it works for.
"""

import asyncio
import os
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, cast

from surefoot.graph.errors import ToolArgumentsInvalid
from surefoot.graph.values import JsonObject
from surefoot.tools.answers import Answer, answer_error, answer_value, run_to_end
from surefoot.tools.context import ToolContext
from surefoot.tools.effects import Effect
from surefoot.tools.limits import Access
from surefoot.tools.operations import Operation, check, key_text, operate
from surefoot.tools.registry import RegisteredTool, Registry
from surefoot.tools.wire import frame, message, receive

BEAT_EVERY_S = 0.2
_NO_EFFECT = Effect(kind="read")


class Line:
    """The pipe to the main process; threads of a tool may use it at the same time."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self._open = False

    def next_request(self) -> JsonObject | None:
        """Wait for work; None when the main process is gone."""
        return receive(self._sock)

    def send(self, framed: bytes) -> None:
        """Send a whole message."""
        with self._sending:
            self._sock.sendall(framed)

    def begin(self) -> None:
        """A call starts: its tool may ask."""
        self._open = True

    def end(self) -> None:
        """The call is over; a thread it left behind would read the next request as its answer."""
        with self._asking:
            self._open = False

    def ask(self, content: JsonObject) -> JsonObject:
        """Send a question of a running tool and wait for its answer."""
        with self._asking:
            if not self._open:
                raise RuntimeError("the call is over")
            self.send(message(content))
            answer = receive(self._sock)
        if answer is None:
            os._exit(0)  # nobody is left to work for
        return answer


class ChildBackend:
    """What stands behind the `ToolContext` of a call in this process."""

    def __init__(self, line: Line, staging: Path) -> None:
        self._line = line
        self._staging = staging
        self._beaten = 0.0
        self._count = 0

    def put(self, name: str, content: bytes, media_type: str) -> None:
        """Hand the bytes over as a file; returns once they are durable in the store."""
        self._count += 1
        path = self._staging / f"put-{os.getpid()}-{threading.get_ident()}-{self._count}"
        path.write_bytes(content)
        answer = self._line.ask(
            {"t": "put", "name": name, "path": str(path), "media_type": media_type}
        )
        if "error" in answer:
            raise RuntimeError(f"the artifact {name!r} could not be stored: {answer['error']}")

    def get(self, name: str) -> bytes:
        """The content of an artifact, through a file."""
        answer = self._line.ask({"t": "get", "name": name})
        if "missing" in answer:
            raise KeyError(answer["missing"])
        if "error" in answer:
            raise RuntimeError(f"the artifact {name!r} could not be read: {answer['error']}")
        path = Path(str(answer["path"]))
        content = path.read_bytes()
        path.unlink()
        return content

    def heartbeat(self) -> None:
        """Tell the main process, not more often than it is of use."""
        now = time.monotonic()
        if now - self._beaten >= BEAT_EVERY_S:
            self._beaten = now
            self._line.send(message({"t": "beat"}))

    def is_cancelled(self) -> bool:
        """Never: a call in a process of its own is killed, not asked."""
        return False

    def log(self, text: str) -> None:
        """Write to the log past whatever the tool did to `sys.stdout`."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        data = (text.rstrip("\n") + "\n").encode(errors="backslashreplace")
        while data:
            data = data[os.write(1, data) :]


class Worker:
    """The tools of a task and the line their calls come in by."""

    def __init__(self, line: Line, registry: Registry, setting: JsonObject) -> None:
        self._line = line
        self._registry = registry
        self._task_id = str(setting["task_id"])
        self._workspace = Path(str(setting["workspace"]))
        self._task_dir = Path(str(setting["task_dir"]))
        self._staging = Path(str(setting["staging"]))
        self._runner = asyncio.Runner()
        self._pid = os.getpid()

    def serve(self) -> None:
        """Answer requests until the main process is gone."""
        while (request := self._line.next_request()) is not None:
            self._line.begin()
            answer = self._answer(request)
            if os.getpid() != self._pid:
                os._exit(0)  # forked by the tool, which forgot to end its child
            self._line.end()
            for stream in (sys.stdout, sys.stderr):
                _flush(stream)
            self._line.send(_framed(answer))

    def _answer(self, request: JsonObject) -> Answer:
        effect = _NO_EFFECT
        try:
            enter(self._workspace)
            operation = cast("Operation", request["op"])
            if operation == "check":
                returned = check(str(request["call"]), request["context"], self._task_dir)
                return answer_value(run_to_end(self._runner, returned))
            tool = self._tool(str(request["tool"]))
            effect = tool.effect
            return self._operate(operation, tool, request)
        except BaseException as exc:  # foreign code; sys.exit() too
            answer = answer_error(exc, effect)
            if answer.status == "error":
                _log_traceback(exc)
            return answer

    def _operate(self, operation: Operation, tool: RegisteredTool, request: JsonObject) -> Answer:
        context = self._context(request)
        returned = operate(operation, tool, request["args"], request.get("result"), context)
        returned = run_to_end(self._runner, returned)
        if operation == "call":
            returned = tool.callable.result_of(returned)
        if operation == "key":
            returned = key_text(returned)
        # A compensation that returned has undone it, whatever it returned.
        return answer_value(None if operation == "compensate" else returned)

    def _tool(self, name: str) -> RegisteredTool:
        try:
            return self._registry.tools[name]
        except KeyError:
            raise ToolArgumentsInvalid(f"there is no tool {name!r}") from None

    def _context(self, request: JsonObject) -> ToolContext:
        writes = cast("list[str] | None", request["writes"])
        access = Access(
            workspace=self._workspace,
            readable=tuple(Path(path) for path in request["readable"]),
            writes=None if writes is None else tuple(writes),
            denied_paths=tuple((mode, Path(path)) for mode, path in request["denied_paths"]),
            denied_hosts=tuple(request["denied_hosts"]),
        )
        return ToolContext(
            task_id=self._task_id,
            subtask_id=str(request["subtask"]),
            attempt=int(request["attempt"]),
            failed_attempts=int(request["failed"]),
            idempotency_key=str(request["key"]),
            access=access,
            task_dir=self._task_dir,
            backend=ChildBackend(self._line, self._staging),
        )


def enter(folder: Path) -> None:
    """Make a folder the current one; made anew where somebody removed it."""
    try:
        os.chdir(folder)
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(folder)


def _framed(answer: Answer) -> bytes:
    """The answer's message; the value's JSON goes in as it is, so that it is written once."""
    if answer.status == "ok" and not answer.marks:
        return frame(b'{"t":"done","status":"ok","value":' + answer.text.encode() + b"}")
    if answer.status == "ok":
        head = message({"t": "done", "status": "ok", "marks": list(answer.marks)})[4:-1]
        return frame(head + b',"value":' + answer.text.encode() + b"}")
    return message(
        {
            "t": "done",
            "status": answer.status,
            "kind": answer.kind,
            "message": answer.message,
            "retryable": answer.retryable,
        }
    )


def _log_traceback(exc: BaseException) -> None:
    try:
        traceback.print_exception(exc, limit=-20)
    except Exception:  # foreign __str__ and __repr__
        return


def _flush(stream: Any) -> None:
    try:
        stream.flush()
    except (OSError, ValueError):  # the tool closed or replaced it
        return
