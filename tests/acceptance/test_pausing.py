"""`surefoot pause` from another process: what is in hand ends, resume goes on with the next."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, finish, refuse, say_json
from scenes import Scene, lines, subtask, task, until

from surefoot.graph import attempts
from surefoot.graph.settings import Settings

STOPPING = "select 1 from surefoot.tasks where stopping and status = 'running'"


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Any:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def gated(log: Path, gate: Path, id: str = "gate", *needs: str, **more: Any) -> Any:
    args = {"file": str(log), "open": str(gate), "word": id}
    return subtask(id, "gate", args, depends_on=list(needs), timeout_seconds=600, **more)


def mark(log: Path, id: str, *needs: str) -> Any:
    return subtask(id, "mark", {"file": str(log), "word": id}, depends_on=list(needs))


def status(scene: Scene) -> Any:
    return scene.command("status", "t", "--json").document


async def test_what_is_in_hand_ends_and_nothing_else_begins(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    plan = [gated(log, gate), mark(log, "next", "gate"), mark(log, "last", "next")]
    async with scene.client() as holder, scene.client() as other:
        running = asyncio.create_task(holder.run(task(plan), id="t"))
        await until(lambda: "gate" in lines(log))
        at_once = await other.pause("t", wait=False)
        assert at_once["status"] == "running"
        await until(lambda: scene.rows(STOPPING))
        asked = asyncio.create_task(other.pause("t"))
        assert (await other.status("t"))["stopping"] is True and not asked.done()
        gate.touch()
        paused = await asked
        assert (paused["status"], paused["stopping"]) == ("paused", False)
        assert paused["subtasks"] == {
            **{"total": 3, "pending": 2, "running": 0},
            **{"completed": 1, "failed": 0, "skipped": 0},
        }
        assert (await running)["status"] == "paused"
        assert (await other.pause("t"))["status"] == "paused"
        assert lines(log) == ["gate"]
        assert (await other.resume("t"))["attempts"] == 3
    assert lines(log) == ["gate", "next", "last"]


def test_a_process_is_paused_by_another_one_and_leaves_with_3(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    given = scene.file(task([gated(log, gate), mark(log, "next", "gate")]))
    with scene.started("run", given, "--id", "t", "--json") as process:
        asyncio.run(until(lambda: "gate" in lines(log)))
        with scene.started("pause", "t", "--json") as pausing:
            asyncio.run(until(lambda: scene.rows(STOPPING)))
            assert status(scene)["stopping"] and pausing.poll() is None
            gate.touch()
            assert pausing.wait(120) == 0
        assert process.wait(120) == 3
    assert scene.command("resume", "t", "--quiet").code == 0
    assert lines(log) == ["gate", "next"]


def test_a_signal_shows_as_stopping_before_the_work_has_ended(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    with scene.started("run", scene.file(task([gated(log, gate)])), "--id", "t") as process:
        asyncio.run(until(lambda: "gate" in lines(log)))
        process.send_signal(signal.SIGINT)
        asyncio.run(until(lambda: scene.rows(STOPPING)))
        gate.touch()
        assert process.wait(120) == 3
    assert status(scene)["stopping"] is False


def test_a_task_that_nobody_holds_is_paused_at_once(scene: Scene, log: Path) -> None:
    assert scene.command("pause", "t", "--json").code_and_error == (2, "unknown_task")
    asyncio.run(_create(scene, task([mark(log, "a")])))
    assert status(scene)["status"] == "queued"
    paused = scene.command("pause", "t", "--json")
    assert (paused.code, paused.document["status"]) == (0, "paused")
    assert scene.command("pause", "t").code == 0
    assert lines(log) == []
    assert scene.command("resume", "t", "--quiet").code == 0
    assert scene.command("pause", "t", "--json").code_and_error == (2, "wrong_state")
    told = scene.rows("select facts from surefoot.events where type = 'TaskPaused'")
    assert [row["facts"]["by"] for row in told] == ["person"]


async def _create(scene: Scene, spec: Any) -> None:
    async with scene.client() as surefoot:
        await surefoot.create(spec, id="t")


def test_a_failed_task_is_not_paused_and_a_paused_one_is_cancelled(scene: Scene, log: Path) -> None:
    bad = subtask("bad", "odd_error", retries={"max_attempts": 1})
    assert scene.command("run", scene.file(task([bad])), "--id", "f").code == 1
    assert scene.command("pause", "f", "--json").code_and_error == (2, "wrong_state")
    asyncio.run(_create(scene, task([mark(log, "a")])))
    assert scene.command("pause", "t").code == 0
    cancelled = scene.command("cancel", "t", "--json")
    assert (cancelled.code, cancelled.document["status"]) == (0, "cancelled")
    assert scene.command("resume", "t", "--quiet").code == 4
    assert scene.command("pause", "t", "--json").code_and_error == (2, "wrong_state")
    assert lines(log) == []


def test_a_task_whose_worker_died_is_paused_and_nothing_of_it_runs(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    given = scene.file(task([gated(log, gate), mark(log, "next", "gate")]))
    with scene.started("run", given, "--id", "t") as process:
        running = "select 1 from surefoot.subtasks where state = 'running'"
        asyncio.run(until(lambda: "gate" in lines(log) and scene.rows(running)))
        process.kill()
        process.wait()
    paused = scene.command("pause", "t", "--json").document
    assert (paused["status"], paused["subtasks"]["running"], paused["current"]) == ("paused", 0, [])
    gate.touch()
    assert scene.command("resume", "t", "--quiet").code == 0
    assert lines(log)[-1] == "next"


def test_a_pause_that_nobody_applied_does_not_pause_the_go_that_follows(
    scene: Scene, log: Path
) -> None:
    asyncio.run(_create(scene, task([mark(log, "a")])))
    scene.rows(
        "insert into surefoot.commands (task_id, name, args, by) values ('t', 'pause', '{}', 'x')"
    )
    assert scene.command("resume", "t", "--quiet").code == 0
    assert lines(log) == ["a"]


async def test_the_wait_before_a_retry_is_paused_and_the_retry_comes_after_it(
    scene: Scene, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The wait is drawn, and a short one would be over before anybody could see it.
    delay_s = attempts.full_jitter_delay_s

    def longest(failed: int, *, backoff_s: float, draw: float) -> float:
        return delay_s(failed, backoff_s=backoff_s, draw=1.0)

    monkeypatch.setattr(attempts, "full_jitter_delay_s", longest)
    gate = tmp_path / "open"
    args = {"file": str(log), "open": str(gate)}
    slow = {"max_attempts": 2, "backoff_seconds": 10_000}
    delayed = "select 1 from surefoot.subtasks where not_before > now() + interval '2 seconds'"
    async with scene.client() as holder, scene.client() as other:
        waits = subtask("waits", "works_once_open", args, retries=slow)
        running = asyncio.create_task(holder.run(task([waits]), id="t"))
        await until(lambda: scene.rows(delayed))
        assert (await other.pause("t"))["status"] == "paused"
        assert (await running)["attempts"] == 1
        gate.touch()
        await other.retry("t", "waits")
        assert (await other.resume("t"))["attempts"] == 2


async def test_open_questions_stay_open_over_a_pause(scene: Scene, log: Path) -> None:
    asks = subtask("asks", "odd_error", retries={"max_attempts": 1}, on_failure=["ask"])
    async with scene.client() as surefoot:
        assert (await surefoot.run(task([asks]), id="t"))["status"] == "waiting"
        paused = await surefoot.pause("t")
        assert (paused["status"], len(paused["questions"])) == ("paused", 1)
        await surefoot.skip("t", "asks")
        done = await surefoot.resume("t")
        assert (done["status"], done["questions"]) == ("completed", [])


# --- while models are asked ----------------------------------------------------------------------


def agent(id: str, **more: Any) -> Any:
    given = {"id": id, "kind": "agent", "instructions": "Do it.", "tools": ["echo"]}
    return {**given, "success": [{"type": "result"}], **more}


GOAL = {
    "acceptance": [{"type": "file", "id": "a1", "path": "x", "exists": False}],
    "prohibitions": [],
}


async def test_a_model_that_plans_is_heard_out_and_asked_no_more(
    scene: Scene, models: ModelServer, tmp_path: Path
) -> None:
    answered = tmp_path / "answered"

    def when_told(seen: Any) -> Any:
        asyncio.run(until(answered.exists))
        return say_json(GOAL)

    models.on("goal", when_told)
    with scene.started("run", "--goal", "Do it.", "--id", "t", "--model", "m") as process:
        await until(lambda: models.of("goal"))
        with scene.started("pause", "t") as pausing:
            await until(lambda: scene.rows(STOPPING))
            answered.touch()
            assert await asyncio.to_thread(pausing.wait, 120) == 0
        assert await asyncio.to_thread(process.wait, 120) == 3
    assert [seen.kind for seen in models.seen] == ["goal"]
    paused = (await asyncio.to_thread(scene.process, "status", "t", "--json")).document
    assert (paused["status"], paused["stopping"], paused["usage"]["steps"]) == ("paused", False, 1)
    refused = await asyncio.to_thread(scene.process, "skip", "t", "a", "--json")
    assert refused.code == 2 and [seen.kind for seen in models.seen] == ["goal"]


@pytest.mark.parametrize("kind", ["goal", "agent"])
async def test_the_wait_for_a_server_that_is_busy_ends_with_a_pause(
    scene: Scene, models: ModelServer, kind: str
) -> None:
    models.always(kind, refuse(429, retry_after=3600))
    words: list[Any] = ["--goal", "Do it.", "--model", "m"]
    if kind == "agent":
        words = [scene.file(task([agent("a")], model="m"))]
    with scene.started("run", *words, "--id", "t") as process:
        await until(lambda: models.of(kind))
        waits = "select 1 from surefoot.events where type = 'ModelWaits'"
        await until(lambda: scene.rows(waits))
        done = await asyncio.to_thread(scene.process, "pause", "t", "--json")
        assert (done.code, done.document["status"]) == (0, "paused"), done
        assert await asyncio.to_thread(process.wait, 60) == 3
    assert len(models.of(kind)) == 1


async def test_votes_go_on_with_the_samples_they_have(
    scene: Scene, models: ModelServer, tmp_path: Path
) -> None:
    second = tmp_path / "second"

    def answer(seen: Any) -> Any:
        if len(models.of("agent")) == 2:
            asyncio.run(until(second.exists))
        return finish({"n": 1})

    models.always("agent", answer)
    votes = agent("a", votes={"ahead_by": 3, "max_samples": 5})
    with scene.started("run", scene.file(task([votes], model="m")), "--id", "t") as process:
        await until(lambda: len(models.of("agent")) == 2 or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        with scene.started("pause", "t") as pausing:
            await until(lambda: scene.rows(STOPPING))
            second.touch()
            assert await asyncio.to_thread(pausing.wait, 120) == 0
        assert await asyncio.to_thread(process.wait, 120) == 3
    assert len(models.of("agent")) == 2
    done = await asyncio.to_thread(scene.process, "resume", "t", "--json")
    assert (done.code, len(models.of("agent"))) == (0, 3), done


async def test_groups_and_children_pause_with_their_task(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    each: Any = {
        "kind": "tool",
        "tool": "gate",
        "success": [{"type": "result"}],
        "timeout_seconds": 600,
    }
    each["args"] = {"file": str(log), "open": str(gate), "word": "${item}"}
    inner = {"subtasks": [gated(log, gate, "in"), mark(log, "after_in", "in")]}
    plan = [
        {"id": "many", "kind": "foreach", "for_each": ["p", "q", "r"], "each": each},
        {"id": "g", "kind": "group", "plan": inner},
    ]
    async with scene.client() as holder, scene.client() as other:
        running = asyncio.create_task(holder.run(task(plan, concurrency=3), id="t"))
        await until(lambda: len(lines(log)) == 3)
        asked = asyncio.create_task(other.pause("t"))
        await until(lambda: scene.rows(STOPPING))
        gate.touch()
        paused = await asked
        assert (paused["status"], paused["subtasks"]["running"]) == ("paused", 0)
        assert paused["subtasks"]["completed"] == 3
        await running
        assert len(lines(log)) == 3
        done = await other.resume("t")
    assert (done["status"], done["attempts"]) == ("completed", 5)
    assert sorted(lines(log)) == ["after_in", "in", "p", "q", "r"]
