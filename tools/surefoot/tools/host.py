"""`ChildToolHost`: the tools of one task, wherever each of them runs.

Tools from modules run in warm processes that are killed at the timeout with all they started;
tools passed as objects, or declared `in_process`, run in this process.
"""

import asyncio
import contextlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from langchain_core.tools import BaseTool

from surefoot.graph.errors import ToolArgumentsInvalid
from surefoot.graph.plain import clean_text
from surefoot.graph.ports import ArtifactRef, ArtifactStore, ToolCall, ToolReply, ToolSpec
from surefoot.graph.tool_ports import Hold
from surefoot.graph.values import Json, JsonObject
from surefoot.tools.context import Backend, ToolContext
from surefoot.tools.limits import Access
from surefoot.tools.local_calls import LocalCalls
from surefoot.tools.operations import Operation
from surefoot.tools.output import Sink
from surefoot.tools.registry import RegisteredTool, Registry
from surefoot.tools.root_process import WarmRoot
from surefoot.tools.tool_fault import ToolFault
from surefoot.tools.wire import message
from surefoot.tools.worker_pool import WorkerPool
from surefoot.tools.worker_process import ArtifactDesk, Job, refused

KEY_WITHIN_S = 30.0
CHECKS = 3
"""How often a check is run whose process dies in it."""

CHECK_WITHIN_S = 120.0


class ChildToolHost:
    """Runs the tools of one task (`ports.ToolHost`)."""

    def __init__(
        self,
        *,
        task_id: str,
        workspace: Path,
        task_dir: Path,
        store: ArtifactStore,
        staging: Path,
        pool: WorkerPool,
        on_log: Sink,
        inputs: Sequence[Path],
        hold: Hold | None = None,
    ) -> None:
        self._task_id = task_id
        self._workspace = workspace
        self._task_dir = task_dir
        self._staging = staging
        self._pool = pool
        self._inputs = tuple(inputs)
        self._local: dict[str, RegisteredTool] = {}
        self._local_calls = LocalCalls(store, on_log, hold)
        self.specs: Mapping[str, ToolSpec] = {}
        self.faults: list[ToolFault] = []

    @classmethod
    async def start(
        cls,
        modules: Sequence[str],
        objects: Sequence[BaseTool] = (),
        *,
        task_id: str,
        workspace: Path,
        task_dir: Path,
        store: ArtifactStore,
        slots: int,
        staging: Path,
        on_log: Sink,
        inputs: Sequence[Path] = (),
        warm: WarmRoot | None = None,
        hold: Hold | None = None,
    ) -> "ChildToolHost":
        """Start the tool processes, import the modules there, learn the tools.

        Args:
            modules: paths (against `task_dir`) or dotted names; each with a list TOOLS.
            objects: tools of this process.
            task_id: the task's id, for contexts.
            workspace: where tools work; made if missing.
            task_dir: the folder of the task file.
            store: where `artifacts.put` goes.
            slots: how many processes stay warm.
            staging: a folder of this host's own for files on their way; emptied now and removed
                on `close`.
            on_log: gets (subtask, attempt, line) for everything printed or logged.
            inputs: declared inputs, readable for every call beside its own `readable`.
            warm: a root that may have been started ahead.
            hold: the right to begin calls; None = nobody else can come.

        Returns:
            A host with `specs`, and `faults` for the modules that could not be used.

        Raises:
            ToolUnavailable: no process can be started here.
        """
        await asyncio.to_thread(_make_folders, workspace, staging)
        setting: JsonObject = {
            "task_id": task_id,
            "workspace": str(workspace),
            "task_dir": str(task_dir),
            "staging": str(staging),
        }
        desk = ArtifactDesk(store, staging)
        pool = WorkerPool(
            modules, setting=setting, desk=desk, slots=slots, sink=on_log, warm=warm, hold=hold
        )
        host = cls(
            task_id=task_id,
            workspace=workspace,
            task_dir=task_dir,
            store=store,
            staging=staging,
            pool=pool,
            on_log=on_log,
            inputs=inputs,
            hold=hold,
        )
        try:
            await pool.open()
            await host._take_tools(objects)
        except BaseException:
            await host.close()
            raise
        return host

    async def call(self, call: ToolCall) -> ToolReply:
        """Run the tool; never raises for what the tool does."""
        return await self._operate("call", call, call.timeout_s)

    async def key(self, call: ToolCall) -> str:
        """The tool's own key for these arguments.

        Raises:
            ToolArgumentsInvalid: the function raised, took too long or returned no text.
        """
        reply = await self._operate("key", call, KEY_WITHIN_S)
        if reply.status != "ok":
            raise ToolArgumentsInvalid(f"{call.tool}: its key= failed: {reply.message}")
        return str(reply.value)

    async def probe(self, call: ToolCall) -> ToolReply:
        """Ask the world: `ok` with value None = it did not happen, else its result."""
        return await self._operate("probe", call, call.timeout_s)

    async def compensate(self, call: ToolCall, result: Json) -> ToolReply:
        """Take the effect back; `ok` = it is undone."""
        return await self._operate("compensate", call, call.timeout_s, result)

    async def check(self, call: str, context: JsonObject) -> bool | str:
        """Run a `python` check in a tool process; a text says why it failed.

        Once more where its process died: somebody may have killed it, which says nothing of what
        is checked.

        `context["timeout_seconds"]` bounds it (default 120 s), `context["subtask"]` names whom a
        `cut` must be about to end it.
        """
        limit = context.get("timeout_seconds") or CHECK_WITHIN_S
        subtask = str(context.get("subtask") or "")
        full = {"task_id": self._task_id, "workspace": str(self._workspace), **context}
        asked = message({"op": "check", "call": call, "context": full})
        reply = await self._pool.run(self._job(subtask, 0, float(limit)), asked)
        for _ in range(CHECKS - 1):
            if reply.status != "crashed":
                break
            reply = await self._pool.run(self._job(subtask, 0, float(limit)), asked)
        if reply.status != "ok":
            return f"{call}: {reply.message}"
        if isinstance(reply.value, bool | str):
            return reply.value
        return f"{call} returned {reply.value!r:.200}: a check returns True, False or a text"

    def child_pids(self) -> list[tuple[int, float]]:
        """(pid, start time) of the root of the tool processes, which is the last of them to end."""
        root = self._pool.root()
        return [] if root is None else [root]

    async def cut(self, subtasks: Sequence[str] | None = None) -> None:
        """Kill the calls of these subtasks (None = all); returns when they are gone."""
        await asyncio.gather(self._pool.cut(subtasks), self._local_calls.cut(subtasks))

    async def release(self) -> None:
        """Close a host that was only asked for its tools; its process is left to `warm`."""
        await self._pool.release()
        await self.close()

    async def close(self) -> None:
        """End every child; returns when none is left."""
        await self._local_calls.cut(None)
        await self._pool.close()
        await asyncio.to_thread(shutil.rmtree, self._staging, ignore_errors=True)

    async def _take_tools(self, objects: Sequence[BaseTool]) -> None:
        specs, faults = self._pool.specs, list(self._pool.faults)
        here = {spec.module for spec in specs.values() if spec.in_process}
        local = await asyncio.to_thread(_load_here, sorted(here), objects, self._task_dir)
        mine = {n: t for n, t in local.tools.items() if t.spec.in_process}
        for name, tool in mine.items():
            other = specs.get(name)
            if tool.spec.module == "object" and other is not None and other.module != "builtin":
                text = f"tools: {name} is also a tool of {other.module}; rename one"
                faults.append(ToolFault(module="object", message=text))
        self._local = mine
        self.specs = {**specs, **{name: tool.spec for name, tool in mine.items()}}
        self.faults = [*faults, *local.faults]

    async def _operate(
        self, operation: Operation, call: ToolCall, timeout_s: float, result: Json = None
    ) -> ToolReply:
        if call.tool not in self.specs:
            return refused("bad_arguments", f"there is no tool {clean_text(call.tool)!r}")
        job = self._job(call.subtask, call.attempt, timeout_s, call.artifacts)
        local = self._local.get(call.tool)
        if local is None:
            return await self._pool.run(job, self._request(operation, call, result))
        return await self._local_calls.run(
            operation,
            local,
            job,
            args=call.args,
            result=result,
            context=lambda backend: self._context(call, backend),
        )

    def _job(
        self,
        subtask: str,
        attempt: int,
        timeout_s: float,
        artifacts: Mapping[str, ArtifactRef] | None = None,
    ) -> Job:
        return Job(
            subtask=subtask,
            attempt=attempt,
            timeout_s=timeout_s,
            visible=lambda: dict(artifacts or {}),
            reply=asyncio.get_running_loop().create_future(),
        )

    def _request(self, operation: Operation, call: ToolCall, result: Json) -> bytes:
        request: JsonObject = {
            "op": operation,
            "tool": call.tool,
            "args": call.args,
            "subtask": call.subtask,
            "attempt": call.attempt,
            "failed": call.failed_attempts,
            "key": call.idempotency_key,
            "writes": call.writes,
            "readable": [str(path) for path in (*self._inputs, *call.readable)],
            "denied_hosts": call.denied_hosts,
            "denied_paths": [(mode, str(path)) for mode, path in call.denied_paths],
        }
        if result is not None:
            request["result"] = result
        return message(request)

    def _context(self, call: ToolCall, backend: Backend) -> ToolContext:
        access = Access(
            workspace=self._workspace,
            readable=(*self._inputs, *call.readable),
            writes=call.writes,
            denied_paths=call.denied_paths,
            denied_hosts=call.denied_hosts,
        )
        return ToolContext(
            task_id=self._task_id,
            subtask_id=call.subtask,
            attempt=call.attempt,
            failed_attempts=call.failed_attempts,
            idempotency_key=call.idempotency_key,
            access=access,
            task_dir=self._task_dir,
            backend=backend,
        )


def _make_folders(workspace: Path, staging: Path) -> None:
    shutil.rmtree(staging, ignore_errors=True)  # what a killed process left there
    for folder in (workspace, staging):
        folder.mkdir(parents=True, exist_ok=True)


def _load_here(modules: Sequence[str], objects: Sequence[BaseTool], task_dir: Path) -> Registry:
    registry = Registry()
    # What a module prints while it is imported here must not come between the lines of a document.
    with contextlib.redirect_stdout(sys.stderr):
        for module in modules:
            registry.add_module(module, task_dir)
    registry.add_objects(objects)
    return registry
