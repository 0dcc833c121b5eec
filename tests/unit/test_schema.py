"""The printed schemas say what the models accept, no more and no less."""

from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from surefoot.graph.schema import json_schema
from surefoot.graph.task import TaskFile

STEP: dict[str, Any] = {"id": "a", "kind": "tool", "tool": "t"}
LOOP: dict[str, Any] = {
    "id": "l",
    "kind": "foreach",
    "for_each": "${a.files}",
    "each": {
        "kind": "tool",
        "tool": "t",
        "on_failure": [{"kind": "tool", "tool": "u", "improve_later": True}, "skip"],
        "skippable": True,
    },
}


def fits(which: Literal["task", "plan"], mapping: Any) -> bool:
    validator: Any = Draft202012Validator(json_schema(which))
    return validator.is_valid(mapping)


def task(**changes: Any) -> dict[str, Any]:
    return {"goal": {"objective": "x"}, "plan": {"subtasks": [STEP, LOOP]}, **changes}


CASES: list[dict[str, Any]] = [
    task(),
    task(budget={"max_steps": 5}),
    task(budget={"max_step": 5}),
    task(budget={"max_steps": -5}),
    task(model="m"),
    task(model={"executor": ["a", "b"]}),
    task(model=["a"]),
    task(concurrency=0),
    task(goal={"objective": "x", "prohibitions": ["no", {"path": "a"}, {"host": "*.x"}]}),
    task(goal={"objective": "x", "prohibitions": [{"pth": "a"}]}),
    task(goal={"objective": "x", "acceptance": [{"type": "artifact", "name": "a"}]}),
    task(goal={"objective": "x", "acceptance": [{"type": "artifact"}]}),
    task(goal={"objective": "x", "acceptance": [{"type": "other"}]}),
    task(plan={"subtasks": [{**STEP, "id": "a b"}]}),
    task(plan={"subtasks": [{**STEP, "on_failure": ["skp"]}]}),
    task(plan={"subtasks": [{"id": "g", "kind": "group", "plan": {"subtasks": [STEP]}}]}),
    task(plan={"subtasks": [{"id": "g", "kind": "group", "plan": {"subtasks": [{}]}}]}),
    {},
]


@pytest.mark.parametrize("which", ["task", "plan"])
def test_a_schema_is_valid_itself_and_names_its_dialect(which: Literal["task", "plan"]) -> None:
    schema = json_schema(which)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")


@pytest.mark.parametrize("mapping", CASES)
def test_the_task_schema_and_the_parser_agree(mapping: dict[str, Any]) -> None:
    by_schema = fits("task", mapping)
    try:
        TaskFile.model_validate(mapping)
        parsed = True
    except ValidationError:
        parsed = False
    assert by_schema == parsed


def test_both_answers_occur_among_the_cases() -> None:
    assert {fits("task", mapping) for mapping in CASES} == {True, False}


def test_the_plan_schema_is_that_of_the_task_file_s_plan() -> None:
    assert fits("plan", {"subtasks": [STEP, LOOP]})
    assert not fits("plan", {"subtasks": [{**STEP, "knd": 1}]})
