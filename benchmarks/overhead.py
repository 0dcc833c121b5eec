"""What does an empty subtask cost, in milliseconds, bytes and memory, with all durable parts on?

Milliseconds are set against a superstep of the stock loop (`floor`), measured before and after
in the same process. Every run has a process and a database of its own.
"""

import argparse
import asyncio
import json
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psutil

from benchmarks import dags, floor, product, report
from benchmarks.server import database, server, settings, table_bytes

MEMORY_MIB = 300


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--large", action="store_true", help="100,000 as well, once")
    parser.add_argument("--repeats", type=int, default=3, help="runs a size; the median counts")
    parser.add_argument("--one", nargs=3, metavar=("SHAPE", "N", "URL"), help=argparse.SUPPRESS)
    return parser.parse_args()


@contextmanager
def peak_memory(every_s: float = 0.2) -> Generator[dict[str, float]]:
    """Peak MiB of this process, and of it with all its children, sampled from a thread.

    Children are forked from one another: of a page that n of them share, each counts 1/n.
    """
    peak = {"main_mib": 0.0, "all_mib": 0.0}
    over = threading.Event()

    def sample() -> None:
        me = psutil.Process()
        while not over.wait(every_s):
            main = me.memory_info().rss / 2**20
            children = sum(_own_share(child) for child in me.children(recursive=True)) / 2**20
            peak["main_mib"] = max(peak["main_mib"], main)
            peak["all_mib"] = max(peak["all_mib"], main + children)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _own_share(process: psutil.Process) -> int:
    try:
        memory = process.memory_full_info()
        return getattr(memory, "pss", memory.rss)  # only Linux knows the shares
    except psutil.Error:
        return 0  # it has ended meanwhile


async def one_run(shape: str, n: int, server_url: str) -> dict[str, Any]:
    """One run in this process: the loop, the product (after one subtask to warm up), the loop."""
    dag = dags.wide(n) if shape == "wide" else dags.chain(n)
    task = dags.task_file(dag, "empty", concurrency=8 if shape == "wide" else 1)
    async with database(server_url) as url:
        before = await floor.ms_per_superstep(url)
    async with database(server_url) as url, settings(url) as where:
        await product.run(dags.task_file(dags.chain(1), "empty"), where)
        empty = await table_bytes(url)
        with peak_memory() as peak:
            seconds = await product.run(task, where)
        full = await table_bytes(url)
    tables = {name: size - empty.get(name, 0) for name, size in full.items()}
    async with database(server_url) as url:
        stock = (before + await floor.ms_per_superstep(url)) / 2
    ms = seconds * 1000 / n
    return {
        "ms": ms,
        "stock_ms": stock,
        "ratio": ms / stock,
        "bytes": sum(tables.values()) / n,
        "tables": {name: round(size / n) for name, size in tables.items() if size >= n},
        **peak,
    }


async def in_a_new_process(shape: str, n: int, server_url: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.overhead", "--one", shape, str(n), server_url),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"the run of {shape} {n} failed with {process.returncode}")
    return json.loads(out)


async def measure(shape: str, n: int, server_url: str, repeats: int) -> dict[str, Any]:
    runs = [await in_a_new_process(shape, n, server_url) for _ in range(repeats)]
    figures = ("ms", "stock_ms", "ratio", "bytes", "main_mib", "all_mib")
    middle = {figure: report.middle([run[figure] for run in runs]) for figure in figures}
    return {"shape": shape, "subtasks": n, "runs": repeats, **middle, "tables": runs[-1]["tables"]}


def verdict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Each target with what was reached; only what was measured."""
    by = {(row["shape"], row["subtasks"]): row for row in rows}
    reached: dict[str, Any] = {}
    for shape, most in (("wide", 1.0), ("chain", 4.0)):
        ratios = [row["ratio"] for row in rows if row["shape"] == shape]
        reached[f"{shape}_ratio"] = {"at_most": most, "reached": max(ratios, default=None)}
        for n, flat in ((10_000, 1.25), (100_000, 1.5)):
            small, large = by.get((shape, 1_000)), by.get((shape, n))
            if small and large:
                for figure in ("ms", "bytes"):
                    growth = round(large[figure] / small[figure], 3)
                    name = f"{shape}_{figure}_{n}_to_1000"
                    reached[name] = {"at_most": flat, "reached": growth}
    if row := by.get(("wide", 10_000)):
        reached["main_mib_10000"] = {"at_most": MEMORY_MIB, "reached": row["main_mib"]}
    return reached


async def main() -> None:
    asked = options()
    if asked.one:
        shape, n, url = asked.one
        print(json.dumps(await one_run(shape, int(n), url)))
        return
    begun = time.perf_counter()
    async with server() as url:
        rows = [
            await measure(shape, n, url, asked.repeats)
            for shape in ("wide", "chain")
            for n in asked.sizes
        ]
        if asked.large:
            rows.append(await measure("wide", 100_000, url, 1))
    report.print_document(
        "cost of an empty subtask, all durable parts on",
        took_s=round(time.perf_counter() - begun),
        targets=verdict(rows),
        rows=rows,
    )


if __name__ == "__main__":
    asyncio.run(main())
