"""A worker that stands still longer than its lease: another goes on, and it does nothing more.

Real processes of the real command, with a lease of two seconds.
"""

import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import Sql
from crash.commands import started
from crash.storm import wait_until
from scenes import Scene, lines, subtask, task

from surefoot.graph.processes import descendants_of, process_started
from surefoot.graph.settings import Settings

TOOLS = Path(__file__).parent / "still_tools.py"
LONGER_LEASE_S = 6.0
"""Where it must not run out, on a busy machine too."""


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


def sending(scene: Scene, tool: str, world: Path, **args: Any) -> Path:
    """A task file of one call, and one look after it."""
    first = subtask("first", tool, {"file": str(world), **args})
    last = subtask("last", tool, {"file": f"{world}-2", **args}, depends_on=["first"])
    return scene.file(task([first, last], tools=[TOOLS]))


def stands_still(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def has_run_out(sql: Sql) -> bool:
    return sql.value("select acquired_until < now() from surefoot.tasks")


def everything(sql: Sql) -> list[Any]:
    """All that a worker writes."""
    tables = ("tasks", "subtasks", "events", "effects", "artifacts", "plans", "questions")
    found: list[Any] = [sql.rows(f"select * from surefoot.{table} order by 1") for table in tables]
    return [*found, sql.rows("select checkpoint_id from checkpoints order by 1")]


def test_the_tool_of_a_worker_that_stands_still_is_dead_before_another_goes_on(
    scene: Scene, sql: Sql, tmp_path: Path
) -> None:
    world, opening = tmp_path / "world", tmp_path / "open"
    file = sending(scene, "send", world, open=str(opening))
    with started(scene, "run", file, "--id", "t") as first:
        wait_until(lambda: lines(world) == ["begun"])
        tools = descendants_of(first.pid)
        os.kill(first.pid, signal.SIGSTOP)
        wait_until(lambda: has_run_out(sql))
        with started(scene, "resume", "t", "--json") as second:
            wait_until(lambda: len(lines(world)) == 2)
            assert lines(world) == ["begun", "begun"], "the probe said that nothing was sent"
            assert [pid for pid in tools if process_started(pid) is not None] == []
            opening.touch()
            out = second.end()
        assert (second.code, '"status": "completed"' in out) == (0, True), second.said()
        assert lines(world) == ["begun", "begun", "sent"]
        before = everything(sql)
        os.kill(first.pid, signal.SIGCONT)
        first.end()
        assert first.code == 5
        assert "the lease of task 't' was taken by another worker" in first.said()
        assert "Traceback" not in first.said()
    assert everything(sql) == before
    assert lines(world) == ["begun", "begun", "sent"]


@pytest.mark.parametrize("tool", ["send", "send_on_thread"])
def test_a_call_that_had_not_begun_does_not_begin_after_another_has_gone_on(
    scene: Scene, sql: Sql, tmp_path: Path, tool: str
) -> None:
    world, opening = tmp_path / "world", tmp_path / "open"
    opening.touch()
    file = sending(scene, tool, world, open=str(opening))
    with started(scene, "run", file, "--id", "t", STILL_AFTER_INTENT=tool) as first:
        wait_until(lambda: stands_still(first.pid))
        wait_until(lambda: has_run_out(sql))
        assert sql.rows("select state from surefoot.effects") == [{"state": "intent"}]
        done = scene.process("resume", "t")
        assert done.code == 0, done.err
        before = everything(sql)
        os.kill(first.pid, signal.SIGCONT)
        first.end()
        assert (first.code, "Traceback" in first.said()) == (5, False), first.said()
    assert everything(sql) == before
    assert lines(world).count("sent") == 1


def extended_until(sql: Sql) -> float:
    return sql.value("select extract(epoch from acquired_until)::float8 from surefoot.tasks")


@pytest.mark.parametrize("tool", ["send_on_thread", "send_on_loop"])
def test_a_call_that_blocks_the_worker_longer_than_its_lease_does_not_lose_it(
    scene: Scene, sql: Sql, tmp_path: Path, tool: str
) -> None:
    world, opening = tmp_path / "world", tmp_path / "open"
    file = sending(scene, tool, world, open=str(opening))
    with started(scene, "run", file, "--id", "t", LEASE_S=f"{LONGER_LEASE_S}") as first:
        wait_until(lambda: sql.rows("select 1 from surefoot.effects") != [])
        begun = extended_until(sql)
        wait_until(lambda: extended_until(sql) > begun + LONGER_LEASE_S)
        refused = scene.process("resume", "t")
        assert (refused.code, "held by a live worker" in refused.err) == (5, True)
        opening.touch()
        first.end()
        assert first.code == 0, first.said()
    assert (lines(world), lines(Path(f"{world}-2"))) == (["sent"], ["sent"])
    assert sql.value("select lease_epoch from surefoot.tasks") == 1


def test_a_dead_heartbeat_is_noticed_and_started_again(
    scene: Scene, sql: Sql, tmp_path: Path
) -> None:
    world, opening = tmp_path / "world", tmp_path / "open"
    file = sending(scene, "send", world, open=str(opening))
    dying = {"LEASE_S": f"{2 * LONGER_LEASE_S}", "HEARTBEAT_ENDS": "1"}
    with started(scene, "run", file, "--id", "t", **dying) as first:
        wait_until(lambda: lines(world) == ["begun"])
        begun, ran_out = extended_until(sql), False
        while extended_until(sql) < begun + LONGER_LEASE_S:
            ran_out = ran_out or has_run_out(sql)
            assert first.code is None, first.said()
        opening.touch()
        first.end()
        assert first.code == 0, first.said()
    assert not ran_out
    assert "was not extended in time" in first.said(), "nothing of it is silent"
    assert sql.value("select lease_epoch from surefoot.tasks") == 1


def test_of_many_processes_that_run_a_task_at_once_one_does_it(
    scene: Scene, sql: Sql, tmp_path: Path
) -> None:
    world, opening = tmp_path / "world", tmp_path / "open"
    file = sending(scene, "send", world, open=str(opening))
    with ExitStack() as stack:
        racers = [stack.enter_context(started(scene, "run", file, "--id", "t")) for _ in range(4)]
        wait_until(lambda: sum(racer.code is not None for racer in racers) == 3)
        assert {racer.code for racer in racers} == {5, None}
        opening.touch()
        for racer in racers:
            racer.end()
    said = [racer.said() for racer in racers]
    assert sorted(str(racer.code) for racer in racers) == ["0", "5", "5", "5"], said
    assert sum("held by a live worker" in err for err in said) == 3
    assert lines(world) == ["begun", "sent"]
