"""What the steps of an agent (think, act) share: their context, their bounds, where they stand.

They see a work order and ports; never the task's state.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from surefoot.graph.agent_ports import AgentCalls, OnStep
from surefoot.graph.model_ports import ModelClient
from surefoot.graph.ports import Clock, StopSign, WorkOrder
from surefoot.graph.subtask_state import SubtaskState
from surefoot.graph.values import Failure

MAX_REPLIES = 400
"""Model calls of one go; then it fails with `steps_exhausted`."""

MAX_IN_A_ROW = 3
"""Replies in a row without a call, or cut at the token limit, that are answered with a word."""

MODEL = "model"
"""What a step shows as its tool while the model is asked."""

Way = Literal["think", "act", "__end__"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """One run of one go in this process. Never stored.

    Attributes:
        guard: awaits what may be torn by a stop.
        deadline: POSIX seconds, when the attempt's time is used up.
        sample: which independent sample this is (votes), else 0.
        before: steps that the samples before this one took; shown steps go on counting.
    """

    order: WorkOrder
    models: ModelClient
    calls: AgentCalls
    stop: StopSign
    guard: Callable[[Awaitable[Any]], Awaitable[Any]]
    clock: Clock
    deadline: float
    on_step: OnStep | None = None
    sample: int = 0
    before: int = 0

    def seconds_left(self) -> float:
        """Seconds of the attempt's time that are left, never negative."""
        return max(0.0, self.deadline - self.clock())

    def tell(self, state: str, tool: str, step: int) -> None:
        """Show a step's state to readers."""
        if self.on_step is not None:
            shown = self.before + step
            self.on_step(self.order.subtask, self.order.attempt, state, tool, shown)


def next_step(state: SubtaskState) -> Way:
    """Where a thread goes on, whatever happened to it: over, a call to make, or the model."""
    if "finished" in state or "failure" in state:
        return "__end__"
    return "act" if state.get("done", 0) < len(state.get("wanted") or ()) else "think"


def eased(way: Way, context: StepContext) -> Way:
    """The way on, or the end where a pause was asked for: the thread goes on from there later."""
    return "__end__" if context.stop.easing or context.stop.requested else way


def out_of_time(context: StepContext) -> Failure | None:
    """The failure of an attempt whose time is used up."""
    if context.seconds_left() > 0:
        return None
    limit = context.order.timeout_s
    message = f"the attempt did not finish within its {limit:g} s"
    return Failure(kind="timeout", message=message, retryable=True)
