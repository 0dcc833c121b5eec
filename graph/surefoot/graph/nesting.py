"""Groups: the plan of a group, run as a task graph of its own on its own thread.

The thread is `TASK/GROUP:DIGEST` with the group's full id; going on keeps it, so that nothing
that was done inside is done again. What runs inside shares the task's slots, ledger, lease and
limits.
"""

import asyncio
import contextvars
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from surefoot.graph.assembly import assemble
from surefoot.graph.budget import effective_limits, exhausted, steps_left
from surefoot.graph.errors import DatabaseUnavailable
from surefoot.graph.gone_snapshots import is_gone
from surefoot.graph.group_control import GroupControl
from surefoot.graph.group_ports import GroupThreads
from surefoot.graph.insides import Inside
from surefoot.graph.plain import digest
from surefoot.graph.ports import Command, Journal, StopSign, WorkOrder
from surefoot.graph.references import find_references
from surefoot.graph.state import TaskState
from surefoot.graph.task import Budget, Limits
from surefoot.graph.values import JsonObject, Outcome, Question, Record, TaskFailure, Usage
from surefoot.nodes.context import TaskContext
from surefoot.nodes.orders import binding
from surefoot.tools.groups import GroupDone
from surefoot.tools.outcomes import AttemptFailed, not_accepted, stopped
from surefoot.tools.runner import LocalRunner
from surefoot.tools.scoped_runner import ScopedRunner
from surefoot.tools.stopping import Stop

NO_LIMITS: dict[str, float | None] = {
    name: math.inf if name != "max_cost_usd" else None for name in Budget.model_fields
}

BUDGET_CODES = ("budget_exhausted", "deadline", "too_many_failures")


def group_thread(task_id: str, group: str, meaning: JsonObject) -> str:
    """The thread of a group's plan: `TASK/GROUP:DIGEST`.

    Args:
        task_id: the task.
        group: its full id.
        meaning: what it is about: plan or goal, budget, and what its inputs mean. Where a replan
            or an edit changes that, the group begins anew on another thread.

    The colon is in no id: `TASK/g/2` is the thread of an agent's second go at `g` (a rung of it),
    never that of the group `2` inside `g`.
    """
    return f"{task_id}/{group}:{digest(meaning)[:12]}"


@dataclass(eq=False, kw_only=True)
class _Group:
    """A group that runs now."""

    order: WorkOrder
    stop: Stop
    thread: str
    context: TaskContext
    runner: LocalRunner
    task: JsonObject
    started: float
    state: TaskState = field(default_factory=lambda: TaskState())


class Groups:
    """Runs the groups of one task; its `run` is what the runner is injected with (`nest`).

    Args:
        threads: where their threads are kept.
        task: the task file, without its plan.
        task_dir: its folder.
    """

    def __init__(self, threads: GroupThreads, *, task: JsonObject, task_dir: str) -> None:
        self._threads = threads
        self._task = task
        self._task_dir = task_dir
        self._depth = Limits.model_validate(task.get("limits") or {}).depth
        self._running: dict[str, _Group] = {}
        """By full id."""
        self._threads_of: dict[str, _Group] = {}
        self._graph: Any = None
        self._root: tuple[TaskContext, LocalRunner] | None = None
        self.rides_on_saver = threads.rides_on_saver

    def serve(self, context: TaskContext, runner: LocalRunner) -> None:
        """Name the task whose groups these are; its runner has our `run`."""
        self._root = context, runner

    # --- who runs (`assembly.Contexts`) --------------------------------------------------------

    async def of(self, state: TaskState, thread_id: str) -> TaskContext:
        """The context of a group's thread; its state is what the node that asks begins with."""
        group = self._threads_of[thread_id]
        group.state = state
        return group.context

    async def leave(self, context: TaskContext) -> None:
        """Nothing: `run` closes what it opened."""

    def journal_of(self, subtask: str) -> tuple[Journal | None, str]:
        """The journal that tells of a full id, and the id as that journal knows it.

        None where it is the task's own.
        """
        found = self._innermost(subtask)
        if found is None:
            return None, subtask
        return found.context.journal, subtask.removeprefix(found.context.prefix)

    def is_completed(self, subtask: str) -> bool:
        """Whether a full id is completed in its plan: what still runs of it tries to improve it."""
        found = self._innermost(subtask)
        context = found.context if found is not None else self._served()[0]
        if context.ready is None:
            return False
        return context.ready.states.get(subtask.removeprefix(context.prefix)) == "completed"

    def _innermost(self, subtask: str) -> "_Group | None":
        """The running group that a full id stands in; None where it is the task's own."""
        group, slash, _ = subtask.rpartition("/")
        while slash:
            found = self._running.get(group)
            if found is not None:
                return found
            group, slash, _ = group.rpartition("/")
        return None

    def _served(self) -> tuple[TaskContext, LocalRunner]:
        if self._root is None:
            raise AssertionError("serve a task first")
        return self._root

    # --- running -------------------------------------------------------------------------------

    async def run(self, order: WorkOrder, stop: StopSign) -> Outcome:
        """Begin a group's plan or go on with it, until it ends, pauses or asks.

        Raises:
            LeaseLost, DatabaseUnavailable: nothing is known of what came of it.
        """
        sign = cast("Stop", stop)
        try:
            group = await self._open(order, sign)
        except AttemptFailed as failure:
            now = self._served()[0].clock()
            return _uncounted(not_accepted(order, now, now, failure))
        try:
            await self._drive(group)
            return _uncounted(await self._outcome(group))
        finally:
            await self._close(group)

    async def step_in(self, order: WorkOrder, command: Command) -> Inside:
        """See `Insides.step_in`: a go of the group's graph that applies one command and ends."""
        try:
            group = await self._open(order, Stop(), command)
        except AttemptFailed as failure:
            why = f"group {order.subtask!r} cannot be entered: {failure}"
            return Inside(outcome=_error("wrong_state", why))
        try:
            if not await self._threads.has_begun(group.thread):
                why = f"group {order.subtask!r} begins anew: step in once it runs"
                return Inside(outcome=_error("wrong_state", why), begun=False)
            await self._drive(group)
            return await self._came_of(group, command)
        finally:
            await self._close(group)

    async def state_of(self, group: str) -> JsonObject | None:
        """See `Insides.state_of`."""
        outer, _ = self._served()
        thread = await self._threads.earlier(f"{outer.task_id}/{group}:")
        if thread is None:
            return None
        read = self._compiled().aget_state({"configurable": {"thread_id": thread}})
        # In an empty context: a node that asks has a run of its own, which must not leak in.
        loop = asyncio.get_running_loop()
        return (await loop.create_task(read, context=contextvars.Context())).values or None

    async def _came_of(self, group: _Group, command: Command) -> Inside:
        control = cast("GroupControl", group.context.control)
        outcome = control.outcomes.get(command.id)
        if outcome is None:
            why = f"group {group.order.subtask!r} cannot do that now"
            return Inside(outcome=_error("wrong_state", why), unanswered=True)
        config: Any = {"configurable": {"thread_id": group.thread}}
        state: TaskState = (await self._compiled().aget_state(config)).values
        told = tuple(_told(question, group.order) for question in state.get("questions") or ())
        return Inside(outcome=outcome, failed=state.get("status") == "failed", questions=told)

    async def _open(self, order: WorkOrder, stop: Stop, command: Command | None = None) -> _Group:
        outer, around = self._around(order)
        level = sum(1 for _ in outer.around())
        if level > self._depth:
            why = f"groups are nested deeper than limits.depth ({self._depth}) allows"
            raise AttemptFailed("over_budget", why, retryable=False)
        inputs, meaning = await around.groups.inputs(order)
        runner = around.inner()
        context = self._context(order, stop, outer, runner, inputs, command)
        group = _Group(
            order=order,
            stop=stop,
            thread=group_thread(outer.task_id, order.subtask, _meaning(order, meaning)),
            context=context,
            runner=runner,
            task=self._task_of(order, inputs, left=self._depth - level),
            started=context.clock(),
        )
        context.earlier = await self._earlier(group)
        made = order.work.plan is None
        context.journal = self._threads.begin(
            group.thread, order.subtask, self._plan_taker(order.subtask) if made else None
        )
        stop.on_change = runner.wake
        self._running[order.subtask] = self._threads_of[group.thread] = group
        outer.inside.add(context)
        return group

    async def _earlier(self, group: _Group) -> Mapping[str, Record]:
        """The records of a group that begins anew on another thread: its numbers go on."""
        if group.order.attempt <= 1 or await self._threads.has_begun(group.thread):
            return {}
        before = await self._threads.earlier(group.thread)
        if before is None:
            return {}
        state = await self._compiled().aget_state({"configurable": {"thread_id": before}})
        records = state.values.get("records")
        return {} if is_gone(records) else records or {}

    def _compiled(self) -> Any:
        if self._graph is None:
            self._graph = assemble(self).compile(checkpointer=self._threads.saver)
        return self._graph

    def _around(self, order: WorkOrder) -> tuple[TaskContext, LocalRunner]:
        """The plan that a group stands in, and what runs it."""
        if not order.scope:
            return self._served()
        group = self._running[order.scope.removesuffix("/")]
        return group.context, group.runner

    def _context(
        self,
        order: WorkOrder,
        stop: Stop,
        outer: TaskContext,
        runner: LocalRunner,
        inputs: JsonObject,
        command: Command | None,
    ) -> TaskContext:
        prefix = f"{order.subtask}/"
        given = [command] if command is not None else [_wished(one) for one in order.wishes]
        alone = command is not None
        usage = Usage(steps=0, tokens=0, cost_usd=0.0, seconds=0.0, failures=0)
        return TaskContext(
            task_id=outer.task_id,
            runner=ScopedRunner(runner, prefix=prefix, inputs=inputs),
            journal=outer.journal,
            control=GroupControl(stop, outer.control, group=order.local, given=given, alone=alone),
            only_commands=alone,
            insides=self,
            taken_back=order.taken_back,
            kept_inside=order.inside,
            store=outer.store,
            specs=outer.specs,
            slots=outer.slots,
            usage=usage,
            models=outer.models,
            ledger=outer.ledger,
            workspace=outer.workspace,
            tables=outer.tables,
            clock=outer.clock,
            draw=outer.draw,
            held_since=outer.clock(),
            validated=order.work.plan is not None,
            durations=outer.durations,
            history=outer.history,
            model_names=outer.model_names,
            outer=outer,
            prefix=prefix,
            inputs=inputs,
            above=order.brief,
            go=order.go,
            removed=order.removed,
        )

    def _task_of(self, order: WorkOrder, inputs: JsonObject, *, left: int) -> JsonObject:
        """The group as a task file of its own: what its thread begins with.

        `left`: how deep groups may still be nested inside.
        """
        work = order.work
        named = order.unit.description or order.unit.name or order.local
        goal: JsonObject = dict(work.goal) if work.goal else {"objective": named}
        task: JsonObject = {
            **self._task,
            "name": order.subtask,
            "goal": {**goal, "inputs": {**(goal.get("inputs") or {}), **inputs}},
            "budget": work.budget or {},
            "limits": {**(self._task.get("limits") or {}), "depth": left},
        }
        task.pop("plan", None)
        if work.plan is not None:
            task["plan"] = work.plan.model_dump(exclude_unset=True)
        return task

    def _plan_taker(self, group: str) -> Callable[[JsonObject], None]:
        """Lets the task's progress know the leaves of a plan that a model made."""

        def take(plan: JsonObject) -> None:
            root, _ = self._served()
            root.inner.plans[group] = plan
            if root.meter is not None:
                root.meter.nest(group, plan)

        return take

    async def _drive(self, group: _Group) -> None:
        """Run the graph to the end of this go; across lost connections within the process."""
        graph = self._compiled()
        config: Any = {"configurable": {"thread_id": group.thread}}
        lost = False
        while True:
            try:
                begun = await self._threads.has_begun(group.thread)
                given: Any = {"go": group.order.go}
                if not begun:
                    given = {"task": group.task, "task_dir": self._task_dir}
                elif lost:
                    given = None
                async for _ in graph.astream(
                    given, config, stream_mode="custom", durability="sync"
                ):
                    pass
                await group.context.journal.flush()
                group.context.tell_senders()
                return
            except DatabaseUnavailable as error:
                lost = True
                group.context.forget()
                group.context.spend_again()
                await self._threads.recover(group.thread, error)

    async def _close(self, group: _Group) -> None:
        if group.context.outer is not None:
            group.context.outer.inside.discard(group.context)
        group.stop.on_change = _nobody
        await group.runner.close()
        self._running.pop(group.order.subtask, None)
        self._threads_of.pop(group.thread, None)
        self._threads.leave(group.thread)

    # --- how it ended --------------------------------------------------------------------------

    async def _outcome(self, group: _Group) -> Outcome:
        order, now = group.order, group.context.clock()
        status, failure = group.context.ended or (group.state.get("status"), None)
        if status == "completed":
            return await self._completed(group)
        questions = group.state.get("questions") or []
        if status == "waiting" and questions:
            return _asked(order, group.started, now, questions)
        if status == "failed" and _out_of_tasks_budget(group, failure):
            outcome = stopped(order, group.started, now)
            outcome["failure"] = _failed(failure).failure
            return outcome
        if status == "failed":
            return not_accepted(order, group.started, now, _failed(failure))
        return stopped(order, group.started, now)

    async def _completed(self, group: _Group) -> Outcome:
        _, around = self._around(group.order)
        done = GroupDone(inputs=group.context.inputs or {}, bindings=_inside(group))
        return await around.groups.end(group.order, done, group.stop, started=group.started)


def _meaning(order: WorkOrder, inputs: JsonObject) -> JsonObject:
    """What makes a group this one and no other (see `group_thread`)."""
    work = order.work
    plan = work.plan.model_dump(exclude_unset=True) if work.plan is not None else None
    return {"plan": plan, "goal": work.goal, "budget": work.budget, "inputs": inputs}


def _wished(wish: JsonObject) -> Command:
    return Command(id=wish["id"], name=wish["name"], args=wish["args"], by=wish["by"])


def _error(code: str, message: str) -> JsonObject:
    return {"error": {"code": code, "message": message}}


def _nobody() -> None:
    """Nobody listens any more."""


def _inside(group: _Group) -> dict[str, Any]:
    """What outputs and checks may see of the inner plan: what they name, what made artifacts."""
    records = group.state.get("records") or {}
    work = group.order.work
    checks = [check.model_dump(exclude_unset=True) for check in work.success]
    named = {reference.head for reference in find_references([work.outputs, checks])}
    plan: JsonObject = group.state.get("plan") or {"subtasks": []}
    return {
        id: binding(id, records, children=True, prefix=group.context.prefix)
        for id in (subtask["id"] for subtask in plan["subtasks"])
        if id in named or _made_something(id, records)
    }


def _made_something(id: str, records: Mapping[str, Record]) -> bool:
    record = records.get(id) or Record()
    return bool(record.get("artifacts") or record.get("n"))


def _out_of_tasks_budget(group: _Group, ending: TaskFailure | None) -> bool:
    """Whether a limit was met inside that is none of the group's own."""
    if ending is None or ending["code"] not in BUDGET_CODES or group.context.out_of_tokens:
        return False
    context, stated = group.context, Budget.model_validate(group.order.work.budget or {})
    own = effective_limits(
        stated, leaves=0, raised=NO_LIMITS | stated.model_dump(exclude_none=True)
    )
    used: Usage = {**context.usage, "seconds": context.seconds()}
    return exhausted(own, used) is None and steps_left(own, used, context.all_reserved()) > 0


def _failed(ending: TaskFailure | None) -> AttemptFailed:
    """A group's own end without success, as the failure of the subtask that it is."""
    if ending is None:
        return AttemptFailed("stuck", "its plan failed without a reason", retryable=False)
    kind = "budget_exhausted" if ending["code"] in BUDGET_CODES else ending["code"]
    return AttemptFailed(kind, ending["message"], retryable=False)


def _asked(order: WorkOrder, started: float, now: float, questions: list[Question]) -> Outcome:
    """What is asked inside holds the group back; the ids are those that people see."""
    outcome = not_accepted(order, started, now, AttemptFailed("waiting", "a person is asked"))
    del outcome["failure"]
    told = [_told(question, order) for question in questions]
    outcome["question"] = told[0]
    outcome["more_questions"] = told[1:]
    return outcome


def _told(question: Question, order: WorkOrder) -> Question:
    """A question as the plan around knows it: its full id, and the group that it was asked in."""
    inner = question["subtask"]
    about = f"{order.subtask}/{inner}" if inner else order.subtask
    facts = {**(question.get("facts") or {}), "group": order.local}
    return {**question, "subtask": about, "facts": facts}


def _uncounted(outcome: Outcome) -> Outcome:
    """A group makes no call itself: what was made inside is counted there."""
    outcome["calls"] = 0
    return outcome
