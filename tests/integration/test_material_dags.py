"""Recorded scientific workflows, run by the engine: every task once, in order, progress exact.

The workflows (WfCommons) lie beside the repository, not in it; without them the tests are skipped.
"""

import asyncio
import gzip
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from surefoot.graph.progress import ProgressMeter
from surefoot.graph.session import Engine
from surefoot.graph.settings import Settings

FOLDER = Path(__file__).parents[2].parent / "shared" / "material" / "wf_dags"
FILES = [path for path in sorted(FOLDER.glob("*.json*")) if not path.name.startswith("raw_")]
pytestmark = pytest.mark.skipif(not FILES, reason="the recorded workflows are not beside the clone")

TOOLS = '''
import os

from langchain_core.tools import tool

from surefoot.tools import effect


def note(log, line):
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, f"{line}\\n".encode())
    os.close(file)


@effect("idempotent")
@tool
def mark(id: str, log: str) -> str:
    """Note the start and the end of a node outside."""
    note(log, f"start {id}")
    note(log, f"end {id}")
    return id


@effect("read", max_attempts=1)
@tool
def refuse() -> str:
    """Fail."""
    raise RuntimeError("no further")


TOOLS = [mark, refuse]
'''


@dataclass(frozen=True)
class Workflow:
    """A recorded workflow with its ids in the alphabet of plans, and what it must come to."""

    needs: dict[str, list[str]]
    weights: dict[str, float]
    gold: list[float]

    def levels(self) -> list[list[str]]:
        """Node ids by longest way from a root."""
        level: dict[str, int] = {}
        todo = list(self.needs)
        while todo:
            name = todo.pop()
            missing = [need for need in self.needs[name] if need not in level]
            if missing:
                todo += [name, *missing]
            else:
                level[name] = max((level[need] + 1 for need in self.needs[name]), default=0)
        return [[name for name in self.needs if level[name] == k] for k in range(len(self.gold))]


def read(path: Path) -> Workflow:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    document = json.loads(text)
    ids = {task["id"]: re.sub(r"[^A-Za-z0-9_-]", "_", task["id"]) for task in document["tasks"]}
    assert len(set(ids.values())) == len(ids)
    return Workflow(
        needs={ids[t["id"]]: [ids[need] for need in t["depends_on"]] for t in document["tasks"]},
        weights={ids[t["id"]]: t["runtime_s"] for t in document["tasks"]},
        gold=[level["weighted_progress"] for level in document["gold"]["progress_by_level"]],
    )


def plan_of(workflow: Workflow, log: Path) -> dict[str, Any]:
    subtasks = [
        {
            "id": name,
            "kind": "tool",
            "tool": "mark",
            "args": {"id": name, "log": str(log)},
            "depends_on": needs,
            "success": [{"type": "result", "equals": name}],
            "weight": workflow.weights[name],
        }
        for name, needs in workflow.needs.items()
    ]
    return {"subtasks": subtasks}


async def run(plan: dict[str, Any], settings: Settings, folder: Path) -> dict[str, Any]:
    """Run a plan to its end; returns the task's row."""
    await asyncio.to_thread((folder / "marks.py").write_text, TOOLS)
    goal = {"objective": "Every node has run once, after those it needs."}
    task = {"name": "dag", "goal": goal, "tools": ["./marks.py"], "concurrency": 8, "plan": plan}
    async with await Engine.open(settings) as engine:
        created = await engine.create({"task": task, "task_dir": str(folder)})
        await engine.run(created.id)
        async with engine.database.borrowed() as connection:
            found = await connection.execute(
                "select status, progress from surefoot.tasks where id = %s", [created.id]
            )
            row = await found.fetchone()
    assert row is not None
    return dict(row)


@pytest.mark.timeout(900)  # the largest has 10,000 nodes
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
async def test_every_node_runs_once_and_after_those_it_needs(
    path: Path, settings: Settings, tmp_path: Path
) -> None:
    workflow, log = read(path), tmp_path / "calls"
    row = await run(plan_of(workflow, log), settings, tmp_path)
    assert row == {"status": "completed", "progress": 1.0}
    lines = log.read_text().splitlines()
    assert Counter(lines) == Counter(
        f"{w} {name}" for w in ("start", "end") for name in workflow.needs
    )
    place = {line: i for i, line in enumerate(lines)}
    early = [
        (need, name)
        for name, needs in workflow.needs.items()
        for need in needs
        if place[f"start {name}"] < place[f"end {need}"]
    ]
    assert early == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_weighted_progress_is_exact_after_every_level(path: Path, tmp_path: Path) -> None:
    workflow = read(path)
    meter = ProgressMeter(plan_of(workflow, tmp_path))
    after: list[float] = []
    for level in workflow.levels():
        for name in level:
            meter.move(name, "completed")
        after.append(meter.progress())
    assert after[:-1] == pytest.approx(workflow.gold[:-1], abs=1e-4)
    assert (after[-1], meter.progress(completed=True)) == (0.9999, workflow.gold[-1])


@pytest.mark.parametrize(
    ("workflow_name", "level"), [("pegasus__montage", 0), ("pegasus__epigenomics", 2)]
)
async def test_a_run_that_stops_after_a_level_has_its_progress(
    workflow_name: str, level: int, settings: Settings, tmp_path: Path
) -> None:
    workflow = read(next(path for path in FILES if path.name.startswith(workflow_name)))
    levels = workflow.levels()
    plan = plan_of(workflow, tmp_path / "calls")
    later = {name for names in levels[level + 1 :] for name in names}
    for subtask in plan["subtasks"]:
        if subtask["id"] in later:
            subtask["depends_on"] = [*subtask["depends_on"], "gate"]
    gate = {
        "id": "gate",
        "kind": "tool",
        "tool": "refuse",
        "weight": 0,
        "success": [{"type": "result"}],
    }
    plan["subtasks"].append({**gate, "depends_on": sorted(set(workflow.needs) - later)})
    row = await run(plan, settings, tmp_path)
    assert row["status"] == "failed"
    assert row["progress"] == pytest.approx(workflow.gold[level], abs=1e-4)
