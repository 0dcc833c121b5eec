"""The models of one task, opened: which play which role, and who pays for their calls."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.spending import TaskSpending
from surefoot.graph.budget import effective_limits
from surefoot.graph.model_ports import ModelClient, NoModels
from surefoot.graph.model_roles import ModelRoles
from surefoot.graph.ports import ArtifactStore, Journal
from surefoot.graph.spending import Account, Purse
from surefoot.graph.task import Budget
from surefoot.graph.values import EffectiveLimits, JsonObject, Usage
from surefoot.models.client import TaskModels
from surefoot.models.endpoint import Place
from surefoot.nodes.context import TaskContext


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenModels:
    """The client for nodes and agents, and the account that it pays from. Close it."""

    client: ModelClient
    spending: TaskSpending
    _payer: "_Payer"

    def serve(self, context: TaskContext) -> None:
        """Pay from this task's limits and count its steps, from here on."""
        context.account = self.spending.account
        self._payer.context = context

    def take_step(self, subtask: str | None) -> None:
        """Count the step of a tool's call before it is made.

        Raises:
            BudgetExhausted: no step is left.
        """
        self.spending.count(subtask)

    async def close(self) -> None:
        """Close the connections, and write what a torn-off call has left."""
        if isinstance(self.client, TaskModels):
            await self.client.close()
        await self.spending.close()


async def open_models(
    task: JsonObject,
    *,
    usage: Usage,
    call_steps: int,
    raised: Mapping[str, float | None],
    reserved: bool,
    configured: str | None,
    database: Database,
    lease: Lease,
    journal: Journal,
    store: ArtifactStore,
) -> OpenModels:
    """Open the models of a task; nothing of a client library is imported before the first call.

    Args:
        task: the task file as a mapping.
        usage: of the task so far; shared with its context.
        call_steps: of its steps, those of calls.
        raised: limits given at `resume`.
        reserved: a holder died with calls under way: they were added to `usage`, the row follows.
        configured: the environment's model.
        database: where the row is.
        lease: of the task.
        journal: takes the events of calls.
        store: takes answers that cannot be used.

    Raises:
        UsageError: `bad_setting`: a time limit in the environment is none.
        LeaseLost, DatabaseUnavailable: as `TaskSpending.write`.
    """
    payer = _Payer(task, raised)
    account = Account(usage, call_steps=call_steps)
    spending = TaskSpending(
        database,
        lease,
        account,
        limits=payer.limits,
        count_step=payer.count_step,
        purses=payer.purses,
    )
    if reserved:
        await spending.write()
    roles = ModelRoles.of(task, configured)
    client: ModelClient = NoModels()
    if any(roles.ladders.values()):
        place = Place.from_environment()
        client = TaskModels(
            roles,
            place,
            spending=spending,
            journal=journal,
            store=store,
            deadline=payer.deadline,
            stopping=payer.stopping,
        )
    return OpenModels(client=client, spending=spending, _payer=payer)


class _Payer:
    """Limits and steps of the task whose context is made after its models."""

    def __init__(self, task: JsonObject, raised: Mapping[str, float | None]) -> None:
        self.context: TaskContext | None = None
        budget = Budget.model_validate(task.get("budget") or {})
        self._first = effective_limits(budget, leaves=0, raised=raised)

    def limits(self) -> EffectiveLimits:
        """Those in force now."""
        known = self.context.limits if self.context is not None else None
        return known or self._first

    def deadline(self) -> float:
        """POSIX seconds, when the task's time is used up."""
        if self.context is None:
            return math.inf
        left_s = self.limits()["max_seconds"] - self.context.seconds()
        return self.context.clock() + left_s

    def stopping(self) -> bool:
        """Whether a pause, or more than that, was asked for."""
        return self.context is not None and self.context.control.stopping() is not None

    def purses(self, subtask: str | None) -> Sequence[Purse]:
        """Of the groups that a subtask stands in, from the inside out."""
        return self.context.purses(subtask) if self.context is not None else ()

    def count_step(self, subtask: str | None) -> None:
        """Count a step before it is made."""
        if self.context is not None:
            self.context.count_call(subtask)
