"""The same chain of effects as bare LangGraph and as DBOS: the programs that are killed.

    python -m benchmarks.chaos_peers langgraph-sync|langgraph-default|dbos TASK DATABASE_URL

Written as their documentation does it: a node, or a step, per effect. A new process goes on with
what is saved; when it leaves with 0, the chain is done. Nothing of Surefoot is used.
"""

import asyncio
import importlib
import operator
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from crash import outside

LENGTH = 12


def act(task: str, number: int) -> int:
    """Do something outside that takes some milliseconds, in a world where the process may die."""
    outside.die("before")
    time.sleep(random.uniform(0, 0.01))
    outside.record("do", f"{task}/send/e{number}")
    outside.die("after")
    return number


class Chain(TypedDict):
    """The state of the graph."""

    done: Annotated[list[int], operator.add]


async def langgraph(task: str, url: str, durability: Any) -> None:
    """A node per effect over the stock PostgreSQL saver."""
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from langgraph.graph import START, StateGraph

    def node(number: int) -> Callable[[Chain], Any]:
        async def effect(state: Chain) -> Chain:
            return {"done": [await asyncio.to_thread(act, task, number)]}

        return effect

    builder: Any = StateGraph(Chain)
    names = [f"e{number}" for number in range(LENGTH)]
    for number, name in enumerate(names):
        builder.add_node(name, node(number))
    for before, name in zip([START, *names], names, strict=False):
        builder.add_edge(before, name)
    async with AsyncPostgresSaver.from_conn_string(url) as saver:
        await saver.setup()
        graph: Any = builder.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": task}}
        begun = await saver.aget_tuple({"configurable": {"thread_id": task}}) is not None
        more = {} if durability is None else {"durability": durability}
        # Whatever is left to do, and nothing on a thread that has ended.
        await graph.ainvoke(None if begun else {"done": []}, config, **more)


def dbos(task: str, url: str) -> None:
    """A step per effect; what was pending is recovered when the library is launched."""
    module: Any = importlib.import_module("dbos")  # an optional dependency
    library = module.DBOS
    library(config={"name": "chaos", "system_database_url": url, "log_level": "ERROR"})

    @library.step()
    def effect(task: str, number: int) -> int:
        return act(task, number)

    @library.workflow()
    def chain(task: str) -> list[int]:
        return [effect(task, number) for number in range(LENGTH)]

    library.launch()
    with module.SetWorkflowID(task):
        handle = library.start_workflow(chain, task)
    handle.get_result()
    library.destroy()


def main() -> None:
    peer, task, url = sys.argv[1:]
    os.environ[outside.VICTIM] = str(os.getpid())
    if peer == "dbos":
        dbos(task, url)
    else:
        asyncio.run(langgraph(task, url, "sync" if peer == "langgraph-sync" else None))


if __name__ == "__main__":
    main()
