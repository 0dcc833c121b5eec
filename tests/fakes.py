"""Stand-ins that live in memory, for tests of what is between the nodes and the tools.

They keep the promises of `surefoot.graph.ports`; the real ledger, store and tool host are tested
with PostgreSQL, files and processes in `integration/`.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from surefoot.graph.errors import PermanentError
from surefoot.graph.keys import is_undo
from surefoot.graph.plan import Each, Subtask
from surefoot.graph.ports import (
    Binding,
    EffectCall,
    EffectKind,
    EffectRow,
    EffectState,
    ToolCall,
    ToolReply,
    ToolSpec,
    WorkOrder,
)
from surefoot.graph.values import Action, ArtifactRef, Json, JsonObject, StoredValue
from surefoot.tools.runner import LocalRunner

Behaviour = Callable[[ToolCall], ToolReply | asyncio.Future[ToolReply]]
"""What a fake tool does: answers, or gives a future that the test settles."""


class FixedClock:
    """A clock that stands until it is moved."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def ok(value: Json = None, *artifacts: ArtifactRef) -> ToolReply:
    """A tool's good answer."""
    return ToolReply(status="ok", value=value, artifacts=artifacts)


@dataclass
class FakeTool:
    """One tool: its spec and what call, probe, compensation and key do."""

    spec: ToolSpec
    run: Behaviour
    probe: Behaviour | None = None
    compensate: Behaviour | None = None
    key: Callable[[JsonObject], str] | None = None


class FakeHost:
    """Runs fake tools and remembers what was asked of it."""

    def __init__(self) -> None:
        self.tools: dict[str, FakeTool] = {}
        self.specs: dict[str, ToolSpec] = {}
        self.calls: list[ToolCall] = []
        self.log: list[tuple[str, str]] = []
        """(`call`, `probe` or `compensate`, tool), in order."""
        self.known: list[Json] = []
        """The results that compensations were given."""
        self.checks: list[tuple[str, JsonObject]] = []
        self.check_answer: Callable[[str, JsonObject], bool | str] = lambda call, context: True
        self.in_flight: dict[int, tuple[ToolCall, asyncio.Future[ToolReply]]] = {}

    def add(
        self,
        name: str,
        run: Behaviour,
        *,
        effect: EffectKind = "read",
        probe: Behaviour | None = None,
        compensate: Behaviour | None = None,
        key: Callable[[JsonObject], str] | None = None,
        schema: JsonObject | None = None,
        module: str = "",
    ) -> None:
        """Declare a tool."""
        spec = ToolSpec(
            name=name,
            description=name,
            schema=schema or {"type": "object"},
            effect=effect,
            has_key=key is not None,
            has_probe=probe is not None,
            has_compensate=compensate is not None,
            module=module,
        )
        self.specs[name] = spec
        self.tools[name] = FakeTool(spec, run, probe, compensate, key)

    async def call(self, call: ToolCall) -> ToolReply:
        self.calls.append(call)
        return await self._answer("call", call, self.tools[call.tool].run)

    async def key(self, call: ToolCall) -> str:
        key = self.tools[call.tool].key
        assert key is not None
        return key(call.args)

    async def probe(self, call: ToolCall) -> ToolReply:
        return await self._answer("probe", call, self.tools[call.tool].probe)

    async def compensate(self, call: ToolCall, result: Json) -> ToolReply:
        self.known.append(result)
        return await self._answer("compensate", call, self.tools[call.tool].compensate)

    async def check(self, call: str, context: JsonObject) -> bool | str:
        self.checks.append((call, context))
        return self.check_answer(call, context)

    def child_pids(self) -> list[tuple[int, float]]:
        return []

    async def cut(self, subtasks: Sequence[str] | None = None) -> None:
        for call, future in list(self.in_flight.values()):
            if (subtasks is None or call.subtask in subtasks) and not future.done():
                future.set_result(ToolReply(status="cut"))

    async def close(self) -> None:
        await self.cut()

    async def _answer(self, what: str, call: ToolCall, behaviour: Behaviour | None) -> ToolReply:
        assert behaviour is not None
        self.log.append((what, call.tool))
        answer = behaviour(call)
        if isinstance(answer, ToolReply):
            await asyncio.sleep(0)
            return answer
        self.in_flight[id(answer)] = (call, answer)
        try:
            return await answer
        finally:
            del self.in_flight[id(answer)]


class FakeLedger:
    """The effect ledger as a dict; `written` lists every intent and outcome in order."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], EffectRow] = {}
        self.written: list[str] = []
        self.broken: Exception | None = None

    async def find(self, task_id: str, key: str, scope: str) -> EffectRow | None:
        return self.rows.get((key, scope))

    async def adopt(self, call: EffectCall, removed: Sequence[str]) -> None:
        await self._commit()
        for (key, scope), row in list(self.rows.items()):
            gone = scope in removed or scope.startswith(tuple(f"{id}/" for id in removed))
            own = scope == call.scope or (key, call.scope) not in self.rows
            standing = row.state in ("intent", "done")
            if key == call.key and standing and (gone or row.rolled_back) and own:
                del self.rows[key, scope]
                moved = replace(row, scope=call.scope, subtask=call.subtask, rolled_back=False)
                self.rows[key, call.scope] = moved

    async def of_subtask(self, task_id: str, subtask: str) -> list[EffectRow]:
        return [row for row in reversed(self.rows.values()) if row.subtask == subtask]

    async def standing(
        self, task_id: str, subtasks: Sequence[str], *, attempt: int | None = None
    ) -> list[EffectRow]:
        below = tuple(f"{id}/" for id in subtasks)
        return [
            row
            for row in reversed(self.rows.values())
            if (row.subtask in subtasks or row.subtask.startswith(below))
            and row.state in ("intent", "done")
            and not is_undo(row.key)
            and attempt in (None, row.attempt)
        ]

    async def left_standing(self, task_id: str, tool: str) -> list[EffectRow]:
        return [row for row in reversed(self.rows.values()) if row.tool == tool and row.rolled_back]

    async def leave_standing(self, task_id: str, rows: Sequence[EffectRow]) -> None:
        await self._commit()
        for row in rows:
            self.rows[row.key, row.scope] = replace(row, rolled_back=True)

    async def intend(self, call: EffectCall) -> EffectRow | None:
        await self._commit()
        row = self.rows.get((call.key, call.scope))
        if row is not None and row.state in ("intent", "done") and call.effect != "idempotent":
            return row
        self.rows.pop((call.key, call.scope), None)
        self.rows[call.key, call.scope] = EffectRow(
            key=call.key,
            scope=call.scope,
            subtask=call.subtask,
            attempt=call.attempt,
            tool=call.tool,
            state="intent",
            args=call.args,
            result=None,
            effect=call.effect,
        )
        self.written.append("intent")
        return None

    async def settle(
        self,
        call: EffectCall,
        state: EffectState,
        *,
        result: StoredValue | None = None,
        artifacts: Sequence[ArtifactRef] = (),
        note: str = "",
    ) -> None:
        await self._commit()
        row = self.rows[call.key, call.scope]
        if row.subtask == call.subtask and row.attempt > call.attempt:
            return
        self.rows[call.key, call.scope] = replace(
            row, state=state, result=result, artifacts=tuple(artifacts), note=note
        )
        self.written.append(state)

    def state_of(self, subtask: str) -> str:
        """The state of the one row that a subtask has."""
        (row,) = [row for row in self.rows.values() if row.subtask == subtask]
        return row.state

    async def _commit(self) -> None:
        await asyncio.sleep(0)
        if self.broken is not None:
            raise self.broken


class FakeStore:
    """Blobs in a dict; copies in a folder."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    async def put_bytes(self, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        self.blobs[sha256] = content
        return sha256

    async def put_file(self, path: Path) -> tuple[str, int]:
        content = await asyncio.to_thread(path.read_bytes)
        return await self.put_bytes(content), len(content)

    async def get_bytes(self, sha256: str) -> bytes:
        if sha256 not in self.blobs:
            raise PermanentError(f"the blob {sha256} is missing")
        return self.blobs[sha256]

    async def exists(self, sha256: str) -> bool:
        return sha256 in self.blobs

    async def missing(self, wanted: Sequence[str]) -> set[str]:
        return {sha256 for sha256 in wanted if sha256 not in self.blobs}

    async def refresh(self, wanted: Sequence[str]) -> set[str]:
        return await self.missing(wanted)

    async def damaged(
        self, wanted: Sequence[str], *, most_bytes: int | None = None
    ) -> tuple[int, set[str]]:
        del most_bytes
        bad = {s for s in wanted if hashlib.sha256(self.blobs[s]).hexdigest() != s}
        return len(wanted), bad

    async def materialise(self, ref: ArtifactRef, folder: Path) -> Path:
        return _write(folder, ref["name"], await self.get_bytes(ref["sha256"]))

    async def artifact(self, name: str, content: bytes) -> ArtifactRef:
        """Put an artifact's content and refer to it."""
        sha256 = await self.put_bytes(content)
        return {"name": name, "sha256": sha256, "size": len(content), "media_type": "text/plain"}


def _write(folder: Path, name: str, content: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


@dataclass
class Bench:
    """A runner over fakes, with a workspace."""

    folder: Path
    host: FakeHost = field(default_factory=FakeHost)
    ledger: FakeLedger = field(default_factory=FakeLedger)
    store: FakeStore = field(default_factory=FakeStore)
    clock: FixedClock = field(default_factory=FixedClock)

    def runner(self, *, slots: int = 2, **changed: Any) -> LocalRunner:
        """A runner for task `t1`."""
        (self.folder / "workspace").mkdir(exist_ok=True)
        given: dict[str, Any] = {
            "task_id": "t1",
            "slots": slots,
            "host": self.host,
            "ledger": self.ledger,
            "store": self.store,
            "workspace": self.folder / "workspace",
            "task_dir": self.folder,
            "task_folder": self.folder / "task",
            "inputs": {},
            "prohibitions": [],
            "clock": self.clock,
        }
        return LocalRunner(**{**given, **changed})


def tool_order(
    subtask: str = "a",
    *,
    tool: str = "tool",
    attempt: int = 1,
    action: Action = "attempt",
    bindings: Mapping[str, Binding] | None = None,
    item: tuple[StoredValue, int] | None = None,
    recovering: bool = False,
    timeout_s: float = 30.0,
    **fields: Any,
) -> WorkOrder:
    """An order for one `tool` subtask; further fields are the subtask's own."""
    mapping = {"id": subtask.partition("/")[0], "kind": "tool", "tool": tool, **fields}
    unit = Subtask.model_validate(mapping)
    return WorkOrder(
        task_id="t1",
        subtask=subtask,
        action=action,
        attempt=attempt,
        failed_attempts=attempt - 1,
        unit=unit,
        work=unit,
        timeout_s=timeout_s,
        bindings=bindings or {},
        item=item,
        recovering=recovering,
    )


def foreach_order(
    action: Action, *, bindings: Mapping[str, Binding] | None = None, **fields: Any
) -> WorkOrder:
    """An `expand` or `gather` order of the foreach `review`."""
    each = Each(kind="tool", tool="tool")
    unit = Subtask.model_validate({"id": "review", "kind": "foreach", "each": each, **fields})
    return WorkOrder(
        task_id="t1",
        subtask="review",
        action=action,
        attempt=0,
        failed_attempts=0,
        unit=unit,
        work=unit,
        timeout_s=30.0,
        bindings=bindings or {},
        takes_slot=False,
    )
