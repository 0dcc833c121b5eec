"""Plans that two models really wrote (TaskBench), in our schema, with the defects found by rule."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.dags import ROOT
from surefoot.graph.ports import ToolSpec

FOLDER = ROOT.parent / "shared" / "material" / "plans_taskbench_llm"

NODE = re.compile(r"<node-(\d+)>")

REFUSED = {
    "unknown_tool": {"unknown_tool"},
    "cycle": {"cycle", "self_dependency"},
    "self_loop": {"self_dependency"},
    "arg_ref_self": {"self_dependency"},
    "arg_ref_out_of_range": {"unknown_reference"},
    "link_endpoint_not_in_plan": {"unknown_dependency"},
}
"""Defects of which each plan that has them must be refused, and the codes that may say so.

A forward reference is a fault only where no link orders the two after all: see the tests.
"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One plan: ours, its defects, the tools there are."""

    plan: dict[str, Any]
    defects: frozenset[str]
    valid: bool
    tools: dict[str, ToolSpec]


def recorded(folder: Path = FOLDER) -> list[Recorded]:
    """All plans of the material."""
    tools = {path.stem.removeprefix("tools_"): _tools(path) for path in folder.glob("tools_*.json")}
    lines = (folder / "plans.dev.jsonl").read_text(encoding="utf-8").splitlines()
    return [_recorded(json.loads(line), tools) for line in lines]


def _recorded(row: dict[str, Any], tools: dict[str, dict[str, ToolSpec]]) -> Recorded:
    defects = frozenset(row["defects"])
    plan = _plan(row["plan"])
    known = {step["id"] for step in plan["subtasks"]}
    if not any(set(step["depends_on"]) - known for step in plan["subtasks"]):
        defects -= {"link_endpoint_not_in_plan"}  # its target is missing: there is no step to blame
    return Recorded(plan, defects, row["structurally_valid"], tools[row["domain"]])


def _tools(path: Path) -> dict[str, ToolSpec]:
    nodes = json.loads(path.read_text(encoding="utf-8"))["nodes"]
    names = [str(node["id"]) for node in nodes]
    schema: dict[str, Any] = {"type": "object"}
    return {n: ToolSpec(name=n, description=n, schema=schema, effect="read") for n in names}


def _plan(theirs: dict[str, Any]) -> dict[str, Any]:
    """Needs are their links (a tool used twice means the first) and references to earlier steps."""
    nodes: list[dict[str, Any]] = theirs["task_nodes"]
    position = {node["task"]: n for n, node in reversed(list(enumerate(nodes)))}
    needs: list[list[str]] = [[] for _ in nodes]
    for link in theirs["task_links"]:
        source, target = link.get("source"), link.get("target")
        if isinstance(source, str) and isinstance(target, str) and target in position:
            needs[position[target]].append(f"n{position[source]}" if source in position else source)
    for n, node in enumerate(nodes):
        found = map(int, NODE.findall(json.dumps(node.get("arguments"))))
        needs[n] += [f"n{m}" for m in found if m <= n]
    steps = [_step(n, node, needs[n]) for n, node in enumerate(nodes)]
    return {"phases": [], "subtasks": steps, "milestones": []}


def _step(n: int, node: dict[str, Any], needs: list[str]) -> dict[str, Any]:
    literal = json.dumps(node.get("arguments")).replace("${", "$${")
    return {
        "id": f"n{n}",
        "name": node["task"] or f"step {n}",
        "kind": "tool",
        "tool": node["task"],
        "args": {"arguments": json.loads(NODE.sub(r"${n\1.out}", literal))},
        "depends_on": list(dict.fromkeys(needs)),
        "weight": 1,
        "resumable": True,
        "skippable": False,
        "success": [{"type": "result"}],
    }
