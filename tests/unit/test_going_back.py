"""What records and milestones are after going back: a table of moments, and what always holds."""

from typing import Any

import pytest

from surefoot.graph.going_back import (
    Point,
    afresh,
    back_to,
    points_before,
    reopened,
    reopened_milestones,
    standing_at,
    together,
)
from surefoot.graph.state import Back
from surefoot.graph.values import MilestoneRecord, Record


def tool(id: str, **more: Any) -> Any:
    return {"id": id, "kind": "tool", "tool": "t", **more}


PLAN: Any = {
    "subtasks": [
        *(tool("a"), tool("b")),
        {"id": "f", "kind": "foreach", "for_each": "${a}", "each": {"kind": "tool", "tool": "t"}},
        {"id": "g", "kind": "group", "plan": {"subtasks": [tool("x")]}},
    ]
}


def done(attempt: int = 1, **more: Any) -> Record:
    return Record(state="completed", attempt=attempt, ended=attempt, **more)


def test_what_was_done_stands_and_the_rest_is_done_again_with_its_numbers() -> None:
    point = Point(records={"a": done()})
    now = {"a": done(), "b": done(3, rung=1, reason="it failed", seen=["x"], criticism="bad")}
    way = back_to(point, PLAN, now)
    assert way.records["a"] == now["a"]
    assert way.records["b"] == {"state": "pending", "attempt": 3, "ended": 3, "tries": 0}
    assert (way.taken, way.redone) == ({"b": 0}, ["b"])


def test_a_result_that_was_made_better_since_is_what_it_was_and_its_number_goes_on() -> None:
    then = done(1, rung=1, reason="simpler", result={"value": 1})
    now = done(2, result={"value": 2})
    way = back_to(Point(records={"a": then}), PLAN, {"a": now})
    assert way.records["a"] == {**then, "attempt": 2, "ended": 2}
    assert way.taken == {"a": 1}
    assert not way.takes("a", 1)
    assert way.takes("a", 2)
    assert way.redone == []


def test_children_that_were_done_stay_done() -> None:
    opened = Record(state="running", n=3, items={"value": [1, 2, 3]}, started=1.0)
    point = Point(records={"f": opened, "f/0": done()})
    now = {
        "f": done(0, n=3, items={"value": [1, 2, 3]}, result={"value": []}),
        **{f"f/{i}": done() for i in range(3)},
    }
    way = back_to(point, PLAN, now)
    assert way.records["f"] == opened
    assert way.records["f/0"] == now["f/0"]
    assert [way.records[f"f/{i}"].get("state") for i in (1, 2)] == ["pending", "pending"]
    assert [way.takes(f"f/{i}", 1) for i in range(3)] == [False, True, True]


def test_a_foreach_that_means_something_else_now_begins_anew() -> None:
    opened = Record(state="running", n=2, items={"value": [1, 2]})
    old = {"subtasks": [*PLAN["subtasks"][:2], {**PLAN["subtasks"][2], "for_each": "${b}"}]}
    point = Point(records={"f": opened, "f/0": done()}, plan=old)
    now = {"f": done(0, n=2), "f/0": done(), "f/1": done(2)}
    way = back_to(point, PLAN, now)
    assert "n" not in way.records["f"]
    assert way.records["f/1"] == {"state": "pending", "attempt": 2, "ended": 2, "tries": 0}
    assert way.takes("f/0", 1)
    assert way.redone == ["f"]


def test_a_group_goes_back_to_its_own_middle_or_begins_anew() -> None:
    under_way = Record(state="pending", attempt=1, go=1, cut=True, started=5.0)
    point = Point(records={"g": under_way}, groups={"g": {"value": {"records": {}}}})
    way = back_to(point, PLAN, {"g": done(2)})
    assert way.records["g"].get("inside") == {"value": {"records": {}}}
    assert way.records["g"].get("taken_back") == 2
    assert not way.takes("g/x", 1)  # what is inside decides that itself
    anew = back_to(Point(), PLAN, {"g": done(2)})
    assert anew.records["g"] == {
        **{"state": "pending", "attempt": 2, "ended": 2, "tries": 0},
        "taken_back": 2,
    }
    assert anew.takes("g/x", 1)


def test_what_a_replan_took_out_is_undone_and_nobody_does_it_again() -> None:
    now = {"old": Record(state="failed", attempt=1, ended=1)}
    way = back_to(Point(), PLAN, now)
    assert way.records == now
    assert way.takes("old", 1)
    assert way.redone == []


@pytest.mark.parametrize("by_person", [False, True])
def test_what_people_gave_holds_unless_they_go_back_themselves(by_person: bool) -> None:
    given = done(1, result={"value": 7}, edited=True)
    waits = Record(state="pending", attempt=1, ended=1, args={"x": 1})
    way = back_to(Point(), PLAN, {"a": given, "b": waits}, by_person=by_person)
    assert (way.records["a"] == given) is not by_person
    assert way.records["b"].get("args") == {"x": 1}


def test_what_was_reopened_since_is_not_what_the_snapshot_says() -> None:
    point = Point(records={"a": done(), "b": done()}, stale={"b"})
    way = back_to(point, PLAN, {"a": done(), "b": done(2)})
    assert way.records["b"].get("state") == "pending"
    assert way.redone == ["b"]


def test_going_back_twice_is_going_back_once() -> None:
    point = Point(records={"a": done()})
    once = back_to(point, PLAN, {"a": done(), "b": done(2), "g": done(3)})
    twice = back_to(point, PLAN, once.records)
    assert twice.records == once.records


def test_reopening_a_child_gathers_its_foreach_again_and_nothing_else() -> None:
    now = {
        "a": done(),
        "f": done(0, n=2, items={"value": [1, 2]}, result={"value": [1, 2]}),
        "f/0": done(),
        "f/1": done(),
    }
    way = reopened(["f/1"], PLAN, now)
    assert way.records["f"].get("state") == "running"
    assert "result" not in way.records["f"]
    assert way.records["f/0"] == now["f/0"]
    assert way.records["f/1"] == afresh(now["f/1"])
    assert way.taken == {"f/1": 0}
    whole = reopened(["f"], PLAN, now)
    assert "n" not in whole.records["f"]
    assert whole.records["f/0"].get("state") == "pending"
    assert whole.redone == ["f"]


def verdict(id: str, number: int, *, passed: bool = True, digest: str = "") -> MilestoneRecord:
    return MilestoneRecord(
        id=id,
        passed=passed,
        at=float(number),
        plan_version=1,
        checkpoint_id="",
        records_digest=digest or id,
        snapshot={},
        number=number,
        verdicts=[],
    )


def test_later_milestones_are_passed_no_more() -> None:
    known = {"m1": verdict("m1", 1), "m2": verdict("m2", 2), "m3": verdict("m3", 3)}
    passed = {id: record["passed"] for id, record in standing_at(known, "m2").items()}
    assert passed == {"m1": True, "m2": True, "m3": False}
    assert not any(record["passed"] for record in standing_at(known, None).values())


def test_reopening_unpasses_what_covers_it_and_marks_the_others() -> None:
    known = {"m1": verdict("m1", 1), "m2": verdict("m2", 2)}
    after = reopened_milestones(known, {"m1": ["a"], "m2": ["f"]}, ["f/1"])
    assert (after["m1"]["passed"], after["m2"]["passed"]) == (True, False)
    assert after["m1"].get("stale") == ["f", "f/1"]


def test_points_are_the_newest_first_without_those_that_change_nothing() -> None:
    known = {
        "m2": verdict("m2", 2),
        "m1": verdict("m1", 1),
        "m3": verdict("m3", 3, digest="now"),
        "m4": verdict("m4", 4, passed=False),
    }
    assert [record["id"] for record in points_before(known, "now")] == ["m2", "m1"]


def test_two_wishes_are_one() -> None:
    first = Back(by="person", reason="x", reopen=["a"])
    both = together(first, Back(by="person", reason="y", reopen=["b", "a"]))
    assert both == {"by": "person", "reason": "x; y", "reopen": ["a", "b"]}
    assert together(None, first) == first
    mixed = together(first, Back(by="milestone", reason="x", milestone="m"))
    assert (mixed.get("milestone"), mixed.get("reopen")) == ("m", ["a"])
