"""The subtask graph, think <-> act, and the agent that the runner is given: one thread a go.

    START -> think | act | END (by what the thread holds)     think -> act | think | END
                                                              act -> act | think | END

Every model reply and every call is a superstep of its own, saved before the next. A thread is
always entered at START with its go's number, and goes on where it stands.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph

from surefoot.graph.agent_ports import OnStep
from surefoot.graph.agent_threads import lost_steps
from surefoot.graph.model_ports import ModelClient
from surefoot.graph.plan import Votes
from surefoot.graph.ports import WorkOrder
from surefoot.graph.subtask_state import SubtaskInput, SubtaskState
from surefoot.graph.values import Failure, Outcome
from surefoot.graph.votes import tally
from surefoot.nodes.act import act
from surefoot.nodes.steps import MODEL, StepContext, next_step
from surefoot.nodes.think import think
from surefoot.tools.agent_calls import OrderCalls
from surefoot.tools.agent_work import AgentWork, CountStep, GoEnd
from surefoot.tools.samples import Samples
from surefoot.tools.stopping import Stop

RECURSION_LIMIT = 2**31 - 1
"""Supersteps per go: as good as none; a go ends by its own bounds."""

OnLost = Callable[[WorkOrder, str], None]
HasStepped = Callable[[WorkOrder], Awaitable[bool]]

ENDS_THE_VOTE = ("model_unavailable", "timeout")
"""Failures of a sample that another sample would meet as well."""


def build_subtask_graph() -> "StateGraph[SubtaskState, StepContext, SubtaskInput, SubtaskState]":
    """The uncompiled graph; each run is given its `StepContext`."""
    graph = StateGraph(SubtaskState, context_schema=StepContext, input_schema=SubtaskInput)
    graph.add_node("think", think, destinations=("think", "act", END))  # pyright: ignore[reportUnknownMemberType]
    graph.add_node("act", act, destinations=("think", "act", END))  # pyright: ignore[reportUnknownMemberType]
    graph.add_conditional_edges(START, next_step, ["think", "act", END])
    return graph


def thread_of(order: WorkOrder, sample: int = 0) -> str:
    """The thread of a go, or of one sample of it: `TASK/SUBTASK/GO`, `TASK/SUBTASK/GO:SAMPLE`.

    No id has a colon, so a sample is never the go of a subtask inside (`g` go 1 sample 2, `g/1`
    go 2), and none of them is the thread of a group (`group_thread`).
    """
    thread = f"{order.task_id}/{order.subtask}/{order.go}"
    return f"{thread}:{sample}" if sample else thread


def _nothing_to_forget(thread: str) -> None:
    del thread


def _nobody_is_told(order: WorkOrder, lost: str) -> None:
    del order, lost


async def _nobody_knows_of_steps(order: WorkOrder) -> bool:
    del order
    return False


async def _nothing_to_remove(thread: str) -> None:
    del thread


class SubtaskAgent:
    """Carries out `agent` work: one go on its thread, or a vote among samples of it.

    Args:
        work: what surrounds the steps: what the attempt is about, and its acceptance.
        models: of the task.
        saver: for the threads of this task's agents; its own, not the task graph's, so that rows
            which a node has queued never leave before that node's superstep is over.
        on_step: told around every step.
        count_step: takes a step from the task's budget before every call of a tool.
        on_lost: told of a go whose thread is not whole, and what is missing of it.
        has_stepped: whether the tables know of a step that a cut go had saved.
        begin_anew: removes what is left of such a thread (`TaskSaver.remove`).
        forget: told the thread that is no longer run here (`TaskSaver.leave`).
    """

    def __init__(
        self,
        work: AgentWork,
        *,
        models: ModelClient,
        saver: BaseCheckpointSaver[Any],
        on_step: OnStep | None = None,
        forget: Callable[[str], None] = _nothing_to_forget,
        count_step: CountStep | None = None,
        on_lost: OnLost = _nobody_is_told,
        has_stepped: HasStepped = _nobody_knows_of_steps,
        begin_anew: Callable[[str], Awaitable[None]] = _nothing_to_remove,
    ) -> None:
        self._work, self._models, self._on_step = work, models, on_step
        self._on_lost, self._has_stepped, self._begin_anew = on_lost, has_stepped, begin_anew
        self._forget, self._count_step = forget, count_step
        self._samples = Samples(host=work.host, values=work.values, store=work.store)
        graph: Any = build_subtask_graph()
        self._graph = graph.compile(checkpointer=saver)

    async def __call__(self, order: WorkOrder, stop: Stop) -> Outcome:
        """One attempt, to its outcome.

        Raises:
            LeaseLost, DatabaseUnavailable: what happened is not known here.
        """
        steps = partial(self._steps, order, stop)
        return await self._work.run(order, stop, steps, self._count_step)

    async def _steps(self, order: WorkOrder, stop: Stop, calls: OrderCalls) -> GoEnd:
        deadline = self._work.clock() + order.timeout_s
        go = partial(self._go, order, stop, calls, deadline)
        votes = order.work.votes
        return await go(0, 0) if votes is None else await self._vote(order, votes, go)

    async def _go(
        self,
        order: WorkOrder,
        stop: Stop,
        calls: OrderCalls,
        deadline: float,
        sample: int,
        before: int,
    ) -> GoEnd:
        """Take the steps of one thread from where it stands."""
        context = StepContext(
            order=order,
            models=self._models,
            calls=calls,
            stop=stop,
            guard=stop.guard,
            clock=self._work.clock,
            deadline=deadline,
            on_step=self._on_step,
            sample=sample,
            before=before,
        )
        config = {
            "configurable": {"thread_id": thread_of(order, sample)},
            "recursion_limit": RECURSION_LIMIT,
        }
        if order.recovering and order.go != order.attempt:
            await self._take_up(config, context)
        try:
            state: SubtaskState = await self._graph.ainvoke(
                {"go": order.go}, config, context=context, durability="sync"
            )
        finally:
            # What an interrupted step had buffered must not be saved by the go that follows.
            self._forget(thread_of(order, sample))
        return GoEnd(
            finished=state.get("finished"),
            failure=state.get("failure"),
            artifacts=state.get("artifacts") or {},
            longest=state.get("longest", 0),
            steps=state.get("step", 0),
        )

    async def _take_up(self, config: Any, context: StepContext) -> None:
        """Show where a cut go goes on; where its thread is not whole it starts from scratch.

        What it did outside then answers the same calls, by the ledger.
        """
        saved = await self._graph.aget_state(config)
        lost = lost_steps(saved.values)
        if not lost:
            context.tell("pending", MODEL, saved.values.get("step", 0) + 1)
            return
        # Killed before its first step was saved, a go (or a sample) has lost nothing.
        begun = any(value for name, value in saved.values.items() if name != "go")
        if begun or (context.sample == 0 and await self._has_stepped(context.order)):
            self._on_lost(context.order, lost)
        await self._begin_anew(config["configurable"]["thread_id"])

    async def _vote(self, order: WorkOrder, votes: Votes, go: Any) -> GoEnd:
        """Take samples one after the other until one answer is ahead by enough.

        A finished sample stays in its thread: after a restart it is counted again, not paid.
        """
        ballots: list[str] = []
        ends: list[GoEnd] = []
        before = 0
        for sample in range(1, votes.max_samples + 1):
            end: GoEnd = await go(sample, before)
            before += end.steps
            if end.failure is not None and end.failure["kind"] in ENDS_THE_VOTE:
                return end
            if end.finished is None and end.failure is None:
                return end  # a pause
            if await self._samples.red_flag(order, end) is None:
                ballots.append(await self._samples.ballot(order, end))
                ends.append(end)
            left = votes.max_samples - sample
            count = tally(ballots, ahead_by=votes.ahead_by, left=left)
            if count.state == "won":
                return ends[ballots.index(str(count.winner))]
            if count.state == "no_majority":
                return GoEnd(failure=_no_majority(votes, sample, ballots))
        raise AssertionError("with no sample left a vote is won or lost")


def _no_majority(votes: Votes, samples: int, ballots: list[str]) -> Failure:
    message = (
        f"no answer can get {votes.ahead_by} ahead within {votes.max_samples} samples: after "
        f"{samples} there were {len(set(ballots))} different answers, and "
        f"{samples - len(ballots)} samples were thrown away"
    )
    return Failure(kind="no_majority", message=message, retryable=True)
