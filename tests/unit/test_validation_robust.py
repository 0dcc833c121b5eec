"""The validator on anything at all, and on plans of tens of thousands of subtasks."""

import copy
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surefoot.graph.plan import Each, Milestone, Phase, Plan, RungWork, Subtask
from surefoot.graph.ports import ToolSpec
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.task import Goal, TaskFile
from surefoot.graph.validation import FAULT_CODES, LocalWorld, Report, validate_task

TOOLS = {
    "t": ToolSpec(
        name="t",
        description="t",
        schema={"type": "object", "properties": {"n": {"type": "integer"}, "after": {}}},
        effect="idempotent",
        output_schema={"type": "object", "properties": {"x": {"type": "string"}}},
    )
}
MODELS = (TaskFile, Goal, Plan, Phase, Subtask, Each, RungWork, Milestone)
KEYS = sorted({name for model in MODELS for name in model.model_fields})
WORDS = (
    "a b t tool agent foreach group skip ask artifact result file command a/0 out/* "
    "${a.x} ${item} ${inputs.n} ${"
)
TEXTS = st.sampled_from([*WORDS.split(), "", "é\0"])
SCALARS = st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | TEXTS | st.text(max_size=5)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=25,
)


def judged(mapping: Any) -> Report:
    return validate_task(mapping, tools=TOOLS, world=LocalWorld())


def check_report(report: Report) -> None:
    assert report.valid == (not report.faults) == (report.task is not None)
    for fault in (*report.faults, *report.warnings):
        assert fault.code in FAULT_CODES
        assert fault.message
        assert all(isinstance(id, str) for id in fault.subtasks)


@given(JSON)
def test_any_value_gives_a_report(value: Any) -> None:
    check_report(judged(value))


STEP: dict[str, Any] = {
    "id": "a",
    "kind": "tool",
    "tool": "t",
    "args": {"n": 1, "after": "${inputs.n}"},
    "outputs": ["x.txt"],
    "writes": ["out/*"],
    "success": [{"type": "artifact", "name": "x.txt", "regex": "a"}],
    "retries": {"max_attempts": 2},
    "undo": {"tool": "t", "args": {}},
    "on_failure": [{"kind": "tool", "tool": "t", "args": {}}, "ask"],
    "covers": ["o1"],
}
EACH = {key: value for key, value in STEP.items() if key not in ("id", "covers")}
WHOLE: dict[str, Any] = {
    "name": "x",
    "goal": {
        "objectives": [{"id": "o1", "text": "x"}],
        "acceptance": [{"id": "a1", "type": "artifact", "name": "x.txt"}],
        "prohibitions": ["words", {"path": "keep"}, {"host": "*.org"}],
        "inputs": {"n": 5},
    },
    "budget": {"max_steps": 50, "max_cost_usd": 1},
    "model": {"executor": ["m"], "prices": {"m": {"input": 1, "output": 1}}},
    "plan": {
        "phases": [{"id": "p", "covers": ["o1"]}],
        "subtasks": [
            {**STEP, "phase": "p"},
            {
                "id": "l",
                "kind": "foreach",
                "for_each": "${a.list}",
                "each": EACH,
                "depends_on": ["a"],
            },
            {
                "id": "g",
                "kind": "group",
                "plan": {"subtasks": [{**STEP, "covers": []}]},
                "inputs": {"n": "${a.x}"},
                "depends_on": ["a"],
            },
            {"id": "w", "kind": "agent", "instructions": "${l}", "tools": ["t"], "outputs": ["w"]},
        ],
        "milestones": [{"id": "m", "after": "p", "checks": [{"type": "result"}]}],
    },
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into a value."""
    found = [path] if path else []
    items: list[tuple[Any, Any]] = []
    if is_object(value):
        items = list(value.items())
    elif is_array(value):
        items = list(enumerate(value))
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_damage_to_a_whole_file_gives_a_report(data: st.DataObject) -> None:
    mapping = copy.deepcopy(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        *path, last = data.draw(st.sampled_from(places(mapping)))
        target: Any = mapping
        for step in path:
            target = target[step]
        what = data.draw(st.sampled_from(["replace", "remove", "rename"]))
        if what == "replace" or isinstance(target, list):
            target[last] = data.draw(JSON)
        elif what == "remove":
            del target[last]
        else:
            target[data.draw(st.sampled_from(KEYS) | st.text(max_size=3))] = target.pop(last)
    before = copy.deepcopy(mapping)
    check_report(judged(mapping))
    assert repr(mapping) == repr(before), "the mapping was changed"


def test_the_whole_file_of_these_tests_has_no_schema_fault() -> None:
    assert {fault.code for fault in judged(WHOLE).faults} <= {
        "forward_reference",
        "output_conflict",
        "duplicate_work",
    }


# --- size ------------------------------------------------------------------------------------

Shape = Callable[[int, int], tuple[list[int], Any]]
"""(position, number of subtasks) -> positions it depends on, value of an argument."""


def in_a_chain(i: int, n: int) -> tuple[list[int], Any]:
    return ([i - 1], f"${{s{i - 1}.x}}") if i else ([], 0)


def looking_far_back(i: int, n: int) -> tuple[list[int], Any]:
    return ([i - 1], f"${{s{i // 2}.x}}") if i > 1 else ([i - 1] if i else [], 0)


def side_by_side_into_one(i: int, n: int) -> tuple[list[int], Any]:
    if i < n - 1:
        return [], i
    return list(range(n - 1)), [f"${{s{j}.x}}" for j in range(n - 1)]


def in_any_order(i: int, n: int) -> tuple[list[int], Any]:
    needs = sorted(
        {random.Random(i * 7 + k).randrange(max(0, i - 50), i) for k in range(3)} if i else []
    )
    return needs, f"${{s{needs[0]}.x}}" if needs else 0


def large_plan(shape: Shape, n: int) -> dict[str, Any]:
    subtasks: list[dict[str, Any]] = []
    for i in range(n):
        needs, after = shape(i, n)
        subtasks.append(
            {
                "id": f"s{i}",
                "kind": "tool",
                "tool": "t",
                "args": {"n": i, "after": after},
                "depends_on": [f"s{j}" for j in needs],
                "writes": [f"out/{i}.txt"],
                "success": [{"type": "result"}],
                "estimated_seconds": 1,
            }
        )
    return {"goal": {"objective": "x"}, "plan": {"subtasks": subtasks}}


@pytest.mark.parametrize(
    ("shape", "n"),
    [
        (in_a_chain, 5000),
        (in_any_order, 20_000),
        (looking_far_back, 2000),
        (side_by_side_into_one, 2000),
    ],
)
def test_large_plans_are_judged_in_seconds(shape: Shape, n: int) -> None:
    mapping = large_plan(shape, n)
    started = time.process_time()
    report = judged(mapping)
    assert report.faults == ()
    assert time.process_time() - started < 20  # about 2 s for 20,000 on an idle machine


def test_the_faults_of_a_large_plan_are_all_found_in_seconds() -> None:
    n = 2000
    mapping = large_plan(in_a_chain, n)
    subtasks = mapping["plan"]["subtasks"]
    subtasks[0]["depends_on"] = [f"s{n - 1}"]
    for i in range(0, n, 10):
        subtasks[i]["args"]["n"] = "no number"
        subtasks[i]["wrong"] = 1
        subtasks[i + 1]["depends_on"].append(f"z{i}")
    started = time.process_time()
    faults = judged(mapping).faults
    assert time.process_time() - started < 30
    assert [sum(f.code == code for f in faults) for code in ("schema", "unknown_dependency")] == [
        n // 10,
        n // 10,
    ]
    assert sum(f.code == "bad_arguments" for f in faults) == n // 10
    assert sum(f.code == "cycle" for f in faults) == 1


@pytest.mark.parametrize("globs", [["**"], ["**/{i}.txt"], ["out/*"], ["out/*{i}", "in/{i}"]])
def test_many_overlapping_globs_do_not_stop_the_validator(globs: list[str]) -> None:
    mapping = large_plan(side_by_side_into_one, 600)
    for i, subtask in enumerate(mapping["plan"]["subtasks"]):
        subtask["writes"] = [glob.replace("{i}", str(i)) for glob in globs]
    started = time.process_time()
    report = judged(mapping)
    assert time.process_time() - started < 30
    apart = globs == ["**/{i}.txt"]  # in any folder, but each a name of its own
    assert any(f.code == "output_conflict" for f in report.faults) != apart
