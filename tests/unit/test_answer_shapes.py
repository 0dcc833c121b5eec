"""The schema that a planner's answer is decoded by: it names what the validator would demand."""

from typing import Any

from jsonschema import Draft202012Validator

from surefoot.graph.answer_shapes import goal_shape, plan_shape
from surefoot.graph.values import JsonObject
from surefoot.nodes.planning_prompts import plan_outline, plan_schema

COMMON: JsonObject = {
    "id": "a",
    "name": "A",
    "description": "d",
    "phase": "p",
    "depends_on": [],
    "covers": ["o1"],
    "weight": 1,
    "importance": "core",
    "resumable": True,
    "skippable": False,
    "estimated_seconds": 1,
    "outputs": [],
    "success": [{"type": "result"}],
    "on_failure": [],
}
TOOL: JsonObject = {**COMMON, "kind": "tool", "tool": "look", "args": {}}
AGENT: JsonObject = {**COMMON, "kind": "agent", "instructions": "i", "tools": ["look"]}


def faults(*subtasks: JsonObject) -> list[Any]:
    plan: JsonObject = {
        "phases": [{"id": "p", "name": "P", "objective": "o", "covers": []}],
        "subtasks": list(subtasks),
        "milestones": [],
    }
    schema = plan_shape(("look", "write"), ("o1", "a1"))
    Draft202012Validator.check_schema(schema)
    validator: Any = Draft202012Validator(schema)
    return list(validator.iter_errors(plan))


def test_each_kind_of_work_fits_with_its_own_fields() -> None:
    each: JsonObject = {**TOOL, "on_failure": []}
    kept = {"kind", "tool", "args", "outputs", "success", "on_failure"}
    loop: JsonObject = {**COMMON, "kind": "foreach", "for_each": "${a}"}
    loop["each"] = {name: value for name, value in each.items() if name in kept}
    group = {**COMMON, "kind": "group", "goal": {"objective": "g"}, "outputs": {}}
    assert faults(TOOL, AGENT, loop, group) == []


def test_what_the_kind_needs_cannot_be_left_out() -> None:
    for whole, field in ((TOOL, "tool"), (TOOL, "args"), (AGENT, "instructions")):
        assert faults({name: value for name, value in whole.items() if name != field})
    assert faults({**AGENT, "success": []})
    assert faults({**TOOL, "instructions": "what an agent has"})


def test_no_name_but_those_that_there_are_fits() -> None:
    assert faults({**TOOL, "tool": "fly"})
    assert faults({**AGENT, "tools": ["fly"]})
    assert faults({**TOOL, "covers": ["a folder"]})


def test_the_schema_of_a_goal_names_its_objectives_and_criteria() -> None:
    goal = {"objective": "do it", "acceptance": [{"id": "a1", "type": "judge", "rubric": "r"}]}
    covers = plan_schema(goal, {})["$defs"]["tool_Subtask"]["properties"]["covers"]
    assert covers["items"] == {"enum": ["o1", "a1"]}
    Draft202012Validator.check_schema(goal_shape())


def test_the_example_of_a_plan_is_about_the_artifact_that_is_asked_for() -> None:
    goal = {"acceptance": [{"type": "judge"}, {"type": "artifact", "name": "x/report.md"}]}
    assert '"outputs": ["report.md"]' in plan_outline(goal)
    assert "summary.md" in plan_outline({}) and "summary.md" not in plan_outline(goal)
