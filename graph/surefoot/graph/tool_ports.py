"""What the runner may ask of whoever runs tool code: `ToolHost`, and what goes in and out of it.

Light on purpose: the process that runs tools is started before anything heavy is imported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from surefoot.graph.values import ArtifactRef, Json, JsonObject

EffectKind = Literal["read", "idempotent", "reversible", "irreversible"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What is known of a tool without running it. `schema` is JSON Schema, context left out."""

    name: str
    description: str
    schema: JsonObject
    effect: EffectKind
    output_schema: JsonObject | None = None
    timeout_s: float | None = None
    max_attempts: int | None = None
    has_key: bool = False
    has_probe: bool = False
    has_compensate: bool = False
    in_process: bool = False
    module: str = ""
    """Where it came from: a path, a dotted name, `builtin`, or `object`."""
    digest: str = ""
    """sha256 of the module's source, for the consistency check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call as the tool host sees it. `args` are resolved and validated."""

    tool: str
    args: JsonObject
    subtask: str
    attempt: int
    failed_attempts: int
    """Attempts of this subtask that ended before this one (cut ones not counted)."""
    idempotency_key: str
    timeout_s: float
    writes: tuple[str, ...] | None
    """Workspace globs the call may change; None = anywhere in the workspace."""
    readable: tuple[Path, ...]
    """Declared inputs (and materialised artifacts): readable, never writable."""
    denied_hosts: tuple[str, ...] = ()
    """Typed prohibitions: globs of hosts that may not be contacted."""
    denied_paths: tuple[tuple[str, Path], ...] = ()
    """Typed prohibitions: (`read` or `write`, path); nothing at or below it may be touched so."""
    artifacts: Mapping[str, ArtifactRef] = field(default_factory=dict[str, ArtifactRef])
    """What `artifacts.get` and `read_artifact` see: `SUBTASK/NAME` -> its newest good version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReply:
    """What came of a call.

    `status`: `ok` (see `value`, cleaned JSON) · `not_done` (surely nothing happened: it raised
    NotDone, or never began, and `kind` says why: bad_arguments, prohibited, missing_resource,
    tool_unavailable) · `error` (raised) · `timeout` · `crashed` (its process died) · `cut`
    (stopped by us) · `bad_result` (`kind` says which: not_json, result_too_large).
    """

    status: Literal["ok", "not_done", "error", "timeout", "crashed", "cut", "bad_result"]
    value: Json = None
    message: str = ""
    kind: str = ""
    retryable: bool = True
    marks: tuple[str, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    """What the call put; already in the store, not yet visible to anybody."""

    @property
    def tells_of_effect(self) -> bool:
        """Of a probe that answered: anything but None; a NaN is None only since it was cleaned."""
        return self.value is not None or bool(self.marks)


class Hold(Protocol):
    """The right to begin calls for a task. A call begins only while it is sure."""

    def sure(self) -> bool:
        """Whether nobody else can hold the task now or in the next moments; by our own clock."""
        ...

    async def make_sure(self) -> None:
        """Return once it is sure again.

        Raises:
            LeaseLost: somebody else holds the task.
            DatabaseUnavailable: nobody can be asked for it.
        """
        ...


class ToolHost(Protocol):
    """Runs tool code: in warm child processes, or in this process for tools passed as objects."""

    specs: Mapping[str, ToolSpec]

    async def call(self, call: ToolCall) -> ToolReply:
        """Run the tool; never raises for what it does. Killed with its children at the timeout."""
        ...

    async def key(self, call: ToolCall) -> str:
        """The tool's own key for these arguments (`has_key`). Raises ToolArgumentsInvalid."""
        ...

    async def probe(self, call: ToolCall) -> ToolReply:
        """Ask the world: `ok` with value None = it did not happen, any other value = its result."""
        ...

    async def compensate(self, call: ToolCall, result: Json) -> ToolReply:
        """Take the effect back; `ok` = it is undone."""
        ...

    async def check(self, call: str, context: JsonObject) -> bool | str:
        """Run a `python` check `module:function` in a child; a text says why it failed."""
        ...

    def child_pids(self) -> list[tuple[int, float]]:
        """(pid, start time) of the processes a take-over must see gone."""
        ...

    async def cut(self, subtasks: Sequence[str] | None = None) -> None:
        """Kill the calls of these subtasks (None = all) with their children."""
        ...

    async def close(self) -> None:
        """End every child; returns when none is left."""
        ...
