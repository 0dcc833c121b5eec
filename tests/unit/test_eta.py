"""The remaining time: when it is known at all, and that it follows what was seen."""

import time

import pytest

from surefoot.graph.durations import History
from surefoot.graph.eta import Interval, remaining_time
from surefoot.graph.values import JsonObject
from surefoot.graph.workload import Item, Seen, workload_of


def leaf(id: str, *needs: str, **facts: object) -> JsonObject:
    return {"id": id, "kind": "tool", "tool": "work", "depends_on": list(needs), **facts}


def done(seconds: float) -> Seen:
    return Seen(state="completed", started=0.0, finished=seconds)


def estimate(
    subtasks: list[JsonObject], seen: dict[str, Seen], *, concurrency: int = 1, now: float = 0.0
) -> Interval | None:
    items = workload_of({"subtasks": subtasks}, seen, now=now)
    return remaining_time(items, concurrency=concurrency)


def known(interval: Interval | None) -> Interval:
    assert interval is not None
    return interval


def test_nothing_is_said_before_three_like_subtasks_finished() -> None:
    subtasks = [leaf(f"s{i}") for i in range(10)]
    assert estimate(subtasks, {"s0": done(1), "s1": done(1)}) is None
    assert estimate(subtasks, {"s0": done(1), "s1": done(1), "s2": done(1)}) is not None


def test_estimates_in_the_plan_are_enough() -> None:
    interval = known(estimate([leaf(f"s{i}", estimated_seconds=10) for i in range(10)], {}))
    assert interval.low < 100 < interval.high
    assert interval.high < 300


def test_history_of_the_same_tool_is_enough() -> None:
    items = workload_of({"subtasks": [leaf(f"s{i}") for i in range(10)]}, {}, now=0.0)
    history = {"work": History(n=20, log_mean=0.0, log_m2=0.2)}
    interval = known(remaining_time(items, concurrency=1, history=history))
    assert interval.low < 10 < interval.high
    assert interval.high < 60
    assert remaining_time(items, concurrency=1, history={"other": history["work"]}) is None


def test_nothing_left_takes_no_time() -> None:
    assert estimate([leaf("a")], {"a": done(3)}) == Interval(0.0, 0.0)


def test_equal_leaves_one_at_a_time_take_their_sum() -> None:
    seen = {f"s{i}": done(2.0) for i in range(50)}
    interval = known(estimate([leaf(f"s{i}") for i in range(100)], seen))
    assert interval.low < 100 < interval.high
    assert interval.high < 2 * interval.low


def test_concurrency_divides_the_time_of_independent_leaves() -> None:
    seen = {f"s{i}": done(2.0) for i in range(50)}
    interval = known(estimate([leaf(f"s{i}") for i in range(100)], seen, concurrency=5))
    assert interval.low < 20 < interval.high < 40


def test_a_chain_takes_its_sum_whatever_the_concurrency() -> None:
    subtasks = [leaf("s0")] + [leaf(f"s{i}", f"s{i - 1}") for i in range(1, 60)]
    seen = {f"s{i}": done(1.0) for i in range(30)}
    interval = known(estimate(subtasks, seen, concurrency=8))
    assert interval.low < 30 < interval.high < 60


def test_weights_that_explain_durations_are_followed() -> None:
    subtasks = [leaf(f"s{i}", weight=1 if i < 20 else 10) for i in range(40)]
    seen = {f"s{i}": done(1.0) for i in range(20)} | {"s20": done(10.0), "s21": done(10.0)}
    interval = known(estimate(subtasks, seen))
    assert interval.low < 180 < interval.high < 400


def test_weights_that_explain_nothing_are_not_followed() -> None:
    subtasks = [leaf(f"s{i}", weight=1 + 9 * (i % 2)) for i in range(40)]
    interval = known(estimate(subtasks, {f"s{i}": done(1.0) for i in range(20)}))
    assert interval.low < 20 < interval.high < 40


def test_estimates_are_calibrated_by_what_finished() -> None:
    subtasks = [leaf(f"s{i}", estimated_seconds=10) for i in range(40)]
    interval = known(estimate(subtasks, {f"s{i}": done(5.0) for i in range(20)}))
    assert interval.low < 100 < interval.high < 180


def test_what_runs_already_counts_for_what_it_has_run() -> None:
    seen = {f"s{i}": done(10.0) for i in range(20)}
    running = seen | {"s20": Seen(state="running", started=0.0)}
    subtasks = [leaf(f"s{i}") for i in range(21)]
    fresh = known(estimate(subtasks, running, now=0.0))
    late = known(estimate(subtasks, running, now=9.0))
    assert fresh.high > 9 > late.high >= late.low >= 0


def test_children_of_a_foreach_are_waited_for() -> None:
    subtasks = [
        {"id": "review", "kind": "foreach", "each": {"kind": "tool", "tool": "work"}},
        leaf("report", "review"),
    ]
    seen = {"review": Seen(state="running", started=0.0, children=20)}
    seen |= {f"review/{i}": done(1.0) for i in range(10)}
    interval = known(estimate(subtasks, seen, concurrency=1))
    assert interval.low < 11 < interval.high < 25


def test_retries_stretch_the_estimate() -> None:
    items = workload_of(
        {"subtasks": [leaf(f"s{i}") for i in range(40)]},
        {f"s{i}": done(1.0) for i in range(20)},
        now=0.0,
    )
    plain = known(remaining_time(items, concurrency=1))
    retried = known(remaining_time(items, concurrency=1, retry_rate=0.5))
    assert retried.high == pytest.approx(1.5 * plain.high)


def test_the_same_facts_give_the_same_interval() -> None:
    seen = {f"s{i}": done(1.0 + i) for i in range(10)}
    subtasks = [leaf(f"s{i}") for i in range(30)]
    assert estimate(subtasks, seen) == estimate(subtasks, seen)


def test_durations_of_zero_and_unknown_dependencies_do_no_harm() -> None:
    seen = {f"s{i}": done(0.0) for i in range(5)}
    interval = known(estimate([leaf(f"s{i}", "nowhere") for i in range(9)], seen))
    assert 0 <= interval.low <= interval.high < 1


def test_ten_thousand_leaves_are_estimated_quickly() -> None:
    items = [
        Item(id=f"s{i}", like="work", family="s", needs=[i - 5] if i >= 5 else [])
        for i in range(10_000)
    ]
    for item in items[:100]:
        item.state, item.took_s = "completed", 1.0
    before = time.process_time()
    interval = known(remaining_time(items, concurrency=8))
    assert time.process_time() - before < 3.0, "a status at 10,000 leaves must not take seconds"
    assert interval.low < 9_900 / 5 < interval.high
