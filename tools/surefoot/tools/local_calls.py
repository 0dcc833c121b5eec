"""Tools that run in this process: on a thread when sync, on the loop when async.

For tools passed as objects and those declared `in_process=True`. Nobody can kill such a call; a
timeout abandons it, and what it returns or puts afterwards is dropped.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from surefoot.graph.plain import clean_text
from surefoot.graph.ports import ArtifactRef, ArtifactStore, ToolReply
from surefoot.graph.tool_ports import Hold
from surefoot.graph.values import Json, JsonObject
from surefoot.tools.answers import Answer, answer_error, answer_value, settle
from surefoot.tools.context import ToolContext, find_artifact
from surefoot.tools.operations import Operation, key_text, operate
from surefoot.tools.output import Sink
from surefoot.tools.registry import RegisteredTool
from surefoot.tools.worker_process import Job, Stop

MakeContext = Callable[["LocalBackend"], ToolContext]


class LocalBackend:
    """What stands behind the `ToolContext` of a call in this process."""

    def __init__(self, job: Job, store: ArtifactStore, sink: Sink, *, on_loop: bool) -> None:
        self._job = job
        self._store = store
        self._sink = sink
        self._on_loop = on_loop
        self._loop = asyncio.get_running_loop()
        self._unstored: dict[str, tuple[bytes, str]] = {}
        self.closed = False

    def put(self, name: str, content: bytes, media_type: str) -> None:
        """Store now (thread), or before the result counts (loop, which must not be blocked)."""
        self._check_open()
        if self._on_loop:
            self._unstored[name] = (content, media_type)
        else:
            self._wait_for(self._store_one(name, content, media_type))

    def get(self, name: str) -> bytes:
        """The content of an artifact; on the loop only what this call put itself."""
        self._check_open()
        if name in self._unstored:
            return self._unstored[name][0]
        if self._on_loop:
            raise RuntimeError(
                "artifacts.get would block the event loop: write the in-process tool without async"
            )
        return self._wait_for(self._load_one(name))

    def heartbeat(self) -> None:
        """Nothing to do: nobody waits for a sign of life from this process."""

    def is_cancelled(self) -> bool:
        """True once the call was abandoned."""
        return self.closed

    def log(self, text: str) -> None:
        """Add lines to the log."""
        for line in clean_text(text).splitlines() or [""]:
            self._loop.call_soon_threadsafe(self._sink, self._job.subtask, self._job.attempt, line)

    async def flush(self) -> None:
        """Store what was put on the loop."""
        while self._unstored:
            name = next(iter(self._unstored))
            content, media_type = self._unstored[name]
            await self._store_one(name, content, media_type)
            del self._unstored[name]

    async def _store_one(self, name: str, content: bytes, media_type: str) -> None:
        sha256 = await self._store.put_bytes(content)
        self._check_open()
        size = len(content)
        ref = ArtifactRef(name=name, sha256=sha256, size=size, media_type=media_type)
        self._job.put[name] = ref

    async def _load_one(self, name: str) -> bytes:
        visible = self._job.visible()
        ref = self._job.put.get(name) or visible[find_artifact(name, list(visible))]
        return await self._store.get_bytes(ref["sha256"])

    def _wait_for(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("the call is over")


class LocalCalls:
    """The calls running in this process."""

    def __init__(self, store: ArtifactStore, sink: Sink, hold: Hold | None = None) -> None:
        self._hold = hold
        self._store = store
        self._sink = sink
        self._running: dict[Job, asyncio.Future[Stop]] = {}

    async def run(
        self,
        operation: Operation,
        tool: RegisteredTool,
        job: Job,
        *,
        args: JsonObject,
        result: Json,
        context: MakeContext,
    ) -> ToolReply:
        """Run an operation of a tool; never raises for what the tool does.

        Raises:
            LeaseLost, DatabaseUnavailable: it did not begin, from the hold.
        """
        if self._hold is not None and not self._hold.sure():
            await self._hold.make_sure()
        loop = asyncio.get_running_loop()
        on_loop = tool.callable.is_async if operation == "call" else False
        backend = LocalBackend(job, self._store, self._sink, on_loop=on_loop)
        made = context(backend)
        work = (
            loop.create_task(_on_loop(tool, args, made, backend))
            if on_loop
            else _on_thread(lambda: _operate(operation, tool, args, result, made), tool)
        )
        stop: asyncio.Future[Stop] = loop.create_future()
        self._running[job] = stop
        try:
            await asyncio.wait(
                {work, stop}, timeout=job.timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            del self._running[job]
            stopped = stop.result() if stop.done() else "timeout"
            backend.closed = True
            if not work.done():
                work.cancel()
            stop.cancel()
        put = tuple(job.put.values())
        return _abandoned(job, stopped, put) if not _ended(work) else _reply(work.result(), put)

    async def cut(self, subtasks: Sequence[str] | None) -> None:
        """Abandon the calls of these subtasks (None = all)."""
        for job, stop in list(self._running.items()):
            if (subtasks is None or job.subtask in subtasks) and not stop.done():
                stop.set_result("cut")
        await asyncio.sleep(0)


def _operate(
    operation: Operation, tool: RegisteredTool, args: JsonObject, result: Json, context: ToolContext
) -> Answer:
    returned = asyncio.run(settle_returned(operate(operation, tool, args, result, context)))
    if operation == "call":
        returned = tool.callable.result_of(returned)
    if operation == "key":
        returned = key_text(returned)
    return answer_value(None if operation == "compensate" else returned)


async def settle_returned(returned: object) -> object:
    """Await what a sync function may have handed back."""
    return await settle(returned)


async def _on_loop(
    tool: RegisteredTool, args: JsonObject, context: ToolContext, backend: LocalBackend
) -> Answer:
    try:
        awaitable = tool.callable.run_async(args, context)
        returned = tool.callable.result_of(await settle(awaitable))
        await backend.flush()
        return answer_value(returned)
    except asyncio.CancelledError:
        raise
    except BaseException as exc:  # foreign code
        return answer_error(exc, tool.effect)


def _on_thread(work: Callable[[], Answer], tool: RegisteredTool) -> "asyncio.Future[Answer]":
    # Not the default executor: that joins its threads at exit, and one may hang for ever.
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Answer] = loop.create_future()

    def run() -> None:
        try:
            found = work()
        except BaseException as exc:  # foreign code; sys.exit() too
            found = answer_error(exc, tool.effect)
        try:
            loop.call_soon_threadsafe(_deliver, answer, found)
        except RuntimeError:  # the loop was closed while the abandoned call went on
            return

    context = contextvars.copy_context()
    threading.Thread(target=lambda: context.run(run), daemon=True, name="surefoot-tool").start()
    return answer


def _deliver(answer: "asyncio.Future[Answer]", found: Answer) -> None:
    if not answer.done():
        answer.set_result(found)


def _ended(work: "asyncio.Future[Answer]") -> bool:
    return work.done() and not work.cancelled()


def _abandoned(job: Job, stopped: Stop, put: tuple[ArtifactRef, ...]) -> ToolReply:
    if stopped == "cut":
        return ToolReply(status="cut", message="abandoned in this process", artifacts=put)
    text = f"did not end within {job.timeout_s:g} s and was abandoned in this process"
    return ToolReply(status="timeout", message=text, artifacts=put)


def _reply(answer: Answer, put: tuple[ArtifactRef, ...]) -> ToolReply:
    return ToolReply(
        status=answer.status,
        value=answer.value,
        message=answer.message,
        kind=answer.kind,
        retryable=answer.retryable,
        marks=answer.marks,
        artifacts=put,
    )
