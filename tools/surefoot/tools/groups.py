"""The two ends of a group: its inputs before its plan begins, its outputs after it.

Neither takes a slot nor calls a tool. What its plan did is handed in as bindings, by the ids that
the plan knows; how the plan is run is not known here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surefoot.graph.errors import PermanentError, ReferenceMissing
from surefoot.graph.ports import ArtifactStore, Binding, Clock, WorkOrder
from surefoot.graph.values import ArtifactRef, JsonObject, Outcome
from surefoot.tools.attempt import judge
from surefoot.tools.bindings import newest
from surefoot.tools.call_requests import CallRequests
from surefoot.tools.context import RESULT_ARTIFACT
from surefoot.tools.evidence import Evidence
from surefoot.tools.kept_values import KeptResult, keep_value, too_large
from surefoot.tools.outcomes import AttemptFailed, PersonNeeded, accepted, not_accepted, undecided
from surefoot.tools.stopping import Stop
from surefoot.tools.verification import Verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDone:
    """What a group's plan has done.

    Attributes:
        inputs: the group's, resolved.
        bindings: what its outputs and checks refer to, and every maker of an artifact.
    """

    inputs: JsonObject
    bindings: Mapping[str, Binding]

    def artifacts(self) -> list[ArtifactRef]:
        """Every artifact that stands, in the order of the plan; children's by their foreach."""
        return [ref for one in self.bindings.values() for ref in _of(one)]

    def named(self, name: str) -> list[ArtifactRef] | None:
        """The versions that a check means by `NAME` or `INNER/NAME`; None where there is none."""
        producer, slash, bare = name.rpartition("/")
        makers = [self.bindings.get(producer)] if slash else list(self.bindings.values())
        found = [ref for one in makers if one is not None for ref in _of(one)]
        return [ref for ref in found if ref["name"] == bare] or None


class GroupEnds:
    """Begins and ends the groups of one task."""

    def __init__(
        self, *, requests: CallRequests, verifier: Verifier, store: ArtifactStore, clock: Clock
    ) -> None:
        self._requests = requests
        self._verifier = verifier
        self._store = store
        self._clock = clock

    async def inputs(self, order: WorkOrder) -> tuple[JsonObject, JsonObject]:
        """The group's inputs, resolved where it stands; and what they mean (`Scope.meaning`).

        Raises:
            AttemptFailed: one cannot be looked up.
        """
        try:
            scope, given = self._requests.scope(order), order.work.inputs or {}
            resolved = await scope.resolve(given)
            return resolved, scope.meaning(given, resolved)
        except ReferenceMissing as missing:
            raise AttemptFailed("bad_reference", str(missing), retryable=False) from None
        except PermanentError as damaged:
            raise AttemptFailed("inconsistent_state", str(damaged), retryable=False) from None

    async def end(
        self, order: WorkOrder, done: GroupDone, stop: Stop, *, started: float
    ) -> Outcome:
        """The outcome of a group whose plan is completed: its result, its checks.

        Raises:
            Cut: stopped while checking.
        """
        try:
            kept = await self._result(order, done)
            checks = await self._checks(order, done, kept, stop)
        except AttemptFailed as failure:
            return not_accepted(order, started, self._clock(), failure)
        except PersonNeeded as needed:
            outcome = undecided(order, started, self._clock(), needed)
            outcome["artifacts"] = [*outcome.get("artifacts", ()), *done.artifacts()]
            return outcome
        outcome = accepted(order, started, self._clock(), kept)
        outcome["artifacts"] = [*kept.all_artifacts(), *done.artifacts()]
        if checks:
            outcome["checks"] = checks
        return outcome

    async def _result(self, order: WorkOrder, done: GroupDone) -> KeptResult:
        """The map that `outputs` states, `{}` without one."""
        outputs = order.work.outputs
        missing = [name for name in order.work.artifact_names() if done.named(name) is None]
        if missing:
            raise AttemptFailed("missing_output", f"nothing inside put {', '.join(missing)}")
        scope = self._requests.look_ups(done.bindings, inputs=done.inputs)
        try:
            value = await scope.resolve(outputs if isinstance(outputs, dict) else {})
            stored = await keep_value(self._store, value)
        except ReferenceMissing as why:
            raise AttemptFailed("bad_reference", f"outputs: {why}", retryable=False) from None
        except PermanentError as damaged:
            raise AttemptFailed("inconsistent_state", str(damaged), retryable=False) from None
        failure = too_large(stored.get("size", 0))
        if failure is not None:
            raise AttemptFailed(failure["kind"], failure["message"], retryable=False)
        return KeptResult(stored=stored)

    async def _checks(
        self, order: WorkOrder, done: GroupDone, kept: KeptResult, stop: Stop
    ) -> list[JsonObject]:
        if not order.work.success:
            return []
        evidence = Evidence(
            scope=self._requests.scope(order),
            result=kept.stored,
            artifacts=lambda name: done.named(name.removeprefix(f"{order.local}/")),
            names=tuple(sorted({ref["name"] for ref in done.artifacts()})),
            subtask=order.subtask,
            attempt=order.attempt,
        )
        return await judge(self._verifier, order, evidence, stop, kept)


def _of(binding: Binding) -> list[ArtifactRef]:
    own = [ref for name in _names(binding) if (ref := newest(binding.artifacts, name))]
    return [*own, *(ref for child in binding.children for ref in _of(child))]


def _names(binding: Binding) -> Sequence[str]:
    names = dict.fromkeys(ref["name"] for ref in binding.artifacts)
    return [name for name in names if name != RESULT_ARTIFACT]
