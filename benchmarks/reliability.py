"""Does a long task end well although every answer of its model may be wrong?

Runs of 200 agent subtasks over real HTTP (`wrong_answers`): every answer is wrong with
probability e. Four ways of dealing with it, each beside its formula:

- `checked`: a check sees the error, 5 attempts. A subtask is right with chance 1 - e^5.
- `unchecked`: nothing sees it before the final acceptance, which knows the truth: (1 - e)^200.
- `votes-K`: no check can see it, but samples differ: first to be K ahead among at most 9
  (MAKER, arXiv 2511.09030; the formulas are those of `surefoot.graph.votes`).

A run has come to a good end when the task is `completed`; its final acceptance compares all
answers with the truth. `as_drawn` counts the runs that ended, and asked as often, as the same
draws say when they are gone through without the product: nothing was asked twice or forgotten.
No reflection is asked: with no replan allowed, policy leaves nothing but another attempt.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks import report, wrong_answers
from benchmarks.dags import ROOT
from benchmarks.odds import ATTEMPTS, MAX_SAMPLES, Ended, Scenario, drawn, formulas
from benchmarks.server import database, server, settings
from surefoot.graph.session import Engine
from surefoot.graph.settings import Settings

PROCESSES = 2
TOGETHER = 2
"""Runs side by side in one process, `SLOTS` subtasks at a time each."""

SLOTS = 4
AT_LEAST = {"checked": 1.0, "votes-4": 0.99}
AT_MOST = {"unchecked": 0.01}
DEFAULT_RUNS = {"checked": 100}
OTHER_RUNS = 20


def options() -> argparse.Namespace:
    names = ("checked", "unchecked", "votes-2", "votes-3", "votes-4")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, help="of each scenario; absent: 100 checked, 20 others")
    parser.add_argument("--subtasks", type=int, default=200)
    parser.add_argument("--e", type=float, default=0.05, help="chance that an answer is wrong")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=names, metavar="SCENARIO", help="votes-K: any")
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


# --- the measured runs -----------------------------------------------------------------------


def task_file(scenario: Scenario, run: int) -> dict[str, Any]:
    """The task of one run: the questions, and one subtask that gathers the answers."""
    ids = [f"q{n}" for n in range(scenario.subtasks)]
    gather = {
        "id": "gather",
        "kind": "tool",
        "tool": "write_artifact",
        "args": {"name": wrong_answers.ANSWERS, "json": [f"${{{id}}}" for id in ids]},
        "depends_on": ids,
        "outputs": [wrong_answers.ANSWERS],
    }
    return {
        "name": scenario.name,
        "goal": {
            "objective": "Every question is answered.",
            "acceptance": [{"type": "python", "call": "wrong_answers:all_right"}],
        },
        "model": "scripted",
        "concurrency": SLOTS,
        "limits": {"replans": 0},
        "tools": [str(Path(wrong_answers.__file__))],
        "plan": {"subtasks": [*(_subtask(scenario, run, n) for n in range(len(ids))), gather]},
    }


def _subtask(scenario: Scenario, run: int, n: int) -> dict[str, Any]:
    seen = {"equals": wrong_answers.truth(n)} if scenario.checked else {}
    votes = {"ahead_by": scenario.ahead_by, "max_samples": MAX_SAMPLES}
    return {
        "id": f"q{n}",
        "kind": "agent",
        "instructions": wrong_answers.instructions(scenario.name, run, n),
        "tools": [],
        "success": [{"type": "result", **seen}],
        "retries": {"max_attempts": scenario.attempts, "backoff_seconds": 0.0},
        **({"votes": votes} if scenario.ahead_by else {}),
    }


@contextmanager
def faulty_model(scenario: Scenario) -> Generator[None]:
    """The model in a process of its own, known to this one by its environment."""
    words = ("-m", "benchmarks.wrong_answers", str(scenario.seed), str(scenario.e))
    with subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        if process.stdout is None:
            raise AssertionError("its output is piped")
        os.environ |= {"OPENAI_BASE_URL": process.stdout.readline().strip(), "OPENAI_API_KEY": "-"}
        yield
        process.communicate()  # its input ends


async def part(scenario: Scenario, runs: list[int], server_url: str) -> dict[str, Any]:
    """Some of the runs, in this process and a database of their own."""
    async with database(server_url) as url, settings(url) as where:
        with faulty_model(scenario):
            await _all(replace(scenario, subtasks=2), [10**6], where)
            begun, busy = time.perf_counter(), time.process_time()
            ended = await _all(scenario, runs, where)
            seconds, busy = time.perf_counter() - begun, time.process_time() - busy
    return {"ended": ended, "seconds": seconds, "cpu_s": busy}


async def _all(scenario: Scenario, runs: list[int], where: Settings) -> list[tuple[int, Ended]]:
    left = list(runs)
    ended: list[tuple[int, Ended]] = []
    engine = await Engine.open(where)

    async def some() -> None:
        while left:
            run = left.pop(0)
            spec = {"task": task_file(scenario, run), "task_dir": str(Path(__file__).parent)}
            created = await engine.create(spec)
            await engine.run(created.id)
            row = await engine.row(created.id)
            gathered = 0 if row["failure"] and row["failure"]["subtask"] else 1
            ended.append((run, (row["status"] == "completed", row["steps"] - gathered)))

    try:
        await asyncio.gather(*(some() for _ in range(TOGETHER)))
    finally:
        await engine.close()
    return ended


async def in_new_processes(scenario: Scenario, runs: int, server_url: str) -> list[dict[str, Any]]:
    shares = [list(range(first, runs, PROCESSES)) for first in range(min(PROCESSES, runs))]
    return await asyncio.gather(*(_in_a_process(scenario, share, server_url) for share in shares))


async def _in_a_process(scenario: Scenario, runs: list[int], server_url: str) -> dict[str, Any]:
    words = (json.dumps(asdict(scenario)), json.dumps(runs), server_url)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.reliability", "--part", *words),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"a part of {scenario.name} failed with {process.returncode}")
    return json.loads(out)


# --- what came of it, beside what was to be expected -----------------------------------------


def row(scenario: Scenario, runs: int, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """What was measured of a scenario, beside what was to be expected."""
    ended: dict[int, Ended] = {run: tuple(end) for one in parts for run, end in one["ended"]}
    completed = [run for run, (good, _) in ended.items() if good]
    answers = sum(times for _, times in ended.values())
    as_drawn = sum(_agrees(ended[run], drawn(scenario, run)) for run in ended)
    expected = formulas(scenario)
    seconds = max(one["seconds"] for one in parts)
    cpu = sum(one["cpu_s"] for one in parts)
    return {
        "scenario": scenario.name,
        "runs": runs,
        "completed": len(completed),
        "completed_expected": round(runs * expected["run"], 3),
        "answers_a_subtask": round(answers / (runs * scenario.subtasks), 4),
        "answers_a_subtask_expected": round(expected["answers_a_subtask"], 4),
        "as_drawn": as_drawn,
        "formulas": expected,
        "seconds": round(seconds, 1),
        "ms_an_answer": round(seconds * 1000 / answers, 2),
        "cpu_ms_an_answer": round(cpu * 1000 / answers, 2),
    }


def _agrees(measured: Ended, by_draws: Ended) -> bool:
    """The same end and as many answers; a run that fails before its last subtask asks for fewer."""
    (good, times), (drawn_good, drawn_times) = measured, by_draws
    return good == drawn_good and (times == drawn_times or (times < drawn_times and not good))


def targets(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Each target with what was reached; only what was measured."""
    reached: dict[str, Any] = {}
    for one in rows:
        name, share = one["scenario"], one["completed"] / one["runs"]
        if name in AT_LEAST:
            reached[name] = {"at_least": AT_LEAST[name], "reached": round(share, 4)}
        if name in AT_MOST:
            reached[name] = {"at_most": AT_MOST[name], "reached": round(share, 4)}
    return reached


async def main() -> None:
    asked = options()
    if asked.part:
        scenario, runs, url = asked.part
        found = await part(Scenario(**json.loads(scenario)), json.loads(runs), url)
        print(json.dumps(found))
        return
    begun = time.perf_counter()
    rows: list[dict[str, Any]] = []
    async with server() as url:
        for name in asked.only:
            scenario = Scenario(name=name, seed=asked.seed, e=asked.e, subtasks=asked.subtasks)
            runs = asked.runs or DEFAULT_RUNS.get(name, OTHER_RUNS)
            rows.append(row(scenario, runs, await in_new_processes(scenario, runs, url)))
    report.print_document(
        "does a long task end well although answers are wrong",
        seed=asked.seed,
        e=asked.e,
        subtasks=asked.subtasks,
        attempts=ATTEMPTS,
        max_samples=MAX_SAMPLES,
        took_s=round(time.perf_counter() - begun),
        targets=targets(rows),
        rows=rows,
    )


if __name__ == "__main__":
    asyncio.run(main())
