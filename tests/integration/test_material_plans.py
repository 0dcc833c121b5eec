"""The validator on plans that models wrote and on workflows that really ran.

The material lies beside the repository; without it these tests are skipped.
"""

import gzip
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from surefoot.graph.ports import ToolSpec
from surefoot.graph.validation import Fault, LocalWorld, Report, validate_task

MATERIAL = Path(__file__).resolve().parents[2].parent / "shared" / "material"
TASKBENCH = MATERIAL / "plans_taskbench_llm"
WORKFLOWS = MATERIAL / "wf_dags"

NODE = re.compile(r"<node-(\d+)>")

pytestmark = pytest.mark.skipif(
    not MATERIAL.is_dir(), reason="the material folder is not beside the repository"
)


def judged(plan: dict[str, Any], tools: dict[str, ToolSpec]) -> Report:
    mapping = {"goal": {"objective": "as asked"}, "plan": plan}
    return validate_task(mapping, tools=tools, world=LocalWorld())


def step(id: str, tool: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "kind": "tool", "tool": tool, "success": [{"type": "result"}], **fields}


def tool(name: str) -> ToolSpec:
    return ToolSpec(name=name, description=name, schema={"type": "object"}, effect="read")


def named(report: Report, code: str) -> set[str]:
    """All ids that faults of one code name."""
    return {id for fault in report.faults if fault.code == code for id in fault.subtasks}


def said(faults: tuple[Fault, ...], code: str) -> str:
    return "\n".join(fault.message for fault in faults if fault.code == code)


# --- plans by models -------------------------------------------------------------------------


@cache
def taskbench() -> list[dict[str, Any]]:
    path = TASKBENCH / "plans.dev.jsonl"
    if not path.is_file():
        pytest.skip(f"{path.name} is not there")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@cache
def tools_of(domain: str) -> dict[str, ToolSpec]:
    nodes = json.loads((TASKBENCH / f"tools_{domain}.json").read_text(encoding="utf-8"))["nodes"]
    return {node["id"]: tool(node["id"]) for node in nodes}


def arguments_of(node: dict[str, Any]) -> str:
    return json.dumps(node.get("arguments"))


def our_arguments(node: dict[str, Any]) -> Any:
    """The arguments with our references; what already looks like one is literal text there."""
    literal = arguments_of(node).replace("${", "$${")
    return json.loads(NODE.sub(r"${n\1.out}", literal))


def plan_of(record: dict[str, Any]) -> dict[str, Any]:
    """Our plan: ids by position, needs by links and by references to earlier steps.

    A link names tools; one that several steps use means the first of them. References stand in the
    arguments as ours; those to later steps add no need, as in any plan of ours.
    """
    nodes: list[dict[str, Any]] = record["plan"]["task_nodes"]
    position = {node["task"]: n for n, node in reversed(list(enumerate(nodes)))}
    needs: list[list[str]] = [[] for _ in nodes]
    for link in record["plan"]["task_links"]:
        source, target = link.get("source"), link.get("target")
        if isinstance(source, str) and isinstance(target, str) and target in position:
            name = f"n{position[source]}" if source in position else source
            needs[position[target]].append(name)
    for n, node in enumerate(nodes):
        referred = [int(m) for m in NODE.findall(arguments_of(node))]
        needs[n] += [f"n{m}" for m in referred if m <= n]
    return {
        "subtasks": [
            step(
                f"n{n}",
                node["task"],
                args={"arguments": our_arguments(node)},
                depends_on=list(dict.fromkeys(needs[n])),
            )
            for n, node in enumerate(nodes)
        ]
    }


def with_defect(name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any], Report]]:
    """(record, our plan, the validator's report) for every plan with a defect; at least one."""
    found = 0
    for record in taskbench():
        if name in record["defects"]:
            found += 1
            plan = plan_of(record)
            yield record, plan, judged(plan, tools_of(record["domain"]))
    assert found


def test_every_structurally_valid_plan_passes() -> None:
    valid = [record for record in taskbench() if record["structurally_valid"]]
    assert len(valid) > 200
    for record in valid:
        report = judged(plan_of(record), tools_of(record["domain"]))
        assert report.faults == (), record["id"]


def test_every_unknown_tool_is_named_with_its_step() -> None:
    for record, plan, report in with_defect("unknown_tool"):
        tools = tools_of(record["domain"])
        strange = {s["id"]: s["tool"] for s in plan["subtasks"] if s["tool"] not in tools}
        assert strange
        assert named(report, "unknown_tool") == set(strange)
        assert all(repr(name) in said(report.faults, "unknown_tool") for name in strange.values())


def test_every_cycle_is_refused_with_real_members() -> None:
    for record, plan, report in with_defect("cycle"):
        needs = {s["id"]: s["depends_on"] for s in plan["subtasks"]}
        circles = [f for f in report.faults if f.code in ("cycle", "self_dependency")]
        assert circles, record["id"]
        for fault in circles:
            following = [*fault.subtasks[1:], fault.subtasks[0]]
            for id, next_id in zip(fault.subtasks, following, strict=True):
                assert next_id in needs[id]


def test_every_self_loop_and_self_reference_is_refused() -> None:
    for name in ("self_loop", "arg_ref_self"):
        for record, plan, report in with_defect(name):
            loops = {s["id"] for s in plan["subtasks"] if s["id"] in s["depends_on"]}
            assert loops, record["id"]
            assert named(report, "self_dependency") == loops


def test_every_reference_out_of_range_is_refused_by_its_text() -> None:
    for record, plan, report in with_defect("arg_ref_out_of_range"):
        known = {s["id"] for s in plan["subtasks"]}
        text = json.dumps(plan)
        beyond = {m for m in re.findall(r"\$\{(n\d+)\.out\}", text) if m not in known}
        assert beyond, record["id"]
        for name in beyond:
            assert f"${{{name}.out}}" in said(report.faults, "unknown_reference")


def test_every_forward_reference_that_no_link_orders_is_refused() -> None:
    refused = 0
    for record, plan, report in with_defect("arg_ref_forward"):
        needs = {s["id"]: s["depends_on"] for s in plan["subtasks"]}
        for n, node in enumerate(record["plan"]["task_nodes"]):
            for m in map(int, NODE.findall(arguments_of(node))):
                if n < m < len(needs) and f"n{m}" not in _before(needs, f"n{n}"):
                    refused += 1
                    assert {f"n{n}", f"n{m}"} <= named(report, "forward_reference"), record["id"]
    assert refused > 20


def test_every_link_from_a_step_that_is_not_there_is_refused() -> None:
    dangling = 0
    for record, plan, report in with_defect("link_endpoint_not_in_plan"):
        known = {s["id"] for s in plan["subtasks"]}
        for subtask in plan["subtasks"]:
            for need in set(subtask["depends_on"]) - known:
                dangling += 1
                assert subtask["id"] in named(report, "unknown_dependency"), record["id"]
                assert repr(need) in said(report.faults, "unknown_dependency")
    assert dangling > 20


def _before(needs: dict[str, list[str]], id: str) -> set[str]:
    seen: set[str] = set()
    stack = list(needs[id])
    while stack:
        top = stack.pop()
        if top not in seen:
            seen.add(top)
            stack += needs.get(top, [])
    return seen


# --- workflows -------------------------------------------------------------------------------

WORK = {"work": tool("work")}


def workflows() -> list[Path]:
    found = sorted(WORKFLOWS.glob("*.json")) + sorted(WORKFLOWS.glob("*.json.gz"))
    return [path for path in found if not path.name.startswith("raw_")]


def workflow_plan(path: Path) -> dict[str, Any]:
    """A workflow as our plan; ids brought into our alphabet, the old id among the arguments."""
    read = gzip.open if path.suffix == ".gz" else open
    with read(path, "rt", encoding="utf-8") as file:
        tasks = json.load(file)["tasks"]
    ids = {
        task["id"]: f"t{n}_{re.sub('[^A-Za-z0-9_-]', '-', task['id'])}"[:200]
        for n, task in enumerate(tasks)
    }
    return {
        "subtasks": [
            step(
                ids[task["id"]],
                "work",
                args={"id": task["id"]},
                depends_on=[ids[need] for need in task["depends_on"]],
                weight=task["runtime_s"],
                estimated_seconds=task["runtime_s"],
            )
            for task in tasks
        ]
    }


@pytest.mark.parametrize("path", workflows(), ids=lambda path: path.name)
def test_a_workflow_is_accepted_and_each_broken_edge_refused_by_name(path: Path) -> None:
    plan = workflow_plan(path)
    assert judged(plan, WORK).faults == ()
    child = next(s for s in reversed(plan["subtasks"]) if s["depends_on"])
    parent = child["depends_on"][0]

    def broken(id: str, *needs: str) -> Report:
        changed = [
            {**s, "depends_on": [*s["depends_on"], *needs]} if s["id"] == id else s
            for s in plan["subtasks"]
        ]
        return judged({"subtasks": changed}, WORK)

    cycle = [f for f in broken(parent, child["id"]).faults if f.code == "cycle"]
    assert len(cycle) == 1
    assert len(cycle[0].subtasks) >= 2
    assert parent in cycle[0].message or child["id"] in cycle[0].message
    assert {parent, child["id"]} & set(cycle[0].subtasks)

    missing = broken(child["id"], "not-there")
    assert named(missing, "unknown_dependency") == {child["id"]}
    assert "'not-there'" in said(missing.faults, "unknown_dependency")

    assert named(broken(child["id"], child["id"]), "self_dependency") == {child["id"]}

    first = plan["subtasks"][0]
    twice = {"subtasks": [*plan["subtasks"], {**first, "args": {"id": "another"}}]}
    assert named(judged(twice, WORK), "duplicate_id") == {first["id"]}


def test_the_material_has_the_workflows_the_issue_speaks_of() -> None:
    assert len(workflows()) == 15
