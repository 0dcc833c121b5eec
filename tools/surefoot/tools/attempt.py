"""One attempt of a `tool` subtask: arguments, prohibitions, the call, outputs, checks.

It sees a work order and nothing of the task's state. Whether to try again is decided by the nodes.
"""

from dataclasses import dataclass, field, replace
from functools import partial

from surefoot.graph.checks import PROGRAM_CHECKS
from surefoot.graph.errors import CallStopped, InconsistentState
from surefoot.graph.index import container_of
from surefoot.graph.ports import Clock, WorkOrder, Workspace
from surefoot.graph.questions import next_question
from surefoot.graph.values import ArtifactRef, Failure, JsonObject, Outcome
from surefoot.tools.all_or_nothing import outcome_of
from surefoot.tools.bindings import Scope, newest
from surefoot.tools.call_ends import CallEnd
from surefoot.tools.call_requests import CallRequests
from surefoot.tools.effect_calls import EffectCalls
from surefoot.tools.evidence import Evidence
from surefoot.tools.keeping_files import AttemptFiles, files_of, undo_all
from surefoot.tools.kept_values import KeptResult
from surefoot.tools.outcomes import AttemptFailed, Good, PersonNeeded, question
from surefoot.tools.stopping import Cut, Stop
from surefoot.tools.undoing import Undoing
from surefoot.tools.verification import Verifier, failed, refused_by_judge


@dataclass(slots=True)
class Told:
    """What an outcome says of its call besides what came of it."""

    files: AttemptFiles | None
    begun: bool = False
    """Something may have been left outside."""
    end: CallEnd = field(default_factory=CallEnd)


class Attempts:
    """Runs attempts of `tool` work for one task."""

    def __init__(
        self,
        *,
        requests: CallRequests,
        calls: EffectCalls,
        verifier: Verifier,
        undoing: Undoing,
        workspace: Workspace,
        clock: Clock,
    ) -> None:
        self._requests = requests
        self._calls = calls
        self._verifier = verifier
        self._undoing = undoing
        self._workspace = workspace
        self._clock = clock

    async def run(self, order: WorkOrder, stop: Stop) -> Outcome:
        """One attempt, to its outcome.

        Raises:
            LeaseLost, DatabaseUnavailable: the ledger cannot be written; nothing is known here.
        """
        scope = self._requests.scope(order)
        told = Told(files_of(self._workspace, order))
        outcome = await outcome_of(
            order,
            self._clock,
            partial(self._work, order, scope, stop, told),
            partial(self._take_back, order, scope, stop, told),
        )
        outcome["calls"] = told.end.calls
        if told.end.recovery is not None:
            outcome["recovery"] = told.end.recovery
        if told.files is not None:
            told.files.tell(outcome)
        return outcome

    async def _work(self, order: WorkOrder, scope: Scope, stop: Stop, told: Told) -> Good:
        if order.undoing is not None:
            told.begun = True
            raise AttemptFailed.of(order.undoing)
        files = told.files
        await self._undoing.before_restart(order, scope, stop)
        if files is not None:
            await files.restart()
        request = await self._requests.make(order, scope, stop)
        clear = self._undoing.clear_of(order, scope, stop)
        if clear is not None:
            request = replace(request, clear=clear)
        told.begun = True
        if files is not None and request.effect != "read":
            await files.begin(request.call.writes)
            request = replace(request, ready=files.again)
        told.end = await self._calls.make(request)
        kept = _kept(told.end, scope)
        checks = await self.accept(order, scope, kept, stop)
        if files is not None:
            await files.accepted()
        await self._undoing.replaced(order, scope, stop, request.key)
        return kept, checks

    async def _take_back(
        self, order: WorkOrder, scope: Scope, stop: Stop, told: Told, failure: Failure
    ) -> None:
        """What a failed attempt has begun is undone."""
        if told.begun or (order.recovering and told.files is not None):
            undone = self._undoing.after_failure(order, scope, stop, failure)
            await undo_all(undone, told.files, failure)

    async def accept(
        self, order: WorkOrder, scope: Scope, kept: KeptResult, stop: Stop
    ) -> list[JsonObject]:
        """Declared outputs are there and every success check holds; returns the evidence.

        Raises:
            AttemptFailed: an output is missing, a check failed, or a model would be needed.
            PersonNeeded: only a `person` check is left.
            Cut: stopped while checking.
        """
        missing = _missing(order, kept)
        if missing:
            raise AttemptFailed("missing_output", f"it did not put {', '.join(missing)}")
        if not order.work.success:
            return []
        return await judge(self._verifier, order, _evidence(order, scope, kept), stop, kept)

    async def shortfalls(self, order: WorkOrder, kept: KeptResult) -> list[str]:
        """See `Runner.shortfalls`: what an attempt is held to, asked by programs alone.

        What a container declares of artifacts is its children's to have, and is left out.
        """
        is_container = order.work.kind in ("foreach", "group")
        missing = [] if is_container else _missing(order, kept)
        types = set(PROGRAM_CHECKS) - ({"artifact"} if is_container else set())
        checks = [check for check in order.work.success if check.type in types]
        scope = self._requests.scope(order)
        evidence = replace(_evidence(order, scope, kept), fresh=True)
        found = await self._verifier.evaluate(checks, evidence)
        why = failed(found)
        lacking = [f"it has no artifact {name}" for name in missing]
        return [*lacking, why] if why is not None else lacking


async def judge(
    verifier: Verifier, order: WorkOrder, evidence: Evidence, stop: Stop, kept: KeptResult
) -> list[JsonObject]:
    """Evaluate an order's success checks: programs, then models, then people.

    `kept`: what is checked; it stays while a person is asked.

    Raises:
        AttemptFailed, PersonNeeded, Cut: see `Attempts.accept`.
    """
    success = order.work.success
    seen = replace(evidence, brief=order.brief)
    try:
        checks = await stop.guard(verifier.evaluate(success, seen))
    except CallStopped:
        raise Cut from None  # a pause, while the judge's server made us wait
    except InconsistentState as ours:
        raise AttemptFailed("inconsistent_state", str(ours), retryable=False) from None
    why = failed(checks)
    if why is not None:
        raise AttemptFailed("check_failed", why, checks=checks)
    refused = refused_by_judge(checks, doubts_to_people=_may_ask(order))
    if refused is not None:
        kind, why = refused
        retryable = kind not in ("missing_model", "budget_exhausted")
        raise AttemptFailed(kind, why, retryable=retryable, checks=checks)
    asked = next_question(checks)
    if asked is not None:
        about = question(order, asked["kind"], asked["text"], facts=asked.get("facts"))
        raise PersonNeeded(about, checks=checks, kept=kept)
    return checks


def _may_ask(order: WorkOrder) -> bool:
    """Whether a judge's doubts are put to people: the plan lets people be asked about failures."""
    return "ask" in order.unit.on_failure or order.work.approve == "always"


def _missing(order: WorkOrder, kept: KeptResult) -> list[str]:
    """Declared outputs that were not put."""
    put = {ref["name"] for ref in kept.all_artifacts()}
    return [name for name in order.work.artifact_names() if name not in put]


def _evidence(order: WorkOrder, scope: Scope, kept: KeptResult) -> Evidence:
    artifacts = kept.all_artifacts()
    return Evidence(
        scope=scope,
        result=kept.stored,
        artifacts=lambda name: _own_artifact(order, artifacts, name),
        names=tuple(sorted({ref["name"] for ref in artifacts})),
        subtask=order.subtask,
        attempt=order.attempt,
    )


def _kept(end: CallEnd, scope: Scope) -> KeptResult:
    if end.question is not None:
        raise PersonNeeded(end.question)
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
    if producer in ("", order.local, container_of(order.local)):
        own = newest(artifacts, bare)
        if own is not None:
            return [own]
    for id, binding in order.bindings.items():
        if producer in ("", id) and (ref := newest(binding.artifacts, bare)) is not None:
            return [ref]
    return None
