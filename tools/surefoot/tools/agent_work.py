"""An attempt of an agent around its steps: what it is about, and whether its end is accepted.

The steps (think, act) are given as a callable; this begins them and verifies what they finished
with, exactly as for a tool's attempt.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from surefoot.graph.agent_ports import Finished
from surefoot.graph.errors import (
    BudgetExhausted,
    InconsistentState,
    MissingModel,
    PermanentError,
    ReferenceMissing,
)
from surefoot.graph.ports import (
    ArtifactStore,
    Clock,
    ToolHost,
    ToolSpec,
    WorkOrder,
    Workspace,
)
from surefoot.graph.references import find_references
from surefoot.graph.values import ArtifactRef, Failure, Json, JsonObject, Outcome
from surefoot.tools.agent_calls import OrderCalls
from surefoot.tools.agent_words import as_result_text, matter_of, put_in
from surefoot.tools.all_or_nothing import outcome_of
from surefoot.tools.attempt import Attempts
from surefoot.tools.bindings import Scope, ValueCache, visible_artifacts
from surefoot.tools.call_requests import CallRequests
from surefoot.tools.effect_calls import EffectCalls
from surefoot.tools.keeping_files import AttemptFiles, files_of, undo_all
from surefoot.tools.kept_values import KeptResult
from surefoot.tools.outcomes import AttemptFailed, Good
from surefoot.tools.stopping import Cut, Stop
from surefoot.tools.undoing import Undoing
from surefoot.tools.unknown_effects import counted_already


@dataclass(frozen=True, slots=True, kw_only=True)
class GoEnd:
    """How the steps of a go ended: finished, failed, or (neither) eased off between two steps."""

    finished: Finished | None = None
    failure: Failure | None = None
    artifacts: Mapping[str, ArtifactRef] = field(default_factory=dict[str, ArtifactRef])
    longest: int = 0
    """Tokens of the longest reply."""
    steps: int = 0


CountStep = Callable[[str | None], None]
"""Takes a step on behalf of a subtask; raises BudgetExhausted where none is left."""

Steps = Callable[[OrderCalls], Awaitable[GoEnd]]


HALFWAY = "its worker stopped while what the failed attempt did was being undone"


@dataclass(slots=True)
class Told:
    """What an outcome says besides what came of the attempt."""

    files: AttemptFiles | None
    begun: bool = False
    """Something may have been left outside."""
    calls: OrderCalls | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentWork:
    """Runs attempts of `agent` work for one task; the parts are the runner's own."""

    host: ToolHost
    requests: CallRequests
    calls: EffectCalls
    attempts: Attempts
    undoing: Undoing
    workspace: Workspace
    values: ValueCache
    store: ArtifactStore
    clock: Clock

    async def run(
        self, order: WorkOrder, stop: Stop, steps: Steps, count_step: CountStep | None = None
    ) -> Outcome:
        """One attempt, to its outcome.

        Args:
            order: the attempt.
            stop: its stop sign.
            steps: takes the steps.
            count_step: takes a step from the budget before every call; without it they are told
                in the outcome.

        Raises:
            LeaseLost, DatabaseUnavailable: what happened is not known here.
        """
        told = Told(files_of(self.workspace, order))
        scope = self.requests.scope(order)
        outcome = await outcome_of(
            order,
            self.clock,
            partial(self._work, order, scope, stop, steps, count_step, told),
            partial(self._take_back, order, scope, stop, told),
        )
        calls = told.calls
        outcome["calls"] = calls.made if calls and count_step is None else 0
        if calls and calls.recovery is not None:
            outcome["recovery"] = calls.recovery
        if told.files is not None:
            told.files.tell(outcome)
        return outcome

    async def _work(
        self,
        order: WorkOrder,
        scope: Scope,
        stop: Stop,
        steps: Steps,
        count_step: CountStep | None,
        told: Told,
    ) -> Good:
        if order.undoing is not None:
            told.begun = True
            raise AttemptFailed.of(order.undoing)
        files = told.files
        await self.undoing.before_restart(order, scope, stop)
        if files is not None:
            await files.restart()
        calls = told.calls = await self.begin(order, scope, stop, count_step)
        told.begun = True
        if order.go != order.attempt and await self.undoing.was_under_way(order):
            raise AttemptFailed("undone_halfway", HALFWAY)
        if files is not None and calls.may_write:
            await files.begin(calls.writes)
        kept = _kept(await _taken(steps, calls))
        checks = await self.attempts.accept(order, scope, kept, stop)
        if files is not None:
            await files.accepted()
        return kept, checks

    async def _take_back(
        self, order: WorkOrder, scope: Scope, stop: Stop, told: Told, failure: Failure
    ) -> None:
        """What a failed go has done is undone."""
        if told.begun or (order.recovering and told.files is not None):
            undone = self.undoing.after_failure(order, scope, stop, failure)
            await undo_all(undone, told.files, failure)

    async def begin(
        self, order: WorkOrder, scope: Scope, stop: Stop, count_step: CountStep | None = None
    ) -> OrderCalls:
        """What the attempt is about, with its references looked up, and its tools.

        Raises:
            AttemptFailed: a reference or a tool is missing.
            Cut: stopped meanwhile.
        """
        try:
            writes = await stop.guard(self.requests.writes(order, scope))
            instructions, data = await stop.guard(_instructions(order, scope))
            data |= await stop.guard(self._results(order, data))
            checks = await stop.guard(_checks(order, scope))
        except ReferenceMissing as missing:
            raise AttemptFailed("bad_reference", str(missing), retryable=False) from None
        except PermanentError as damaged:
            raise AttemptFailed("inconsistent_state", str(damaged), retryable=False) from None
        matter = matter_of(
            order,
            instructions=instructions,
            data=data,
            checks=checks,
            artifacts=sorted(visible_artifacts(order.bindings)),
            writes=writes,
        )
        return OrderCalls(
            order,
            stop,
            matter=matter,
            scope=scope,
            specs=self._specs(order),
            writes=writes,
            requests=self.requests,
            calls=self.calls,
            values=self.values,
            store=self.store,
            count=partial(count_step, order.subtask) if count_step else counted_already,
        )

    def _specs(self, order: WorkOrder) -> list[ToolSpec]:
        names = order.work.tools or []
        missing = [name for name in names if name not in self.host.specs]
        if missing:
            why = f"there is no tool {', '.join(missing)}"
            raise AttemptFailed("unknown_tool", why, retryable=False)
        return [self.host.specs[name] for name in dict.fromkeys(names)]

    async def _results(self, order: WorkOrder, named: Mapping[str, str]) -> dict[str, str]:
        """The results of what the subtask depends on, but for those its instructions name."""
        heads = {name.partition(".")[0] for name in named}
        found: dict[str, str] = {}
        if order.item is not None and not heads & {"item"}:
            items, index = order.item
            found["item"] = as_result_text((await self.values.load(items))[index])
        for head, binding in order.bindings.items():
            if binding.result is not None and head not in heads:
                value = await self.values.load(binding.result)
                if value is not None:
                    found[f"result of {head}"] = as_result_text(value)
        return found


async def _taken(steps: Steps, calls: OrderCalls) -> GoEnd:
    try:
        return await steps(calls)
    except BudgetExhausted as spent:
        raise AttemptFailed("budget_exhausted", str(spent), retryable=False) from None
    except MissingModel as missing:
        raise AttemptFailed("missing_model", str(missing), retryable=False) from None
    except InconsistentState as ours:
        raise AttemptFailed("inconsistent_state", str(ours), retryable=False) from None


def _kept(end: GoEnd) -> KeptResult:
    if end.failure is not None:
        why = end.failure
        raise AttemptFailed(why["kind"], why["message"], retryable=why["retryable"])
    if end.finished is None:
        raise Cut
    return KeptResult(
        stored=end.finished["result"],
        artifacts=tuple(end.artifacts.values()),
        marks=tuple(end.finished["marks"]),
    )


async def _instructions(order: WorkOrder, scope: Scope) -> tuple[str, dict[str, str]]:
    instructions = order.work.instructions or ""
    values: dict[str, Json] = {}
    for reference in find_references(instructions):
        values[reference.text] = await scope.resolve(f"${{{reference.text}}}")
    return put_in(instructions, values)


async def _checks(order: WorkOrder, scope: Scope) -> Sequence[JsonObject]:
    plain = [check.model_dump(exclude_unset=True) for check in order.work.success]
    resolved: list[JsonObject] = await scope.resolve(plain)
    return resolved
