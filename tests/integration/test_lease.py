import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from typing import Any

import pytest

from surefoot.checkpointing import lease
from surefoot.checkpointing.database import Database
from surefoot.checkpointing.incarnation import Worker
from surefoot.checkpointing.lease import LeaseKeeper
from surefoot.checkpointing.tasks import record_command
from surefoot.graph.errors import LeaseHeld, LeaseLost, UsageError
from surefoot.graph.ports import Command
from surefoot.graph.processes import process_started

HOLDER = """
import asyncio, subprocess, sys, threading, time
from pathlib import Path
from surefoot.checkpointing.database import Database
from surefoot.checkpointing.lease import LeaseKeeper
from surefoot.graph.errors import LeaseHeld
from surefoot.graph.processes import process_started
from surefoot.graph.settings import Settings

async def main(url, home, mode, lease_s):
    home = Path(home)
    settings = Settings(home=home, database_url=url, artifacts_url=(home / "a").as_uri())
    async with await Database.open(settings) as database:
        keeper = LeaseKeeper(database, lease_seconds=float(lease_s), extend_seconds=0.2)
        if mode == "race":
            print("ready", flush=True)
            sys.stdin.readline()
        try:
            told = lambda: print("lost", flush=True)
            lease = await keeper.acquire("t1", on_lost=told)
        except LeaseHeld:
            print("held", flush=True)
        else:
            if mode == "child":
                child = subprocess.Popen(["sleep", "60"], start_new_session=True)
                await keeper.set_children(lease, [(child.pid, process_started(child.pid))])
                print(child.pid, flush=True)
            print("got", lease.epoch, flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            if mode == "block":
                time.sleep(3600)
            await keeper.release(lease)
        await keeper.close()

asyncio.run(main(*sys.argv[1:]))
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(settings: Any) -> Generator[Start]:
    """Starts a real process that acquires the lease of t1 and says what came of it."""
    started: list[subprocess.Popen[str]] = []

    def begin(mode: str = "hold", lease_s: float = 20) -> "subprocess.Popen[str]":
        arguments = [settings.database_url, str(settings.home), mode, str(lease_s)]
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
async def keeper(database: Database, sql: Any) -> AsyncGenerator[LeaseKeeper]:
    sql.make_task("t1", epoch=0)
    keeper = LeaseKeeper(
        database, lease_seconds=5, extend_seconds=0.1, poll_seconds=0.05, grace_seconds=0.5
    )
    yield keeper
    await keeper.close()


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return (await asyncio.to_thread(process.stdout.readline)).strip()


def tell(process: "subprocess.Popen[str]", line: str = "go") -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


async def test_a_free_task_is_acquired_released_and_acquired_with_a_new_epoch(
    keeper: LeaseKeeper, sql: Any
) -> None:
    first = await keeper.acquire("t1")
    assert (first.epoch, first.task_id, first.worker_id) == (1, "t1", keeper.worker_id)
    row = sql.rows("select acquired_by, worker from surefoot.tasks")[0]
    assert row["acquired_by"] == keeper.worker_id
    assert Worker.parse(row["worker"]) == Worker.this_process()
    await keeper.release(first)
    assert sql.value("select acquired_by is null and acquired_until is null from surefoot.tasks")
    assert (await keeper.acquire("t1")).epoch == 2


async def test_an_unknown_task_has_no_lease(keeper: LeaseKeeper) -> None:
    with pytest.raises(UsageError) as caught:
        await keeper.acquire("nobody")
    assert caught.value.code == "unknown_task"


async def test_a_second_acquire_in_the_same_process_is_refused(keeper: LeaseKeeper) -> None:
    await keeper.acquire("t1")
    with pytest.raises(LeaseHeld, match=str(os.getpid())):
        await keeper.acquire("t1")


async def test_the_heartbeat_extends_the_lease_while_the_loop_is_blocked(
    keeper: LeaseKeeper, sql: Any
) -> None:
    await keeper.acquire("t1")
    before = sql.value("select acquired_until from surefoot.tasks")
    deadline = time.monotonic() + 20
    while sql.value("select acquired_until from surefoot.tasks") == before:
        assert time.monotonic() < deadline
        time.sleep(0.02)  # noqa: ASYNC251 - the loop is blocked on purpose


async def test_the_heartbeat_survives_its_connection(keeper: LeaseKeeper, sql: Any) -> None:
    await keeper.acquire("t1")
    query = "select acquired_until from surefoot.tasks"
    for _ in range(3):
        assert sql.cut_connections() > 0
        before = sql.value(query)
        await until(lambda before=before: sql.value(query) != before)
    assert not keeper.lost("t1")


async def test_a_stolen_lease_is_noticed_and_told(keeper: LeaseKeeper, sql: Any) -> None:
    lost: list[str] = []
    held = await keeper.acquire("t1", on_lost=lambda: lost.append("t1"))
    assert not keeper.lost("t1")
    sql.steal("t1")
    await until(lambda: bool(lost))
    assert keeper.lost("t1")
    with pytest.raises(LeaseLost):
        await keeper.set_children(held, [])
    await keeper.release(held)
    assert not sql.value("select acquired_by is null from surefoot.tasks")


async def test_commands_reach_the_holder_once_and_in_order(
    keeper: LeaseKeeper, database: Database
) -> None:
    got: list[Command] = []
    await record_command(database, "t1", "pause", {"a": 1}, by="me")
    await keeper.acquire("t1", on_command=got.append)
    await until(lambda: len(got) == 1)
    await record_command(database, "t1", "skip", {"subtask": "s"}, by="me")
    await record_command(database, "t1", "cancel", {}, by="you")
    await until(lambda: len(got) == 3)
    assert [(c.name, c.args, c.by) for c in got] == [
        ("pause", {"a": 1}, "me"),
        ("skip", {"subtask": "s"}, "me"),
        ("cancel", {}, "you"),
    ]


async def test_of_two_racing_processes_one_gets_the_lease(
    keeper: LeaseKeeper, start: Start
) -> None:
    racers = [start("race") for _ in range(3)]
    assert [await said(r) for r in racers] == ["ready"] * 3
    for racer in racers:
        tell(racer)
    answers = sorted([await said(r) for r in racers])
    assert answers == ["got 1", "held", "held"]


async def test_a_live_process_keeps_its_lease(keeper: LeaseKeeper, start: Start) -> None:
    holder = start()
    assert await said(holder) == "got 1"
    with pytest.raises(LeaseHeld, match=str(holder.pid)):
        await keeper.acquire("t1")


async def test_a_killed_holder_is_replaced_at_once(keeper: LeaseKeeper, start: Start) -> None:
    holder = start()
    assert await said(holder) == "got 1"
    holder.kill()
    holder.wait()
    began = time.monotonic()
    assert (await keeper.acquire("t1")).epoch == 2
    assert time.monotonic() - began < 2


async def test_a_killed_but_unreaped_holder_is_replaced_at_once(
    keeper: LeaseKeeper, start: Start
) -> None:
    holder = start()
    assert await said(holder) == "got 1"
    holder.kill()
    await until(lambda: process_started(holder.pid) is None)
    assert (await keeper.acquire("t1")).epoch == 2


async def test_a_take_over_waits_for_the_dead_holders_children(
    keeper: LeaseKeeper, start: Start, sql: Any
) -> None:
    holder = start("child")
    child = int(await said(holder))
    assert await said(holder) == "got 1"
    holder.kill()
    holder.wait()
    keeper.grace_seconds = 20
    taking = asyncio.create_task(keeper.acquire("t1"))
    await until(lambda: sql.value("select lease_epoch from surefoot.tasks") == 2)
    assert not taking.done()
    listed = sql.value("select worker from surefoot.tasks")["children"]
    assert [pid for pid, _ in listed] == [child], "who takes over from us must end it, too"
    os.kill(child, signal.SIGKILL)
    assert (await taking).epoch == 2


async def test_children_that_do_not_end_with_their_holder_are_killed(
    keeper: LeaseKeeper, start: Start
) -> None:
    holder = start("child")
    child = int(await said(holder))
    assert await said(holder) == "got 1"
    holder.kill()
    holder.wait()
    assert (await keeper.acquire("t1")).epoch == 2
    assert process_started(child) is None


async def test_a_holder_that_stands_still_is_replaced_when_its_lease_has_run_out(
    keeper: LeaseKeeper, start: Start, sql: Any
) -> None:
    holder = start("child", 1)
    child = int(await said(holder))
    assert await said(holder) == "got 1"
    os.kill(holder.pid, signal.SIGSTOP)
    with pytest.raises(LeaseHeld, match=str(holder.pid)):
        await keeper.acquire("t1")
    await until(lambda: sql.value("select acquired_until < now() from surefoot.tasks"))
    assert (await keeper.acquire("t1")).epoch == 2
    assert process_started(child) is None
    os.kill(holder.pid, signal.SIGCONT)
    assert await said(holder) == "lost"
    assert sql.value("select lease_epoch from surefoot.tasks") == 2


async def test_children_that_cannot_be_ended_keep_the_task_from_others(
    keeper: LeaseKeeper, start: Start, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = start("child")
    child = int(await said(holder))
    assert await said(holder) == "got 1"
    holder.kill()
    holder.wait()

    async def another_users(
        children: Iterable[tuple[int, float]], *, grace_s: float, seconds: float
    ) -> list[int]:
        return [pid for pid, _ in children]

    with monkeypatch.context() as patched:
        patched.setattr(lease, "end_children", another_users)
        for _ in range(2):
            with pytest.raises(LeaseHeld, match=f"still run: {child}"):
                await keeper.acquire("t1")
    assert (await keeper.acquire("t1")).epoch == 6
    assert process_started(child) is None


async def test_a_lease_whose_heartbeat_is_dead_is_doubted_and_made_sure_again(
    keeper: LeaseKeeper, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper.lease_seconds = keeper.heartbeat.lease_seconds = 1
    with monkeypatch.context() as broken:
        broken.setattr(keeper.heartbeat, "_run", lambda: None)
        held = await keeper.acquire("t1")
        assert keeper.sure(held)
        await until(lambda: not keeper.sure(held))
    assert not sql.value("select acquired_until < now() from surefoot.tasks"), "in good time"
    await keeper.make_sure(held)
    assert keeper.sure(held)
    before = sql.value("select acquired_until from surefoot.tasks")
    await until(lambda: sql.value("select acquired_until from surefoot.tasks") > before)


async def test_an_error_in_the_heartbeat_does_not_end_it(
    keeper: LeaseKeeper, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[int] = []

    def fail() -> None:
        met.append(1)
        raise RuntimeError("an error of ours")

    await keeper.acquire("t1")
    with monkeypatch.context() as broken:
        broken.setattr(keeper.heartbeat, "_fetch_commands", fail)
        await until(lambda: len(met) > 1)
    before = sql.value("select acquired_until from surefoot.tasks")
    await until(lambda: sql.value("select acquired_until from surefoot.tasks") > before)


async def test_a_doubtful_lease_that_was_taken_is_lost(
    keeper: LeaseKeeper, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper.lease_seconds = keeper.heartbeat.lease_seconds = 0.5
    lost: list[str] = []
    with monkeypatch.context() as broken:
        broken.setattr(keeper.heartbeat, "_run", lambda: None)
        held = await keeper.acquire("t1", on_lost=lambda: lost.append("t1"))
        sql.steal("t1")
        await until(lambda: not keeper.sure(held))
        with pytest.raises(LeaseLost):
            await keeper.make_sure(held)
    await until(lambda: bool(lost))
    assert keeper.lost("t1")


async def test_a_released_lease_is_not_sure(keeper: LeaseKeeper) -> None:
    held = await keeper.acquire("t1")
    assert keeper.sure(held)
    await keeper.release(held)
    assert not keeper.sure(held)
    with pytest.raises(LeaseLost):
        await keeper.make_sure(held)


async def test_a_holder_elsewhere_is_replaced_when_its_lease_has_run_out(
    keeper: LeaseKeeper, sql: Any
) -> None:
    take = (
        "update surefoot.tasks set lease_epoch = 7, acquired_by = 'x', worker = %s::jsonb,"
        " acquired_until = now() + make_interval(secs => %s)"
    )
    worker = '{"host": "far", "boot": "b", "pid": 1, "started": 1.0, "children": [[1, 1.0]]}'
    sql.rows(take, worker, 60)
    with pytest.raises(LeaseHeld, match="process 1 on far"):
        await keeper.acquire("t1")
    sql.rows(take, worker, -1)
    assert (await keeper.acquire("t1")).epoch == 8


async def test_a_holder_elsewhere_may_come_back_after_the_server_was_started(
    keeper: LeaseKeeper, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = (
        "update surefoot.tasks set lease_epoch = 7, acquired_by = 'x', worker = %s::jsonb,"
        " acquired_until = now() - interval '1 s'"
    )
    sql.rows(take, '{"host": "far", "boot": "b", "pid": 1, "started": 1.0}')
    up_s = sql.value("select extract(epoch from now() - pg_postmaster_start_time())::float8")
    monkeypatch.setattr(lease, "COME_BACK_SECONDS", up_s + 2)
    taking = asyncio.create_task(keeper.acquire("t1"))
    looked = (
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and query like '%%server_up_s%%' and state = 'idle'"
    )
    await until(lambda: sql.value(looked) == 1)
    sql.rows("update surefoot.tasks set acquired_until = now() + interval '60 s'")
    with pytest.raises(LeaseHeld, match="process 1 on far"):
        await taking


async def test_a_reused_pid_does_not_count_as_the_holder(keeper: LeaseKeeper, sql: Any) -> None:
    mine = Worker.this_process()
    impostor = Worker(host=mine.host, boot=mine.boot, pid=mine.pid, started=mine.started - 5)
    assert impostor.gone()
    assert not mine.gone()
    earlier_boot = Worker(host=mine.host, boot="before", pid=mine.pid, started=mine.started)
    assert earlier_boot.gone()
    elsewhere = Worker(host="far", boot=mine.boot, pid=mine.pid, started=0.0)
    assert not elsewhere.gone()
