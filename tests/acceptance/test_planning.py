"""A goal in words becomes a plan that holds: the command, a real server, real tables."""

import json
import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from graph_world import World
from model_client import client_of
from model_server import ModelServer, Said, cut, refuse, say, say_json, silent
from scenes import Done, Scene, gone, until

from benchmarks import malformed
from surefoot.graph.settings import Settings

WORDS = "Write the word hello into hello.txt"
DRAFT: dict[str, Any] = {
    "acceptance": [{"id": "a1", "type": "file", "path": "hello.txt", "contains": "hello"}],
    "prohibitions": ["Nothing else is written."],
}


def step(id: str, *needs: str, **more: Any) -> dict[str, Any]:
    base = {
        "id": id,
        "name": id,
        "description": "",
        "phase": None,
        "kind": "tool",
        "depends_on": list(needs),
        "covers": [],
        "weight": 1,
        "importance": "normal",
        "resumable": True,
        "skippable": False,
        "estimated_seconds": 1,
        "outputs": [],
        "success": [{"type": "result"}],
        "on_failure": [],
    }
    return base | more


def writing(**more: Any) -> dict[str, Any]:
    write = step(
        "write",
        tool="write_text",
        args={"path": "hello.txt", "text": "hello"},
        writes=["hello.txt"],
        covers=["a1"],
    )
    read = step("read", "write", tool="read_text", args={"path": "hello.txt"})
    return {"phases": [], "subtasks": [write | more, read], "milestones": []}


GOOD = writing()
CYCLE = writing(depends_on=["read"])
STRANGE = writing(tool="shout")


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def models() -> Generator[ModelServer]:
    with ModelServer() as server:
        yield server


def run(scene: Scene, models: ModelServer, *words: str | Path) -> Done:
    given = (*words, "--model", "m", "--json")
    return scene.command("run", *given, **models.environment())


def kinds(models: ModelServer) -> list[str]:
    return [seen.kind for seen in models.seen]


def test_a_goal_in_words_is_planned_and_done(scene: Scene, models: ModelServer) -> None:
    models.on("goal", say_json(DRAFT)).on("plan", say_json(GOOD))
    done = run(scene, models, "--goal", WORDS, "--id", "t")
    assert (done.code, done.document["status"]) == (0, "completed")
    assert kinds(models) == ["goal", "plan"]
    goal, plan = models.seen
    assert goal.messages[0]["role"] == plan.messages[0]["role"] == "system"
    assert "a1" not in goal.messages[0]["content"]
    assert "a1" in plan.messages[0]["content"] and "Nothing else" in plan.messages[0]["content"]
    assert plan.says("write_text (effect: idempotent)")
    assert done.document["usage"]["steps"] == 4 and done.document["usage"]["tokens"] > 0
    assert (scene.settings.workspace("t") / "hello.txt").read_text() == "hello"


def test_bad_bad_good_is_one_plan_and_the_reasons_went_back(
    scene: Scene, models: ModelServer
) -> None:
    models.on("goal", say_json(DRAFT))
    models.on("plan", say_json(CYCLE), say_json(STRANGE), say_json(GOOD))
    done = run(scene, models, "--goal", WORDS, "--id", "t")
    assert (done.code, len(models.of("plan"))) == (0, 3)
    assert models.of("plan")[1].says("- cycle:") and models.of("plan")[2].says("- unknown_tool:")
    told = scene.command("history", "t", "--json").document
    refused = [entry["reason"] for entry in told if entry["type"] == "PlanRejected"]
    assert ["wait for each other" in refused[0], "'shout'" in refused[1]] == [True, True]


def test_bad_for_ever_ends_by_name_with_the_last_answer_in_the_trace(
    scene: Scene, models: ModelServer
) -> None:
    models.always("goal", say_json(DRAFT)).always("plan", say_json(CYCLE))
    done = run(scene, models, "--goal", WORDS, "--id", "t")
    assert done.code == 1
    assert done.document["failure"]["code"] == "plan_rejected"
    assert "wait for each other" in done.document["failure"]["message"]
    assert len(models.of("plan")) == 4
    events = scene.command("events", "t", "--json").document
    last = [event for event in events if event["type"] == "PlanRejected"][-1]
    assert (last["round"], json.loads(last["answer"])) == (4, CYCLE)
    assert not [event for event in events if event["type"] == "SubtaskStarted"]
    again = scene.command("resume", "t", "--json", **models.environment())
    assert (again.code, len(models.of("plan"))) == (1, 4)
    refused = scene.command("plan", "t", "--json").document
    assert [entry["code"] for entry in refused] == ["cycle"] * 4
    assert json.loads(refused[-1]["answer"]) == CYCLE


def test_an_answer_cut_at_the_token_limit_is_no_plan_however_valid(
    scene: Scene, models: ModelServer
) -> None:
    models.on("goal", say_json(DRAFT)).on("plan", cut(say_json(GOOD)), say_json(GOOD))
    done = run(scene, models, "--goal", WORDS)
    assert (done.code, len(models.of("plan"))) == (0, 2)
    assert models.of("plan")[1].says("cut at the token limit")


def test_a_task_file_with_criteria_keeps_them_and_is_only_planned(
    scene: Scene, models: ModelServer
) -> None:
    acceptance = [{"id": "a1", "type": "file", "path": "hello.txt"}]
    file = scene.file({"goal": {"objective": WORDS, "acceptance": acceptance}})
    models.on("plan", say_json(GOOD))
    assert (run(scene, models, file).code, kinds(models)) == (0, ["plan"])


def test_without_a_model_a_goal_is_refused_before_anything_is_made(scene: Scene) -> None:
    done = scene.command("run", "--goal", WORDS, "--json", SUREFOOT_MODEL="")
    assert (done.code, done.error["code"], scene.tasks()) == (2, "missing_model", [])


def test_plan_only_writes_a_task_file_that_runs_and_leaves_no_task(
    scene: Scene, models: ModelServer
) -> None:
    models.on("goal", say_json(DRAFT)).on("plan", say_json(CYCLE), say_json(GOOD))
    file = scene.folder / "made.yaml"
    done = run(scene, models, "--goal", WORDS, "--plan-only", "--export", file)
    assert (done.code, scene.tasks()) == (0, [])
    assert done.document["plan"]["subtasks"] == GOOD["subtasks"]
    assert done.document["goal"]["acceptance"] == DRAFT["acceptance"]
    assert "wait for each other" in done.err and str(file) in done.err
    asked = len(models.seen)
    ran = scene.command("run", file, "--json")
    assert (ran.code, len(models.seen)) == (0, asked)


def test_plan_only_says_when_no_plan_came_of_it(scene: Scene, models: ModelServer) -> None:
    models.always("goal", say_json(DRAFT)).always("plan", say("I cannot."))
    done = run(scene, models, "--goal", WORDS, "--plan-only")
    assert (done.code, done.error["code"], scene.tasks()) == (2, "plan_rejected", [])


def test_a_server_that_refuses_for_good_is_named_and_a_resume_goes_on(
    scene: Scene, models: ModelServer
) -> None:
    models.on("goal", say_json(DRAFT)).always("plan", refuse(401))
    done = run(scene, models, "--goal", WORDS, "--id", "t")
    assert (done.code, done.document["failure"]["code"]) == (1, "model_unavailable")
    models.always("plan", say_json(GOOD))
    again = scene.command("resume", "t", "--json", **models.environment())
    assert (again.code, len(models.of("goal"))) == (0, 1)


async def test_a_server_that_cannot_be_reached_is_told_while_it_is_waited_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with scene.started("run", "--goal", WORDS, "--id", "t", "--model", "m") as process:
        await until(lambda: "127.0.0.1:9" in waits(scene))
        os.kill(process.pid, signal.SIGINT)
        await until(lambda: gone(process.pid))


def waits(scene: Scene) -> str:
    """Why a model is waited for, as far as readers are told."""
    done = scene.process("events", "t", "--json")
    events: list[dict[str, Any]] = done.document if done.code == 0 else []
    return " ".join(str(e["reason"]) for e in events if e["type"] == "ModelWaits")


def test_without_a_key_the_default_server_is_not_asked(scene: Scene) -> None:
    nobody = {"OPENAI_BASE_URL": "", "OPENAI_API_KEY": ""}
    done = scene.command("run", "--goal", WORDS, "--id", "t", "--model", "m", "--json", **nobody)
    assert (done.code, done.document["failure"]["code"]) == (1, "model_unavailable")
    assert "set OPENAI_API_KEY" in done.document["failure"]["message"]


async def test_killed_while_planning_nothing_that_was_saved_is_paid_for_again(
    scene: Scene, models: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    models.on("goal", say_json(DRAFT)).on("plan", say_json(CYCLE)).always("plan", silent())
    file = scene.file({"goal": {"objective": WORDS}, "model": "m"})
    for name, value in models.environment().items():
        monkeypatch.setenv(name, value)
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: len(models.of("plan")) == 2)
        status = scene.process("status", "t", "--json").document
        now = {key: status["current"][0][key] for key in ("subtask", "attempt", "tool")}
        assert now == {"subtask": "(planning)", "attempt": 2, "tool": "plan"}
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: gone(process.pid))
    models.always("plan", say_json(GOOD))
    done = scene.process("resume", "t", "--json", **models.environment())
    assert (done.code, done.document["status"]) == (0, "completed")
    assert (len(models.of("goal")), len(models.of("plan"))) == (1, 3)
    assert models.of("plan")[2].says("- cycle:")


# --- malformed answers -----------------------------------------------------------------------

ECHOED: dict[str, Any] = {
    "phases": [],
    "subtasks": [
        step("t1", tool="echo", args={"text": "1"}, covers=["a1"], writes=["x"]),
        step("t2", "t1", tool="echo", args={"text": "2"}),
        step("t3", "t2", tool="echo", args={"text": "3"}),
    ],
    "milestones": [],
}
OTHER = {**ECHOED, "subtasks": ECHOED["subtasks"][:2]}


def said(one: malformed.Template) -> Said:
    return Said(
        content=one.text,
        finish_reason=one.finish_reason,
        refusal=one.refusal,
        tool_calls=one.tool_calls,
    )


@pytest.mark.skipif(not malformed.TEMPLATES.is_dir(), reason="the material is not there")
async def test_of_a_malformed_answer_nothing_is_ever_executed(
    tmp_path: Path, models: ModelServer
) -> None:
    found = malformed.templates(ECHOED, OTHER)
    assert len(found) == 60
    goal = {"objective": "o", "acceptance": [{"id": "a1", "type": "file", "path": "x"}]}
    for one in found:
        (tmp_path / one.id).mkdir()
        world = World(tmp_path / one.id)
        (tmp_path / one.id / "workspace").mkdir()
        (tmp_path / one.id / "workspace" / "x").touch()
        models.on("plan", said(one))
        async with client_of(models) as client:
            task = {"goal": goal, "model": "m", "limits": {"plan_rounds": 1}}
            state = await world.run(task, models=client.models)
        accepted = "plan" in state
        assert bool(world.calls()) is accepted, one.id
        if one.must_accept:
            assert state["plan"]["subtasks"] == ECHOED["subtasks"], one.id
        if one.must_refuse:
            assert not accepted, one.id
        if not accepted:
            assert state["ending"]["code"] == "plan_rejected", one.id
            assert state["planning"]["faults"], one.id


@pytest.mark.skipif(not malformed.TEMPLATES.is_dir(), reason="the material is not there")
async def test_no_real_answer_that_broke_its_format_passes_for_a_plan(
    tmp_path: Path, models: ModelServer
) -> None:
    answers = malformed.real_answers()
    goal = {"objective": "o", "acceptance": [{"id": "a1", "type": "file", "path": "x"}]}
    models.on("plan", *map(say, answers))
    world = World(tmp_path)
    async with client_of(models) as client:
        task = {"goal": goal, "model": "m", "limits": {"plan_rounds": len(answers)}}
        state = await world.run(task, models=client.models)
    assert (state["ending"]["code"], world.calls()) == ("plan_rejected", [])
    assert len(models.of("plan")) == len(answers)
