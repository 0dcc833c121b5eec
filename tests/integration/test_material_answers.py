"""The shared malformed answers: nothing is read as a plan that is not exactly the plan in it."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surefoot.models.answers import parse_answer

FOLDER = Path(__file__).resolve().parents[2].parent / "shared/material/malformed_llm_outputs"
PLAN: dict[str, Any] = {
    "phases": [{"id": "read", "objective": "Read all"}],
    "subtasks": [
        {"id": "a", "tool": "read", "weight": 2, "depends_on": [], "skippable": False},
        {"id": "b", "tool": "write", "weight": 1, "depends_on": ["a"], "skippable": True},
    ],
    "milestones": None,
}
OTHER: dict[str, Any] = {**PLAN, "subtasks": PLAN["subtasks"][:1]}
SHAPE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "phases": {"type": "array"},
        "subtasks": {"type": "array", "minItems": 1},
        "milestones": {},
    },
    "required": ["phases", "subtasks", "milestones"],
    "additionalProperties": False,
}

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the shared material is not beside the repository"
)


def rows(name: str) -> list[dict[str, Any]]:
    if not FOLDER.is_dir():
        return []
    found = sorted(FOLDER.glob(f"{name}.*.jsonl"))
    lines = [line for path in found for line in path.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines]


def before_last(text: str, given: list[Any]) -> str:
    head, found, tail = text.rpartition(given[0])
    return f"{head}{given[1]}{found}{tail}"


EDITS: dict[str, Callable[[str, list[Any]], str]] = {
    "replace": lambda text, given: text.replace(given[0], given[1]),
    "truncate": lambda text, given: text[: int(len(text) * given[0])],
    "insert_after_first": lambda text, given: text.replace(given[0], "".join(given), 1),
    "insert_before_last": before_last,
    "json_to_python_repr": lambda text, given: repr(PLAN),
    "json_dumps_string": lambda text, given: json.dumps(text),
    "wrap_tasks_only_as_list": lambda text, given: json.dumps(PLAN["subtasks"]),
    "wrap_object": lambda text, given: json.dumps({given[0]: PLAN}),
    "duplicate_top_key_with_empty_list": lambda text, given: text[:-1] + ', "subtasks": []}',
    "set_tasks": lambda text, given: json.dumps({**PLAN, "subtasks": given[0]}),
}
"""Edits of the text. The others are about the plan's meaning: the validator's affair."""


def edited(row: dict[str, Any]) -> str | None:
    """The template as an answer's text; None where an edit is not of the text."""
    text = json.dumps(PLAN)
    for name, *given in row["ops"]:
        if name not in EDITS:
            return None
        text = EDITS[name](text, given)
    template: str = row["content_template"] or ""
    return template.replace("{{PLAN_ALT}}", json.dumps(OTHER)).replace("{{PLAN}}", text)


@pytest.mark.parametrize("row", rows("synthetic_templates"), ids=lambda row: row["id"])
def test_a_template_is_read_as_the_very_plan_or_not_at_all(row: dict[str, Any]) -> None:
    text = edited(row)
    if text is None:
        pytest.skip("its edit is about the plan's meaning: the validator's")
    before = copy.deepcopy(PLAN)
    value, faults = parse_answer(text, SHAPE)
    assert bool(faults) == (value is None)
    if value is not None and row["finish_reason"] == "stop":
        assert value == before
        assert row["expect"].startswith("accept")
    elif row["finish_reason"] == "stop":
        assert row["expect"] != "accept_same_plan"


@pytest.mark.parametrize("row", rows("real_raw"), ids=lambda row: row["id"])
def test_a_real_answer_that_broke_its_format_is_no_plan(row: dict[str, Any]) -> None:
    value, faults = parse_answer(row["text"], SHAPE)
    assert value is None
    assert all(faults)
