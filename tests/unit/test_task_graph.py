"""The task graph over stand-ins in memory: what starts, what waits, and how a task ends."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import ok
from graph_world import World, task, tool

from surefoot.graph.build import build_task_graph
from surefoot.graph.ports import ToolCall, ToolReply
from surefoot.graph.values import JsonObject


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_a_plan_with_everything_runs_to_its_end(world: World) -> None:
    world.host.add("list", lambda call: ok({"files": ["a", "b", "c"]}))
    once = {"max_attempts": 1}
    each = {"kind": "tool", "tool": "echo", "args": {"x": "${item}", "n": "${index}"}}
    simple = {"kind": "tool", "tool": "echo", "args": {"simple": 1}, "improve_later": True}
    out = await world.run(
        task(
            tool("l", "list", phase="p"),
            {"id": "r", "kind": "foreach", "for_each": "${l.files}", "each": each, "phase": "p"}
            | {"depends_on": ["l"]},
            tool("d", "fails", "l", retries=once, on_failure=[simple]),
            tool("s", "fails", "d", retries=once, skippable=True, on_failure=["skip"]),
            tool("z", "echo", "s", "r", args={"s": "${s.result}", "d": "${d.simple}", "r": "${r}"}),
            phases=[{"id": "p"}],
            milestones=[
                {"id": "m", "after": "p"},
                {"id": "n", "after": "z", "checks": [{"type": "result", "path": "d", "equals": 1}]},
            ],
        )
    )
    assert (out["status"], out["ending"]) == ("completed", None)
    records = out["records"]
    assert records["z"]["result"]["value"]["r"] == [
        {"x": x, "n": n} for n, x in enumerate(["a", "b", "c"])
    ]
    assert records["s"]["state"] == "skipped"
    assert records["z"]["result"]["value"]["s"] is None
    # d: one full go, one rung, one more full go before acceptance.
    assert (records["d"]["ended"], records["d"]["rung"], records["d"]["improved"]) == (3, 1, True)
    assert world.journal.columns["milestones"]["passed"] == 2


async def test_a_full_try_that_succeeds_replaces_the_degraded_result(world: World) -> None:
    answers = iter([ToolReply(status="error", message="no"), ok({"full": True})])
    world.host.add("once", lambda call: next(answers))
    simple = {"kind": "tool", "tool": "echo", "improve_later": True}
    out = await world.run(task(tool("a", "once", retries={"max_attempts": 1}, on_failure=[simple])))
    record = out["records"]["a"]
    assert record["result"]["value"] == {"full": True}
    assert "rung" not in record and record["ended"] == 3


async def test_attempts_used_up_end_the_task_and_leave_the_rest_pending(world: World) -> None:
    retries = {"max_attempts": 2, "backoff_seconds": 0}
    out = await world.run(task(tool("a", "fails", retries=retries), tool("b", "echo", "a")))
    assert out["status"] == "failed"
    assert out["ending"]["code"] == "attempts_exhausted"
    assert out["ending"]["subtask"] == "a"
    assert out["records"]["a"]["ended"] == 2 and "b" not in out["records"]


async def test_nothing_that_waits_starts_after_a_failure_for_good(world: World) -> None:
    world.host.add("boom", lambda call: ToolReply(status="error", message="no"))
    rest = [tool(f"b{n}") for n in range(5)]
    out = await world.run(task(tool("a", "boom", retries={"max_attempts": 1}), *rest), slots=1)
    assert out["status"] == "failed"
    assert world.calls() == ["a"]
    assert all(out["records"].get(s["id"], {}).get("state", "pending") == "pending" for s in rest)


async def test_later_work_starts_only_after_the_milestone_passed(world: World) -> None:
    seen: list[str] = []

    def noting(call: ToolCall) -> ToolReply:
        seen.append(f"{call.subtask} {world.journal.types().count('MilestonePassed')}")
        return ok(1)

    world.host.add("note", noting)
    await world.run(
        task(
            tool("a", "note"),
            *(tool(f"b{n}", "note") for n in range(3)),
            milestones=[{"id": "m", "after": "a"}],
        ),
        slots=1,
    )
    assert seen == ["a 0", "b0 1", "b1 1", "b2 1"]


async def test_a_failed_milestone_falls_through_its_choices_and_says_so(world: World) -> None:
    check = {"type": "result", "path": "x", "equals": 2}
    m = {"id": "m", "after": "a", "checks": [check], "on_failure": ["rollback", "replan"]}
    given = task(
        tool("a", args={"x": 1}), tool("b", "echo", "a"), milestones=[m], limits={"rollbacks": 0}
    )
    out = await world.run(given)
    assert out["ending"]["code"] == "milestone_failed"
    assert "'m'" in out["ending"]["message"]
    passed_over = [
        facts["choice"]
        for type, facts in world.journal.events
        if type == "MilestoneChoiceUnavailable"
    ]
    assert passed_over == ["rollback", "replan"]
    assert world.calls() == ["a"]


async def test_a_failed_milestone_asks_and_is_judged_again_when_told_to(world: World) -> None:
    there = world.bench.folder / "workspace" / "there.txt"
    check = {"type": "file", "path": str(there)}
    m = {"id": "m", "after": "a", "checks": [check], "on_failure": ["ask"]}
    out = await world.run(task(tool("a"), tool("b", "echo", "a"), milestones=[m]))
    assert out["status"] == "waiting"
    assert [q["id"] for q in out["questions"]] == ["milestone-m-1"]
    assert (await world.run(None))["questions"] == out["questions"]
    await world.answer("milestone-m-1", "judge")
    again = await world.run(None)
    assert [q["id"] for q in again["questions"]] == ["milestone-m-2"]
    there.write_text("now")
    await world.answer("milestone-m-2", "judge")
    done = await world.run(None)
    assert done["status"] == "completed"
    assert world.calls() == ["a", "b"]


async def test_exactly_max_steps_are_made_and_a_raised_limit_goes_on(world: World) -> None:
    chain = [tool(f"s{n}", "echo", *([f"s{n - 1}"] if n else [])) for n in range(5)]
    out = await world.run(task(*chain, budget={"max_steps": 3}))
    assert out["ending"]["code"] == "budget_exhausted"
    assert world.calls() == ["s0", "s1", "s2"]
    out = await world.run(None, raised={"max_steps": 5})
    assert out["status"] == "completed"
    assert world.calls() == [f"s{n}" for n in range(5)]


async def test_a_running_foreach_reserves_no_step_when_a_limit_is_raised(world: World) -> None:
    world.host.add("list", lambda call: ok(list(range(10))))
    each = {"kind": "tool", "tool": "echo", "args": {"n": "${item}"}}
    foreach = {"id": "r", "kind": "foreach", "for_each": "${l}", "each": each, "depends_on": ["l"]}
    out = await world.run(task(tool("l", "list"), foreach, budget={"max_steps": 6}))
    assert len(world.calls()) == 6
    out = await world.run(None, raised={"max_steps": 8})
    assert (out["ending"]["code"], len(world.calls())) == ("budget_exhausted", 8)
    out = await world.run(None, raised={"max_steps": 11})
    assert (out["status"], len(world.calls())) == ("completed", 11)


async def test_steps_in_parallel_hold_the_limit_too(world: World) -> None:
    out = await world.run(task(*(tool(f"s{n}") for n in range(20)), budget={"max_steps": 7}))
    assert out["ending"]["code"] == "budget_exhausted"
    assert len(world.calls()) == 7


async def test_one_failure_more_than_allowed_ends_the_task(world: World) -> None:
    retries = {"max_attempts": 10, "backoff_seconds": 0}
    out = await world.run(task(tool("a", "fails", retries=retries), budget={"max_failures": 2}))
    assert out["ending"]["code"] == "too_many_failures"
    assert out["records"]["a"]["ended"] == 3


async def test_the_deadline_cuts_harmless_calls(world: World) -> None:
    world.host.add("hangs", lambda call: asyncio.get_running_loop().create_future())
    later = [0.0]
    given = task(tool("a", "hangs"), budget={"max_seconds": 100})
    run = asyncio.create_task(world.run(given, clock=lambda: time.time() + later[0]))
    while not world.host.in_flight:
        await asyncio.sleep(0.005)
    later[0] = 200.0
    world.control.on_change()
    out = await run
    assert out["ending"]["code"] == "deadline"
    assert out["records"]["a"]["state"] == "pending"
    assert out["records"]["a"].get("ended", 0) == 0


async def test_a_plan_in_which_nothing_can_move_is_stuck_at_once(world: World) -> None:
    out = await world.run(task(tool("a", "echo", "b"), tool("b", "echo", "a"), tool("c")))
    assert out["ending"]["code"] == "stuck"
    assert "a, b" in out["ending"]["message"]
    assert world.calls() == ["c"]


async def test_acceptance_fails_on_evidence(world: World) -> None:
    world_task = task(tool("a"))
    world_task["goal"]["acceptance"] = [{"id": "a1", "type": "artifact", "name": "x.csv"}]
    out = await world.run(world_task)
    assert out["ending"]["code"] == "acceptance_failed"
    assert "a1" in out["ending"]["message"]


async def stopped(world: World, how: Any, when: Callable[[], bool], given: JsonObject) -> Any:
    run = asyncio.create_task(world.run(given))
    async with asyncio.timeout(10):
        while not when():
            await asyncio.sleep(0.005)
    world.control.stop(how)
    return await run


async def test_pause_lets_what_runs_end_and_resume_goes_on(world: World) -> None:
    gate: list[asyncio.Future[ToolReply]] = []

    def waits(call: ToolCall) -> asyncio.Future[ToolReply]:
        gate.append(asyncio.get_running_loop().create_future())
        return gate[-1]

    world.host.add("waits", waits)
    given = task(tool("a", "waits"), tool("b", "echo", "a"))
    run = asyncio.create_task(stopped(world, "pause", lambda: bool(gate), given))
    async with asyncio.timeout(10):
        while world.control.stopping() is None:
            await asyncio.sleep(0.005)
    while not world.journal.columns.get("stopping"):
        await asyncio.sleep(0.005)
    gate[0].set_result(ok("done"))
    out = await run
    assert out["status"] == "paused"
    assert world.journal.columns["stopping"] is False
    assert out["records"]["a"]["state"] == "completed" and world.calls() == ["a"]
    out = await world.run(None)
    assert out["status"] == "completed"
    assert world.calls() == ["a", "b"]


@pytest.mark.parametrize("how", ["now", "cancel"])
async def test_a_stop_at_once_cuts_what_runs(world: World, how: str) -> None:
    world.host.add("hangs", lambda call: asyncio.get_running_loop().create_future())
    given = task(tool("a", "hangs"), tool("b"))
    out = await stopped(world, how, lambda: bool(world.host.in_flight), given)
    assert out["status"] == ("cancelled" if how == "cancel" else "paused")
    record = out["records"]["a"]
    assert (record["state"], record["attempt"], record.get("ended", 0)) == ("pending", 1, 0)


async def test_a_crashed_attempt_keeps_its_number_and_counts_nowhere(world: World) -> None:
    answers: list[Any] = [None, ok(1)]

    def hangs_once(call: ToolCall) -> Any:
        return answers.pop(0) or asyncio.get_running_loop().create_future()

    world.host.add("once", hangs_once)
    run = asyncio.create_task(world.run(task(tool("a", "once"))))
    async with asyncio.timeout(10):
        while not world.host.in_flight:
            await asyncio.sleep(0.005)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    out = await world.run(None)
    assert out["status"] == "completed"
    assert (out["records"]["a"]["attempt"], out["records"]["a"]["ended"]) == (2, 1)
    assert "AttemptCut" in world.journal.types()


async def test_an_unknown_effect_waits_for_a_person_and_resume_probes_again(world: World) -> None:
    world_knows = [ToolReply(status="error", message="cannot tell"), ok({"sent": 1})]
    world.host.add(
        "send",
        lambda call: ToolReply(status="timeout", message="no answer"),
        effect="irreversible",
        probe=lambda call: world_knows.pop(0),
    )
    out = await world.run(task(tool("a", "send"), tool("b"), tool("c", "echo", "a")))
    assert out["status"] == "waiting"
    assert sorted(world.calls()) == ["a", "b"], "other work goes on meanwhile"
    (question,) = out["questions"]
    assert question["kind"] == "unknown_effect" and "resume" in question["text"]
    out = await world.run(None)
    assert out["status"] == "completed"
    assert out["records"]["a"]["result"]["value"] == {"sent": 1}
    assert sorted(world.calls()) == ["a", "b", "c"], "the call itself was made once"
    assert world.journal.questions[question["id"]]["open"] is False


async def test_an_ask_rung_waits_for_its_answer_and_tries_in_full_once_more(world: World) -> None:
    answers = [ToolReply(status="error", message="no"), ok(2)]
    world.host.add("once", lambda call: answers.pop(0))
    once = {"max_attempts": 1}
    out = await world.run(task(tool("a", "once", retries=once, on_failure=["ask"])))
    (question,) = out["questions"]
    assert (out["status"], question["kind"]) == ("waiting", "ask")
    out = await world.run(None)
    assert out["questions"] == [question], "a resume is no answer"
    out = await world.answer(question["id"], "retry")
    assert (out["status"], out["questions"]) == ("paused", [])
    out = await world.run(None)
    assert (out["status"], out["records"]["a"]["result"]["value"]) == ("completed", 2)


async def test_a_changed_input_stops_a_resumed_task_until_it_is_put_back(world: World) -> None:
    await world.run(task(tool("a"), tool("b", "echo", "a"), budget={"max_steps": 1}))
    expected = {"input": {"/data": "1"}}
    raised = {"max_steps": 9}
    out = await world.run(
        None, raised=raised, expected=expected, manifest={"input": {"/data": "2"}}
    )
    assert out["status"] == "waiting"
    assert "/data has changed" in out["questions"][0]["text"]
    assert world.calls() == ["a"]
    out = await world.run(None, raised=raised, expected=expected, manifest=expected)
    assert out["status"] == "completed"


async def test_a_task_of_another_graph_version_is_refused(world: World) -> None:
    await world.run(task(tool("a"), tool("b", "echo", "a"), budget={"max_steps": 1}))
    graph = build_task_graph(context=world.worker()).compile(checkpointer=world.saver)
    config: Any = {"configurable": {"thread_id": "t1"}}
    await graph.aupdate_state(config, {"graph_version": 99}, as_node="load")
    with pytest.raises(Exception, match="graph version 99"):
        await world.run(None)


async def test_a_long_chain_is_not_ended_by_the_recursion_limit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A subtask in a chain takes three supersteps: the default of 10,007 would end 3,400 of them,
    # a default of 25 ends 20.
    monkeypatch.setattr("langgraph._internal._config.DEFAULT_RECURSION_LIMIT", 25)
    chain = [tool(f"s{n}", "echo", *([f"s{n - 1}"] if n else [])) for n in range(20)]
    out = await world.run(task(*chain))
    assert out["status"] == "completed"
    assert len(world.calls()) == 20


async def test_a_goal_changed_behind_its_pin_is_never_gone_on_with(world: World) -> None:
    simple = task(tool("a"), tool("b", "fails", "a", retries={"max_attempts": 1}))
    await world.run(simple)
    graph = build_task_graph(context=world.worker()).compile(checkpointer=world.saver)
    config: Any = {"configurable": {"thread_id": "t1"}}
    await graph.aupdate_state(config, {"goal": {"objective": "another"}}, as_node="load")
    out = await world.run(None)
    assert out["status"] == "waiting"
    (question,) = out["questions"]
    assert question["kind"] == "inconsistent_state"
    assert "without pinning its head anew" in question["text"]
    assert world.calls() == ["a", "b"]
