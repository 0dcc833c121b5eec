"""How close is the makespan to what a scheduler without any cost would need?

One random graph of 300 subtasks and the recorded workflows below 1,000, eight at a time: makespan
÷ list-scheduling bound, and beside it the same graphs through `Send` waves.
"""

import argparse
import asyncio
from pathlib import Path
from typing import Any

from benchmarks import dags, list_schedule, product, report, waves
from benchmarks.server import database, server, settings

SLOTS = 8
TARGET = 1.05


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="bound of each workflow")
    parser.add_argument("--repeats", type=int, default=3, help="runs a graph; the median counts")
    parser.add_argument("--only", default="", help="graphs whose name contains this")
    parser.add_argument("--dags", type=Path, default=dags.WF_DAGS, help="recorded workflows")
    parser.add_argument("--read", action="store_true", help="tools without ledger rows")
    return parser.parse_args()


def graphs(asked: argparse.Namespace) -> list[dags.Dag]:
    recorded = [
        list_schedule.scaled_to(dag, makespan_s=asked.seconds, slots=SLOTS)
        for dag in dags.wf_dags(asked.dags, below=1000)
    ]
    return [dag for dag in [dags.random_dag(), *recorded] if asked.only in dag.name]


async def one_run(dag: dags.Dag, server_url: str, tool: str) -> float:
    task = dags.task_file(dag, tool, args=lambda node: {"seconds": node.seconds})
    async with database(server_url) as url, settings(url) as where:
        return await product.run(task, where)


async def measure(dag: dags.Dag, server_url: str, asked: argparse.Namespace) -> dict[str, Any]:
    bound = list_schedule.makespan(dag, slots=SLOTS)
    tool = "sleep_read" if asked.read else "sleep"
    runs = [await one_run(dag, server_url, tool) for _ in range(asked.repeats)]
    async with database(server_url) as url:
        in_waves = await waves.makespan(dag, url, slots=SLOTS)
    return {
        "graph": dag.name,
        "subtasks": len(dag.nodes),
        "bound_s": round(bound, 3),
        "makespan_s": report.middle(runs),
        "ratio": report.middle([run / bound for run in runs]),
        "ratios": [round(run / bound, 3) for run in runs],
        "waves_s": round(in_waves, 3),
        "waves_ratio": round(in_waves / bound, 3),
    }


async def main() -> None:
    asked = options()
    async with server() as url:
        rows = [await measure(dag, url, asked) for dag in graphs(asked)]
    report.print_document(
        "makespan ÷ list-scheduling bound, 8 at a time",
        target=TARGET,
        worst=max(row["ratio"] for row in rows),
        met=all(row["ratio"] <= TARGET for row in rows),
        graphs=rows,
    )


if __name__ == "__main__":
    asyncio.run(main())
