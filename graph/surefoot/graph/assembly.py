"""The task graph, assembled: nodes, ways, and what they are injected with.

    START -> load -> planner -> validator -> dispatcher <-> executor -> reflector
    dispatcher -> reflector | checkpoint_judge | planner | rollback | human | load | END
    checkpoint_judge -> dispatcher | END ...

dispatcher, executor and reflector route with `Command(goto)` (their ways are declared with
`destinations`), the others by conditional edges; never both on one node.
"""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Protocol

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command

from surefoot.graph.state import TaskInput, TaskState
from surefoot.nodes.checkpoint_judge import after_judge, judge
from surefoot.nodes.context import TaskContext
from surefoot.nodes.dispatcher import dispatch
from surefoot.nodes.executor import execute
from surefoot.nodes.human import after_human, ask_people
from surefoot.nodes.load import after_load, load, was_left
from surefoot.nodes.planner import after_planner, draft_plan
from surefoot.nodes.reflector import reflect
from surefoot.nodes.rollback import roll_back
from surefoot.nodes.validator import after_validator, check_plan

Act = Callable[[TaskState, TaskContext], Awaitable[Any]]

DISPATCHED = (
    *("executor", "reflector", "checkpoint_judge", "planner", "rollback", "human", "load"),
    END,
)
"""Where the dispatcher routes."""

RECURSION_LIMIT = 2**31 - 1
"""Supersteps per go: as good as none. A task ends by its own limits, never by the graph's."""


class Contexts(Protocol):
    """Who knows the context of a thread: the engine's one task, or a host app's many."""

    rides_on_saver: bool
    """Whether the saver writes the journal's rows with each checkpoint."""

    async def of(self, state: TaskState, thread_id: str) -> TaskContext:
        """The context of a thread; opened where this process has none yet."""
        ...

    async def leave(self, context: TaskContext) -> None:
        """This go is over: let go of the task."""
        ...


class OneContext:
    """The contexts of an engine's run: one task, whose saver carries the journal."""

    rides_on_saver = True

    def __init__(self, context: TaskContext) -> None:
        self._context = context

    async def of(self, state: TaskState, thread_id: str) -> TaskContext:
        """The one context there is."""
        del state, thread_id
        return self._context

    async def leave(self, context: TaskContext) -> None:
        """Nothing: the engine closes what it opened."""


class TaskGraph(StateGraph[TaskState, None, TaskInput, TaskState]):
    """A `StateGraph` whose compiled form is not stopped by LangGraph's recursion limit."""

    callbacks: Sequence[BaseCallbackHandler] = ()
    """What is told of every go of the compiled form."""

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """Compile as usual; the limit can still be set in an invocation's config."""
        compiled: Any = super().compile(*args, **kwargs)  # pyright: ignore[reportUnknownMemberType]
        told: Any = {"callbacks": [*self.callbacks]} if self.callbacks else {}
        return compiled.with_config(recursion_limit=RECURSION_LIMIT, **told)


def assemble(contexts: Contexts) -> TaskGraph:
    """The uncompiled task graph; which task a thread is about is known to `contexts`."""
    graph = TaskGraph(TaskState, input_schema=TaskInput)
    _add_nodes(graph, contexts)
    graph.add_edge(START, "load")
    graph.add_edge("rollback", "dispatcher")
    _add_ways(graph)
    return graph


def _add_nodes(graph: TaskGraph, contexts: Contexts) -> None:
    def add(name: str, act: Act, destinations: tuple[str, ...] | None = None) -> None:
        graph.add_node(name, _node(act, contexts), destinations=destinations)  # pyright: ignore[reportUnknownMemberType]

    add("load", load)
    add("planner", draft_plan)
    add("validator", check_plan)
    add("dispatcher", _taken_up(dispatch), DISPATCHED)
    add("executor", _taken_up(execute), ("reflector", "dispatcher", "load"))
    add("reflector", reflect, ("dispatcher", "planner", "rollback", "human"))
    add("checkpoint_judge", judge)
    add("human", ask_people)
    add("rollback", roll_back)


def _taken_up(act: Act) -> Act:
    """Let `load` come first where LangGraph itself goes on in the middle of a go.

    A host that gives no input after a crash (`ainvoke(None, config)`) begins at the node that was
    next: what was running then runs in no process, and only `load` knows that.
    """

    async def node(state: TaskState, context: TaskContext) -> Any:
        if was_left(state, context):
            return Command(goto="load")
        return await act(state, context)

    return node


def _add_ways(graph: TaskGraph) -> None:
    ways: list[tuple[str, Callable[[TaskState], Hashable], tuple[str, ...]]] = [
        ("load", after_load, ("planner", "dispatcher", "reflector", "human", "end")),
        ("planner", after_planner, ("validator", "end")),
        ("validator", after_validator, ("planner", "dispatcher", "end")),
        ("checkpoint_judge", after_judge, ("dispatcher", "rollback", "planner", "human", "end")),
        ("human", after_human, ("load", "dispatcher", "reflector", "planner")),
    ]
    for source, choose, targets in ways:
        graph.add_conditional_edges(
            source, choose, {target: END if target == "end" else target for target in targets}
        )


def _node(act: Act, contexts: Contexts) -> Callable[..., Awaitable[Any]]:
    """Wrap a node: find its context, and under a foreign saver flush what it queued."""

    async def node(state: TaskState, runtime: Runtime[None]) -> Any:
        info = runtime.execution_info
        if info is None or info.thread_id is None:
            raise RuntimeError("a task graph needs a checkpointer and a thread_id: the task's id")
        context = await contexts.of(state, info.thread_id)
        context.checkpoint_id = info.checkpoint_id
        try:
            update = await act(state, context)
            if not contexts.rides_on_saver:
                await context.journal.flush()
        except BaseException:
            # A question, an error or a cancelled run: either way this go is over for a host.
            await contexts.leave(context)
            raise
        if context.over:
            await contexts.leave(context)
        return update

    return node
