"""Reflections and replans in the task graph: what a model's word changes, and what bounds it."""

from pathlib import Path
from typing import Any

import pytest
from graph_world import task, tool
from model_world import FakeModels, ModelWorld, agent, says

from surefoot.graph.errors import ModelUnavailable
from surefoot.graph.model_ports import Ask
from surefoot.graph.ports import WorkOrder
from surefoot.graph.values import JsonObject


@pytest.fixture
def world(tmp_path: Path) -> ModelWorld:
    return ModelWorld(tmp_path)


# --- reflections -----------------------------------------------------------------------------


async def test_criticism_reaches_the_next_attempt(world: ModelWorld) -> None:
    world.models = FakeModels(reflection=says("retry", "count from one"))
    world.agent = lambda order: 1 if order.attempt > 1 else "check_failed: it is 0"
    out = await world.run(task(agent("a")))
    assert out["status"] == "completed"
    (asked,) = world.models.calls("reflection")
    assert "check_failed: it is 0" in asked.matter
    assert "- retry:" in asked.matter
    assert "- skip:" not in asked.matter
    first, second = world.orders
    assert first.criticism == ""
    assert "it is 0" in second.criticism
    assert "count from one" in second.criticism


@pytest.mark.parametrize(
    "said",
    [says("accept"), says("rollback"), ModelUnavailable("gone"), {"choice": "retry"}, {}],
)
async def test_a_word_that_cannot_be_used_costs_no_attempt(world: ModelWorld, said: Any) -> None:
    world.models = FakeModels(reflection=said)
    world.agent = lambda order: 1 if order.attempt > 1 else "check_failed: it is 0"
    out = await world.run(task(agent("a")))
    assert out["status"] == "completed"
    assert out["records"]["a"]["ended"] == 2
    assert "it is 0" in world.orders[1].criticism


async def test_a_model_is_not_asked_about_the_wire_or_without_a_choice(world: ModelWorld) -> None:
    world.models = FakeModels(reflection=says("retry"))
    world.agent = lambda order: "model_unavailable: 503"
    await world.run(task(agent("a"), limits={"replans": 0}))
    world.agent = lambda order: "check_failed: no"
    assert world.models.asked == []


async def test_one_choice_is_no_question(world: ModelWorld) -> None:
    world.models = FakeModels(reflection=says("retry"))
    world.agent = lambda order: "check_failed: no"
    out = await world.run(task(agent("a"), limits={"replans": 0}))
    assert out["ending"]["code"] == "attempts_exhausted"
    assert world.models.asked == []


async def test_a_reflection_may_skip_what_is_skippable(world: ModelWorld) -> None:
    world.models = FakeModels(reflection=says("skip"))
    world.agent = lambda order: "check_failed: no" if order.subtask == "a" else 1
    out = await world.run(task(agent("a", skippable=True), agent("b", "a")))
    assert out["status"] == "completed"
    assert out["records"]["a"]["state"] == "skipped"
    assert out["records"]["a"]["ended"] == 1


async def test_always_retry_ends_when_the_attempts_are_used_up(world: ModelWorld) -> None:
    world.models = FakeModels(reflection=says("retry"))
    world.agent = lambda order: f"check_failed: no {'abc'[order.attempt % 3]}"
    policy = {"retries": {"max_attempts": 5, "backoff_seconds": 0}}
    out = await world.run(task(tool("t"), agent("a", "t", **policy)))
    assert out["ending"]["code"] == "attempts_exhausted"
    assert len(world.orders) == 5
    assert out["records"]["t"]["state"] == "completed"


async def test_a_failure_that_goes_in_circles_moves_to_the_next_rung(world: ModelWorld) -> None:
    world.models = FakeModels(reflection=says("retry"))
    world.agent = lambda order: f"check_failed: {'even' if order.attempt % 2 else 'odd'}"
    policy = {"retries": {"max_attempts": 9, "backoff_seconds": 0}, "skippable": True}
    out = await world.run(task(agent("a", on_failure=["skip"], **policy)))
    assert out["records"]["a"]["state"] == "skipped"
    assert len(world.orders) == 4  # A-B-A-B


async def test_other_work_goes_on_while_a_model_reflects(world: ModelWorld) -> None:
    world.models = FakeModels(reflection=says("retry"))
    world.agent = lambda order: 1 if order.attempt > 1 else "check_failed: no"
    out = await world.run(task(agent("a"), *[tool(f"t{n}") for n in range(6)]), slots=1)
    assert out["status"] == "completed"
    assert len(world.calls()) == 6


# --- replans ---------------------------------------------------------------------------------


def later(id: str, *needs: str) -> JsonObject:
    """A new subtask that is no copy of an old one."""
    return tool(id, "echo", *needs, args={"new": id}, success=[{"type": "result"}])


def full(subtask: JsonObject) -> JsonObject:
    """With every field that a model must state."""
    stated = {"name": subtask["id"], "weight": 1, "resumable": True, "skippable": False}
    if subtask["id"] == "t":
        subtask = {**subtask, "covers": ["x"], "success": [{"type": "file", "path": "."}]}
    return {**stated, **subtask}


def remainder(*subtasks: JsonObject) -> JsonObject:
    return {"phases": [], "subtasks": list(subtasks), "milestones": []}


async def test_a_reflection_replans_the_rest_and_keeps_what_is_done(world: ModelWorld) -> None:
    world.models = FakeModels(
        reflection=says("replan", "another way"), plan=remainder(later("c", "t"))
    )
    world.agent = lambda order: "check_failed: never"
    out = await world.run(task(tool("t"), agent("a", "t"), tool("b", "echo", "a")))
    assert out["status"] == "completed"
    assert [s["id"] for s in out["plan"]["subtasks"]] == ["t", "c"]
    assert out["plan"]["version"] == 2
    assert world.calls() == ["t", "c"]
    (asked,) = world.models.calls("plan")
    assert "another way" not in asked.matter or "a" in asked.matter
    assert "t (echo, completed)" in asked.matter
    assert out["replans"]["used"] == 1
    assert [d["kind"] for d in out["decisions"].values()].count("replan") == 2


async def test_faults_of_a_new_plan_go_back_until_it_holds(world: ModelWorld) -> None:
    cycle = remainder(later("c", "d"), later("d", "c"))
    other = remainder(tool("t", "fails"), later("c", "t"))
    backwards = remainder(tool("t", "echo", "c"), later("c", "t"))
    world.models = FakeModels(
        reflection=says("replan"),
        plan=[cycle, other, backwards, remainder(later("c", "t"))],
    )
    world.agent = lambda order: "check_failed: never"
    out = await world.run(task(tool("t"), agent("a", "t"), limits={"plan_rounds": 4}))
    assert out["status"] == "completed"
    asked = world.models.calls("plan")
    assert len(asked) == 4
    assert "cycle" in asked[1].matter
    assert "finished_changed" in asked[2].matter
    assert "finished_changed" in asked[3].matter
    assert world.calls() == ["t", "c"]


async def test_a_plan_that_never_holds_ends_the_task_by_its_rounds(world: ModelWorld) -> None:
    loop = remainder(later("c", "c"))
    world.models = FakeModels(reflection=says("replan"), plan=loop)
    world.agent = lambda order: "check_failed: never"
    out = await world.run(task(tool("t"), agent("a", "t"), limits={"plan_rounds": 2}))
    assert out["ending"]["code"] == "plan_rejected"
    assert len(world.models.calls("plan")) == 2
    assert out["plan"].get("version") == 1


async def test_a_model_that_replans_for_ever_is_stopped_by_the_limit(world: ModelWorld) -> None:
    number = iter(range(1, 99))

    def plan(ask: Ask) -> JsonObject:
        n = next(number)
        return remainder(agent(f"a{n}", "t", outputs=[f"{n}.md"]))

    world.models = FakeModels(reflection=says("replan"), plan=plan)
    world.agent = lambda order: f"missing_output: it did not put {order.subtask}"
    given = task(tool("t"), agent("a", "t"), limits={"replans": 2})
    out = await world.run(given)
    assert out["ending"]["code"] == "attempts_exhausted"
    assert out["replans"]["used"] == 2
    assert world.calls() == ["t"]
    assert out["records"]["t"]["state"] == "completed"


async def test_a_model_made_plan_is_replanned_by_itself_and_goes_on_with_a_raised_limit(
    world: ModelWorld,
) -> None:
    number = iter(range(1, 99))

    def plan(ask: Ask) -> JsonObject:
        n = next(number)
        if n == 1:
            return remainder(full(later("t")), full(agent("a0", "t")))
        return remainder(full(agent(f"a{n}", "t", outputs=[f"{n}.md"])))

    world.models = FakeModels(plan=plan)
    world.agent = lambda order: (
        1 if order.subtask == "a4" else f"missing_output: it did not put {order.subtask}"
    )
    goal = {"objective": "o", "acceptance": [{"id": "x", "type": "file", "path": "."}]}
    out = await world.run({"goal": goal, "limits": {"replans": 2}})
    assert out["ending"]["code"] == "attempts_exhausted"
    assert "limits.replans is 2" in out["ending"]["message"]
    assert out["plan"]["version"] == 3
    again = await world.run(None, raised={"replans": 3})
    assert again["status"] == "completed", again["ending"]
    assert again["plan"]["version"] == 4
    assert world.calls() == ["t"]


async def test_the_same_obstacle_twice_is_no_reason_for_another_replan(world: ModelWorld) -> None:
    number = iter(range(1, 99))
    world.models = FakeModels(
        reflection=says("replan"),
        plan=lambda ask: remainder(agent(f"a{next(number)}", "t")),
    )
    world.agent = lambda order: "check_failed: it is 0"
    out = await world.run(task(tool("t"), agent("a", "t")))
    assert out["ending"]["code"] == "attempts_exhausted"
    assert out["replans"]["used"] == 1


async def test_a_failed_milestone_replans_and_a_second_time_falls_to_the_next(
    world: ModelWorld,
) -> None:
    check = {"type": "result", "path": "x", "equals": 2}
    m = {"id": "m", "after": "a", "checks": [check], "on_failure": ["replan", "fail"]}
    world.models = FakeModels(
        verdict={"pass": True, "confidence": 1, "reasons": []},
        plan=remainder(later("c", "a")),
    )
    out = await world.run(task(tool("a", args={"x": 1}), tool("b", "echo", "a"), milestones=[m]))
    assert out["ending"]["code"] == "milestone_failed"
    assert out["plan"]["version"] == 2
    assert world.calls() == ["a"]


async def test_a_milestone_that_nobody_judged_ends_the_go_and_is_judged_by_the_next(
    world: ModelWorld,
) -> None:
    m = {"id": "m", "after": "a", "checks": [{"type": "judge", "rubric": "good"}]}
    good: JsonObject = {"pass": True, "confidence": 1, "reasons": []}
    world.models = FakeModels(verdict=[ModelUnavailable("503"), good])
    out = await world.run(task(tool("a"), tool("b", "echo", "a"), milestones=[m]))
    assert out["ending"]["code"] == "model_unavailable"
    again = await world.run(None)
    assert again["status"] == "completed"
    assert world.calls() == ["a", "b"]
    judged = world.models.calls("verdict")[1]
    assert "result of a" in judged.matter


async def test_a_degraded_agent_is_tried_in_full_once_more_before_the_end(
    world: ModelWorld,
) -> None:
    simpler = {"kind": "tool", "tool": "echo", "args": {"simple": True}, "improve_later": True}
    world.agent = lambda order: {"full": 1} if order.action == "improve" else "check_failed: no"
    out = await world.run(task(agent("a", on_failure=[simpler]), limits={"replans": 0}))
    assert out["status"] == "completed"
    assert out["records"]["a"]["result"] == {"value": {"full": 1}}
    assert [order.action for order in world.orders] == ["attempt", "attempt", "improve"]


async def test_a_pending_subtask_that_means_new_work_starts_afresh(world: ModelWorld) -> None:
    """It had gone down a rung that the new plan does not have, and waits for its next attempt."""
    slow = {"max_attempts": 9, "backoff_seconds": 60}
    simpler = {"kind": "agent", "instructions": "simply", "retries": slow}
    ladder = {"on_failure": [simpler], "retries": {"max_attempts": 1}}
    often = {"retries": {"max_attempts": 99, "backoff_seconds": 0}}

    def reflects(ask: Ask) -> JsonObject:
        simply = [order for order in world.orders if order.work.instructions == "simply"]
        if ask.subtask == "b":
            return says("retry" if "- retry:" in ask.matter else "degrade")
        return says("replan" if simply else "retry")

    def work(order: WorkOrder) -> Any:
        fine = order.work.instructions == "b anew"
        return 1 if fine else f"check_failed: {'abcdefghijklmnopqrstuvwxyz'[order.attempt % 26]}"

    world.agent = work
    anew: JsonObject = {"instructions": "b anew", "depends_on": []}
    world.models = FakeModels(reflection=reflects, plan=remainder(agent("b", **anew)))
    out = await world.run(task(agent("b", **ladder), agent("a", **often)))
    assert out["status"] == "completed", out["ending"]
    assert out["records"]["b"].get("rung", 0) == 0


async def test_a_resumed_replan_does_not_ask_again_for_what_was_answered(
    world: ModelWorld,
) -> None:
    world.models = FakeModels(reflection=says("replan"), plan=remainder(later("c", "t")))
    world.agent = lambda order: "check_failed: never"
    seen: list[str] = []

    class Killed(BaseException):
        pass

    def dies(type: str, **facts: Any) -> None:
        seen.append(type)
        if type == "PlanReplaced" and seen.count(type) == 1:
            raise Killed

    kept = world.journal.event
    world.journal.event = dies  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(Killed):
        await world.run(task(tool("t"), agent("a", "t")))
    world.journal.event = kept  # pyright: ignore[reportAttributeAccessIssue]
    out = await world.run(None)
    assert out["status"] == "completed"
    assert len(world.models.calls("plan")) == 1
    assert world.calls() == ["t", "c"]
