"""Replays of real workflow graphs, simulated: the true end lies inside the interval.

Runtimes are those measured; the schedule is simulated first come, first served, at a cost of 3 ms
per subtask, scaled to about 20 s at 8 workers. Nothing sleeps.
"""

import heapq
import json
import math
import random
import re
from collections import deque
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from surefoot.graph.eta import remaining_time
from surefoot.graph.workload import Seen, workload_of

DAGS = Path(__file__).resolve().parents[3] / "shared" / "material" / "wf_dags"
MOMENTS = (0.25, 0.5, 0.75)
OVERHEAD_S = 0.003

if not DAGS.is_dir():
    pytest.skip(
        "the workflow graphs (shared/material/wf_dags) are not here", allow_module_level=True
    )


def load() -> list[list[dict[str, Any]]]:
    dags: list[list[dict[str, Any]]] = []
    for path in sorted(DAGS.glob("*.json")):
        document = json.loads(path.read_text())
        if "gold" in document and document["gold"]["n_tasks"] < 1000:
            scale = 8 * 20 / document["gold"]["total_runtime_s"]
            dags.append([t | {"runtime_s": t["runtime_s"] * scale} for t in document["tasks"]])
    return dags


def simulate(tasks: list[dict[str, Any]], slots: int) -> tuple[list[float], list[float]]:
    """Start and end of every task under list scheduling."""
    place = {task["id"]: i for i, task in enumerate(tasks)}
    dependants: list[list[int]] = [[] for _ in tasks]
    waits = [len(task["depends_on"]) for task in tasks]
    for i, task in enumerate(tasks):
        for need in task["depends_on"]:
            dependants[place[need]].append(i)
    ready = deque(i for i, n in enumerate(waits) if n == 0)
    start, end, now = [0.0] * len(tasks), [0.0] * len(tasks), 0.0
    running: list[tuple[float, int]] = []
    while ready or running:
        while ready and len(running) < slots:
            i = ready.popleft()
            start[i], end[i] = now, now + tasks[i]["runtime_s"] + OVERHEAD_S
            heapq.heappush(running, (end[i], i))
        now, done = heapq.heappop(running)
        for i in dependants[done]:
            waits[i] -= 1
            if not waits[i]:
                ready.append(i)
    return start, end


def plan_of(tasks: list[dict[str, Any]], mode: str) -> dict[str, Any]:
    """The plan as a user might write it: one tool for everything."""
    rng = random.Random(1)
    subtasks: list[dict[str, Any]] = []
    names = {task["id"]: f"s{i}" for i, task in enumerate(tasks)}
    for task in tasks:
        clean = names if mode == "nameless" else {t: re.sub(r"[^\w-]", "-", t) for t in names}
        subtask: dict[str, Any] = {"id": clean[task["id"]], "kind": "tool", "tool": "replay"}
        subtask["depends_on"] = [clean[need] for need in task["depends_on"]]
        if mode == "weights":
            subtask["weight"] = task["runtime_s"]
        if mode == "estimates":
            subtask["estimated_seconds"] = task["runtime_s"] * math.exp(rng.gauss(0.3, 0.5))
        subtasks.append(subtask)
    return {"subtasks": subtasks}


def seen_at(
    now: float, plan: dict[str, Any], start: list[float], end: list[float]
) -> dict[str, Seen]:
    seen: dict[str, Seen] = {}
    for subtask, began, ended in zip(plan["subtasks"], start, end, strict=True):
        if ended <= now:
            seen[subtask["id"]] = Seen(state="completed", started=began, finished=ended)
        elif began <= now:
            seen[subtask["id"]] = Seen(state="running", started=began)
    return seen


@pytest.mark.parametrize("mode", ["plain", "nameless", "weights", "estimates"])
def test_the_true_end_lies_inside_the_interval_and_the_interval_narrows(mode: str) -> None:
    inside: list[bool] = []
    widths: dict[float, list[float]] = {moment: [] for moment in MOMENTS}
    for tasks in load():
        plan = plan_of(tasks, mode)
        for slots in (4, 8):
            start, end = simulate(tasks, slots)
            whole = max(end)
            for moment in MOMENTS:
                now = moment * whole
                items = workload_of(plan, seen_at(now, plan, start, end), now=now)
                interval = remaining_time(items, concurrency=slots)
                if interval is None:
                    assert sum(1 for ended in end if ended <= now) < 3, "three have finished"
                    continue
                assert 0 <= interval.low <= interval.high < math.inf
                inside.append(interval.low <= whole - now <= interval.high)
                widths[moment].append((interval.high - interval.low) / whole)
    share = sum(inside) / len(inside)
    assert share >= 0.7, f"{share:.0%} of {len(inside)} intervals held the true end"
    early, late = median(widths[0.25]), median(widths[0.75])
    assert late < early, f"width as a share of the run: {early:.2f} at 25 %, {late:.2f} at 75 %"
