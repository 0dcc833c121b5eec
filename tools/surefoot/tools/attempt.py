"""One attempt of a `tool` subtask: arguments, prohibitions, the call, outputs, checks.

It sees a work order and nothing of the task's state. Whether to try again is decided by the nodes.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from surefoot.graph.attempts import effect_of
from surefoot.graph.checks import Check, PersonCheck
from surefoot.graph.errors import (
    PermanentError,
    ReferenceMissing,
    ToolArgumentsInvalid,
    ToolUnavailable,
)
from surefoot.graph.keys import CallKey, call_digest, default_key, own_key
from surefoot.graph.ports import (
    ArtifactStore,
    Binding,
    Clock,
    ToolCall,
    ToolHost,
    ToolSpec,
    WorkOrder,
)
from surefoot.graph.shapes import is_array
from surefoot.graph.values import ArtifactRef, Json, JsonObject, Outcome, StoredValue
from surefoot.tools.bindings import Scope, ValueCache, newest, visible_artifacts
from surefoot.tools.content_checks import SchemaValidator, compile_schema, mismatches
from surefoot.tools.effect_calls import CallEnd, CallRequest, EffectCalls
from surefoot.tools.kept_values import KeptResult
from surefoot.tools.outcomes import (
    AttemptFailed,
    PersonNeeded,
    accepted,
    not_accepted,
    question,
    stopped,
    undecided,
)
from surefoot.tools.prohibitions import Prohibitions
from surefoot.tools.stopping import Cut, Stop
from surefoot.tools.verification import Evidence, Verifier, failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is the same for every order of a task."""

    task_id: str
    inputs: JsonObject
    workspace: Path
    task_dir: Path
    artifacts_folder: Path
    """Read-only copies of accepted artifacts: SUBTASK/NAME."""
    readable: tuple[Path, ...]
    clock: Clock


class Attempts:
    """Runs attempts of `tool` work for one task."""

    def __init__(
        self,
        around: Surroundings,
        *,
        host: ToolHost,
        store: ArtifactStore,
        values: ValueCache,
        calls: EffectCalls,
        verifier: Verifier,
        prohibitions: Prohibitions,
    ) -> None:
        self._around = around
        self._host = host
        self._store = store
        self._values = values
        self._calls = calls
        self._verifier = verifier
        self._prohibitions = prohibitions
        self._validators: dict[str, SchemaValidator] = {}

    async def run(self, order: WorkOrder, stop: Stop) -> Outcome:
        """One attempt, to its outcome.

        Raises:
            LeaseLost, DatabaseUnavailable: the ledger cannot be written; nothing is known here.
        """
        started = self._around.clock()
        end = CallEnd()
        try:
            scope = self.scope(order)
            end = await self._calls.make(await self._request(order, scope, stop))
            kept = _kept(order, end, scope)
            checks = await self.accept(order, scope, kept, stop)
            outcome = accepted(order, started, self._around.clock(), kept)
            if checks:
                outcome["checks"] = checks
        except Cut:
            outcome = stopped(order, started, self._around.clock())
        except AttemptFailed as failure:
            outcome = not_accepted(order, started, self._around.clock(), failure)
        except PersonNeeded as needed:
            outcome = undecided(order, started, self._around.clock(), needed)
        outcome["calls"] = end.calls
        if end.recovery is not None:
            outcome["recovery"] = end.recovery
        return outcome

    def scope(self, order: WorkOrder) -> Scope:
        """The look-ups of an order's `${...}`."""
        return self.look_ups(order.bindings, order.item)

    def look_ups(
        self, bindings: Mapping[str, Binding], item: tuple[StoredValue, int] | None = None
    ) -> Scope:
        """Look-ups among the goal's inputs, these bindings and this item."""
        return Scope(
            values=self._values,
            store=self._store,
            artifacts_folder=self._around.artifacts_folder,
            inputs=self._around.inputs,
            bindings=bindings,
            item=item,
        )

    # --- before the call ---------------------------------------------------------------------

    async def _request(self, order: WorkOrder, scope: Scope, stop: Stop) -> CallRequest:
        work = order.work
        spec = self._host.specs.get(work.tool or "")
        if spec is None:
            raise AttemptFailed("unknown_tool", f"there is no tool {work.tool!r}", retryable=False)
        try:
            args, writes = await stop.guard(_resolved(order, scope))
        except ReferenceMissing as missing:
            raise AttemptFailed("bad_reference", str(missing), retryable=False) from None
        except PermanentError as damaged:
            raise AttemptFailed("inconsistent_state", str(damaged), retryable=False) from None
        self._validate(spec, args, scope)
        broken = self._prohibitions.broken_by(spec.name, args, writes=writes)
        if broken is not None:
            raise AttemptFailed("prohibited", broken, retryable=False)
        if work.approve == "always":
            text = f"May {spec.name} be called for subtask {order.subtask!r}?"
            raise PersonNeeded(question(order, "approve", text))
        call = ToolCall(
            tool=spec.name,
            args=copy.deepcopy(args) if spec.in_process else args,
            subtask=order.subtask,
            attempt=order.attempt,
            failed_attempts=order.failed_attempts,
            idempotency_key="",
            timeout_s=order.timeout_s,
            writes=writes,
            readable=(*self._around.readable, self._around.artifacts_folder),
            denied_hosts=self._prohibitions.denied_hosts,
            denied_paths=self._prohibitions.denied_paths,
            artifacts=visible_artifacts(order.bindings),
        )
        key = await self._key(spec, call, scope.resolve_meaning(work.args))
        return CallRequest(
            task_id=self._around.task_id,
            call=replace(call, idempotency_key=key.idempotency_key),
            spec=spec,
            effect=effect_of(spec, work),
            key=key,
            recovering=order.recovering,
            may_ask=work.approve != "never",
            stop=stop,
        )

    def _validate(self, spec: ToolSpec, args: JsonObject, scope: Scope) -> None:
        validator = self._validators.get(spec.name)
        if validator is None:
            validator = self._validators[spec.name] = compile_schema(spec.schema)
        wrong = mismatches(validator, args)
        if wrong:
            nulled = sorted(scope.nulled)
            because = f" (null because it was skipped: {', '.join(nulled)})" if nulled else ""
            raise AttemptFailed(
                "bad_arguments",
                f"{spec.name}: {'; '.join(wrong)}{because}",
                retryable=False,
                null_reference=bool(nulled),
            )

    async def _key(self, spec: ToolSpec, call: ToolCall, meaning: JsonObject) -> CallKey:
        task_id = self._around.task_id
        if not spec.has_key:
            return default_key(task_id, call.subtask, call_digest(spec.name, meaning))
        try:
            return own_key(task_id, spec.name, await self._host.key(call))
        except ToolArgumentsInvalid as wrong:
            raise AttemptFailed("bad_arguments", str(wrong), retryable=False) from None
        except ToolUnavailable as gone:
            raise AttemptFailed("crashed", str(gone)) from None

    # --- after the call ----------------------------------------------------------------------

    async def accept(
        self, order: WorkOrder, scope: Scope, kept: KeptResult, stop: Stop
    ) -> list[JsonObject]:
        """Declared outputs are there and every success check holds; returns the evidence.

        Raises:
            AttemptFailed: an output is missing, a check failed, or a model would be needed.
            PersonNeeded: only a `person` check is left.
            Cut: stopped while checking.
        """
        artifacts = kept.all_artifacts()
        put = {ref["name"] for ref in artifacts}
        missing = [name for name in order.work.artifact_names() if name not in put]
        if missing:
            raise AttemptFailed("missing_output", f"it did not put {', '.join(missing)}")
        if not order.work.success:
            return []
        evidence = Evidence(
            scope=scope,
            result=kept.stored,
            artifacts=lambda name: _own_artifact(order, artifacts, name),
            names=tuple(sorted(put)),
            subtask=order.subtask,
            attempt=order.attempt,
        )
        return await judge(self._verifier, order, evidence, stop)


async def judge(
    verifier: Verifier, order: WorkOrder, evidence: Evidence, stop: Stop
) -> list[JsonObject]:
    """Evaluate an order's success checks: programs, then models, then people.

    Raises:
        AttemptFailed, PersonNeeded, Cut: see `Attempts.accept`.
    """
    success = order.work.success
    checks = await stop.guard(verifier.evaluate(success, evidence))
    why = failed(checks)
    if why is not None:
        raise AttemptFailed("check_failed", why, checks=checks)
    if any(check.type == "judge" for check in success):
        raise AttemptFailed(
            "missing_model", "no model is there to judge the result", retryable=False, checks=checks
        )
    person = _person_check(success)
    if person is not None:
        raise PersonNeeded(question(order, "check", person.question), checks=checks)
    return checks


def _person_check(checks: list[Check]) -> PersonCheck | None:
    return next((check for check in checks if isinstance(check, PersonCheck)), None)


async def _resolved(order: WorkOrder, scope: Scope) -> tuple[JsonObject, tuple[str, ...] | None]:
    """The call's arguments and the paths it may write.

    Raises:
        ReferenceMissing, PermanentError: see `Scope.resolve`.
    """
    work = order.work
    args: JsonObject = await scope.resolve(work.args)
    if work.writes is None:
        return args, None
    writes: Json = await scope.resolve(work.writes)
    return args, tuple(_globs(writes))


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


def _kept(order: WorkOrder, end: CallEnd, scope: Scope) -> KeptResult:
    if end.question is not None:
        raise PersonNeeded(question(order, "unknown_effect", end.question))
    if end.failure is not None:
        why = end.failure
        raise AttemptFailed(
            why["kind"],
            why["message"],
            retryable=why["retryable"],
            null_reference=why["kind"] == "bad_arguments" and bool(scope.nulled),
        )
    if end.kept is None:
        raise AssertionError("a call ends with a result, a failure or a question")
    return end.kept


def _own_artifact(
    order: WorkOrder, artifacts: list[ArtifactRef], name: str
) -> list[ArtifactRef] | None:
    """The versions that a check of this attempt means: its own, else those it was bound to."""
    producer, _, bare = name.rpartition("/")
    if producer in ("", order.subtask):
        own = newest(artifacts, bare)
        if own is not None:
            return [own]
    for id, binding in order.bindings.items():
        if producer in ("", id) and (ref := newest(binding.artifacts, bare)) is not None:
            return [ref]
    return None
