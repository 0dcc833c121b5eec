"""The plan that is killed, and what must be true of it in the end."""

import json
from dataclasses import dataclass
from typing import Any

ITEMS = 4

EFFECTS = {
    "send": [f"send{i}" for i in range(6)],
    "insist": [f"insist{i}" for i in range(2)],
    "pay": ["o0", "o1", "o2"],
    "book": [f"book{i}" for i in range(6)],
    "put": [f"put{i}" for i in range(4)],
    "note": [f"i{i}" for i in range(ITEMS)],
    "collect": ["all"],
}
"""Logical effects of one task, by kind; two subtasks pay order o2."""

REPEATABLE = ("put", "collect")
MILESTONES = ("half", "whole")
ENDED = {f"flaky{i}": 3 for i in range(2)} | {f"insist{i}": 3 for i in range(2)}
"""Attempts that a subtask needs, where it is not one."""


@dataclass(frozen=True)
class Leaf:
    """A subtask of the plan; `key` is the argument that its result repeats as `id`."""

    id: str
    tool: str
    key: str

    def subtask(self, phase: str, depends_on: list[str]) -> dict[str, Any]:
        args = {"id": self.key}
        if self.tool == "pay":
            args = {"order": self.key, "purpose": self.id}
        return {
            "id": self.id,
            "phase": phase,
            "kind": "tool",
            "tool": self.tool,
            "args": args,
            "depends_on": depends_on,
            "success": [{"type": "result", "path": "id", "equals": self.key}],
            "retries": {"max_attempts": ENDED.get(self.id, 1), "backoff_seconds": 0.01},
        }


def leaves(tool: str, ids: range) -> list[Leaf]:
    return [Leaf(f"{tool}{i}", tool, f"{tool}{i}") for i in ids]


FIRST = [
    *leaves("send", range(3)),
    *leaves("book", range(3)),
    *leaves("put", range(2)),
    *leaves("look", range(1)),
    *leaves("flaky", range(1)),
    Leaf("pay0", "pay", "o0"),
    Leaf("insist0", "insist", "insist0"),
]
SECOND = [
    *leaves("send", range(3, 6)),
    *leaves("book", range(3, 6)),
    *leaves("put", range(2, 4)),
    *leaves("look", range(1, 2)),
    *leaves("flaky", range(1, 2)),
    Leaf("pay1", "pay", "o1"),
    Leaf("pay2", "pay", "o2"),
    Leaf("pay3", "pay", "o2"),
    Leaf("insist1", "insist", "insist1"),
]
LEAVES = [*FIRST, *SECOND]


def task() -> dict[str, Any]:
    """The task file: 31 leaves, 8 at a time, most of them ready at once."""
    first = [leaf.subtask("one", []) for leaf in FIRST]
    # A chain through the plan, so that results travel, and the rest free.
    second = [
        leaf.subtask("two", [FIRST[i % len(FIRST)].id] if i % 3 == 0 else [])
        for i, leaf in enumerate(SECOND)
    ]
    python = {"type": "python", "call": "crash_tools:verified"}
    return {
        "name": "crash",
        "goal": {
            "objective": "Every effect once.",
            "acceptance": [{"type": "artifact", "name": "report.json", "min_bytes": 2}, python],
        },
        "concurrency": 8,
        "tools": ["./crash_tools.py"],
        "plan": {
            "phases": [{"id": "one"}, {"id": "two"}, {"id": "three"}],
            "subtasks": [*first, *second, *_foreach(), _collect()],
            "milestones": [
                {"id": "half", "after": "one", "checks": [python]},
                {"id": "whole", "after": "two", "checks": [python]},
            ],
        },
    }


def one_call(tool: str) -> dict[str, Any]:
    """A task file of one subtask, `only`, whose logical effect is `TOOL/x`."""
    only = Leaf("only", tool, "x").subtask("one", [])
    plan = {"phases": [{"id": "one"}], "subtasks": [only]}
    return {**task(), "goal": {"objective": "Once."}, "plan": plan}


def subtask_ids() -> set[str]:
    """Every subtask that must have completed, children too."""
    children = {f"notes/{i}" for i in range(ITEMS)}
    return {leaf.id for leaf in LEAVES} | {"items", "notes", "collect"} | children


def _foreach() -> list[dict[str, Any]]:
    items = {
        "id": "items",
        "phase": "one",
        "kind": "tool",
        "tool": "numbers",
        "args": {"n": ITEMS},
        "success": [{"type": "result", "min_items": ITEMS}],
    }
    notes = {
        "id": "notes",
        "phase": "two",
        "kind": "foreach",
        "depends_on": ["items"],
        "for_each": "${items}",
        "each": {
            "kind": "tool",
            "tool": "note",
            "args": {"id": "${item}"},
            "outputs": ["note.txt"],
            "success": [{"type": "artifact", "name": "note.txt", "min_bytes": 16}],
        },
    }
    return [items, notes]


def _collect() -> dict[str, Any]:
    results = {leaf.id: f"${{{leaf.id}}}" for leaf in LEAVES}
    return {
        "id": "collect",
        "phase": "three",
        "kind": "tool",
        "tool": "collect",
        "args": {"notes": "${notes.artifact.note.txt}", "results": results},
        "depends_on": ["notes", *results],
        "outputs": ["report.json"],
    }


def report(text: bytes) -> dict[str, Any]:
    return json.loads(text)
