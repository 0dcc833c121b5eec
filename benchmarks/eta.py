"""Does the true end lie inside the interval that `status` gives, and does the interval narrow?

Replays of the recorded workflows, scaled; `status` is asked all the time, and the answers at 25,
50 and 75 % of the true duration count. Once with the recorded runtimes as weights (what a careful
author states), once with all weights 1 (then only what has finished tells).
"""

import argparse
import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

from benchmarks import dags, list_schedule, product, report
from benchmarks.server import database, server, settings
from surefoot.graph.errors import UsageError
from surefoot.graph.settings import Settings
from surefoot.service.client import Surefoot

SLOTS = 8
MOMENTS = (0.25, 0.5, 0.75)
AT_LEAST = 0.7


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="bound of each replay")
    parser.add_argument("--only", default="", help="workflows whose name contains this")
    parser.add_argument("--dags", type=Path, default=dags.WF_DAGS, help="recorded workflows")
    return parser.parse_args()


Seen = list[tuple[float, dict[str, float] | None]]
"""(POSIX seconds, interval or None), in order."""


async def watch(where: Settings, task_id: str, over: asyncio.Event) -> Seen:
    """What `status` says of a running task, four times a second until it is over."""
    seen: Seen = []
    async with Surefoot(where) as client:
        while not over.is_set():
            with contextlib.suppress(UsageError):  # not created yet
                status = await client.status(task_id)
                if status["status"] == "running":
                    seen.append((time.time(), status["eta_seconds"]))
            await asyncio.sleep(0.25)
    return seen


async def replay(dag: dags.Dag, server_url: str, *, weighted: bool) -> list[dict[str, Any]]:
    """What `status` said at each moment, against what was left in truth."""
    task = dags.task_file(
        dag, "sleep", args=lambda node: {"seconds": node.seconds}, weighted=weighted
    )
    over = asyncio.Event()
    async with database(server_url) as url, settings(url) as where:
        watcher = asyncio.create_task(watch(where, "replay", over))
        await product.run(task, where, task_id="replay")
        ended = time.time()
        over.set()
        seen = await watcher
    begun = seen[0][0]
    rows: list[dict[str, Any]] = []
    for moment in MOMENTS:
        due = begun + moment * (ended - begun)
        at, eta = min(seen, key=lambda sample: abs(sample[0] - due))
        rows.append({"at": moment, **judged(eta, left_s=ended - at)})
    return rows


def judged(eta: dict[str, float] | None, *, left_s: float) -> dict[str, Any]:
    """Whether the interval holds the true rest."""
    inside = eta is not None and eta["low"] <= left_s <= eta["high"]
    return {"left_s": round(left_s, 2), "eta_seconds": eta, "inside": inside}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Share of hits among the intervals given, and their median width by moment.

    No interval is no hit and no miss: `status` may say that it does not know yet.
    """
    asked = [sample for row in rows for sample in row["samples"]]
    samples = [sample for sample in asked if sample["eta_seconds"]]
    widths = {
        moment: [
            sample["eta_seconds"]["high"] - sample["eta_seconds"]["low"]
            for sample in samples
            if sample["at"] == moment
        ]
        for moment in MOMENTS
    }
    share = sum(sample["inside"] for sample in samples) / max(1, len(samples))
    middle = {str(moment): report.middle(values) for moment, values in widths.items() if values}
    widest = list(middle.values())
    return {
        "intervals": len(samples),
        "unknown_yet": len(asked) - len(samples),
        "inside": round(share, 3),
        "median_width_s": middle,
        "narrows": widest == sorted(widest, reverse=True),
        "met": share >= AT_LEAST and widest == sorted(widest, reverse=True),
    }


async def main() -> None:
    asked = options()
    scaled = [
        list_schedule.scaled_to(dag, makespan_s=asked.seconds, slots=SLOTS)
        for dag in dags.wf_dags(asked.dags, below=1000)
        if asked.only in dag.name
    ]
    async with server() as url:
        rows = [
            {
                "graph": dag.name,
                "weights": "recorded runtimes" if weighted else "all 1",
                "samples": await replay(dag, url, weighted=weighted),
            }
            for weighted in (True, False)
            for dag in scaled
        ]
    report.print_document(
        "is the true end inside the interval at 25, 50 and 75 %, and does the interval narrow",
        at_least=AT_LEAST,
        overall=summary(rows),
        by_weights={
            weights: summary([row for row in rows if row["weights"] == weights])
            for weights in ("recorded runtimes", "all 1")
        },
        replays=rows,
    )


if __name__ == "__main__":
    asyncio.run(main())
