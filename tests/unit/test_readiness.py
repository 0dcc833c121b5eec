"""The ready set: needs before dependants, plan order, containers, milestones, delays."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from surefoot.graph.index import PlanIndex
from surefoot.graph.readiness import ReadySet
from surefoot.graph.values import Record

DONE = Record(state="completed")
RUNNING = Record(state="running")


def tool(id: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "kind": "tool", "tool": "t", "depends_on": list(needs), **more}


def each(id: str, *needs: str) -> dict[str, Any]:
    return {
        "id": id,
        "kind": "foreach",
        "for_each": [],
        "each": {"kind": "tool", "tool": "t"},
        "depends_on": list(needs),
    }


def ready_set(*subtasks: dict[str, Any], **plan: Any) -> ReadySet:
    return ReadySet(PlanIndex({"subtasks": list(subtasks), **plan}), {}, ())


@st.composite
def dags(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(1, 25))
    return [
        tool(f"s{n}", *(f"s{m}" for m in range(n) if draw(st.integers(0, 4)) == 0))
        for n in range(count)
    ]


@given(dags(), st.randoms(use_true_random=False))
def test_no_subtask_is_ready_before_its_needs_and_all_are_in_the_end(
    subtasks: list[dict[str, Any]], random: Any
) -> None:
    needs = {s["id"]: set(s["depends_on"]) for s in subtasks}
    ready = ready_set(*subtasks)
    done: set[str] = set()
    running: list[str] = []
    while len(done) < len(subtasks):
        for id in ready.take(random.randint(1, 4), 0.0):
            assert needs[id] <= done
            ready.update(id, RUNNING)
            running.append(id)
        assert running, "nothing runs and nothing is ready"
        ended = running.pop(random.randrange(len(running)))
        done.add(ended)
        ready.update(ended, DONE)
    assert ready.open == 0
    assert ready.idle()


@given(dags(), st.integers(0, 25))
def test_a_set_rebuilt_from_records_offers_the_same(
    subtasks: list[dict[str, Any]], steps: int
) -> None:
    live = ready_set(*subtasks)
    records: dict[str, Record] = {}
    for _ in range(steps):
        for id in live.take(1, 0.0):
            records[id] = DONE
            live.update(id, DONE)
    rebuilt = ReadySet(PlanIndex({"subtasks": subtasks}), records, ())
    assert rebuilt.open == live.open
    assert rebuilt.take(100, 0.0) == live.take(100, 0.0)


def test_ready_subtasks_come_in_plan_order() -> None:
    ready = ready_set(tool("c"), tool("a"), tool("b", "c"), tool("d"))
    assert ready.take(10, 0.0) == ["c", "a", "d"]


def test_a_skipped_need_counts_as_done() -> None:
    ready = ready_set(tool("a"), tool("b", "a"))
    ready.take(1, 0.0)
    ready.update("a", Record(state="skipped"))
    assert ready.take(1, 0.0) == ["b"]


def test_a_delayed_subtask_blocks_nobody_and_starts_when_it_is_due() -> None:
    ready = ready_set(tool("a"), tool("b"))
    ready.take(1, 0.0)
    ready.update("a", RUNNING)
    ready.update("a", Record(state="pending", not_before=10.0))
    assert ready.take(5, 9.0) == ["b"]
    assert ready.next_due() == 10.0
    assert ready.take(5, 10.0) == ["a"]


def test_a_rebuilt_set_does_not_forget_a_delay() -> None:
    index = PlanIndex({"subtasks": [tool("a")]})
    ready = ReadySet(index, {"a": Record(state="pending", not_before=10.0)}, ())
    assert ready.take(1, 9.0) == []
    assert ready.take(1, 10.0) == ["a"]


def test_a_foreach_expands_runs_its_children_and_is_gathered_once() -> None:
    ready = ready_set(each("review"), tool("report", "review"))
    assert ready.take_expansions() == ["review"]
    ready.update("review", Record(state="running"))
    ready.update("review", Record(state="running", n=2))
    assert ready.take(5, 0.0) == ["review/0", "review/1"]
    ready.update("review/1", DONE)
    assert ready.take_gathers() == []
    ready.update("review/0", DONE)
    assert ready.take_gathers() == ["review"]
    assert ready.take(5, 0.0) == []
    ready.update("review", Record(state="completed", n=2))
    assert ready.take(5, 0.0) == ["report"]


def test_an_empty_foreach_is_gathered_at_once() -> None:
    ready = ready_set(each("review"))
    ready.take_expansions()
    ready.update("review", Record(state="running", n=0))
    assert ready.take_gathers() == ["review"]


def test_children_that_write_the_same_paths_run_one_at_a_time() -> None:
    ready = ready_set(each("review"))
    ready.take_expansions()
    ready.update("review", Record(state="running", n=3, serial=True))
    order: list[str] = []
    while ids := ready.take(5, 0.0):
        assert len(ids) == 1
        ready.update(ids[0], RUNNING)
        assert ready.take(5, 0.0) == []
        ready.update(ids[0], DONE)
        order += ids
    assert order == ["review/0", "review/1", "review/2"]


def test_a_foreach_half_done_is_taken_up_again() -> None:
    records = {
        "review": Record(state="running", n=3),
        "review/0": DONE,
        "review/2": Record(state="pending", cut=True),
    }
    ready = ReadySet(PlanIndex({"subtasks": [each("review")]}), records, ())
    assert ready.take_expansions() == []
    assert ready.take(5, 0.0) == ["review/1", "review/2"]


def test_a_delay_that_seems_longer_than_any_is_over_for_the_clock_was_set_back() -> None:
    index = PlanIndex({"subtasks": [tool("a")]})
    ready = ReadySet(index, {"a": Record(state="pending", not_before=1000.0)}, ())
    assert ready.take(5, 940.0) == []
    assert ready.take(5, 939.0) == ["a"]


def test_a_milestone_is_due_when_every_subtask_of_its_phase_is_done() -> None:
    ready = ready_set(
        tool("a", phase="p"),
        tool("b", phase="p"),
        tool("c"),
        phases=[{"id": "p"}],
        milestones=[{"id": "m", "after": "p"}],
    )
    ready.take(3, 0.0)
    ready.update("a", DONE)
    assert ready.due == []
    ready.update("b", Record(state="skipped"))
    assert ready.due == ["m"]
    ready.milestone_passed("m")
    assert ready.due == []


def test_nothing_is_queued_behind_work_that_could_bring_a_milestone_due() -> None:
    ready = ready_set(tool("a"), tool("b"), tool("c", "a"), milestones=[{"id": "m", "after": "a"}])
    assert ready.may_reach_milestone(["a", "b"])
    assert not ready.may_reach_milestone(["b"])


def test_a_blocked_subtask_is_not_offered_until_its_question_is_closed() -> None:
    ready = ready_set(tool("a"))
    ready.take(1, 0.0)
    ready.update("a", Record(state="pending", question="q1"))
    assert ready.blocked == {"a"}
    assert ready.take(1, 0.0) == []
    ready.update("a", Record(state="pending"))
    assert ready.take(1, 0.0) == ["a"]
