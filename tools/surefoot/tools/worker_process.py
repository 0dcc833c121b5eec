"""The main process's end of one warm worker: its line, its output, the call it has in hand.

Everything runs in the event loop's thread. A call ends by the worker's answer or by its death.
"""

import asyncio
import os
import signal
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from surefoot.graph.ports import ArtifactRef, ArtifactStore, ToolReply
from surefoot.graph.values import JsonObject
from surefoot.tools.answers import describe
from surefoot.tools.context import find_artifact
from surefoot.tools.output import OutputPipe
from surefoot.tools.wire import Frames, message

Stop = Literal["timeout", "cut"]
_READ_BYTES = 1 << 16


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """One request in the hands of a worker."""

    subtask: str
    attempt: int
    timeout_s: float
    visible: Callable[[], dict[str, ArtifactRef]]
    """Artifacts the call may get, by full name."""
    reply: "asyncio.Future[ToolReply]"
    put: dict[str, ArtifactRef] = field(default_factory=dict[str, ArtifactRef])
    stopped: Stop | None = None
    began: bool = True
    """False where the worker was found dead when it should take the request."""

    def finish(self, reply: ToolReply) -> None:
        """Give the reply, once."""
        if not self.reply.done():
            self.reply.set_result(reply)


Errand = Callable[[Job, JsonObject], Coroutine[None, None, JsonObject]]
"""Something a running tool asks for, and its answer."""


class ArtifactDesk:
    """Serves `artifacts.put` and `artifacts.get` of running calls, through files in `staging`."""

    def __init__(self, store: ArtifactStore, staging: Path) -> None:
        self._store = store
        self._staging = staging
        self._count = 0

    async def put(self, job: Job, request: JsonObject) -> JsonObject:
        """Store a staged file; durable when this returns."""
        path, name = Path(str(request["path"])), str(request["name"])
        try:
            sha256, size = await self._store.put_file(path)
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)
        media_type = str(request["media_type"])
        job.put[name] = ArtifactRef(name=name, sha256=sha256, size=size, media_type=media_type)
        return {}

    async def get(self, job: Job, request: JsonObject) -> JsonObject:
        """Stage the content of an artifact that this call put or may see."""
        name = str(request["name"])
        try:
            ref = job.put.get(name) or self._visible(job, name)
        except KeyError as exc:
            return {"missing": str(exc.args[0])}
        self._count += 1
        path = self._staging / f"get-{os.getpid()}-{self._count}"
        await asyncio.to_thread(path.write_bytes, await self._store.get_bytes(ref["sha256"]))
        return {"path": str(path)}

    def _visible(self, job: Job, name: str) -> ArtifactRef:
        visible = job.visible()
        return visible[find_artifact(name, list(visible))]


class WorkerProcess:
    """A worker as the main process sees it."""

    def __init__(
        self,
        number: int,
        *,
        loop: asyncio.AbstractEventLoop,
        desk: ArtifactDesk,
        output: OutputPipe,
        when_idle: Callable[["WorkerProcess"], None],
        kill: Callable[[int], None],
    ) -> None:
        self.number = number
        self.pid: int | None = None
        self.output = output
        self.job: Job | None = None
        self._loop = loop
        self._desk = desk
        self._when_idle = when_idle
        self._kill = kill
        self._frames = Frames()
        self._unsent: deque[memoryview] = deque()
        self._errands: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._open = True
        self._sock, self.theirs = socket.socketpair()
        self._sock.setblocking(False)
        loop.add_reader(self._sock.fileno(), self._on_readable)

    def start(self, job: Job, request: bytes) -> None:
        """Hand over a request; its clock starts now."""
        self.job = job
        self.output.attribute(job.subtask, job.attempt)
        self._timer = self._loop.call_later(job.timeout_s, self.stop, "timeout")
        job.began = self._send(request)

    def stop(self, why: Stop) -> None:
        """End the call by killing the worker with all it started; the reply follows its death."""
        if self.job is None or self.job.stopped is not None:
            return
        self.job.stopped = why
        self._kill(self.number)

    def ended(self, status: int | None, why: str = "") -> None:
        """The process and all it started are gone; whatever it had in hand ends with it.

        Args:
            status: exit code, minus the signal; None where it never ran or nobody knows.
            why: said instead of the exit status.
        """
        self.output.close()
        job = self._let_go()
        self.close()
        if job is not None:
            job.finish(_reply_of_death(job, status, why))

    def close(self) -> None:
        """Give back the descriptors; may be called again."""
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._sock.close()
        self.theirs.close()
        self.output.close()

    def _on_readable(self) -> None:
        try:
            data = self._sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            # It is ending, or its code closed the line: make sure; the root tells when it is gone.
            self._loop.remove_reader(self._sock.fileno())
            self._kill(self.number)
            return
        for content in self._frames.feed(data):
            self._on_message(content)

    def _on_message(self, content: JsonObject) -> None:
        job = self.job
        match content["t"]:
            case "done":
                if job is not None and job.stopped is None:
                    self.output.drain()
                    self._let_go()
                    job.finish(_reply_of(job, content))
                    self._when_idle(self)
            case "put":
                self._run_errand(self._desk.put, content)
            case "get":
                self._run_errand(self._desk.get, content)
            case _:
                pass  # a heartbeat: it arrived, that is all it says

    def _run_errand(self, errand: Errand, ask: JsonObject) -> None:
        if self.job is not None:
            task = self._loop.create_task(self._answer(errand(self.job, ask)))
            self._errands.add(task)
            task.add_done_callback(self._errands.discard)

    async def _answer(self, errand: Awaitable[JsonObject]) -> None:
        try:
            answer = await errand
        except Exception as exc:  # the store's errors become the tool's
            answer = {"error": describe(exc)}
        self._send(message(answer))

    def _send(self, data: bytes) -> bool:
        """Send now or as soon as there is room; False where nobody is there to read."""
        if not self._open:
            return False
        sent = 0 if self._unsent else self._send_now(memoryview(data))
        if 0 <= sent < len(data):
            self._unsent.append(memoryview(data)[sent:])
            self._loop.add_writer(self._sock.fileno(), self._on_writable)
        return sent >= 0

    def _send_now(self, data: memoryview) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError:  # it died; reading says so, too
            return -1

    def _on_writable(self) -> None:
        while self._unsent:
            data = self._unsent[0]
            sent = self._send_now(data)
            if 0 <= sent < len(data):
                self._unsent[0] = data[sent:]
                return
            self._unsent.popleft()
        self._loop.remove_writer(self._sock.fileno())

    def _let_go(self) -> Job | None:
        job, self.job = self.job, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return job


def _reply_of(job: Job, content: JsonObject) -> ToolReply:
    if content["status"] == "ok":
        return ToolReply(
            status="ok",
            value=content["value"],
            marks=tuple(content.get("marks", ())),
            artifacts=tuple(job.put.values()),
        )
    return ToolReply(
        status=content["status"],
        kind=str(content["kind"]),
        message=str(content["message"]),
        retryable=bool(content["retryable"]),
        artifacts=tuple(job.put.values()),
    )


def _reply_of_death(job: Job, status: int | None, why: str) -> ToolReply:
    put = tuple(job.put.values())
    if job.stopped == "timeout":
        text = f"did not end within {job.timeout_s:g} s and was killed with all it had started"
        return ToolReply(status="timeout", message=text, artifacts=put)
    if job.stopped == "cut":
        return ToolReply(status="cut", message="stopped with all it had started", artifacts=put)
    if not job.began or (why and status is None):
        why = why or "the tool's process had ended before the call"
        return ToolReply(status="not_done", kind="tool_unavailable", message=why)
    text = f"the tool's process ended by itself ({_said(status)})"
    return ToolReply(status="crashed", message=text, artifacts=put)


def _said(status: int | None) -> str:
    if status is None:
        return "with the process that keeps it"
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def refused(kind: str, text: str) -> ToolReply:
    """A reply for a call that never began."""
    return ToolReply(
        status="not_done", kind=kind, message=text, retryable=kind == "tool_unavailable"
    )
