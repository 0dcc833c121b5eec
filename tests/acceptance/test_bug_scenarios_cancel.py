"""D09: cancelled means that nothing runs any more, whoever asked for it and whenever."""

import asyncio
import json
from pathlib import Path

import pytest
from scenes import Scene, gone, lines, subtask, task, until

from surefoot.graph.errors import UsageError
from surefoot.graph.settings import Settings
from surefoot.service.client import Surefoot


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


async def test_a_cancel_ends_a_child_process_with_its_grandchildren(
    scene: Scene, tmp_path: Path
) -> None:
    pids, after = tmp_path / "pids", tmp_path / "after"
    spec = task([
        subtask("early", "echo", {"value": 1}),
        subtask("hangs", "family", {"pids": str(pids)}, depends_on=["early"], timeout_seconds=600),
        subtask("never", "mark", {"file": str(after)}, depends_on=["hangs"]),
    ])  # fmt: skip
    async with scene.client() as surefoot, scene.client() as other:
        running = asyncio.create_task(surefoot.run(spec, id="t"))
        await until(lambda: len(lines(pids)) == 3)
        status = await other.cancel("t")
        # Reported only when nothing runs: no waiting here.
        assert status["status"] == "cancelled" and all(gone(int(pid)) for pid in lines(pids))
        ended = await running
        assert ended["status"] == "cancelled" and ended["subtasks"]["running"] == 0
        assert not after.exists()
        assert await other.result("t", "early") == 1
        assert (await other.cancel("t"))["status"] == "cancelled"  # a second one does nothing
        (row,) = scene.rows("select acquired_by from surefoot.tasks")
        assert row["acquired_by"] is None
        assert (await surefoot.resume("t"))["status"] == "cancelled"
    assert not after.exists() and len(lines(pids)) == 3


async def test_a_cancel_ends_the_wait_before_a_retry(scene: Scene, tmp_path: Path) -> None:
    tried, opening = tmp_path / "tried", tmp_path / "open"
    waits = subtask(
        "waits",
        "works_once_open",
        {"file": str(tried), "open": str(opening)},
        retries={"max_attempts": 60, "backoff_seconds": 1000},
    )
    async with scene.client() as surefoot, scene.client() as other:
        running = asyncio.create_task(surefoot.run(task([waits]), id="t"))
        await until(lambda: _retry_is_due(scene))
        tries = len(lines(tried))
        assert (await other.cancel("t"))["status"] == "cancelled"
        assert (await running)["status"] == "cancelled"
        assert len(lines(tried)) - tries <= 1


def _retry_is_due(scene: Scene) -> bool:
    query = "select 1 from surefoot.subtasks where not_before > now()"
    return bool(scene.rows(query))


async def test_a_task_that_has_not_begun_is_cancelled_and_never_begins(
    scene: Scene, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    async with scene.client() as surefoot:
        await surefoot.create(task([subtask("a", "mark", {"file": str(marks)})]), id="t")
        assert (await surefoot.status("t"))["status"] == "queued"
        assert (await surefoot.cancel("t"))["status"] == "cancelled"
        assert (await surefoot.resume("t"))["status"] == "cancelled"
    assert not marks.exists()


async def test_many_cancels_at_once_are_one(scene: Scene, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    spec = task([subtask("hangs", "family", {"pids": str(pids)}, timeout_seconds=600)])
    async with scene.client() as surefoot, scene.client() as other:
        running = asyncio.create_task(surefoot.run(spec, id="t"))
        await until(lambda: len(lines(pids)) == 3)
        said = await asyncio.gather(*(other.cancel("t") for _ in range(4)))
        assert [status["status"] for status in said] == ["cancelled"] * 4
        assert (await running)["status"] == "cancelled"
        events = [event async for event in other.events("t")]
    (told,) = [event for event in events if event["type"] == "TaskCancelled"]
    assert told["by"] == "person"
    assert all(gone(int(pid)) for pid in lines(pids))


def test_a_cancel_from_another_process_ends_the_one_that_runs(scene: Scene, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    spec = task([subtask("hangs", "family", {"pids": str(pids)}, timeout_seconds=600)])
    with scene.started("run", scene.file(spec), "--id", "t", "--json") as process:
        asyncio.run(until(lambda: len(lines(pids)) == 3))
        cancelled = scene.process("cancel", "t", "--json")
        assert (cancelled.code, cancelled.document["status"]) == (0, "cancelled"), cancelled
        assert all(gone(int(pid)) for pid in lines(pids))
        out, err = process.communicate(timeout=120)
        assert (process.returncode, json.loads(out)["status"]) == (4, "cancelled"), err
    assert scene.command("cancel", "t").code == 0
    assert scene.command("resume", "t", "--quiet").code == 4


def test_nothing_is_written_after_a_cancel_and_no_slot_stays_taken(
    scene: Scene, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    slow = subtask("hangs", "family", {"pids": str(pids)}, timeout_seconds=600)
    put = subtask("put", "write_artifact", {"name": "a.txt", "text": "a"}, outputs=["a.txt"])
    late = subtask("late", "write_text", {"path": "late.txt", "text": "x"}, depends_on=["hangs"])
    file = scene.file(task([put, slow, late], concurrency=2))
    with scene.started("run", file, "--id", "t", "--quiet") as process:
        asyncio.run(until(lambda: len(lines(pids)) == 3))
        assert scene.process("cancel", "t").code == 0
        at_once = _written(scene)
        assert process.wait(120) == 4
    assert _written(scene) == at_once
    (row,) = scene.rows("select status, acquired_by, stopping from surefoot.tasks")
    assert (row["status"], row["acquired_by"], row["stopping"]) == ("cancelled", None, False)
    assert scene.rows("select id from surefoot.subtasks where state = 'running'") == []
    assert all(gone(int(pid)) for pid in lines(pids))
    content = scene.process("artifacts", "t", "put/a.txt")
    assert (content.code, content.out) == (0, "a")


def _written(scene: Scene) -> list[object]:
    """All that a task may write: its rows, its files."""
    tables = ("events", "subtasks", "artifacts", "effects", "plans", "questions")
    found: list[object] = [
        scene.rows(f"select to_jsonb(t) from surefoot.{name} t order by 1") for name in tables
    ]
    files = sorted(str(path) for path in scene.settings.home.rglob("*") if path.is_file())
    return [*found, [name for name in files if "/workspaces/" in name]]


def test_a_cancel_shows_as_stopping_until_nothing_runs(scene: Scene, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "open"
    args = {"file": str(log), "open": str(gate)}
    spec = task([subtask("gate", "gate", args, timeout_seconds=600)])
    with scene.started("run", scene.file(spec), "--id", "t") as process:
        asyncio.run(until(lambda: lines(log)))
        at_once = scene.process("cancel", "t", "--no-wait", "--json").document
        assert at_once["status"] in ("running", "cancelled")
        seen = "select 1 from surefoot.tasks where stopping or status = 'cancelled'"
        asyncio.run(until(lambda: scene.rows(seen)))
        assert process.wait(120) == 4
    assert scene.command("status", "t", "--json").document["stopping"] is False


def test_what_a_dead_worker_left_is_cancelled_and_nothing_seems_to_run(
    scene: Scene, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    spec = task([subtask("hangs", "family", {"pids": str(pids)}, timeout_seconds=600)])
    with scene.started("run", scene.file(spec), "--id", "t") as process:
        running = "select 1 from surefoot.subtasks where state = 'running'"
        asyncio.run(until(lambda: len(lines(pids)) == 3 and scene.rows(running)))
        process.kill()
        process.wait()
    cancelled = scene.command("cancel", "t", "--json").document
    assert (cancelled["status"], cancelled["subtasks"]["running"]) == ("cancelled", 0)
    assert all(gone(int(pid)) for pid in lines(pids))


async def test_an_ended_task_is_not_cancelled(scene: Scene) -> None:
    async with scene.client() as surefoot:
        await surefoot.run(task([subtask("a", "echo", {"value": 1})]), id="t")
        with pytest.raises(UsageError, match="completed"):
            await surefoot.cancel("t")
        await _unknown(surefoot)


async def _unknown(surefoot: Surefoot) -> None:
    with pytest.raises(UsageError) as refused:
        await surefoot.cancel("nobody")
    assert refused.value.code == "unknown_task"
