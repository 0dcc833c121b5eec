"""dispatcher: decides what may start now. It never works.

One decision per superstep: commands and limits first, then expansions and gathers, then attempts
up to the free slots and a short backlog. Routes with `Command(goto)`: a conditional edge would
copy every channel.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, cast

from langgraph.types import Command

from surefoot.graph.budget import exhausted, out_of_steps
from surefoot.graph.index import container_of
from surefoot.graph.plan import Unit
from surefoot.graph.state import Order, Replan, TaskState
from surefoot.graph.values import EffectiveLimits, JsonObject, Record, TaskFailure, Usage
from surefoot.nodes.briefs import pin_fault
from surefoot.nodes.change import Change
from surefoot.nodes.commands import apply_commands, tell_senders, update_of
from surefoot.nodes.context import (
    TaskContext,
    Views,
    journal_task,
    limits_of,
    note,
    views,
    views_anew,
)
from surefoot.nodes.endings import end, withdraw
from surefoot.nodes.orders import work_of
from surefoot.nodes.questions import is_blocked
from surefoot.nodes.rollback import give_up_blocked
from surefoot.nodes.unfinished import leave_nothing
from surefoot.nodes.wishes import next_wish, settle_wishes

Node = Literal[
    "executor", "reflector", "checkpoint_judge", "planner", "rollback", "human", "__end__"
]
Target = Literal["executor", "checkpoint_judge", "planner", "rollback", "human", "end"]

GROUPS_PER_SLOT = 2
"""Groups of one plan that run at once, per slot."""


@dataclass(slots=True)
class Dispatch:
    """What one superstep decided: orders, changed records, and where to go."""

    orders: list[Order] = field(default_factory=list[Order])
    records: dict[str, Record] = field(default_factory=dict[str, Record])
    goto: Target = "executor"
    ending: TaskFailure | None = None
    status: str | None = None
    replan: Replan | None = None

    def attempts(self) -> int:
        """Orders that take a slot."""
        return sum(1 for order in self.orders if order["action"] in ("attempt", "improve"))


async def dispatch(state: TaskState, context: TaskContext) -> Command[Node]:
    """Decide what starts, or that the task pauses, asks, is judged, or ends."""
    seen = views(state, context)
    limits = limits_of(state, context, seen)
    settle_wishes(state, context)
    tell_senders(state, context)
    context.unsaved = (0, 0)  # what led here is saved
    change = await apply_commands(state, context, seen)
    update = update_of(change, state)
    state = _changed(state, update)
    if change.regress:
        seen = views_anew(state, context)
    if update.get("finished"):
        return Command(update=update, goto="reflector")  # people have decided about attempts
    decided = Dispatch(ending=state.get("ending"), records=update.get("records", {}))
    busy = _busy(context)
    stopping = context.control.stopping() or stopped_around(context)
    if context.only_commands and stopping != "cancel" and _all_applied(state):
        return _rest(state, context, seen, update, limits)
    if decided.ending is None and stopping is None:
        used: Usage = {**context.usage, "seconds": context.seconds()}
        decided.ending = pin_fault(state, context) or exhausted(limits, used)
    ends_now = stopping in ("cancel", "now")
    taken_back = context.only_commands and state.get("back") and not ends_now
    if (stopping is not None or decided.ending is not None) and not taken_back:
        await _stop(state, context, seen, decided, stopping)
    elif state.get("back"):
        _hold_for(state, context, seen, decided, "human" if is_blocked(state) else "rollback")
    elif _wants_replan(state, context, decided):
        _hold_for(state, context, seen, decided, "planner")
    elif seen.ready.due:
        node: Target = "human" if _asked_as_a_whole(state) else "checkpoint_judge"
        _hold_for(state, context, seen, decided, node)
    else:
        _start(state, context, seen, decided, limits)
        if not decided.orders and not busy:
            _nothing_to_start(state, context, seen, decided, limits)
    return _command(state, context, seen, decided, limits, update)


def _changed(state: TaskState, update: dict[str, Any]) -> TaskState:
    """The state with what commands changed in it."""
    if not update:
        return state
    merged: dict[str, Any] = {**state, **update}
    for name in update.keys() & {"records", "decisions"}:
        merged[name] = {**cast("JsonObject", state.get(name) or {}), **update[name]}
    return cast("TaskState", merged)


# --- goes for commands alone -----------------------------------------------------------------


def _all_applied(state: TaskState) -> bool:
    """Whether nothing is left to do in a go for commands alone."""
    wished = state.get("replan") and state.get("ending") is None
    return not wished and (not state.get("back") or is_blocked(state))


def _rest(
    state: TaskState,
    context: TaskContext,
    seen: Views,
    update: dict[str, Any],
    limits: EffectiveLimits,
) -> Command[Node]:
    """The go is over: the task waits for `resume`, or is what it was where nothing was changed."""
    context.applied = state.get("applied") or []
    context.over = True
    if not context.changed:
        return Command(update={**update, "status": context.status_before}, goto="__end__")
    ending = state.get("ending")
    if ending and context.status_before != "failed":  # a person has given something up
        ended = end(context, seen, "failed", ending, limits)
        return Command(update={**update, **ended}, goto="__end__")
    status = "failed" if ending else "waiting" if state.get("questions") else "paused"
    journal_task(context, seen, status=status, failure=ending, stopping=False, limits=dict(limits))
    return Command(update={**update, "status": status}, goto="__end__")


def stopped_around(context: TaskContext) -> str | None:
    """`pause` inside a group when a limit of what it stands in is reached: that will end it."""
    for each in context.around():
        usage = {**each.usage, "seconds": each.seconds()}
        if each is not context and each.limits and exhausted(each.limits, cast("Usage", usage)):
            return "pause"
    return None


def _busy(context: TaskContext) -> bool:
    taken, waiting = context.runner.load()
    return bool(taken or waiting or context.runner.known())


# --- stopping --------------------------------------------------------------------------------


async def _stop(
    state: TaskState, context: TaskContext, seen: Views, decided: Dispatch, stopping: str | None
) -> None:
    """Nothing new starts; what runs ends (or is cut by the executor), then the task ends."""
    withdraw(state, context, seen, decided.records)
    if _busy(context):
        return
    if stopping == "cancel" and state.get("back") and not is_blocked(state):
        decided.goto = "rollback"  # it has taken back some of what it is to take back
        return
    if stopping == "cancel":
        if state.get("back"):
            await give_up_blocked(state, context)
        await leave_nothing(state, context, Change(records=decided.records))
    decided.goto = "end"
    if stopping == "cancel":
        decided.status, decided.ending = "cancelled", None
    elif decided.ending is not None:
        decided.status = "failed"
    else:
        decided.status = "paused"


def _wants_replan(state: TaskState, context: TaskContext, decided: Dispatch) -> bool:
    """Whether a new remainder is wished for; a person's wish that just came in is taken up."""
    if state.get("replan"):
        return True
    wanted = decided.replan = next_wish(state, context)
    if wanted is not None:
        context.journal.event("ReplanAsked", reason=wanted["reason"], by=wanted["by"])
    return wanted is not None


def _hold_for(
    state: TaskState, context: TaskContext, seen: Views, decided: Dispatch, node: Target
) -> None:
    """A milestone is due or a replan is wished for: running work ends, then that node is next."""
    withdraw(state, context, seen, decided.records)
    if not _busy(context):
        decided.goto = node


def _nothing_to_start(
    state: TaskState, context: TaskContext, seen: Views, decided: Dispatch, limits: EffectiveLimits
) -> None:
    """Nothing runs and nothing could be started: why, and what follows."""
    if seen.ready.open == 0 and not (seen.ready.blocked or _asked_as_a_whole(state)):
        decided.goto = "checkpoint_judge"
    elif not seen.ready.idle():
        _end_without_steps(context, decided, limits)
    elif seen.ready.blocked or _asked_as_a_whole(state):
        decided.goto, decided.status = "human", "waiting"
    else:
        decided.ending = stuck(seen)
        decided.goto, decided.status = "end", "failed"


def _asked_as_a_whole(state: TaskState) -> bool:
    """Whether something is asked that is about no subtask: a milestone, the acceptance."""
    return any(question["subtask"] is None for question in state.get("questions") or ())


def _end_without_steps(context: TaskContext, decided: Dispatch, limits: EffectiveLimits) -> None:
    """What is left needs a step: the end, if there is none; a group's only by its own limit."""
    if context.steps_left(limits) > 0:
        return
    decided.goto, decided.status = "end", "paused"
    if context.outer is None or context.outer.steps_left_for_groups() > 0:
        decided.ending = out_of_steps(limits, context.usage)
        decided.status = "failed"


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
    """Order what can start: lists and gathers at once, attempts up to slots and backlog."""
    for id in seen.ready.take_reflections():
        attempt = ((state.get("records") or {}).get(id) or Record()).get("attempt", 0)
        decided.orders.append(Order(subtask=id, attempt=attempt, action="reflect"))
    for id in seen.ready.take_expansions():
        _order(state, context, seen, decided, id, "expand")
    for id in seen.ready.take_gathers():
        if seen.ready.may_reach_milestone([id]):
            withdraw(state, context, seen, decided.records)
        _order(state, context, seen, decided, id, "gather")
    if context.steps_left(limits) > 0:
        for id in seen.ready.take_nests(_room_for_groups(context, seen), context.clock()):
            _order(state, context, seen, decided, id, "nest")
    running = {id for id, _ in context.runner.known()} | {o["subtask"] for o in decided.orders}
    for action in ("attempt", "improve") if seen.ready.open == 0 else ("attempt",):
        while _room(context, seen, running, decided.attempts(), limits):
            ids = (
                seen.ready.take(1, context.clock())
                if action == "attempt"
                else seen.ready.take_improvements(1)
            )
            if not ids:
                break
            _order(state, context, seen, decided, ids[0], action)
            running.add(ids[0])


def _room(
    context: TaskContext, seen: Views, running: set[str], ordered: int, limits: EffectiveLimits
) -> bool:
    """Whether one more attempt may be ordered: a free slot, or a place in a harmless backlog.

    The backlog (as long as there are slots) lets a free slot never wait for a superstep. It is
    harmful where it could start between the end of a subtask and the milestone that this reaches.
    """
    if context.steps_left(limits) == 0:
        return False
    taken, waiting = context.runner.load()
    in_use = taken + waiting + ordered
    if in_use < context.slots:
        return True
    return in_use < 2 * context.slots and not seen.ready.may_reach_milestone(running)


def _room_for_groups(context: TaskContext, seen: Views) -> int:
    """How many more groups may begin: those that run take memory, and more bring no more speed."""
    run = sum(1 for id, _ in context.runner.known() if seen.ready.is_open_group(id))
    return max(0, GROUPS_PER_SLOT * context.slots - run)


def _order(
    state: TaskState, context: TaskContext, seen: Views, decided: Dispatch, id: str, action: str
) -> None:
    old = (state.get("records") or {}).get(id) or Record()
    record = Record(**old)
    record.pop("not_before", None)
    record.pop("failure", None)
    if action in ("attempt", "improve"):
        record["attempt"] = old.get("attempt", 0) + 1
        _set_go(old, record, seen.index.unit(id), action)
        if action == "improve":
            record["improving"] = old.get("improving", record["attempt"])
        context.held.add(id)
    if action == "nest":
        _begin_group(id, old, record, context)
    if action != "improve":
        record["state"] = "running"
    attempt = record.get("attempt", 0) if action in ("attempt", "improve", "nest") else 0
    decided.orders.append(Order(subtask=id, attempt=attempt, action=action))
    decided.records[id] = record
    note(context, seen, id, record)


def _set_go(old: Record, record: Record, unit: Unit, action: str) -> None:
    """An agent's thread: a new one, or the one that was cut where the plan lets it go on."""
    if work_of(unit, old, action).kind != "agent":
        return
    goes_on = action == "attempt" and old.get("cut") and unit.resumable
    record["go"] = old.get("go", 0) if goes_on and "go" in old else record.get("attempt", 0)


def _begin_group(id: str, old: Record, record: Record, context: TaskContext) -> None:
    """A group begins, or goes on where it was cut (then its go stays)."""
    record["attempt"] = old.get("attempt", 0) + 1
    record["go"] = old["go"] if old.get("cut") and "go" in old else record["attempt"]
    record["started"] = old.get("started", context.clock())
    facts = {"attempt": record["attempt"], "started_at": record["started"]}
    context.journal.subtask(id, kind="group", state="running", parent=container_of(id), **facts)
    type = "GroupStarted" if record["go"] == record["attempt"] else "GroupResumed"
    context.journal.event(type, subtask=id, attempt=record["attempt"])


# --- the update ------------------------------------------------------------------------------


def _command(
    state: TaskState,
    context: TaskContext,
    seen: Views,
    decided: Dispatch,
    limits: EffectiveLimits,
    update: dict[str, Any],
) -> Command[Node]:
    context.applied = state.get("applied") or []
    if decided.records:
        update["records"] = decided.records
    if decided.replan is not None:
        update["replan"] = decided.replan
    if decided.goto == "executor":
        update["orders"] = decided.orders
        if context.control.stopping() is not None:
            context.journal.task(stopping=True)
        if decided.ending is not None and state.get("ending") is None:
            update["ending"] = decided.ending
        return Command(update=update, goto="executor")
    if decided.goto == "end":
        if decided.status == "cancelled":
            for question in state.get("questions") or ():
                context.journal.question(question["id"], open=False)
        update |= end(context, seen, decided.status or "failed", decided.ending, limits)
        return Command(update=update, goto="__end__")
    if decided.goto == "human":
        journal_task(context, seen, status="waiting", limits=dict(limits))
        context.journal.event("TaskWaiting", questions=len(state.get("questions") or ()))
        update["status"] = "waiting"
    return Command(update=update, goto=decided.goto)
