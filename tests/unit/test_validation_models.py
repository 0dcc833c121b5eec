"""The validator on plans that a model made: labels, fields, meanings, histories; and odd checks."""

from pathlib import Path
from typing import Any

import pytest

from surefoot.graph.plan import Plan
from surefoot.graph.plan_forecast import forecast, forecast_lines
from surefoot.graph.ports import EffectKind, ToolSpec
from surefoot.graph.validation import LocalWorld, Report, plain_faults, validate_plan, validate_task
from surefoot.graph.validation.world import may_define


def spec(name: str, effect: EffectKind, **more: Any) -> ToolSpec:
    schema = {"type": "object", "properties": {"n": {"default": 1}, "v": {}}}
    return ToolSpec(name=name, description=name, schema=schema, effect=effect, **more)


TOOLS = {
    tool.name: tool
    for tool in (
        spec("look", "read"),
        spec("send", "irreversible"),
        spec("read_text", "read", module="builtin"),
    )
}
EVERY: dict[str, Any] = {
    "name": "n",
    "kind": "tool",
    "tool": "look",
    "weight": 1,
    "resumable": True,
    "skippable": False,
    "success": [{"type": "result"}],
}


def step(id: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {**EVERY, "id": id, "args": {"v": id}, "depends_on": list(needs), **more}


def agent(id: str, *needs: str, **more: Any) -> dict[str, Any]:
    base = step(id, *needs, kind="agent", instructions="x", tools=[])
    return {key: base[key] for key in base if key not in ("tool", "args")} | more


def judged(*steps: Any, by_model: bool = True, **goal: Any) -> Report:
    task = {"goal": {"objective": "x", **goal}, "model": "m"}
    task |= {"budget": goal.pop("budget")} if "budget" in goal else {}
    plan = {"phases": [], "subtasks": list(steps), "milestones": []}
    return validate_plan(plan, task, tools=TOOLS, world=LocalWorld(), by_model=by_model)


def codes(report: Report) -> list[tuple[str, tuple[str, ...]]]:
    return [(fault.code, fault.subtasks) for fault in report.faults]


O1 = [{"id": "o1", "text": "t"}]
ARTIFACT = [{"id": "a1", "type": "artifact", "name": "r.md"}]
COMMAND = [{"id": "a1", "type": "command", "run": "true"}]
FILE = [{"id": "a1", "type": "file", "path": "out/r.md"}]


@pytest.mark.parametrize(
    ("steps", "goal", "covered"),
    [
        ([agent("a", covers=["o1"])], {"objectives": O1}, False),
        ([agent("a", covers=["o1"], outputs=["x.md"])], {"objectives": O1}, True),
        ([step("a", covers=["o1"])], {"objectives": O1}, True),
        ([step("a")], {"objectives": O1}, False),
        ([agent("a", covers=["a1"], outputs=["x.md"])], {"acceptance": ARTIFACT}, False),
        ([agent("a", outputs=["r.md"])], {"acceptance": ARTIFACT}, True),
        ([agent("a", covers=["a1"])], {"acceptance": COMMAND}, False),
        ([step("a")], {"acceptance": COMMAND}, False),
        ([step("a", covers=["a1"])], {"acceptance": COMMAND}, True),
        ([step("a", covers=["a1"])], {"acceptance": FILE}, False),
        ([step("a", writes=["out/*"])], {"acceptance": FILE}, False),
        ([step("a", covers=["a1"], writes=["out/*"])], {"acceptance": FILE}, True),
        ([step("a", covers=["a1"], args={"v": "out/r.md"})], {"acceptance": FILE}, True),
    ],
)
def test_a_label_alone_covers_nothing(steps: Any, goal: Any, covered: bool) -> None:
    found = {code for code, _ in codes(judged(*steps, **goal))}
    assert found == (set() if covered else {"uncovered_criterion"})


def test_one_call_written_in_two_ways_is_duplicate_work() -> None:
    same = [{"v": "${a.x}", "n": 1}, {"v": "${ a.result.x }"}]
    first, second = (
        step(id, "a", tool="send", args=args) for id, args in zip("bc", same, strict=True)
    )
    steps = [step("a"), first, second]
    assert codes(judged(*steps)) == [("duplicate_work", ("b", "c"))]
    assert codes(judged(*steps, by_model=False)) == []
    other = [step("a"), step("b", "a", tool="send", args={"v": "${a.y}"}), steps[1]]
    assert codes(judged(*{s["id"]: s for s in other}.values())) == []


def test_an_artifact_check_that_nobody_declares() -> None:
    check = [{"type": "artifact", "name": "none.md"}]
    assert codes(judged(step("a", success=check))) == [("unknown_reference", ("a",))]
    in_file = judged(step("a", success=check), by_model=False)
    assert codes(in_file) == [] and any("none.md" in w.message for w in in_file.warnings)
    builtin = judged(step("a", tool="read_text", success=check), by_model=False)
    assert codes(builtin) == [("unknown_reference", ("a",))]


def test_history_fills_in_for_estimates_that_are_missing() -> None:
    def report(by_model: bool) -> Report:
        task = {"goal": {"objective": "x"}, "budget": {"max_seconds": 10}}
        plan = {"subtasks": [step("a"), step("b", "a")]}
        return validate_plan(
            plan,
            task,
            tools=TOOLS,
            world=LocalWorld(),
            seconds={"look": 6.0},
            by_model=by_model,
        )

    assert [code for code, _ in codes(report(True))] == ["over_budget"]
    assert report(False).valid
    assert [w.code for w in report(False).warnings if w.code == "over_budget"] == ["over_budget"]


@pytest.mark.parametrize(
    "check", [{"type": "command", "run": "true"}, {"type": "python", "call": "os:getcwd"}]
)
def test_where_commands_are_denied_a_models_checks_run_none(check: dict[str, Any]) -> None:
    denied = [{"tool": "run_command"}]
    report = judged(step("a", success=[check]), prohibitions=denied)
    assert codes(report) == [("prohibited", ("a",))]
    assert judged(step("a", success=[check]), prohibitions=denied, by_model=False).valid


def test_a_python_check_needs_a_function_that_its_module_defines(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from os import path\n\nasync def good(c): ...\n")

    def found(call: str) -> list[str]:
        check = {"type": "python", "call": call}
        task = {"goal": {"objective": "x"}, "plan": {"subtasks": [step("a", success=[check])]}}
        report = validate_task(task, tools=TOOLS, world=LocalWorld(task_dir=tmp_path))
        return [fault.message for fault in report.faults]

    assert found("mine:good") == [] and found("mine:path") == []
    (said,) = found("mine:goood")
    assert "'goood'" in said and "does not define" in said


@pytest.mark.parametrize(
    ("source", "may"),
    [
        ("f = 1", True),
        ("def g():\n    f = 1", False),
        ("if x:\n    def f(): ...", True),
        ("from m import *", True),
        ("import f.g", True),
        ("def __getattr__(name): ...", True),
        ("globals()['f'] = 1", True),
        ("class A:\n    def f(self): ...", False),
        ("a, f = 1, 2", True),
    ],
)
def test_what_a_module_may_define_is_read_from_its_source(source: str, may: bool) -> None:
    assert may_define(source, "f") is may


def test_numbers_and_texts_that_nothing_can_hold_are_named() -> None:
    assert plain_faults({"a": [2**64]}) == ["it holds a whole number of more than 64 bits"]
    assert plain_faults({"a": 2**63, "b": -(2**63)}) == []
    assert "half a character" in plain_faults({"a": "\ud83c"})[0]


def test_weights_and_texts_beyond_reason_are_refused_from_models_only() -> None:
    wild = [step("a", weight=1e30), step("b", description="x" * 20_000)]
    assert codes(judged(*wild)) == [("schema", ("a",)), ("schema", ("b",))]
    assert codes(judged(*wild, by_model=False)) == []


def test_a_forecast_counts_agents_and_votes() -> None:
    each = {"kind": "agent", "instructions": "x"}
    steps: list[dict[str, Any]] = [
        step("a"),
        agent("b", votes={"ahead_by": 3, "max_samples": 9}),
        step("c", kind="foreach", for_each=[1], each=each, args={}),
    ]
    for one in steps:
        one.pop("tool", None)
    found = forecast(Plan.model_validate({"subtasks": steps}))
    assert (found.leaves, found.agents, found.open_lists) == (3, 2, 1)
    assert found.votes[0].expected == pytest.approx(3.74, abs=0.01)
    assert "9 at most" in forecast_lines(found)[1]
