"""How soon after a kill -9 does a new process start its first new subtask? Does anything run twice?

A task of 10,000 subtasks is killed at half. Each subtask appends a line to a file outside; the
file says when the first one after the kill ran, and how often each ran. The peer is a stock
LangGraph process: the time from its start to the end of its first superstep.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import dags, report
from benchmarks.server import database, server, temporary_home

TARGET_S = 1.2
WORKER = [sys.executable, "-m", "benchmarks.resume_worker"]
COMMAND = str(Path(sys.executable).with_name("surefoot"))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subtasks", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3, help="kills for each way of resuming")
    return parser.parse_args()


async def start(command: list[str], url: str, home: Path) -> asyncio.subprocess.Process:
    """Start a process whose output we read, with byte-compiled modules."""
    environment = {**os.environ, "SUREFOOT_HOME": str(home), "SUREFOOT_DATABASE_URL": url}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )


async def stock_start_s(url: str, home: Path) -> float:
    """Seconds from the start of a stock process to the end of its first superstep."""
    begun = time.time()
    process = await start([*WORKER, "stock"], url, home)
    out, _ = await process.communicate()
    return float(out) - begun


def calls_in(log: Path) -> list[tuple[str, float, str]]:
    """(id, POSIX seconds, process) of every call that ran, in order."""
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    whole = text[: text.rfind("\n") + 1]  # the last line may be half written
    return [(name, float(at), pid) for name, at, pid in map(str.split, whole.splitlines())]


async def until_half(log: Path, n: int, process: asyncio.subprocess.Process) -> None:
    while len(calls_in(log)) < n // 2:
        if process.returncode is not None:
            raise SystemExit(f"the run ended with {process.returncode} before it could be killed")
        await asyncio.sleep(0.02)


def write_task(file: Path, log: Path, n: int) -> None:
    task = dags.task_file(dags.wide(n), "record", args=lambda _: {"log": str(log)})
    file.write_text(json.dumps(task), encoding="utf-8")


async def kill_and_resume(url: str, home: Path, n: int, *, by_command: bool) -> dict[str, Any]:
    """One kill at half: where the time to the first new subtask went, and what ran twice."""
    log, file = home / "calls", home / "task.json"
    write_task(file, log, n)
    worker = [*WORKER, "client", str(file), "killed"]
    process = await start(worker, url, home)
    await until_half(log, n, process)
    process.kill()
    await process.communicate()
    before = {pid for _, _, pid in calls_in(log)}

    begun = time.time()
    again = [COMMAND, "resume", "killed", "--quiet"] if by_command else worker
    process = await start(again, url, home)
    out, _ = await process.communicate()

    calls = calls_in(log)
    first = min((at for _, at, pid in calls if pid not in before), default=float("nan"))
    times = Counter(name for name, _, _ in calls)
    return {
        "first_s": first - begun,
        "exit_code": process.returncode,
        "missing": n - len(times),
        "ran_twice": sum(1 for count in times.values() if count > 1),
        "where_s": {} if by_command else stretches(json.loads(out), begun, first),
    }


def stretches(marks: dict[str, float], begun: float, first: float) -> dict[str, float]:
    """Seconds of each stretch between the process's start and its first new subtask."""
    return {
        "interpreter": marks["begun"] - begun,
        "imports of the client": marks["imported"] - marks["begun"],
        "imports of the engine, database": marks["opened"] - marks["imported"],
        "lease, state, consistency, recovery": first - marks["opened"],
    }


async def measure(server_url: str, n: int, repeats: int, *, by_command: bool) -> dict[str, Any]:
    runs: list[dict[str, Any]] = []
    peers: list[float] = []
    for _ in range(repeats):
        with temporary_home() as home:
            async with database(server_url) as url:
                peers.append(await stock_start_s(url, home))
            async with database(server_url) as url:
                runs.append(await kill_and_resume(url, home, n, by_command=by_command))
    firsts = [run["first_s"] for run in runs]
    return {
        "resumed_by": "surefoot resume" if by_command else "the client in Python",
        "first_new_subtask_s": report.middle(firsts),
        "stock_first_superstep_s": report.middle(peers),
        "ratio": report.middle([first / peer for first, peer in zip(firsts, peers, strict=True)]),
        "all_s": [round(first, 3) for first in firsts],
        "where_s": {
            stretch: report.middle([run["where_s"][stretch] for run in runs])
            for stretch in runs[0]["where_s"]
        },
        "exit_codes": [run["exit_code"] for run in runs],
        "missing": sum(run["missing"] for run in runs),
        "ran_twice": sum(run["ran_twice"] for run in runs),
    }


async def main() -> None:
    asked = options()
    async with server() as url:
        rows = [
            await measure(url, asked.subtasks, asked.repeats, by_command=by_command)
            for by_command in (False, True)
        ]
    report.print_document(
        "from the start of a new process to its first new subtask, after a kill -9 at half",
        subtasks=asked.subtasks,
        at_most_s=TARGET_S,
        met=all(row["first_new_subtask_s"] <= TARGET_S for row in rows),
        nothing_repeated=not any(row["ran_twice"] or row["missing"] for row in rows),
        ways=rows,
    )


if __name__ == "__main__":
    asyncio.run(main())
