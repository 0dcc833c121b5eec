"""Agents through the command, against a scripted server: to the end, through kills, replayed."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, Seen, call_tool, calls, finish, say, silent
from replays import MATERIAL, Replays
from scenes import Scene, lines, task, until

from surefoot.graph.settings import Settings


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Any:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def agent(id: str, **more: Any) -> dict[str, Any]:
    given = {"id": id, "kind": "agent", "instructions": "Do it.", "tools": ["echo"]}
    return {**given, "success": [{"type": "result"}], **more}


def roles(seen: Seen) -> str:
    """The roles of a request by their first letters."""
    return "".join(message["role"][0] for message in seen.messages)


def test_an_agent_runs_to_its_end(scene: Scene, models: ModelServer) -> None:
    models.on(
        "agent",
        call_tool("echo", {"value": [1, 2]}),
        say("I think I am done."),
        calls([("nothing", {}), ("echo", {"wrong": 1})]),
        finish({"sum": 3}),
    )
    file = scene.file(task([agent("adds")], model="m"))
    done = scene.process("run", file, "--id", "t", "--json")
    assert done.code == 0, done.err
    assert done.document["usage"]["steps"] == 5
    assert done.document["usage"]["tokens"] > 0
    assert scene.process("result", "t", "adds", "--json").document == {"sum": 3}
    first, *_, last = models.of("agent")
    assert [tool["function"]["name"] for tool in first.body["tools"]][:2] == ["echo", "finish"]
    assert "there is no tool 'nothing'" in str(last.messages[-2]["content"])
    assert all(seen.messages[0] == first.messages[0] for seen in models.of("agent"))


def test_a_task_with_an_agent_and_no_model_is_refused(scene: Scene) -> None:
    done = scene.process("run", scene.file(task([agent("adds")])), "--json")
    assert (done.code, done.error["code"]) == (2, "missing_model")


def killed(process: "subprocess.Popen[bytes]") -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait(30)


async def test_a_kill_inside_a_model_call_loses_no_paid_reply(
    scene: Scene, models: ModelServer, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    models.on("agent", call_tool("mark", {"file": str(marks)}), silent())
    file = scene.file(task([agent("a", tools=["mark"])], model="m"))
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: len(models.of("agent")) == 2)
        killed(process)
    models.on("agent", finish("end"))
    done = scene.process("resume", "t", "--json")
    assert done.code == 0, done.err
    assert [roles(seen)[-2:] for seen in models.of("agent")] == ["su", "at", "at"]
    assert models.of("agent")[1].messages[2:] == models.of("agent")[2].messages[2:]
    assert len(lines(marks)) == 1


async def test_a_kill_between_a_call_and_its_answer_leaves_no_call_unanswered(
    scene: Scene, models: ModelServer, tmp_path: Path
) -> None:
    marks, opening = tmp_path / "marks", tmp_path / "open"
    wanted = [("mark", {"file": str(marks)}), ("gate", {"file": str(marks), "open": str(opening)})]
    models.on("agent", calls(wanted))
    file = scene.file(task([agent("a", tools=["mark", "gate"])], model="m"))
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: len(lines(marks)) == 2)
        killed(process)
    opening.touch()
    models.on("agent", finish("end"))
    done = scene.process("resume", "t", "--json")
    assert done.code == 0, done.err
    assert [roles(seen)[-3:] for seen in models.of("agent")][1] == "att"
    # The first call was over; the second, an idempotent one, is made again.
    assert len(lines(marks)) == 3


async def test_an_agent_that_may_not_go_on_begins_from_scratch(
    scene: Scene, models: ModelServer
) -> None:
    models.on("agent", call_tool("echo", {"value": 1}), silent())
    file = scene.file(task([agent("a", resumable=False)], model="m"))
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: len(models.of("agent")) == 2)
        killed(process)
    models.on("agent", finish("end"))
    assert scene.process("resume", "t").code == 0
    assert roles(models.of("agent")[2])[-2:] == "su"


def test_votes_take_the_answer_that_is_ahead(scene: Scene, models: ModelServer) -> None:
    models.on("agent", finish("A"), finish("b"), finish("a "), finish("A"))
    votes = {"ahead_by": 2, "max_samples": 9}
    file = scene.file(task([agent("a", votes=votes)], model="m"))
    assert scene.process("run", file, "--id", "t").code == 0
    assert scene.process("result", "t", "a", "--json").document == "A"
    assert len(models.of("agent")) == 4


def test_a_spent_budget_ends_the_task_and_a_raised_one_goes_on_at_the_step(
    scene: Scene, models: ModelServer, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    twice = [("mark", {"file": str(marks), "word": word}) for word in ("a", "b")]
    models.on("agent", calls(twice), finish("end"))
    file = scene.file(task([agent("a", tools=["mark"])], model="m", budget={"max_steps": 2}))
    done = scene.process("run", file, "--id", "t", "--json")
    assert (done.code, done.document["failure"]["code"]) == (1, "budget_exhausted")
    assert (done.document["usage"]["steps"], lines(marks)) == (2, ["a"])
    done = scene.process("resume", "t", "--max-steps", "4", "--json")
    assert (done.code, done.document["usage"]["steps"]) == (0, 4)
    assert (len(models.of("agent")), lines(marks)) == (2, ["a", "b"])


async def test_readers_see_the_step_and_a_signal_ends_after_it(
    scene: Scene, models: ModelServer, tmp_path: Path
) -> None:
    marks, opening = tmp_path / "marks", tmp_path / "open"
    wanted = [("gate", {"file": str(marks), "open": str(opening)}), ("echo", {"value": 1})]
    models.on("agent", calls(wanted), finish("end"))
    file = scene.file(task([agent("a", tools=["gate", "echo"])], model="m"))
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: lines(marks))

        def current() -> Any:
            shown = scene.process("status", "t", "--json").document["current"]
            return shown if shown and shown[0]["tool"] == "gate" else None

        (shown,) = await until(current)
        assert (shown["step"], shown["step_state"], shown["attempt"]) == (2, "calling", 1)
        process.send_signal(signal.SIGINT)
        await until(lambda: scene.process("status", "t", "--json").document["stopping"])
        opening.touch()
        assert process.wait(60) == 3
    assert len(models.of("agent")) == 1
    done = scene.process("resume", "t", "--json")
    assert done.code == 0
    assert (len(models.of("agent")), lines(marks)) == (2, ["x"])
    assert roles(models.of("agent")[1])[-3:] == "att"


async def test_a_cancel_ends_a_model_call_and_no_other_follows(
    scene: Scene, models: ModelServer
) -> None:
    models.on("agent", silent("after headers"))
    with scene.started("run", scene.file(task([agent("a")], model="m")), "--id", "t") as process:
        await until(lambda: models.of("agent"))
        assert scene.process("cancel", "t").code == 0
        assert process.wait(30) == 4
    assert len(models.of("agent")) == 1


def test_agents_work_in_a_foreach_and_in_a_group(scene: Scene, models: ModelServer) -> None:
    models.always("agent", lambda seen: finish("in" if seen.says("inner/b") else "out"))
    each = {"kind": "agent", "instructions": "Look at ${item}.", "success": [{"type": "result"}]}
    items = {"id": "all", "kind": "foreach", "for_each": ["x", "y"], "each": each}
    inner = {"subtasks": [agent("b", tools=[])]}
    group = {"id": "inner", "kind": "group", "plan": inner, "outputs": {"of": "${b}"}}
    done = scene.process("run", scene.file(task([items, group], model="m")), "--id", "t", "--json")
    assert done.code == 0, done.out
    assert scene.process("result", "t", "all", "--json").document == ["out", "out"]
    threads = scene.rows("select distinct thread_id from checkpoints order by 1")
    found = {row["thread_id"] for row in threads}
    assert {"t/all/0/1", "t/all/1/1", "t/inner/b/1"} <= found


@pytest.mark.skipif(not MATERIAL.exists(), reason="the recorded conversations are not here")
async def test_recorded_conversations_are_replayed_through_a_kill(
    scene: Scene, models: ModelServer
) -> None:
    replays = Replays.read(MATERIAL, most=36)
    models.always("agent", replays.answer)
    module = replays.write_tools(scene.folder)
    spec = task(replays.subtasks(), tools=[module], model="m", concurrency=6)
    file = scene.file(spec)
    for command, asked in ((("run", file, "--id", "t"), 60), (("resume", "t"), 300)):
        with scene.started(*command) as process:
            await until(lambda: len(replays.asked) > asked)  # noqa: B023 - awaited right here
            killed(process)
    done = scene.process("resume", "t", "--json")
    assert done.code == 0, done.out
    assert replays.faults == []
    # Only what was in flight at a kill may have been asked twice.
    twice = len(replays.asked) - len(set(replays.asked))
    assert twice <= 2 * 6
    assert len(set(replays.asked)) == sum(len(turns) + 1 for turns in replays.turns.values())
    assert json.loads(done.out)["subtasks"]["completed"] == len(replays.turns)
