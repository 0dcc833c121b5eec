"""Limits of a task: their defaults, and whether one is reached. Pure."""

from collections.abc import Mapping
from typing import cast

from surefoot.graph.task import Budget
from surefoot.graph.values import EffectiveLimits, TaskFailure, Usage

WEEK_S = 7 * 24 * 3600.0
MAX_TOKENS = 20_000_000


def effective_limits(
    budget: Budget, *, leaves: int, raised: Mapping[str, float | None] | None = None
) -> EffectiveLimits:
    """Every limit with its value: raised by a person, else set in the file, else the default.

    Args:
        budget: the task file's.
        leaves: of the plan as it is now; defaults of steps and failures grow with it.
        raised: limits given at `resume`.
    """
    defaults: dict[str, float | None] = {
        "max_steps": max(10_000, 20 * leaves),
        "max_tokens": MAX_TOKENS,
        "max_cost_usd": None,
        "max_seconds": WEEK_S,
        "max_failures": max(50, leaves),
    }
    stated = budget.model_dump(exclude_none=True)
    merged = {**defaults, **stated, **(raised or {})}
    return cast("EffectiveLimits", {name: merged[name] for name in defaults})


def exhausted(limits: EffectiveLimits, usage: Usage) -> TaskFailure | None:
    """The limit that is already passed or leaves no time, as the task's failure; None = go on.

    Steps are not looked at here: they end a task only when another one is needed
    (`steps_left`).
    """
    if usage["failures"] > limits["max_failures"]:
        return _failure(
            "too_many_failures",
            f"{usage['failures']} failed attempts; max_failures is {limits['max_failures']}",
        )
    if usage["seconds"] >= limits["max_seconds"]:
        return _failure(
            "deadline", f"{usage['seconds']:.1f} s used; max_seconds is {limits['max_seconds']:g}"
        )
    return None


def steps_left(limits: EffectiveLimits, usage: Usage, reserved: int) -> int:
    """Steps that may still be reserved, at least 0."""
    return max(0, limits["max_steps"] - usage["steps"] - reserved)


def out_of_steps(limits: EffectiveLimits, usage: Usage) -> TaskFailure:
    """The failure of a task that needs a step more than it may make."""
    return _failure(
        "budget_exhausted",
        f"{usage['steps']} steps made and more are needed; max_steps is {limits['max_steps']}",
    )


def _failure(code: str, message: str) -> TaskFailure:
    return TaskFailure(code=code, message=message, subtask=None)
