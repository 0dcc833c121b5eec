"""Briefs: a bounded board that follows every record, decisions in order, a head that is pinned."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from surefoot.graph.head import amended, check_pin, head_text, pin
from surefoot.graph.index import PlanIndex
from surefoot.graph.values import (
    EffectiveLimits,
    Failure,
    JsonObject,
    PinnedHead,
    Record,
    Usage,
)
from surefoot.nodes.board import MAX_BYTES, Board
from surefoot.nodes.briefs import pin_fault

LIMITS = EffectiveLimits(
    max_steps=100, max_tokens=5000, max_cost_usd=None, max_seconds=60.0, max_failures=9
)
USAGE = Usage(steps=40, tokens=1500, cost_usd=0.0, seconds=0.0, failures=0)
PLAN: JsonObject = {
    "phases": [{"id": "read"}, {"id": "review"}, {"id": "report"}],
    "subtasks": [
        {"id": "list", "kind": "tool", "phase": "read"},
        {"id": "review", "kind": "foreach", "phase": "review", "depends_on": ["list"]},
        {"id": "register", "kind": "tool", "phase": "report", "depends_on": ["review"]},
        {"id": "summary", "kind": "agent", "phase": "report", "depends_on": ["review"]},
    ],
}


def failed(message: str, finished: float = 0.0) -> Record:
    failure = Failure(kind="check_failed", message=message, retryable=True)
    return Record(state="pending", failure=failure, finished=finished)


def text(board: Board, subtask: str | None = "review/1") -> str:
    return board.text(limits=LIMITS, usage=USAGE, seconds=20.0, subtask=subtask)


def test_the_board_says_where_the_task_stands() -> None:
    board = Board(PlanIndex(PLAN), {"list": Record(state="completed")})
    board.update("review/0", failed("no title"))
    assert text(board).splitlines() == [
        "Phases: read (done); review (0 of 1 done, here); report (0 of 2 done)",
        "This subtask: review/1 (one item of review); it depends on: list; "
        "waiting for it: register, summary",
        "Left of the budget: 60 steps, 3500 tokens, 40 seconds",
        "Recent failures, newest first:",
        "- review/0 (check_failed): no title",
    ]


def test_a_board_that_was_kept_up_to_date_says_the_same_as_a_new_one() -> None:
    index = PlanIndex(PLAN)
    board, records = Board(index, {}), dict[str, Record]()
    changes = [
        ("list", Record(state="completed", finished=1.0)),
        ("review/0", failed("first", 2.0)),
        ("review/1", failed("second", 3.0)),
        ("review", Record(state="skipped", finished=4.0)),
        ("list", Record(state="pending", finished=5.0)),
        *((f"review/{n}", failed(f"number {n}", 6.0 + n)) for n in range(2, 9)),
    ]
    for id, record in changes:
        board.update(id, record)
        records[id] = record
    assert text(board) == text(Board(index, records))


def test_a_board_of_a_huge_plan_is_bounded_and_cheap() -> None:
    subtasks = [
        {"id": f"s{n}", "kind": "agent", "phase": f"phase-{n % 500}", "depends_on": ["s0"]}
        for n in range(1, 10_000)
    ]
    plan = {"subtasks": [{"id": "s0", "kind": "agent", "phase": "phase-0"}, *subtasks]}
    board = Board(PlanIndex(plan), {})
    for n in range(9):
        board.update(f"s{n}", failed("漢字" * 300))
    started = time.perf_counter()
    said = [text(board, f"s{n}") for n in range(0, 10_000, 10)]
    assert time.perf_counter() - started < 1.0
    assert max(len(one.encode()) for one in said) <= MAX_BYTES
    assert "phase-250" in text(board, "s250")
    assert "and 492 phases more" in said[0]


def test_the_head_is_the_same_bytes_whatever_order_stored_its_keys() -> None:
    goal: JsonObject = {
        "objective": "Do it.\x00\ud800",
        "acceptance": [{"type": "artifact", "name": "a.md", "min_bytes": 2, "id": "a1"}],
        "prohibitions": ["no lies", {"path": "${inputs.folder}", "deny": "write"}, {"host": "*.x"}],
        "inputs": {"folder": "/data"},
    }
    turned = dict(reversed(goal.items()))
    turned["acceptance"] = [dict(reversed(goal["acceptance"][0].items()))]
    assert head_text(goal) == head_text(turned)
    said = head_text(goal)
    assert said.encode().decode() == said
    assert "\x00" not in said
    assert 'a1: The artifact a.md exists and has at least 2 bytes. Exactly: {"id": "a1"' in said
    assert "Never create, change or delete /data or anything below it." in said


@pytest.mark.parametrize(
    "goal",
    [
        {},
        {"objective": None, "objectives": None, "acceptance": None},
        {"prohibitions": [{"path": "${inputs.gone}"}, {"tool": "t"}, 7]},
        {"acceptance": [{"type": kind} for kind in ("result", "file", "command", "person", "new")]},
        {"acceptance": [{"type": "command", "run": ["a", "b"]}], "amendments": [{"text": "x"}]},
    ],
)
def test_any_goal_has_a_head(goal: JsonObject) -> None:
    assert head_text(goal).startswith("# ")


def test_an_amendment_is_pinned_with_its_goal_and_nothing_else_passes() -> None:
    goal = {"objective": "Count ships."}
    context: Any = SimpleNamespace(pinned=None)
    state: Any = pin(goal)
    assert pin_fault(state, context) is None
    changed: Any = {**state, "goal": amended(goal, "Only sailing ships.")}
    fault = pin_fault(changed, context)
    assert fault is not None
    assert fault["code"] == "inconsistent_state"
    again: Any = pin(changed["goal"])
    assert pin_fault(again, context) is None
    assert again["head"]["text"].startswith(state["head"]["text"].partition("# Rules")[0])
    forged = PinnedHead(**{**again["head"], "text": again["head"]["text"] + "x"})
    torn: Any = {**again, "head": forged}
    assert pin_fault(torn, context) is not None
    check_pin(again["head"], again["goal"])
