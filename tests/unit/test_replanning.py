"""A new remainder and the finished prefix: what stands, what is refused, what it weighs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.graph.replanning import about_kept, dropped, merged, standing
from surefoot.graph.values import JsonObject, Record


def tool(id: str, *needs: str, **more: Any) -> JsonObject:
    return {"id": id, "kind": "tool", "tool": f"do_{id}", "depends_on": list(needs), **more}


def done(state: Any = "completed", **more: Any) -> Record:
    return Record(state=state, **more)


OLD: JsonObject = {
    "phases": [{"id": "p1"}, {"id": "p2"}],
    "subtasks": [
        tool("a", phase="p1", weight=1),
        tool("w", phase="p1", weight=1, kind="agent", instructions="write", tool="do_w2"),
        tool("b", "a", phase="p2", weight=3),
        tool("c", "b", phase="p2", weight=6),
    ],
    "milestones": [{"id": "m1", "after": "p1"}, {"id": "m2", "after": "c"}],
}
RECORDS = {"a": done(), "w": done(), "b": done("failed")}
STANDS = standing(OLD, RECORDS, ["m1"], "b")


def test_what_is_finished_stands_and_its_passed_phase_is_closed() -> None:
    assert (STANDS.kept, STANDS.failed) == ({"a", "w"}, {"b"})
    assert (STANDS.closed, STANDS.passed) == ({"p1"}, {"m1"})


def test_a_started_foreach_stands_unless_one_of_its_children_failed() -> None:
    plan = {"subtasks": [tool("x"), tool("y")]}
    records = {"x": done("running", n=2), "x/0": done(), "y": done("running", n=2)}
    stands = standing(plan, {**records, "y/1": done("failed")}, [], "y/1")
    assert (stands.kept, stands.failed) == ({"x"}, {"y"})


def test_the_program_puts_the_finished_part_into_the_new_plan() -> None:
    found = merged(OLD, {"subtasks": [tool("d", "a", phase="p2")]}, STANDS)
    assert found.faults == ()
    assert [subtask["id"] for subtask in found.plan["subtasks"]] == ["a", "w", "d"]
    assert found.plan["subtasks"][0] == OLD["subtasks"][0]
    assert found.plan["milestones"] == [{"id": "m1", "after": "p1"}]
    assert dropped(OLD, found.plan) == ["b", "c"]


def test_the_new_part_weighs_what_it_replaces() -> None:
    new = {"subtasks": [tool("d", phase="p2", weight=1), tool("e", phase="p2", weight=2)]}
    weights = [subtask["weight"] for subtask in merged(OLD, new, STANDS).plan["subtasks"]]
    assert weights == [1, 1, 3.0, 6.0]  # b and c weighed 3 + 6


@pytest.mark.parametrize(
    ("subtask", "code"),
    [
        (tool("a", phase="p1"), None),
        (tool("a", phase="p1", weight=9), None),
        (tool("a", phase="p1", tool="other"), "finished_changed"),
        (tool("a", "d", phase="p1"), "finished_changed"),
        (tool("a2", phase="p2", tool="do_a"), "finished_redone"),
        (tool("w2", phase="p2", kind="agent", instructions="write"), "finished_redone"),
        (tool("d", phase="p1"), "closed_phase"),
        (tool("b", phase="p2", tool="other"), "reused_id"),
    ],
)
def test_contradictions_of_the_finished_part_are_faults(
    subtask: JsonObject, code: str | None
) -> None:
    found = merged(OLD, {"subtasks": [subtask]}, STANDS)
    assert [fault["code"] for fault in found.faults] == ([code] if code else [])
    assert all(subtask["id"] in fault["subtasks"] for fault in found.faults)


def test_a_person_may_take_a_failed_subtasks_id_again() -> None:
    new = {"subtasks": [tool("b", "a", phase="p2", tool="other")]}
    assert merged(OLD, new, STANDS, by_person=True).faults == ()


def test_a_persons_same_call_again_is_left_to_the_validator() -> None:
    new = {"subtasks": [tool("a2", phase="p2", tool="do_a")]}
    assert merged(OLD, new, STANDS, by_person=True).faults == ()


def test_faults_about_the_finished_part_alone_are_told_apart() -> None:
    assert about_kept({"subtasks": ["a"]}, STANDS)
    assert about_kept({"subtasks": ["a/3"]}, STANDS)
    assert not about_kept({"subtasks": ["a", "d"]}, STANDS)
    assert not about_kept({"subtasks": []}, STANDS)


IDS = [f"s{n}" for n in range(8)]


@st.composite
def plans(draw: st.DrawFn) -> JsonObject:
    ids = draw(st.lists(st.sampled_from(IDS), min_size=1, unique=True))
    weights = st.integers(0, 9)
    return {"subtasks": [tool(id, *ids[:n][-1:], weight=draw(weights)) for n, id in enumerate(ids)]}


@given(plans(), plans(), st.lists(st.sampled_from(["completed", "skipped", "pending", "failed"])))
def test_a_replan_keeps_finished_subtasks(old: JsonObject, new: JsonObject, states: Any) -> None:
    ids = [subtask["id"] for subtask in old["subtasks"]]
    records = {id: done(state) for id, state in zip(ids, states, strict=False)}
    stands = standing(old, records, [], None)
    found = merged(old, new, stands)
    finished = [s for s in old["subtasks"] if s["id"] in stands.kept]
    assert found.plan["subtasks"][: len(finished)] == finished
    names = [subtask["id"] for subtask in found.plan["subtasks"]]
    assert len(names) == len(set(names))
    again = merged(found.plan, found.plan, stands)
    assert again.faults == () or any(f["code"] == "reused_id" for f in again.faults)
    assert again.plan["subtasks"] == found.plan["subtasks"]


@given(plans(), plans())
def test_the_weight_of_the_whole_stays_the_same(old: JsonObject, new: JsonObject) -> None:
    stands = standing(old, {old["subtasks"][0]["id"]: done()}, [], None)
    plan = merged(old, new, stands).plan
    before = sum(s["weight"] for s in old["subtasks"] if s["id"] not in stands.kept)
    rest = [s["weight"] for s in plan["subtasks"] if s["id"] not in stands.kept]
    if before and sum(rest):
        assert sum(rest) == pytest.approx(before)
