"""Reflections, judges and replans through the command, against a scripted server."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, Said, Seen, finish, refuse, say, say_json, silent
from scenes import Scene, lines, subtask, task, until

from surefoot.graph.settings import Settings

NOTHING_DRIFTS = {"pass": True, "confidence": 0.9, "reasons": ["fine"]}
QUICK = {"max_attempts": 2, "backoff_seconds": 0}


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Any:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def mark(log: Path, id: str, *needs: str, **more: Any) -> Any:
    return subtask(id, "mark", {"file": str(log), "word": id}, depends_on=list(needs), **more)


def agent(id: str, *needs: str, wants: Any = 3, **more: Any) -> Any:
    """An agent that must answer with a certain number."""
    return {
        "id": id,
        "kind": "agent",
        "instructions": "Count.",
        "tools": [],
        "depends_on": list(needs),
        "success": [{"type": "result", "equals": wants}],
        "retries": QUICK,
        **more,
    }


def reflects(choice: str, criticism: str = "you counted wrong") -> Said:
    return say_json({"choice": choice, "criticism": criticism})


def remainder(*subtasks: Any) -> Said:
    return say_json({"phases": [], "subtasks": list(subtasks), "milestones": []})


def test_criticism_and_evidence_reach_the_next_attempt(scene: Scene, models: ModelServer) -> None:
    models.on("agent", finish(2), finish(3))
    models.on("reflection", reflects("retry", "one was left out"))
    file = scene.file(task([agent("counts")], model="m"))
    done = scene.process("run", file, "--id", "t", "--json")
    assert done.code == 0, done.err
    (asked,) = models.of("reflection")
    assert asked.says("it is 2, not 3")
    assert asked.body["messages"][0] == models.of("agent")[0].body["messages"][0]
    first, second = models.of("agent")
    assert not first.says("one was left out")
    assert second.says("one was left out")
    assert second.says("it is 2, not 3")
    history = scene.process("history", "t", "--json").document
    assert any(entry["type"] == "FailureReflected" for entry in history)


@pytest.mark.parametrize("answer", [say("no JSON at all"), refuse(400), reflects("accept")])
def test_a_reflection_that_cannot_be_used_loses_no_attempt(
    scene: Scene, models: ModelServer, answer: Said
) -> None:
    models.on("agent", finish(2), finish(3))
    models.always("reflection", answer)
    models.always("text", answer)
    done = scene.process("run", scene.file(task([agent("counts")], model="m")), "--json")
    assert done.code == 0, done.out + done.err
    assert done.document["attempts"] == 2


def test_a_judge_decides_after_the_programs_and_without_the_chat(
    scene: Scene, models: ModelServer
) -> None:
    judged = [{"type": "result"}, {"type": "judge", "rubric": "it is a greeting"}]
    models.on("agent", finish("go away"), finish("hello"))
    models.on(
        "verdict",
        say_json({"pass": False, "confidence": 0.9, "reasons": ["rude"]}),
        say_json({"pass": True, "confidence": 0.9, "reasons": ["kind"]}),
    )
    models.always("reflection", reflects("retry"))
    file = scene.file(task([agent("greets", success=judged)], model="m"))
    done = scene.process("run", file, "--id", "t", "--json")
    assert done.code == 0, done.err
    first, second = models.of("verdict")
    assert first.says("it is a greeting")
    assert first.says("go away")
    assert not first.says("Count.")
    assert second.says("hello")
    assert models.of("agent")[1].says("rude")


def test_an_unsure_judge_passes_nothing(scene: Scene, models: ModelServer) -> None:
    judged = [{"type": "judge", "rubric": "good"}]
    models.always("agent", finish("x"))
    models.always("verdict", say_json({"pass": True, "confidence": 0.3, "reasons": ["hm"]}))
    models.always("reflection", reflects("retry"))
    file = scene.file(task([agent("a", success=judged)], model="m", limits={"replans": 0}))
    done = scene.process("run", file, "--json")
    assert done.code == 1
    assert done.document["failure"]["code"] == "attempts_exhausted"
    assert "confidence of 0.3" in done.document["failure"]["message"]


def test_a_reflector_that_always_says_retry_ends_and_goes_on_with_a_raised_limit(
    scene: Scene, models: ModelServer, log: Path
) -> None:
    """D07 c."""
    models.always("agent", finish(2))
    models.always("reflection", reflects("retry"))
    stubborn = agent("counts", "a", retries={"max_attempts": 100, "backoff_seconds": 0})
    given = task([mark(log, "a"), stubborn], model="m", budget={"max_failures": 4})
    done = scene.process("run", scene.file(given), "--id", "t", "--json")
    assert done.code == 1
    assert done.document["failure"]["code"] == "too_many_failures"
    assert done.document["subtasks"]["completed"] == 1
    models.always("agent", finish(3))
    again = scene.process("resume", "t", "--max-failures", "50", "--json")
    assert again.code == 0, again.err
    assert lines(log) == ["a"]


def test_a_model_that_replans_for_ever_is_stopped_and_goes_on_with_a_raised_limit(
    scene: Scene, models: ModelServer, log: Path
) -> None:
    """D07 b."""
    number = iter(range(1, 99))

    def plans(seen: Seen) -> Said:
        n = next(number)
        return remainder(agent(f"counts{n}", "a", wants="abcdefgh"[n]))

    models.always("agent", finish(2))
    models.always("reflection", reflects("replan"))
    models.always("plan", plans)
    given = task([mark(log, "a"), agent("counts", "a")], model="m", limits={"replans": 2})
    done = scene.process("run", scene.file(given), "--id", "t", "--json")
    assert done.code == 1, done.err
    assert done.document["failure"]["code"] == "attempts_exhausted"
    assert done.document["plan_version"] == 3
    versions = scene.process("plan", "t", "--version", "2", "--json").document
    assert [entry["subtask"] for entry in versions] == ["a", "counts1"]
    new = scene.file({"subtasks": [mark(log, "by_hand", "a")]}, "new.json")
    assert scene.process("replan", "t", "--plan", new).code == 0
    assert scene.process("resume", "t").code == 0
    assert lines(log) == ["a", "by_hand"]


def test_a_requirement_amends_the_goal_and_has_the_rest_planned(
    scene: Scene, models: ModelServer, log: Path
) -> None:
    given = task([mark(log, "a"), agent("counts", "a")], model="m", limits={"replans": 0})
    models.always("agent", finish(2))
    models.always("reflection", reflects("retry"))
    assert scene.process("run", scene.file(given), "--id", "t").code == 1
    models.on("plan", remainder(mark(log, "x", "nobody")), remainder(mark(log, "x", "a")))
    done = scene.process("replan", "t", "--require", "All of it in blue.", "--json")
    assert done.code == 0, done.out
    assert (done.document["plan_version"], done.document["status"]) == (2, "paused")
    first, second = models.of("plan")
    assert "All of it in blue." in first.body["messages"][0]["content"]
    assert second.says("nobody")
    assert scene.process("resume", "t").code == 0
    assert lines(log) == ["a", "x"]


def test_a_requirement_that_no_plan_can_meet_is_refused_and_all_stays(
    scene: Scene, models: ModelServer, log: Path
) -> None:
    given = task([mark(log, "a"), agent("counts", "a")], model="m")
    given["limits"] = {"replans": 0, "plan_rounds": 2}
    models.always("agent", finish(2))
    models.always("reflection", reflects("retry"))
    assert scene.process("run", scene.file(given), "--id", "t").code == 1
    models.always("plan", remainder(mark(log, "x", "nobody")))
    done = scene.process("replan", "t", "--require", "In blue.", "--json")
    assert done.code_and_error == (2, "unknown_dependency")
    assert len(models.of("plan")) == 2
    status = scene.process("status", "t", "--json").document
    assert (status["status"], status["plan_version"]) == ("failed", 1)
    assert status["failure"]["code"] == "attempts_exhausted"


async def test_a_kill_while_the_rest_is_planned_pays_for_no_answer_twice(
    scene: Scene, models: ModelServer, log: Path
) -> None:
    models.always("agent", finish(2))
    models.always("reflection", reflects("retry"))
    models.always("reflection", reflects("replan"))
    models.on("plan", remainder(mark(log, "x", "nobody")), silent())
    file = scene.file(task([mark(log, "a"), agent("counts", "a")], model="m"))
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: len(models.of("plan")) == 2)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
    models.on("plan", remainder(mark(log, "x", "a")))
    done = scene.process("resume", "t", "--json")
    assert done.code == 0, done.err
    assert len(models.of("plan")) == 3
    assert models.of("plan")[-1].says("nobody")
    assert len(models.of("agent")) == 1
    assert lines(log) == ["a", "x"]


def test_a_failed_milestone_is_reflected_on_and_replanned(
    scene: Scene, models: ModelServer, log: Path, tmp_path: Path
) -> None:
    there = {"type": "file", "path": "there.txt"}
    m = {"id": "m", "after": "p", "checks": [there], "on_failure": ["ask", "replan"]}
    makes = subtask(
        "makes", "write_text", {"path": "there.txt", "text": "x"}, phase="p", writes=["there.txt"]
    )
    given = task([mark(log, "a", phase="p"), mark(log, "b", "a", phase="q")], model="m")
    given["plan"] |= {"phases": [{"id": "p"}, {"id": "q"}], "milestones": [m]}
    models.always("verdict", say_json(NOTHING_DRIFTS))
    models.on("reflection", reflects("replan", "the file was never made"))
    models.on("plan", remainder(makes, mark(log, "b", "makes", phase="q")))
    done = scene.process("run", scene.file(given), "--id", "t", "--json")
    assert done.code == 0, done.out + done.err
    assert models.of("plan")[0].says("the file was never made")
    assert lines(log) == ["a", "b"]
    assert done.document["milestones"]["passed"] == 1
