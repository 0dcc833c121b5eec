"""One tool: a step that fails with a chance of one in four, always at the same places.

The random source is exactly Python's `random.seed(seed)` with one `random.random()` per attempt,
in order, as in a plain loop in one process. Here every attempt may run in another process, after
any number of crashes, so nothing may be kept in memory: which draw an attempt gets is worked out
from durable facts alone. Those are the draws that earlier steps have used (each result passes the
count on) and how many attempts of this step have failed. An attempt that was cut by a crash has
used no draw: it is made again with the same one.
"""

import json
import random
from typing import Any

from langchain_core.tools import tool

from surefoot.tools import ToolContext, effect

FAILURE_RATE = 0.25


def draw_number(n: int, seed: int) -> float:
    """The n-th draw (from 0) of the sequence that `random.seed(seed)` starts."""
    source = random.Random(seed)
    for _ in range(n):
        source.random()
    return source.random()


@effect("read")
@tool
def flaky_step(
    step: int, seed: int, drawn: int, context: ToolContext, report: str | None = None
) -> dict[str, Any]:
    """Do step number `step`, or fail; `report` names an artifact for the figures so far.

    `drawn` is how many draws the steps before this one have used.
    """
    draws = drawn + context.failed_attempts + 1
    if draw_number(draws - 1, seed) < FAILURE_RATE:
        raise RuntimeError(f"step {step} failed")
    if report is not None:
        context.artifacts.put(report, json.dumps(figures(step, draws)))
    return {"value": f"step{step}_result", "draws": draws}


def figures(done: int, attempts: int) -> dict[str, Any]:
    """What the run has come to: every attempt so far has used one draw."""
    rate = round((attempts - done) / done, 3)
    return {"done_steps": done, "total_attempts": attempts, "retry_rate": rate}


TOOLS = [flaky_step]
