"""The peer of dispatching: the same graph in waves, as LangGraph's `Send` fans out.

Every superstep is a barrier: a wave takes all that is ready, and the next one starts when its
slowest node has ended. The limit on how many run at a time is a semaphore in the node:
`max_concurrency` in the config would hold back the saver as well.
"""

import asyncio
import operator
import time
import uuid
from typing import Annotated, Any, TypedDict, cast

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from benchmarks.dags import Dag, Node
from benchmarks.floor import stock_saver


class Progress(TypedDict):
    """The ids of the nodes that have run."""

    done: Annotated[list[str], operator.add]


async def makespan(dag: Dag, url: str, *, slots: int) -> float:
    """Seconds that the waves need for the whole graph."""
    async with stock_saver(url) as saver:
        graph = _waves(dag, slots).compile(checkpointer=saver)
        config = {
            "configurable": {"thread_id": uuid.uuid4().hex},
            "recursion_limit": 2 * len(dag.nodes) + 10,
        }
        begun = time.perf_counter()
        state = await graph.ainvoke({"done": []}, config, durability="sync")
        seconds = time.perf_counter() - begun
    assert sorted(state["done"]) == sorted(node.id for node in dag.nodes)
    return seconds


def _waves(dag: Dag, slots: int) -> Any:
    free = asyncio.Semaphore(slots)

    def look(_state: Progress) -> dict[str, list[str]]:
        return {"done": []}

    def next_wave(state: Progress) -> list[Send] | str:
        done = set(state["done"])
        ready = [n for n in dag.nodes if n.id not in done and done.issuperset(n.needs)]
        return [Send("work", node) for node in ready] or END

    async def work(node: Node) -> dict[str, list[str]]:
        async with free:
            await asyncio.sleep(node.seconds)
        return {"done": [node.id]}

    builder = cast("Any", StateGraph(Progress))
    builder.add_node("look", look)
    builder.add_node("work", work)
    builder.add_edge(START, "look")
    builder.add_conditional_edges("look", next_wave, ["work", END])
    builder.add_edge("work", "look")
    return builder
