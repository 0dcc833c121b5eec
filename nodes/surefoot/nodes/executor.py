"""executor: hands orders to the runner and returns what has finished since. It never decides.

The runner outlives the superstep (rolling dispatch): a slow subtask holds nobody up.
"""

from typing import Literal

from langgraph.types import Command

from surefoot.graph.state import TaskState
from surefoot.nodes.context import TaskContext, Views, limits_of, views
from surefoot.nodes.orders import work_order
from surefoot.nodes.wishes import next_wish

Node = Literal["dispatcher", "reflector"]

FLUSH_AFTER_S = 0.1
"""Rows of long work (started, steps, logs) are written this long after they were queued."""


async def execute(state: TaskState, context: TaskContext) -> Command[Node]:
    """Submit the orders, wait for the first to finish, return everything finished so far."""
    seen = views(state, context)
    known = context.runner.known()
    orders = [
        work_order(order, state, context, seen)
        for order in state.get("orders") or ()
        if (order["subtask"], order["attempt"]) not in known
    ]
    await context.runner.submit(orders)
    await _wait(state, context, seen)
    finished = context.runner.finished()
    return Command(
        update={"orders": [], "finished": finished},
        goto="reflector" if finished else "dispatcher",
    )


async def _wait(state: TaskState, context: TaskContext, seen: Views) -> None:
    """Until something finished, a command arrived, a delay is over or the time is up.

    Rows that the runner queues meanwhile are flushed in a transaction of their own, so that a
    reader sees a subtask of an hour while it runs.
    """
    asked = context.control.stopping()
    await _cut_if_asked(state, context)
    due = _next_moment(state, context, seen)
    while not context.runner.finished():
        now = context.clock()
        if context.control.stopping() != asked or (due is not None and now >= due):
            return
        if not state.get("replan") and next_wish(state, context) is not None:
            return
        if not context.runner.known() and due is None:
            return
        flush_at = now + FLUSH_AFTER_S if context.journal.pending() else None
        moments = [moment for moment in (due, flush_at) if moment is not None]
        await context.runner.wait(until=min(moments, default=None))
        if flush_at is not None and context.clock() >= flush_at:
            await context.journal.flush()


async def _cut_if_asked(state: TaskState, context: TaskContext) -> None:
    ending = state.get("ending")
    if context.control.stopping() in ("cancel", "now"):
        await context.runner.cut()
    elif ending is not None and ending["code"] == "deadline":
        await context.runner.cut(only_safe=True)


def _next_moment(state: TaskState, context: TaskContext, seen: Views) -> float | None:
    """When the dispatcher must look again even if nothing finishes (POSIX seconds)."""
    if context.control.stopping() is not None or state.get("ending") is not None:
        return None
    limits = limits_of(state, context, seen)
    deadline = context.held_since + limits["max_seconds"] - context.seconds_before
    if seen.ready.due or state.get("replan"):
        return deadline  # what waits for its delay does not start before that
    due = seen.ready.next_due()
    return deadline if due is None else min(due, deadline)
