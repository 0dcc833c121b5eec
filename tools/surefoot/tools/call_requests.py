"""From a work order to the calls it asks for: references, schema, prohibitions, key.

The one call of a `tool` order, or a call that an agent's model asks for. Nothing is called here
except a tool's own `key=`. Making the call is `effect_calls`.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from surefoot.graph.attempts import DEFAULTS, effect_of
from surefoot.graph.errors import (
    PermanentError,
    ReferenceMissing,
    ToolArgumentsInvalid,
    ToolUnavailable,
)
from surefoot.graph.keys import CallKey, call_digest, default_key, own_key, undo_key
from surefoot.graph.ports import (
    ArtifactStore,
    Binding,
    ToolCall,
    ToolHost,
    ToolSpec,
    WorkOrder,
)
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.values import ArtifactRef, Json, JsonObject, StoredValue
from surefoot.tools.bindings import Scope, ValueCache, visible_artifacts
from surefoot.tools.content_checks import (
    FlatSchema,
    SchemaValidator,
    compile_schema,
    mismatches,
)
from surefoot.tools.outcomes import AttemptFailed
from surefoot.tools.prohibitions import Prohibitions
from surefoot.tools.stopping import Stop
from surefoot.tools.unknown_effects import CallRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is the same for every order of a task."""

    task_id: str
    inputs: JsonObject
    artifacts_folder: Path
    """Read-only copies of accepted artifacts: SUBTASK/NAME."""
    readable: tuple[Path, ...]
    """Declared inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    """A call that a model asks for; its arguments are literal, no `${...}` is looked up in them.

    Attributes:
        step: the number of the step that it is.
        ordinal: it is the n-th such call of the attempt that takes effect, from 1.
        timeout_s: the tool's own limit, or what is left of the attempt.
        writes: the workspace paths that the subtask may change, resolved; None = any.
        count: takes its step from the budget, right before it is made.
        artifacts: what the attempt itself has put, by name.
        made: digests of the calls of this attempt that took effect, one for each.
    """

    tool: str
    args: JsonObject
    step: int
    ordinal: int
    timeout_s: float
    writes: tuple[str, ...] | None
    recovering: bool
    count: Callable[[], None]
    artifacts: Mapping[str, ArtifactRef] = field(default_factory=dict[str, ArtifactRef])
    made: tuple[str, ...] = ()


class CallRequests:
    """Builds the calls of one task; a tool's schema is compiled once."""

    def __init__(
        self,
        around: Surroundings,
        *,
        host: ToolHost,
        store: ArtifactStore,
        values: ValueCache,
        prohibitions: Prohibitions,
    ) -> None:
        self._around = around
        self._host = host
        self._store = store
        self._values = values
        self.prohibitions = prohibitions
        self._readable = (*around.readable, around.artifacts_folder)
        self._validators: dict[str, tuple[FlatSchema, SchemaValidator]] = {}

    def scope(self, order: WorkOrder) -> Scope:
        """The look-ups of an order's `${...}`."""
        return self.look_ups(order.bindings, order.item, inputs=order.inputs)

    def look_ups(
        self,
        bindings: Mapping[str, Binding],
        item: tuple[StoredValue, int] | None = None,
        *,
        inputs: JsonObject | None = None,
    ) -> Scope:
        """Look-ups among the goal's inputs (or a group's), these bindings and this item."""
        return Scope(
            values=self._values,
            store=self._store,
            artifacts_folder=self._around.artifacts_folder,
            inputs=self._around.inputs if inputs is None else inputs,
            goals_inputs=inputs is None,
            bindings=bindings,
            item=item,
        )

    async def make(self, order: WorkOrder, scope: Scope, stop: Stop) -> CallRequest:
        """The call that a `tool` order asks for, resolved, validated, allowed and with its key.

        Raises:
            AttemptFailed: it cannot or may not be made.
            Cut: stopped meanwhile.
        """
        work = order.work
        spec = self._host.specs.get(work.tool or "")
        if spec is None:
            raise AttemptFailed("unknown_tool", f"there is no tool {work.tool!r}", retryable=False)
        args, writes = await self._resolved(order, work.args, scope, stop)
        self._validate(spec, args, scope.nulled)
        await self._allow(spec, args, writes)
        meaning = scope.meaning(work.args, args)
        key = await self._key(order, spec, args, meaning, stop)
        return CallRequest(
            order=order,
            call=self._call(order, spec, args, writes, key.idempotency_key),
            spec=spec,
            effect=effect_of(spec, work),
            key=key,
            stop=stop,
            needs_approval=work.approve == "always",
        )

    async def undo(self, order: WorkOrder, scope: Scope, stop: Stop, attempt: int) -> CallRequest:
        """The call of an order's `undo`, about what one attempt left. Raises as `make`."""
        undo = order.work.undo
        spec = self._host.specs.get(undo.tool) if undo else None
        if undo is None or spec is None:
            name = undo.tool if undo else ""
            raise AttemptFailed("unknown_tool", f"there is no tool {name!r}", retryable=False)
        args, writes = await self._resolved(order, undo.args, scope, stop)
        self._validate(spec, args, ())
        await self._allow(spec, args, writes)
        meaning = call_digest(spec.name, scope.meaning(undo.args, args))
        key = undo_key(self._around.task_id, order.subtask, meaning, attempt)
        effect = effect_of(spec, order.work)
        call = self._call(order, spec, args, writes, key.idempotency_key)
        return CallRequest(
            order=replace(order, recovering=False),
            call=replace(call, timeout_s=spec.timeout_s or DEFAULTS[effect][0]),
            spec=spec,
            effect=effect,
            key=key,
            stop=stop,
            step=0,  # it is none of the work's own
        )

    async def asked(self, order: WorkOrder, asked: AskedCall, stop: Stop) -> CallRequest:
        """The call that the model of an `agent` order asks for.

        Raises:
            AttemptFailed: it cannot or may not be made.
            Cut: stopped meanwhile.
        """
        spec, work = self._host.specs[asked.tool], order.work
        self._validate(spec, asked.args, ())
        effect = effect_of(spec, work)
        await self._allow(spec, asked.args, asked.writes)
        key = await self._key(order, spec, asked.args, asked.args, stop, ordinal=asked.ordinal)
        call = self._call(order, spec, asked.args, asked.writes, key.idempotency_key)
        own = {f"{order.subtask}/{name}": ref for name, ref in asked.artifacts.items()}
        return CallRequest(
            order=replace(order, recovering=asked.recovering),
            call=replace(call, timeout_s=asked.timeout_s, artifacts={**call.artifacts, **own}),
            spec=spec,
            effect=effect,
            key=key,
            stop=stop,
            step=asked.step,
            count=asked.count,
            needs_approval=work.approve == "always" and effect != "read",
            made=asked.made if order.go > 1 else None,
        )

    async def _resolved(
        self, order: WorkOrder, given: JsonObject, scope: Scope, stop: Stop
    ) -> tuple[JsonObject, tuple[str, ...] | None]:
        """Arguments and writable paths with their references looked up."""
        try:
            args: JsonObject = await stop.guard(scope.resolve(given))
            return args, await stop.guard(self.writes(order, scope))
        except ReferenceMissing as missing:
            raise AttemptFailed("bad_reference", str(missing), retryable=False) from None
        except PermanentError as damaged:
            raise AttemptFailed("inconsistent_state", str(damaged), retryable=False) from None

    async def writes(self, order: WorkOrder, scope: Scope) -> tuple[str, ...] | None:
        """The paths that an order may write, resolved.

        Raises:
            ReferenceMissing, PermanentError: see `Scope.resolve`.
        """
        if order.work.writes is None:
            return None
        return tuple(_globs(await scope.resolve_globs(order.work.writes)))

    async def _allow(
        self, spec: ToolSpec, args: JsonObject, writes: tuple[str, ...] | None
    ) -> None:
        broken = await self.prohibitions.broken_by(spec.name, args, writes=writes)
        if broken is not None:
            raise AttemptFailed("prohibited", broken, retryable=False)

    def _validate(self, spec: ToolSpec, args: JsonObject, null: Iterable[str]) -> None:
        if spec.name not in self._validators:
            self._validators[spec.name] = FlatSchema(spec.schema), compile_schema(spec.schema)
        flat, validator = self._validators[spec.name]
        wrong = [] if flat.fits(args) else mismatches(validator, args)
        if wrong:
            nulled = sorted(null)
            because = f" (null because it was skipped: {', '.join(nulled)})" if nulled else ""
            raise AttemptFailed(
                "bad_arguments",
                f"{spec.name}: {'; '.join(wrong)}{because}",
                retryable=False,
                null_reference=bool(nulled),
            )

    async def _key(
        self,
        order: WorkOrder,
        spec: ToolSpec,
        args: JsonObject,
        meaning: JsonObject,
        stop: Stop,
        *,
        ordinal: int = 1,
    ) -> CallKey:
        task_id = self._around.task_id
        if not spec.has_key:
            call = call_digest(spec.name, meaning)
            return default_key(task_id, order.subtask, call, ordinal)
        try:
            text = await stop.guard(self._host.key(self._call(order, spec, args, None, "")))
            return own_key(task_id, spec.name, text)
        except ToolArgumentsInvalid as wrong:
            raise AttemptFailed("bad_arguments", str(wrong), retryable=False) from None
        except ToolUnavailable as gone:
            raise AttemptFailed("crashed", str(gone)) from None

    def _call(
        self,
        order: WorkOrder,
        spec: ToolSpec,
        args: JsonObject,
        writes: tuple[str, ...] | None,
        idempotency_key: str,
    ) -> ToolCall:
        return ToolCall(
            tool=spec.name,
            # A tool in this process could change what others see of a shared value.
            args=copy.deepcopy(args) if spec.in_process else args,
            subtask=order.subtask,
            attempt=order.attempt,
            failed_attempts=order.failed_attempts,
            idempotency_key=idempotency_key,
            timeout_s=order.timeout_s,
            writes=writes,
            readable=self._readable,
            denied_hosts=self.prohibitions.denied_hosts,
            denied_paths=self.prohibitions.denied_paths,
            artifacts=visible_artifacts(order.bindings),
        )


def _globs(writes: Json) -> list[str]:
    """Resolved `writes`: a reference may stand for a whole list; null (skipped) names no path."""
    found: list[str] = []
    for one in writes:
        if is_array(one):
            found += _globs(one)
        elif isinstance(one, str) and one:
            found.append(one)
        elif one is not None:
            raise ReferenceMissing("writes", f"a path must be text, not {type(one).__name__}")
    return found


def declared_paths(inputs: JsonObject) -> tuple[Path, ...]:
    """The paths among the goal's inputs: text that starts with `/`, also inside lists, mappings."""
    found: list[Path] = []
    stack: list[Json] = [inputs]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            if top.startswith("/"):
                found.append(Path(top))
        elif is_object(top):
            stack.extend(top.values())
        elif is_array(top):
            stack.extend(top)
    return tuple(found)
