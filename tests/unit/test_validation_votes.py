"""The validator on votes: samples only read, and red flags are known ones."""

from typing import Any

import pytest

from surefoot.graph.ports import EffectKind, ToolSpec
from surefoot.graph.validation import LocalWorld, validate_task

EFFECTS: dict[str, EffectKind] = {
    "look": "read",
    "write_artifact": "idempotent",
    "send": "irreversible",
}
TOOLS = {
    name: ToolSpec(
        name=name,
        description=name,
        schema={"type": "object"},
        effect=effect,
        module="builtin" if name == "write_artifact" else "tools.py",
    )
    for name, effect in EFFECTS.items()
}


def faults(votes: dict[str, Any], tools: list[str]) -> list[str]:
    subtask = {
        "id": "a",
        "kind": "agent",
        "instructions": "Vote.",
        "tools": tools,
        "votes": {"ahead_by": 2, "max_samples": 9, **votes},
        "success": [{"type": "result"}],
    }
    task = {"goal": {"objective": "x"}, "model": "m", "plan": {"subtasks": [subtask]}}
    report = validate_task(task, tools=TOOLS, world=LocalWorld())
    return [fault.message for fault in report.faults if fault.code == "schema"]


def test_samples_may_read_and_put_artifacts() -> None:
    flags = {"max_chars": 10, "max_tokens": 5, "json_schema": {"type": "string"}, "pattern": "a+"}
    assert faults({"red_flags": flags}, ["look", "write_artifact"]) == []


def test_samples_that_would_act_are_refused() -> None:
    (message,) = faults({}, ["look", "send"])
    assert "send" in message
    assert "once for every sample" in message


@pytest.mark.parametrize(
    ("votes", "said"),
    [
        ({"max_samples": 1}, "no vote can be won"),
        ({"red_flags": {"max_words": 3}}, "has no 'max_words'"),
        ({"red_flags": {"max_chars": 0}}, "whole number above 0"),
        ({"red_flags": {"max_tokens": True}}, "whole number above 0"),
        ({"red_flags": {"json_schema": 3}}, "JSON Schema"),
        ({"red_flags": {"pattern": "("}}, "no regular expression"),
    ],
)
def test_votes_that_mean_nothing_are_refused(votes: dict[str, Any], said: str) -> None:
    (message,) = faults(votes, ["look"])
    assert said in message
