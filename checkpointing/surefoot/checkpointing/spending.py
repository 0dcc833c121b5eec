"""The account of one task, kept equal to its row: reserved durably before a model is called.

One statement behind the lease's epoch writes all sums. Who asks while one is on its way is served
by the next one, so many calls at a time share a commit.
"""

import asyncio
from collections.abc import Callable, Sequence

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.queries import queries
from surefoot.graph.errors import BudgetExhausted, DatabaseUnavailable, LeaseLost
from surefoot.graph.setbacks import Setbacks
from surefoot.graph.spending import Account, Cost, Purse
from surefoot.graph.values import EffectiveLimits

PATIENCE_S = 300.0
"""How long a lost database is waited for before the callers hear of it."""


class TaskSpending:
    """`spending.Spending` of the task that a lease is for.

    Attributes:
        limits: those in force now.
        count_step: counts a step of a subtask before it is made; raises BudgetExhausted.
        purses: of the groups that a subtask stands in, which must allow its calls as well.
    """

    def __init__(
        self,
        database: Database,
        lease: Lease,
        account: Account,
        *,
        limits: Callable[[], EffectiveLimits],
        count_step: Callable[[str | None], None],
        purses: Callable[[str | None], Sequence[Purse]] = lambda subtask: (),
    ) -> None:
        self.purses = purses
        self._paying: dict[int, Sequence[Purse]] = {}
        """Who pays for a call under way, by the identity of what is set aside for it."""
        self.database = database
        self.lease = lease
        self.account = account
        self.limits = limits
        self.count_step = count_step
        self._freed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._asked = 0
        self._written = 0
        self._following: asyncio.Task[None] | None = None

    async def reserve(
        self,
        most: Cost,
        *,
        subtask: str | None,
        step: bool = True,
        smaller: Sequence[Cost] = (),
    ) -> Cost:
        """See `Spending`."""
        purses = self.purses(subtask)
        while (fitting := self._fitting((most, *smaller), purses)) is None:
            await self._freed.wait()
        if step:
            self.count_step(subtask)
        self._set_aside(fitting, purses)
        try:
            await self.write()
        except BaseException:
            self._put_back(fitting, Cost(tokens=0))
            raise
        return fitting

    async def settle(self, most: Cost, used: Cost) -> None:
        """See `Spending`."""
        self._put_back(most, used)
        await self.write()

    def forfeit(self, most: Cost) -> None:
        """See `Spending`."""
        self._put_back(most, most)
        self._asked += 1

    def count(self, subtask: str | None) -> None:
        """Count the step of a tool's call that an agent is about to make; the row follows at once.

        Raises:
            BudgetExhausted: no step is left.
        """
        self.count_step(subtask)
        self._asked += 1
        if self._following is None:
            self._following = asyncio.create_task(self._follow())

    async def write(self) -> None:
        """Make the row say what the account says.

        Raises:
            LeaseLost: nothing was written.
            DatabaseUnavailable: the database stayed away for `PATIENCE_S`.
        """
        self._asked += 1
        wanted = self._asked
        async with self._writing:
            if self._written >= wanted:
                return
            newest = self._asked
            await self._patiently()
            self._written = newest

    async def close(self) -> None:
        """Write what a torn-off call has left to be written."""
        if self._following is not None:
            await self._following
        if self._written < self._asked:
            await self.write()

    async def _follow(self) -> None:
        try:
            while self._written < self._asked:
                await self.write()
        except (LeaseLost, DatabaseUnavailable):
            pass  # whoever writes next hears of it
        finally:
            self._following = None

    def _set_aside(self, most: Cost, purses: Sequence[Purse]) -> None:
        self.account.reserve(most)
        for purse in purses:
            purse.account.reserve(most)
        if purses:
            self._paying[id(most)] = purses

    def _put_back(self, most: Cost, used: Cost) -> None:
        self.account.settle(most, used)
        for purse in self._paying.pop(id(most), ()):
            purse.account.settle(most, used)
        self._freed.set()  # whoever waits for room looks again
        self._freed = asyncio.Event()

    def _fitting(self, costs: Sequence[Cost], purses: Sequence[Purse]) -> Cost | None:
        """The first of the costs that may be reserved; None while it is not known yet.

        While calls are under way their end may still make room for it.

        Raises:
            BudgetExhausted: nothing is under way any more, and there is room for none of them.
        """
        refused: tuple[BudgetExhausted, Account, Purse | None] | None = None
        for cost in costs:
            refused = self._refused(cost, purses)
            if refused is None:
                return cost
            if refused[1].under_way:
                return None
        if refused is None:
            raise AssertionError("a reservation names a cost")
        if refused[2] is not None:
            refused[2].refuse()
        raise refused[0]

    def _refused(
        self, cost: Cost, purses: Sequence[Purse]
    ) -> tuple[BudgetExhausted, Account, Purse | None] | None:
        """Why a cost may not be reserved now, and whose limit says so; None where it may."""
        refusal = self.account.refusal(cost, self.limits())
        if refusal is not None:
            return refusal, self.account, None
        for purse in purses:
            refusal = purse.account.refusal(cost, purse.limits)
            if refusal is not None:
                return refusal, purse.account, purse
        return None

    async def _patiently(self) -> None:
        setbacks = Setbacks(PATIENCE_S)
        while True:
            try:
                await self._write()
                self.database.weather.is_good()
                return
            except DatabaseUnavailable as exc:
                if not await self.database.sit_out(setbacks, exc):
                    raise

    async def _write(self) -> None:
        usage, reserved = self.account.usage, self.account.reserved
        sums = {
            "task_id": self.lease.task_id,
            "epoch": self.lease.epoch,
            "call_steps": self.account.call_steps,
            "tokens": usage["tokens"],
            "cost_usd": usage["cost_usd"],
            "reserved_tokens": reserved.tokens,
            "reserved_cost_usd": max(0.0, reserved.cost_usd),
        }
        async with self.database.borrowed() as connection:
            cursor = await connection.execute(queries("spending")["write"], sums)
            if await cursor.fetchone() is None:
                raise LeaseLost(self.lease.task_id)
