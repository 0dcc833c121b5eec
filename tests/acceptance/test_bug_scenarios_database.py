"""D03: connections die and servers restart under a running task; nothing is done again."""

import asyncio
import shutil
import tempfile
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Sql
from scenes import Scene, lines, subtask, task, until

from surefoot.checkpointing.embedded import EmbeddedServer
from surefoot.graph.settings import Settings


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


def gated(folder: Path, *, width: int = 1) -> dict[str, Any]:
    """A step before, some that wait for a file, and one after."""
    marks, opening = str(folder / "marks"), str(folder / "open")
    slow = [
        subtask(
            f"slow{n}",
            "gate",
            {"file": marks, "open": opening, "word": f"slow{n}"},
            depends_on=["before"],
            timeout_seconds=200,
        )
        for n in range(width)
    ]
    before = subtask("before", "mark", {"file": marks, "word": "before"})
    after = subtask(
        "after", "mark", {"file": marks, "word": "after"}, depends_on=[one["id"] for one in slow]
    )
    return task([before, *slow, after], concurrency=width)


async def test_all_connections_cut_during_a_call_and_the_step_is_kept(
    scene: Scene, sql: Sql, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    async with scene.client() as surefoot:
        running = asyncio.create_task(surefoot.run(gated(tmp_path), id="t"))
        await until(lambda: "slow0" in lines(marks))
        assert sql.cut_connections() > 0
        (tmp_path / "open").touch()
        status = await running
        assert status.completed, status
    assert lines(marks) == ["before", "slow0", "after"]
    assert (status["attempts"], status["usage"]["failures"]) == (3, 0)
    assert _done_effects(scene) == 3


async def test_connections_cut_again_and_again_under_many_calls(
    scene: Scene, sql: Sql, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    (tmp_path / "open").touch()
    chain = [
        subtask(
            f"c{n}",
            "mark",
            {"file": str(marks), "word": f"c{n}"},
            depends_on=[f"c{n - 1}"] if n else [],
        )
        for n in range(30)
    ]
    async with scene.client() as surefoot:
        running = asyncio.create_task(surefoot.run(task(chain), id="t"))
        for seen in range(2, 30, 4):
            await until(lambda seen=seen: len(lines(marks)) >= seen)
            await asyncio.to_thread(sql.cut_connections)
        status = await running
        assert status.completed, status
        assert [event["type"] async for event in surefoot.events("t")].count("TaskCompleted") == 1
    assert lines(marks) == [f"c{n}" for n in range(30)]
    assert status["attempts"] == 30


@pytest.fixture
def other_server() -> Generator[EmbeddedServer]:
    """A server of its own, that the product knows by its URL only."""
    folder = Path(tempfile.mkdtemp(prefix="surefoot-test-other-"))
    folder.chmod(0o711)
    server = EmbeddedServer(folder)
    server.acquire()
    yield server
    server.release()
    shutil.rmtree(folder, ignore_errors=True)


async def test_a_server_that_restarts_in_mid_run_is_waited_for(
    settings: Settings, other_server: EmbeddedServer, tmp_path: Path
) -> None:
    url = await asyncio.to_thread(other_server.acquire)
    scene = Scene(replace(settings, database_url=url), tmp_path / "files")
    marks = tmp_path / "marks"
    async with scene.client() as surefoot:
        running = asyncio.create_task(surefoot.run(gated(tmp_path, width=3), id="t"))
        await until(lambda: len(lines(marks)) == 4)
        await asyncio.to_thread(other_server.release)  # the last user stops it
        (tmp_path / "open").touch()
        # All three calls end while nobody can write that down; then the server is back.
        await until(lambda: _none_is_open(scene))
        assert not running.done()
        await asyncio.to_thread(other_server.acquire)
        status = await asyncio.wait_for(running, 150)
        assert status.completed, status
        assert await surefoot.result("t", "after") == 5
    assert sorted(lines(marks)) == ["after", "before", "slow0", "slow1", "slow2"]
    assert (status["attempts"], _done_effects(scene)) == (5, 5)


def _none_is_open(scene: Scene) -> bool:
    """Whether the server refuses everybody."""
    try:
        scene.rows("select 1")
    except Exception:
        return True
    return False


def _done_effects(scene: Scene) -> int:
    query = "select count(*)::int as n from surefoot.effects where state = 'done'"
    return scene.rows(query)[0]["n"]
