"""executor: hands orders to the runner and returns what has finished since. It never decides.

The runner outlives the superstep (rolling dispatch): a slow subtask holds nobody up.
"""

from typing import Literal

from langgraph.types import Command

from surefoot.graph.state import TaskState
from surefoot.nodes.commands import left_to_apply, tell_senders
from surefoot.nodes.context import TaskContext, Views, limits_of, views
from surefoot.nodes.orders import work_order
from surefoot.nodes.wishes import next_wish

Node = Literal["dispatcher", "reflector"]

FLUSH_AFTER_S = 0.1
"""Rows of long work (started, steps, logs) are written this long after they were queued."""

LOOK_AGAIN_S = 1.0
"""While nothing happens, rows that were queued meanwhile (logs) are looked for this often."""


async def execute(state: TaskState, context: TaskContext) -> Command[Node]:
    """Submit the orders, wait for the first to finish, return everything finished so far."""
    seen = views(state, context)
    tell_senders(state, context)  # it may be long before the dispatcher's next turn
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
    await _cut_if_asked(state, context, seen)
    due = _next_moment(state, context, seen)
    look_again_s = FLUSH_AFTER_S  # what was just ordered starts, and says so
    while not context.runner.finished():
        now = context.clock()
        if context.control.stopping() != asked or (due is not None and now >= due):
            return
        if asked is None and _is_asked(state, context):
            return
        taken, waiting = context.runner.load()
        if asked is not None and waiting and not taken:
            return  # what waits does not start any more: the dispatcher takes it back
        _hand_inside(context)
        if not context.runner.known() and due is None:
            return
        flush_at = now + FLUSH_AFTER_S if context.journal.pending() else None
        moments = [due, flush_at, now + look_again_s]
        look_again_s = LOOK_AGAIN_S
        await context.runner.wait(until=min(moment for moment in moments if moment is not None))
        if flush_at is not None and context.clock() >= flush_at:
            await context.journal.flush()


def _hand_inside(context: TaskContext) -> None:
    """Wake the groups that run where something is asked: it may be for one of them."""
    for group in context.inside if context.control.asked() else ():
        group.runner.wake()


def _is_asked(state: TaskState, context: TaskContext) -> bool:
    """Whether a command or a person's wish came in that the dispatcher would take up now."""
    if left_to_apply(state, context):
        return True
    taken = state.get("replan") or state.get("ending") is not None
    return not taken and next_wish(state, context) is not None


async def _cut_if_asked(state: TaskState, context: TaskContext, seen: Views) -> None:
    ending = state.get("ending")
    stopping = context.control.stopping()
    if stopping in ("cancel", "now"):
        await context.runner.cut()
        return
    if stopping is not None:
        context.runner.ease()
    elif ending is not None or seen.ready.due or _holds(state):
        context.runner.ease(groups_only=True)  # nothing new starts, in a group neither
    if (ending is not None and ending["code"] == "deadline") or _deadline_passed(context):
        await context.runner.cut(only_safe=True)


def _holds(state: TaskState) -> bool:
    """Whether what runs shall end, because a new remainder or a way back is wished for."""
    return bool(state.get("replan") or state.get("back"))


def _deadline_passed(context: TaskContext) -> bool:
    """Whether the time of what a group stands in is up."""
    return any(
        each.limits is not None and each.seconds() >= each.limits["max_seconds"]
        for each in context.around()
        if each is not context
    )


def _next_moment(state: TaskState, context: TaskContext, seen: Views) -> float | None:
    """When the dispatcher must look again even if nothing finishes (POSIX seconds)."""
    if context.control.stopping() is not None or state.get("ending") is not None:
        return None
    limits_of(state, context, seen)
    deadline = min(
        each.held_since + each.limits["max_seconds"] - each.seconds_before
        for each in context.around()
        if each.limits is not None
    )
    if seen.ready.due or _holds(state):
        return deadline  # what waits for its delay does not start before that
    due = seen.ready.next_due()
    return deadline if due is None else min(due, deadline)
