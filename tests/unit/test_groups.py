"""Groups over stand-ins in memory: their plans, what they may see, how they end and go on."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fakes import ok
from group_worlds import GroupWorld, group, task, tool

from surefoot.graph.ports import ToolCall, ToolReply


@pytest.fixture
def world(tmp_path: Path) -> GroupWorld:
    return GroupWorld(tmp_path)


async def test_a_group_runs_its_plan_between_its_inputs_and_its_outputs(world: GroupWorld) -> None:
    inner = (
        tool("a", args={"x": "${inputs.x}"}),
        tool("b", "echo", "a", args={"y": "${a.x}"}),
    )
    out = await world.run(
        task(
            tool("first", args={"x": 7}),
            group("g", *inner, needs=("first",), inputs={"x": "${first.x}"})
            | {"outputs": {"y": "${b.y}", "all": "${b.result}"}},
            tool("last", "echo", "g", args={"y": "${g.y}", "all": "${g.all.y}"}),
        )
    )
    assert (out["status"], out["ending"]) == ("completed", None)
    assert out["records"]["last"]["result"]["value"] == {"y": 7, "all": 7}
    assert world.calls() == ["first", "g/a", "g/b", "last"]
    assert world.rows.subtasks["g/b"]["state"] == "completed"
    assert world.rows.subtasks["g"]["state"] == "completed"
    assert world.rows.told("SubtaskCompleted") == [
        ("SubtaskCompleted", id) for id in ("first", "g/a", "g/b", "g", "last")
    ]
    assert world.rows.task["total"] == 4 and world.usage["steps"] == 4


async def test_groups_nest_and_stand_in_foreach_and_hold_foreach(world: GroupWorld) -> None:
    deep = tool("t", args={"v": "${inputs.v}"})
    for level in range(6):
        deep = group(f"g{level}", deep, inputs={"v": "${inputs.v}"}, outputs={"v": _up(level)})
    each = {
        "kind": "group",
        "inputs": {"v": "${item}"},
        "plan": {"subtasks": [deep]},
        "outputs": {"v": "${g5.v}"},
    }
    many = {"id": "many", "kind": "foreach", "for_each": [1, 2, 3], "each": each}
    echo = {"kind": "tool", "tool": "echo", "args": {"i": "${item}"}}
    listed = {"id": "l", "kind": "foreach", "for_each": "${inputs.l}", "each": echo}
    out = await world.run(
        task(many, group("h", listed, inputs={"l": [4, 5]}, outputs={"r": "${l}"}))
    )
    assert (out["status"], out["ending"]) == ("completed", None)
    assert out["records"]["many"]["result"]["value"] == [{"v": n} for n in (1, 2, 3)]
    assert out["records"]["h"]["result"]["value"] == {"r": [{"i": 4}, {"i": 5}]}
    assert "many/1/g5/g4/g3/g2/g1/g0/t" in world.calls()
    assert world.rows.task["total"] == 5


def _up(level: int) -> str:
    return "${t.v}" if level == 0 else f"${{g{level - 1}.v}}"


async def test_all_groups_together_never_take_more_than_the_slots(world: GroupWorld) -> None:
    running, most = 0, 0

    def slow(call: ToolCall) -> "asyncio.Future[ToolReply]":
        nonlocal running, most
        running += 1
        most = max(most, running)
        future: asyncio.Future[ToolReply] = asyncio.get_running_loop().create_future()

        def end() -> None:
            nonlocal running
            running -= 1
            future.set_result(ok(1))

        asyncio.get_running_loop().call_later(0.01, end)
        return future

    world.host.add("slow", slow)
    groups = [group(f"g{n}", *(tool(f"t{m}", "slow") for m in range(5))) for n in range(6)]
    out = await world.run(task(*groups, *(tool(f"x{n}", "slow") for n in range(4))), slots=3)
    assert (out["status"], out["ending"]) == ("completed", None)
    assert most == 3 and len(world.calls()) == 34


async def test_a_leaf_that_fails_for_good_fails_its_group_and_the_ladder_goes_on(
    world: GroupWorld,
) -> None:
    once = {"max_attempts": 1}
    bad = tool("bad", "fails", retries=once)
    simple = {"kind": "tool", "tool": "echo", "args": {"simple": 1}}
    out = await world.run(
        task(
            group("g", tool("good"), bad, on_failure=[simple]),
            group("s", tool("bad", "fails", retries=once), skippable=True, on_failure=["skip"]),
            tool("z", "echo", "g", "s", args={"g": "${g.simple}", "s": "${s.result}"}),
        )
    )
    assert (out["status"], out["ending"]) == ("completed", None)
    assert out["records"]["z"]["result"]["value"] == {"g": 1, "s": None}
    assert "'g/bad' failed after 1 attempt" in out["records"]["g"]["reason"]


async def test_what_was_skipped_outside_is_null_inside_and_skips_what_cannot_do_without(
    world: GroupWorld,
) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    world.host.add("reads", lambda call: ok(call.args), schema=schema)
    skipped = tool("s", "fails", retries={"max_attempts": 1}, skippable=True, on_failure=["skip"])
    reads = tool("reads", "reads", args={"text": "${inputs.text}"}, skippable=True)
    shows = tool("shows", args={"text": "${inputs.text}"})
    inside = group("g", reads, shows, needs=("s",), inputs={"text": "${s.text}"})
    inside["outputs"] = {"read": "${reads}", "shown": "${shows}"}
    out = await world.run(task(skipped, inside))
    assert (out["status"], out["ending"]) == ("completed", None)
    assert out["records"]["g"]["result"]["value"] == {"read": None, "shown": {"text": None}}


async def test_without_a_ladder_the_task_fails_and_names_the_leaf(world: GroupWorld) -> None:
    bad = tool("bad", "fails", retries={"max_attempts": 2, "backoff_seconds": 0})
    out = await world.run(task(group("g", group("h", bad)), tool("z", "echo", "g")))
    assert (out["status"], out["ending"]["code"]) == ("failed", "attempts_exhausted")
    assert "'g/h/bad' failed after 2 attempts" in out["ending"]["message"]
    assert world.usage["failures"] == 2
    assert world.rows.task["status"] == "failed"


async def test_a_groups_own_checks_are_asked_once_at_its_end(world: GroupWorld) -> None:
    def checked(equals: int) -> Any:
        return [{"type": "result", "path": "n", "equals": equals}]

    outputs = {"n": "${a.n}"}
    simple: Any = {"kind": "tool", "tool": "echo", "args": {"n": 9}, "success": []}
    out = await world.run(
        task(
            group("good", tool("a", args={"n": 1}), outputs=outputs, success=checked(1)),
            group("bad", tool("a", args={"n": 1}), outputs=outputs, success=checked(2))
            | {"on_failure": [simple]},
        )
    )
    assert (out["status"], out["ending"]) == ("completed", None)
    assert out["records"]["good"]["result"]["value"] == {"n": 1}
    assert out["records"]["bad"]["rung"] == 1
    assert world.calls().count("bad/a") == 1


async def test_a_budget_of_a_group_fails_the_group_and_not_the_task(world: GroupWorld) -> None:
    chain = [tool("a"), tool("b", "echo", "a"), tool("c", "echo", "b")]
    simple: Any = {"kind": "tool", "tool": "echo", "args": {}}
    out = await world.run(
        task(
            group("g", *chain, budget={"max_steps": 2}, on_failure=[simple]),
            group("h", *chain, budget={"max_steps": 3}),
        )
    )
    assert (out["status"], out["ending"]) == ("completed", None)
    assert "max_steps is 2" in out["records"]["g"]["reason"]
    assert out["records"]["g"]["rung"] == 1 and "rung" not in out["records"]["h"]
    assert world.usage["steps"] == 2 + 1 + 3


async def test_the_tasks_own_limit_ends_the_task_from_inside_a_group(world: GroupWorld) -> None:
    chain = [tool("a"), tool("b", "echo", "a"), tool("c", "echo", "b")]
    given = task(group("g", *chain), budget={"max_steps": 2})
    out = await world.run(given)
    assert (out["status"], out["ending"]["code"]) == ("failed", "budget_exhausted")
    assert world.calls() == ["g/a", "g/b"]
    out = await world.run(given, again=True, raised={"max_steps": 3})
    assert (out["status"], out["ending"]) == ("completed", None)
    assert world.calls() == ["g/a", "g/b", "g/c"]


async def test_a_pause_saves_what_is_inside_and_resume_goes_on_there(world: GroupWorld) -> None:
    def pausing(call: ToolCall) -> ToolReply:
        world.control.stop("pause")
        return ok(1)

    world.host.add("pausing", pausing)
    chain = [tool("a", "pausing"), tool("b", "echo", "a")]
    given = task(group("g", group("h", *chain)))
    out = await world.run(given)
    assert out["status"] == "paused" and world.calls() == ["g/h/a"]
    out = await world.run(given, again=True)
    assert out["status"] == "completed" and world.calls() == ["g/h/a", "g/h/b"]


async def test_cancel_cuts_everything_inside(world: GroupWorld) -> None:
    def never(call: ToolCall) -> "asyncio.Future[ToolReply]":
        asyncio.get_running_loop().call_soon(world.control.stop, "cancel")
        return asyncio.get_running_loop().create_future()

    world.host.add("never", never)
    out = await world.run(task(group("g", group("h", tool("a", "never")), tool("b", "never"))))
    assert out["status"] == "cancelled"
    assert not world.host.in_flight


async def test_a_question_inside_holds_the_group_back_and_others_go_on(world: GroupWorld) -> None:
    answers = iter([ToolReply(status="error", message="no"), ok({"mended": True})])
    world.host.add("once", lambda call: next(answers))
    asking = tool("a", "once", retries={"max_attempts": 1}, on_failure=["ask"])
    given = task(group("g", asking, outputs={"m": "${a.mended}"}), tool("b"))
    out = await world.run(given)
    assert out["status"] == "waiting"
    (question,) = world.rows.questions.values()
    assert question["subtask"] == "g/a" and question["open"]
    assert out["records"]["b"]["state"] == "completed"
    out = await world.run(given, again=True)
    assert out["status"] == "waiting"
    assert (await world.answer(given, question["id"], "retry"))["status"] == "paused"
    assert not question["open"] and question["answer"] == {"choice": "retry"}
    out = await world.run(given, again=True)
    assert (out["status"], out["ending"]) == ("completed", None)
    assert out["records"]["g"]["result"]["value"] == {"m": True}
    assert len(world.rows.told("QuestionAsked")) == 1


async def test_a_milestone_inside_is_judged_before_later_work_inside(world: GroupWorld) -> None:
    check = {"type": "result", "path": "n", "equals": 1}
    milestone = {"id": "m", "after": "a", "checks": [check]}
    inner = [tool("a", args={"n": 1}), tool("b", "echo", "a")]
    out = await world.run(task(group("g", *inner, milestones=[milestone])))
    assert (out["status"], out["ending"]) == ("completed", None)
    assert world.rows.told("MilestonePassed") == [("MilestonePassed", "g")]


async def test_a_milestone_beside_a_group_waits_for_what_runs_in_it(world: GroupWorld) -> None:
    seen: list[tuple[str, int]] = []

    def noting(call: ToolCall) -> ToolReply:
        seen.append((call.subtask, len(world.rows.told("MilestonePassed"))))
        return ok(1)

    world.host.add("note", noting)
    chain = [tool("a", "note")]
    chain += [tool(f"t{n}", "note", chain[-1]["id"] if n == 0 else f"t{n - 1}") for n in range(5)]
    out = await world.run(
        task(group("g", *chain), tool("x"), milestones=[{"id": "m", "after": "x"}])
    )
    assert (out["status"], out["ending"]) == ("completed", None)
    assert world.calls().count("g/a") == 1 and seen[-1] == ("g/t4", 1)


async def test_a_group_too_deep_is_refused_when_it_would_begin(world: GroupWorld) -> None:
    deep = group("g", group("h", tool("a")))
    out = await world.run(task(deep, limits={"depth": 1}))
    assert out["status"] == "failed" and "limits.depth (1)" in out["ending"]["message"]
