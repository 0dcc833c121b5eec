"""Each recovery strategy reached by a real SIGKILL: once outside, and named by `history --json`.

`roll back to the stable point` is reached where workspace files are put back.
"""

from pathlib import Path
from typing import Any

import pytest
from conftest import Sql
from crash import plans
from crash.storm import Storm, status_of
from scenes import Scene

from surefoot.graph.settings import Settings

RESUME, RERUN, ASK = "resume at the step", "rerun the subtask", "ask a person"

CASES: list[tuple[str, str, str, str, dict[str, int]]] = [
    ("send", "after intent", RERUN, "its probe says that it did not happen", {"do": 1}),
    ("send", "before", RERUN, "its probe says that it did not happen", {"do": 1}),
    ("send", "after", RESUME, "its probe found the effect done", {"do": 1}),
    ("send", "after outcome", RESUME, "the ledger has the result of the call", {"do": 1}),
    ("book", "after intent", RERUN, "it has no probe; its effect was compensated", {"do": 1}),
    ("book", "after", RERUN, "it has no probe; its effect was compensated", {"do": 2, "undo": 1}),
    ("book", "after outcome", RESUME, "the ledger has the result of the call", {"do": 1}),
    ("put", "after", RERUN, "the effect is idempotent", {"do": 2}),
    ("look", "after", RESUME, "the tool only reads", {"looked": 2}),
    ("blind", "after", ASK, "it has no probe and no compensation", {"do": 1}),
    ("blind", "after intent", ASK, "it has no probe and no compensation", {}),
]


@pytest.mark.parametrize(("tool", "point", "strategy", "reason", "outside"), CASES)
def test_a_killed_call_is_recovered_as_its_evidence_says_and_history_names_it(
    settings: Settings,
    sql: Sql,
    tmp_path: Path,
    tool: str,
    point: str,
    strategy: str,
    reason: str,
    outside: dict[str, int],
) -> None:
    storm = Storm(settings.home, settings.database_url, plans.one_call(tool))
    assert storm.die_at(point, 1)
    storm.finish()
    assert status_of(sql, "a1") == ("waiting" if strategy == ASK else "completed")
    assert storm.effects("a1").get(f"{tool}/x", {}) == outside
    (named,) = recoveries(Scene(settings, tmp_path))
    assert (named["subtask"], named["strategy"], named["reason"]) == ("only", strategy, reason)


@pytest.mark.parametrize(("tool", "done"), [("book", {"do": 2, "undo": 1}), ("send", {"do": 1})])
def test_what_may_not_be_resumed_is_undone_and_starts_from_scratch(
    settings: Settings, sql: Sql, tmp_path: Path, tool: str, done: dict[str, int]
) -> None:
    task = plans.one_call(tool)
    task["plan"]["subtasks"][0]["resumable"] = False
    storm = Storm(settings.home, settings.database_url, task)
    assert storm.die_at("after outcome", 1)
    storm.finish()
    assert status_of(sql, "a1") == "completed"
    assert storm.effects("a1")[f"{tool}/x"] == done
    (named,) = recoveries(Scene(settings, tmp_path))
    assert named["strategy"] == RERUN


WAY_BACK = [
    *[("after intent", n) for n in (1, 2)],
    *[("after outcome", n) for n in (1, 2, 3, 4)],
    *[(point, 1) for point in ("after", "undoing", "undone", "wiping", "wiped")],
    *[("before checkpoint", n) for n in (5, 6)],
]
"""Boundaries on the way do - check fails - undo - wipe - do."""


@pytest.mark.parametrize(("point", "count"), WAY_BACK)
def test_killed_anywhere_while_a_failed_attempt_is_taken_back_it_converges(
    settings: Settings, sql: Sql, point: str, count: int
) -> None:
    storm = Storm(settings.home, settings.database_url, failing_first())
    storm.die_at(point, count)
    storm.finish()
    assert status_of(sql, "a1") == "completed"
    book = storm.effects("a1")["book/x"]
    assert (book["do"], book["undo"]) == (2, 1), "done, undone, done, whatever died between"
    wiped = [fact["key"] for fact in storm.facts("a1") if fact["fact"] == "wiped"]
    assert wiped
    assert len(set(wiped)) == len(wiped), "once for what an attempt left"
    assert sql.value("select count(*) from surefoot.questions") == 0


def failing_first() -> dict[str, Any]:
    """One reversible call whose first go is never good, and an `undo` that must run once."""
    task = plans.one_call("book")
    (only,) = task["plan"]["subtasks"]
    only["success"] = [{"type": "python", "call": "undo_tools:done_twice"}]
    only["retries"] = {"max_attempts": 2, "backoff_seconds": 0.01}
    only["undo"] = {"tool": "wipe", "args": {"id": "x"}}
    return {**task, "tools": ["./undo_tools.py"]}


def recoveries(scene: Scene) -> list[dict[str, Any]]:
    """The entries of `history` that say how something was recovered."""
    done = scene.command("history", "a1", "--json")
    assert done.code == 0, done
    return [entry for entry in done.document if entry["type"] == "AttemptRecovered"]
