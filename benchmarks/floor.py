"""The peer of all overheads: a stock LangGraph loop of one node, and the stock saver under it.

`AsyncPostgresSaver` over a checked pool, `durability="sync"`: what anybody gets who does it by
the book. The pool is checked because a pool that hands out dead connections survives nothing.
"""

import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypedDict, cast

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool


class Countdown(TypedDict):
    """How many supersteps are left."""

    left: int


def count_down(state: Countdown) -> Countdown:
    return {"left": state["left"] - 1}


def after_count(state: Countdown) -> str:
    return "count_down" if state["left"] > 0 else END


@asynccontextmanager
async def stock_saver(url: str) -> AsyncGenerator[AsyncPostgresSaver]:
    """The stock saver over a checked pool, its tables made."""
    pool = AsyncConnectionPool[AsyncConnection[DictRow]](
        url,
        min_size=1,
        max_size=8,
        open=False,
        check=cast("Any", AsyncConnectionPool.check_connection),
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
    )
    async with pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        yield saver


async def ms_per_superstep(url: str, *, supersteps: int = 300) -> float:
    """Milliseconds of one superstep of the loop, after a short warm-up."""
    async with stock_saver(url) as saver:
        graph = _loop().compile(checkpointer=saver)
        await _run(graph, supersteps=20)
        begun = time.perf_counter()
        await _run(graph, supersteps=supersteps)
        return (time.perf_counter() - begun) * 1000 / supersteps


async def first_superstep_at(url: str) -> float:
    """POSIX time at which the loop's first superstep is over, its checkpoint written."""
    async with stock_saver(url) as saver:
        await _run(_loop().compile(checkpointer=saver), supersteps=1)
        return time.time()


def _loop() -> Any:
    builder = cast("Any", StateGraph(Countdown))
    builder.add_node("count_down", count_down)
    builder.add_edge(START, "count_down")
    builder.add_conditional_edges("count_down", after_count, ["count_down", END])
    return builder


async def _run(graph: Any, *, supersteps: int) -> None:
    config = {
        "configurable": {"thread_id": uuid.uuid4().hex},
        "recursion_limit": supersteps + 10,
    }
    await graph.ainvoke({"left": supersteps}, config, durability="sync")
