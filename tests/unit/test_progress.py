"""Weighted progress: the arithmetic of the contract, and that both ways to it agree."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.graph.progress import ProgressMeter, meter_of, retry_rate
from surefoot.graph.values import JsonObject, SubtaskState

STATES: list[SubtaskState] = ["pending", "running", "completed", "failed", "skipped"]


def leaf(id: str, weight: float = 1) -> JsonObject:
    return {"id": id, "kind": "tool", "weight": weight}


def foreach(id: str, weight: float = 1, each: JsonObject | None = None) -> JsonObject:
    return {"id": id, "kind": "foreach", "weight": weight, "each": each or {"kind": "tool"}}


def group(id: str, weight: float, *inner: JsonObject) -> JsonObject:
    return {"id": id, "kind": "group", "weight": weight, "plan": {"subtasks": list(inner)}}


def plan(*subtasks: JsonObject) -> JsonObject:
    return {"subtasks": list(subtasks)}


def test_progress_is_completed_weight_over_weight_not_skipped() -> None:
    meter = ProgressMeter(plan(leaf("a", 1), leaf("b", 2), leaf("c", 5)))
    meter.move("b", "completed")
    assert meter.progress() == pytest.approx(2 / 8)
    meter.move("c", "skipped")
    assert meter.progress() == pytest.approx(2 / 3)


def test_children_of_a_foreach_share_its_weight_evenly() -> None:
    meter = ProgressMeter(plan(leaf("list", 1), foreach("review", 9)))
    assert meter.counts().total == 2
    meter.expand("review", 3)
    assert meter.counts().total == 4
    meter.move("review/1", "completed")
    assert meter.progress() == pytest.approx(3 / 10)


def test_an_empty_foreach_stays_one_leaf_with_all_its_weight() -> None:
    meter = ProgressMeter(plan(leaf("list", 1), foreach("review", 3)))
    meter.expand("review", 0)
    meter.move("review", "completed")
    assert (meter.counts().total, meter.counts().completed) == (2, 1)
    assert meter.progress() == pytest.approx(3 / 4)


def test_leaves_of_a_group_share_its_weight_in_proportion() -> None:
    meter = ProgressMeter(plan(leaf("a", 4), group("outer", 6, leaf("x", 1), leaf("y", 2))))
    meter.move("outer/y", "completed")
    assert meter.progress() == pytest.approx(4 / 10)


def test_leaves_of_a_weightless_group_share_by_count() -> None:
    meter = ProgressMeter(plan(leaf("a", 1), group("outer", 1, leaf("x", 0), leaf("y", 0))))
    meter.move("outer/y", "completed")
    assert meter.progress() == pytest.approx(1 / 4)


def test_groups_inside_a_foreach_are_counted_by_their_leaves() -> None:
    each = group("", 1, leaf("x", 1), leaf("y", 3))
    meter = ProgressMeter(plan(foreach("review", 8, each)))
    meter.expand("review", 2)
    assert list(meter.leaves("review")) == ["review/0/x", "review/0/y", "review/1/x", "review/1/y"]
    meter.move("review/1/y", "completed")
    assert meter.progress() == pytest.approx(3 / 8)


def test_without_any_weight_leaves_are_counted() -> None:
    meter = ProgressMeter(plan(leaf("a", 0), foreach("review", 0)))
    meter.expand("review", 3)
    meter.move("review/0", "completed")
    assert meter.progress() == pytest.approx(1 / 4)


def test_where_only_weightless_leaves_are_not_skipped_they_are_counted() -> None:
    meter = ProgressMeter(plan(leaf("a", 5), leaf("b", 0), leaf("c", 0)))
    meter.move("a", "skipped")
    meter.move("b", "completed")
    assert meter.progress() == pytest.approx(1 / 2)


def test_progress_stays_below_one_until_the_task_is_completed() -> None:
    meter = ProgressMeter(plan(leaf("a")))
    meter.move("a", "completed")
    assert meter.progress() == 0.9999
    assert meter.progress(completed=True) == 1.0


def test_without_a_plan_nothing_is_done() -> None:
    assert ProgressMeter({}).progress() == 0.0


def test_a_skipped_container_takes_its_leaves_with_it() -> None:
    meter = ProgressMeter(plan(leaf("a", 1), foreach("review", 4)))
    meter.expand("review", 4)
    meter.move("review/0", "completed")
    meter.move("review", "skipped")
    assert meter.counts().skipped == 4
    assert meter.progress() == 0.0


def test_a_container_completed_on_a_rung_completes_its_failed_leaves() -> None:
    meter = ProgressMeter(plan(foreach("review", 4)))
    meter.expand("review", 2)
    meter.move("review/0", "failed")
    meter.move("review/1", "skipped")
    meter.move("review", "completed")
    assert (meter.counts().completed, meter.counts().skipped) == (1, 1)


def test_weights_of_any_size_are_added_exactly() -> None:
    meter = ProgressMeter(plan(leaf("big", 1e300), leaf("small", 1e284)))
    meter.move("big", "completed")
    meter.move("small", "completed")
    assert meter.progress() == 0.9999
    meter.move("big", "pending")
    meter.move("small", "pending")
    assert meter.progress() == 0.0


def test_records_of_subtasks_that_a_new_plan_dropped_are_passed_over() -> None:
    meter = meter_of(plan(leaf("a")), {"a": "completed", "gone": "failed"}, {"gone": 3})
    assert meter.counts().total == 1


def test_retry_rate_is_retries_per_leaf_attempted() -> None:
    assert retry_rate(31, 27) == 0.148
    assert retry_rate(21, 12) == 0.75
    assert retry_rate(0, 0) == 0.0


@st.composite
def plans(draw: st.DrawFn) -> tuple[JsonObject, dict[str, int]]:
    """A plan of leaves, foreach and groups, with the number of children of some foreach."""
    weights = st.sampled_from([0, 0.1, 1, 3, 7.5, 1e6])
    subtasks: list[JsonObject] = []
    expanded: dict[str, int] = {}
    for i in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["leaf", "foreach", "group"]))
        weight = draw(weights)
        if kind == "leaf":
            subtasks.append(leaf(f"s{i}", weight))
        elif kind == "group":
            subtasks.append(group(f"s{i}", weight, leaf("x", draw(weights)), leaf("y")))
        else:
            subtasks.append(foreach(f"s{i}", weight))
            if draw(st.booleans()):
                expanded[f"s{i}"] = draw(st.integers(0, 5))
    return plan(*subtasks), expanded


@given(plans(), st.integers(0, 2**32))
def test_a_meter_moved_step_by_step_equals_one_built_from_the_records(
    given_plan: tuple[JsonObject, dict[str, int]], seed: int
) -> None:
    tree, expanded = given_plan
    rng = random.Random(seed)
    moved = ProgressMeter(tree)
    states: dict[str, SubtaskState] = {}

    def wander(steps: int) -> None:
        leaves = [leaf for s in tree["subtasks"] for leaf in moved.leaves(s["id"])]
        for _ in range(steps):
            name, state = rng.choice(leaves), rng.choice(STATES)
            states[name] = state
            moved.move(name, state)

    wander(3)
    for name, n in expanded.items():
        moved.expand(name, n)
        if n:
            states.pop(name, None)
    wander(30)

    built = meter_of(tree, states, expanded)
    assert built.counts() == moved.counts()
    assert built.progress() == moved.progress()


@given(plans())
def test_shares_of_all_leaves_add_up_and_finishing_all_is_all(
    given_plan: tuple[JsonObject, dict[str, int]],
) -> None:
    tree, expanded = given_plan
    meter = meter_of(tree, {}, expanded)
    leaves = [leaf for s in tree["subtasks"] for leaf in meter.leaves(s["id"])]
    whole = sum(float(s["weight"]) for s in tree["subtasks"])
    assert sum(meter.share(name) for name in leaves) == pytest.approx(1.0 if whole else 0.0)
    last: Any = 0.0
    for name in leaves:
        meter.move(name, "completed")
        assert meter.progress() >= last
        last = meter.progress()
    assert last == 0.9999


def test_a_plan_that_a_model_made_shares_the_weight_of_its_group() -> None:
    plan: JsonObject = {
        "subtasks": [{"id": "g", "kind": "group", "goal": {}, "weight": 3}, {"id": "a"}]
    }
    inner: JsonObject = {"subtasks": [{"id": "x", "weight": 2}, {"id": "y", "weight": 1}]}
    meter = ProgressMeter(plan)
    assert meter.counts().total == 2
    meter.move("a", "completed")
    assert meter.progress() == pytest.approx(0.25)
    meter.nest("g", inner)
    meter.nest("g", {"subtasks": [{"id": "other"}]})
    meter.move("g/x", "completed")
    assert meter.counts().total == 3
    assert meter.progress() == pytest.approx(0.75)
    again = meter_of(plan, {"a": "completed", "g/x": "completed", "g": "running"}, {}, {"g": inner})
    assert again.progress() == meter.progress()
