"""dispatcher: decides what may start now. It never works.

One decision per superstep: commands and limits first, then expansions and gathers, then attempts
up to the free slots and a short backlog. Routes with `Command(goto)`: a conditional edge would
copy every channel.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from langgraph.types import Command

from surefoot.graph.budget import exhausted, out_of_steps, steps_left
from surefoot.graph.state import Order, TaskState
from surefoot.graph.values import EffectiveLimits, Record, TaskFailure
from surefoot.nodes.context import TaskContext, Views, journal_task, limits_of, note, views
from surefoot.nodes.endings import end, withdraw

Node = Literal["executor", "checkpoint_judge", "human", "__end__"]
Target = Literal["executor", "checkpoint_judge", "human", "end"]


@dataclass(slots=True)
class Dispatch:
    """What one superstep decided: orders, changed records, and where to go."""

    orders: list[Order] = field(default_factory=list[Order])
    records: dict[str, Record] = field(default_factory=dict[str, Record])
    goto: Target = "executor"
    ending: TaskFailure | None = None
    status: str | None = None


async def dispatch(state: TaskState, context: TaskContext) -> Command[Node]:
    """Decide what starts, or that the task pauses, asks, is judged, or ends."""
    seen = views(state, context)
    limits = limits_of(state, context, seen)
    decided = Dispatch(ending=state.get("ending"))
    busy = _busy(context)
    stopping = context.control.stopping()
    if decided.ending is None:
        decided.ending = exhausted(limits, {**context.usage, "seconds": context.seconds()})
    if stopping is not None or decided.ending is not None:
        _stop(state, context, seen, decided, stopping)
    elif seen.ready.due:
        _hold_for_milestone(state, context, seen, decided)
    else:
        _start(state, context, seen, decided, limits)
        if not decided.orders and not busy:
            _nothing_to_start(state, context, seen, decided, limits)
    return _command(state, context, seen, decided, limits)


def _busy(context: TaskContext) -> bool:
    taken, waiting = context.runner.load()
    return bool(taken or waiting or context.runner.known())


# --- stopping --------------------------------------------------------------------------------


def _stop(
    state: TaskState, context: TaskContext, seen: Views, decided: Dispatch, stopping: str | None
) -> None:
    """Nothing new starts; what runs ends (or the executor cuts it), then the task ends or pauses."""
    withdraw(state, context, seen, decided.records)
    if _busy(context):
        return
    decided.goto = "end"
    if stopping == "cancel":
        decided.status, decided.ending = "cancelled", None
    elif decided.ending is not None:
        decided.status = "failed"
    else:
        decided.status = "paused"


def _hold_for_milestone(
    state: TaskState, context: TaskContext, seen: Views, decided: Dispatch
) -> None:
    """A milestone is due: running work ends, then the judge looks."""
    withdraw(state, context, seen, decided.records)
    if not _busy(context):
        decided.goto = "checkpoint_judge"


def _nothing_to_start(
    state: TaskState, context: TaskContext, seen: Views, decided: Dispatch, limits: EffectiveLimits
) -> None:
    """Nothing runs and nothing could be started: why, and what follows."""
    if seen.ready.open == 0:
        decided.goto = "checkpoint_judge"
    elif not seen.ready.idle():
        if steps_left(limits, context.usage, context.reserved) == 0:
            decided.ending = out_of_steps(limits, context.usage)
            decided.goto, decided.status = "end", "failed"
    elif seen.ready.blocked:
        decided.goto, decided.status = "human", "waiting"
    else:
        decided.ending = stuck(seen)
        decided.goto, decided.status = "end", "failed"


def stuck(seen: Views) -> TaskFailure:
    """The failure of a task in which nothing can move, naming what is open."""
    open_ones = [
        id for id in seen.index.raw if seen.ready.states.get(id) not in ("completed", "skipped")
    ]
    shown = ", ".join(open_ones[:5]) + (
        f" and {len(open_ones) - 5} more" if len(open_ones) > 5 else ""
    )
    return TaskFailure(
        code="stuck",
        message=f"nothing is running and nothing can start, but these are open: {shown}",
        subtask=open_ones[0] if open_ones else None,
    )


# --- starting --------------------------------------------------------------------------------


def _start(
    state: TaskState, context: TaskContext, seen: Views, decided: Dispatch, limits: EffectiveLimits
) -> None:
    for id in seen.ready.take_expansions():
        _order(state, context, seen, decided, id, "expand")
    for id in seen.ready.take_gathers():
        _order(state, context, seen, decided, id, "gather")
    room = min(_room(state, context, seen), steps_left(limits, context.usage, context.reserved))
    ids = seen.ready.take(room, context.clock())
    for id in ids:
        _order(state, context, seen, decided, id, "attempt")
    if seen.ready.open == 0 and not ids:
        for id in _improvable(seen, room):
            _order(state, context, seen, decided, id, "improve")


def _room(state: TaskState, context: TaskContext, seen: Views) -> int:
    """How many attempts may be ordered: free slots, and a backlog as long as that is harmless."""
    taken, waiting = context.runner.load()
    running = [id for id, _ in context.runner.known()]
    free = context.slots - taken - waiting
    if seen.ready.may_reach_milestone(running):
        return max(0, free)
    return max(0, free + context.slots)


def _improvable(seen: Views, room: int) -> list[str]:
    taken, seen.ready.to_improve = seen.ready.to_improve[:room], seen.ready.to_improve[room:]
    return taken


def _order(
    state: TaskState, context: TaskContext, seen: Views, decided: Dispatch, id: str, action: str
) -> None:
    old = (state.get("records") or {}).get(id) or Record()
    record = Record(**old)
    record.pop("not_before", None)
    record.pop("failure", None)
    if action in ("attempt", "improve"):
        record["attempt"] = old.get("attempt", 0) + 1
        context.reserved += 1
    if action != "improve":
        record["state"] = "running"
    attempt = record.get("attempt", 0) if action in ("attempt", "improve") else 0
    decided.orders.append(Order(subtask=id, attempt=attempt, action=action))
    decided.records[id] = record
    note(context, seen, id, record)


# --- the update ------------------------------------------------------------------------------


def _command(
    state: TaskState, context: TaskContext, seen: Views, decided: Dispatch, limits: EffectiveLimits
) -> Command[Node]:
    update: dict[str, Any] = {}
    if decided.records:
        update["records"] = decided.records
    if decided.goto == "executor":
        update["orders"] = decided.orders
        if decided.ending is not None and state.get("ending") is None:
            update["ending"] = decided.ending
        return Command(update=update, goto="executor")
    if decided.goto == "end":
        update |= end(context, seen, decided.status or "failed", decided.ending, limits)
        return Command(update=update, goto="__end__")
    if decided.goto == "human":
        journal_task(context, seen, status="waiting", limits=dict(limits))
        context.journal.event("TaskWaiting", questions=len(state.get("questions") or ()))
        update["status"] = "waiting"
    return Command(update=update, goto=decided.goto)
