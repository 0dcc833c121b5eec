"""The plans that are measured: graphs of timed nodes, and how one becomes a task file."""

import gzip
import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
WF_DAGS = ROOT.parent / "shared" / "material" / "wf_dags"
"""Recorded scientific workflows (WfCommons); without this folder only made graphs are measured."""


@dataclass(frozen=True, slots=True)
class Node:
    """A subtask to be: `seconds` is how long its work takes, `weight` what the plan says of it."""

    id: str
    needs: tuple[str, ...] = ()
    seconds: float = 0.0
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Dag:
    """A graph of nodes, each after those it needs."""

    name: str
    nodes: tuple[Node, ...]

    def scaled(self, factor: float) -> "Dag":
        """The same graph with every duration times `factor`."""
        nodes = tuple(replace(node, seconds=node.seconds * factor) for node in self.nodes)
        return replace(self, nodes=nodes)


def random_dag(n: int = 300, *, mean_s: float = 0.5, spread: float = 0.8, seed: int = 1) -> Dag:
    """Up to three needs among the 40 nodes before; log-normal durations, scaled to `mean_s`."""
    draw = random.Random(seed)
    raw = [draw.lognormvariate(0, spread) for _ in range(n)]
    factor = mean_s * n / sum(raw)
    nodes = tuple(
        Node(f"n{i}", _earlier(draw, i, most=draw.randint(0, 3), window=40), raw[i] * factor)
        for i in range(n)
    )
    return Dag(f"random-{n}", nodes)


def wide(n: int, *, seed: int = 1) -> Dag:
    """Empty nodes with two needs each, some way back, so that many are ready at any time."""
    draw = random.Random(seed)
    nodes = (Node(f"n{i}", _earlier(draw, i - 16, most=2, window=48)) for i in range(n))
    return Dag(f"wide-{n}", tuple(nodes))


def chain(n: int) -> Dag:
    """Empty nodes one after the other."""
    return Dag(f"chain-{n}", tuple(Node(f"n{i}", (f"n{i - 1}",) if i else ()) for i in range(n)))


def wf_dags(folder: Path = WF_DAGS, *, below: int | None = None) -> list[Dag]:
    """The recorded workflows of a folder, in order of name, unscaled.

    Args:
        folder: holds one JSON document (or `.json.gz`) a workflow.
        below: leave out workflows of this many tasks or more.
    """
    paths = [p for p in sorted(folder.glob("*.json*")) if not p.name.startswith("raw_")]
    dags = [wf_dag(path) for path in paths]
    return [dag for dag in dags if below is None or len(dag.nodes) < below]


def wf_dag(path: Path) -> Dag:
    """One recorded workflow; its ids are mapped to the alphabet that plans allow."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    tasks: list[dict[str, Any]] = json.loads(text)["tasks"]
    ids = {task["id"]: re.sub(r"[^A-Za-z0-9_-]", "_", task["id"]) for task in tasks}
    if len(set(ids.values())) < len(ids):
        ids = {old: f"{new}_{i}" for i, (old, new) in enumerate(ids.items())}
    nodes = tuple(
        Node(
            ids[task["id"]],
            tuple(ids[need] for need in task["depends_on"]),
            task["runtime_s"],
            task["runtime_s"],
        )
        for task in tasks
    )
    return Dag(path.name.split(".")[0], nodes)


def task_file(
    dag: Dag,
    tool: str,
    *,
    args: Callable[[Node], Mapping[str, Any]] | None = None,
    concurrency: int = 8,
    weighted: bool = False,
) -> dict[str, Any]:
    """A task file as a mapping: one `tool` subtask a node.

    Args:
        dag: the graph.
        tool: a name in `tools_bench`, which answers with the id it was given.
        args: further arguments by node; the id is always among them, as no two calls may be alike.
        concurrency: subtasks at a time.
        weighted: state the nodes' weights; else all weigh 1.
    """
    subtasks = [
        {
            "id": node.id,
            "kind": "tool",
            "tool": tool,
            "args": {"id": node.id, **(args(node) if args else {})},
            "depends_on": list(node.needs),
            "success": [{"type": "result", "equals": node.id}],
            **({"weight": node.weight} if weighted else {}),
        }
        for node in dag.nodes
    ]
    return {
        "name": dag.name,
        "goal": {"objective": "Every node has run once, after those it needs."},
        "concurrency": concurrency,
        "tools": [str(Path(__file__).with_name("tools_bench.py"))],
        "plan": {"subtasks": subtasks},
    }


def _earlier(draw: random.Random, before: int, *, most: int, window: int) -> tuple[str, ...]:
    choice = range(max(0, before - window), max(0, before))
    return tuple(f"n{i}" for i in sorted(draw.sample(choice, min(most, len(choice)))))
