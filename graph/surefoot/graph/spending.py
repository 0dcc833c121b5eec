"""What calls of models cost: reserved before, settled after. The port, and the sums behind it.

`Account` is the truth in this process; `surefoot.checkpointing.spending` keeps the task's row equal
to it, behind the lease's fence, before anything is sent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from surefoot.graph.errors import BudgetExhausted
from surefoot.graph.task import Price
from surefoot.graph.values import EffectiveLimits, Usage

COST_DIGITS = 12
"""Of a sum of dollars: what lies behind them is only the noise of floating point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Tokens (prompt and answer together) and US dollars."""

    tokens: int
    cost_usd: float = 0.0


def cost_of(price: Price | None, *, prompt: int, answer: int) -> Cost:
    """What a call costs; one without a price is free (a cost limit then refuses the task).

    Args:
        price: USD per million tokens.
        prompt: tokens of the request.
        answer: tokens of the answer.
    """
    usd = (price.input * prompt + price.output * answer) / 1e6 if price else 0.0
    return Cost(tokens=prompt + answer, cost_usd=usd)


class Spending(Protocol):
    """Who pays for the calls of one task. Both methods raise LeaseLost and DatabaseUnavailable."""

    async def reserve(
        self,
        most: Cost,
        *,
        subtask: str | None,
        step: bool = True,
        smaller: Sequence[Cost] = (),
    ) -> Cost:
        """Set aside what a call may cost at most, durably, before it is sent.

        Args:
            most: prompt and longest answer.
            subtask: on whose behalf, by its full id.
            step: count a step too (False: the same call is sent once more).
            smaller: what may be set aside instead where a limit has no room for `most`, even after
                all calls under way have ended; the largest first.

        Returns:
            What was set aside, for `settle` or `forfeit`.

        Raises:
            BudgetExhausted: there is room for none of them.
        """
        ...

    async def settle(self, most: Cost, used: Cost) -> None:
        """Put what was really used in the place of what was reserved, durably."""
        ...

    def forfeit(self, most: Cost) -> None:
        """The call was torn off and its use is not known: what was reserved counts as used.

        For a cancelled call: only queued, the row follows with the next write.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """What one group of a task may spend of the task's account.

    Attributes:
        account: of the group.
        limits: its own, else those around it.
        refuse: told that it refused a call.
    """

    account: "Account"
    limits: EffectiveLimits
    refuse: Callable[[], None]


class Account:
    """What a task has used and set aside, in memory. Not for several threads.

    Attributes:
        usage: shared with the task's context; `tokens` and `cost_usd` are changed here alone.
        call_steps: of `usage.steps`, those counted when a model was called.
        reserved: set aside for calls under way.
        under_way: their number.
    """

    def __init__(self, usage: Usage, *, call_steps: int = 0) -> None:
        self.usage = usage
        self.call_steps = call_steps
        self.reserved = Cost(tokens=0)
        self.under_way = 0

    def order_steps(self) -> int:
        """Steps that orders made: what the outbox writes."""
        return self.usage["steps"] - self.call_steps

    def reload(self, usage: Usage, call_steps: int) -> None:
        """Take over the row after a lost connection, where a superstep may have been lost.

        Calls of models are known better here: they go on while the database is away.
        """
        self.usage["steps"] = usage["steps"] - call_steps + self.call_steps
        self.usage["seconds"] = usage["seconds"]
        self.usage["failures"] = usage["failures"]

    def refusal(self, most: Cost, limits: EffectiveLimits) -> BudgetExhausted | None:
        """Why this cannot be set aside now, None where it can. N means exactly N are allowed."""
        tokens = self.usage["tokens"] + self.reserved.tokens + most.tokens
        if tokens > limits["max_tokens"]:
            return BudgetExhausted(
                "max_tokens",
                f"{self.usage['tokens']} tokens used and up to {most.tokens} more are needed; "
                f"max_tokens is {limits['max_tokens']}",
            )
        cap = limits["max_cost_usd"]
        if cap is not None and self._cost(most) > cap + 1e-12:
            return BudgetExhausted(
                "max_cost_usd",
                f"{self.usage['cost_usd']:.4f} USD used and up to {most.cost_usd:.4f} more are "
                f"needed; max_cost_usd is {cap:g}",
            )
        return None

    def reserve(self, most: Cost) -> None:
        """Set aside."""
        self.under_way += 1
        self.reserved = self._with(most, 1)

    def settle(self, most: Cost, used: Cost) -> None:
        """Used instead of set aside."""
        self.under_way -= 1
        self.reserved = self._with(most, -1) if self.under_way else Cost(tokens=0)
        self.usage["tokens"] += used.tokens
        self.usage["cost_usd"] = round(self.usage["cost_usd"] + used.cost_usd, COST_DIGITS)

    def _cost(self, most: Cost) -> float:
        return self.usage["cost_usd"] + self.reserved.cost_usd + most.cost_usd

    def _with(self, cost: Cost, sign: int) -> Cost:
        return Cost(
            tokens=self.reserved.tokens + sign * cost.tokens,
            cost_usd=self.reserved.cost_usd + sign * cost.cost_usd,
        )
