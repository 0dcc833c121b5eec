import math
from typing import Any

import pytest

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.journal import TaskJournal
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.outbox import Fence
from surefoot.checkpointing.readers import Readers
from surefoot.checkpointing.tasks import (
    apply_command,
    bump_durations,
    command_outcome,
    create_task,
    record_command,
    store_raised_limits,
    withdraw_command,
)
from surefoot.graph.errors import DatabaseUnavailable, LeaseLost, UsageError


@pytest.fixture
def readers(database: Database) -> Readers:
    return Readers(database)


async def make(database: Database, id: str, **other: Any) -> tuple[dict[str, Any], bool]:
    plain: dict[str, Any] = {
        "name": "n",
        "spec": {"task": {"x": "a\0"}},
        "spec_digest": "d",
        "workspace": "/w",
        "concurrency": 4,
    }
    return await create_task(database, id, **(plain | other))


async def test_a_task_is_made_once(database: Database, readers: Readers) -> None:
    row, made = await make(database, "a", limits={"max_steps": 5}, status="running")
    assert made
    again, made_again = await make(database, "a", spec={"other": 1})
    assert not made_again
    assert again == row == await readers.task_row("a")
    assert row["spec"] == {"task": {"x": "a\\u0000"}}
    assert (row["limits"], row["inputs_manifest"], row["lease_epoch"]) == (
        {"max_steps": 5},
        None,
        0,
    )
    assert row["created_at"].utcoffset().total_seconds() == 0


async def test_the_newest_task_and_the_list(database: Database, readers: Readers) -> None:
    assert await readers.newest_task_id() is None
    assert await readers.task_rows() == []
    for id in ("a", "c", "b"):
        await make(database, id)
    assert await readers.newest_task_id() == "b"
    rows = await readers.task_rows()
    assert [r["id"] for r in rows] == ["b", "c", "a"]
    assert "spec" not in rows[0]


async def test_everything_a_task_wrote_is_read_back(
    database: Database, readers: Readers, sql: Any
) -> None:
    journal = TaskJournal("t1")
    journal.bind(Fence(database, sql.make_task("t1")))
    journal.subtask("b", state="completed")
    journal.subtask("a/0", state="running")
    journal.subtask("a/1", state="completed")
    for n in range(4):
        journal.event("Started" if n % 2 else "Ended", subtask=f"s{n}", n=n)
    ref: Any = {"name": "x y.txt", "sha256": "0" * 64, "size": 3, "media_type": "t"}
    journal.artifact("a/0", 1, ref)
    changed: Any = {**ref, "sha256": "1" * 64}
    journal.artifact("a/0", 2, changed)
    journal.plan(1, {"v": 1}, "first")
    journal.plan(2, {"v": 2}, "second")
    journal.question("q1", kind="ask", text="?", asked_at=1.0)
    journal.question("q2", kind="ask", text="?", asked_at=2.0, open=False)
    await journal.flush()

    assert [r["id"] for r in await readers.subtask_rows("t1")] == ["a/0", "a/1", "b"]
    one = await readers.subtask_row("t1", "a/0")
    assert one is not None
    assert one["state"] == "running"
    assert await readers.subtask_row("t1", "c") is None
    assert await readers.counts("t1") == {"running": 1, "completed": 2}

    events = await readers.event_rows("t1")
    assert [e["facts"]["n"] for e in events] == [0, 1, 2, 3]
    assert [e["id"] for e in await readers.event_rows("t1", after=events[1]["id"])] == [
        e["id"] for e in events[2:]
    ]
    assert len(await readers.event_rows("t1", types=["Started"])) == 2
    assert len(await readers.event_rows("t1", subtask="s1")) == 1
    assert len(await readers.event_rows("t1", limit=3)) == 3

    newest = await readers.artifact_row("t1", "a/0/x y.txt")
    assert newest is not None
    assert newest["version"] == 2
    first = await readers.artifact_row("t1", "a/0/x y.txt", 1)
    assert first is not None
    assert first["sha256"] == "0" * 64
    assert await readers.artifact_row("t1", "a/0/z") is None
    assert len(await readers.artifact_rows("t1")) == 2

    plan, old = await readers.plan_row("t1"), await readers.plan_row("t1", 1)
    assert plan is not None
    assert old is not None
    assert (plan["plan"], old["plan"]) == ({"v": 2}, {"v": 1})
    assert [v["reason"] for v in await readers.plan_versions("t1")] == ["first", "second"]
    assert [q["id"] for q in await readers.question_rows("t1")] == ["q1"]
    assert [q["id"] for q in await readers.question_rows(open_only=False)] == ["q1", "q2"]


async def test_a_command_is_applied_once_and_only_by_the_holder(
    database: Database, sql: Any
) -> None:
    lease: Lease = sql.make_task("t1")
    id = await record_command(database, "t1", "skip", {"subtask": "s"}, by="me")
    waiting = await command_outcome(database, id)
    assert waiting is not None
    assert (waiting["name"], waiting["applied_at"], waiting["outcome"]) == ("skip", None, None)
    assert await apply_command(database, lease, id, {"ok": True})
    assert not await apply_command(database, lease, id, {"ok": False})
    assert not await withdraw_command(database, id)
    applied = await command_outcome(database, id)
    assert applied is not None
    assert applied["outcome"] == {"ok": True}
    other = await record_command(database, "t1", "pause", {}, by="me")
    sql.steal("t1")
    with pytest.raises(LeaseLost):
        await apply_command(database, lease, other)
    assert await withdraw_command(database, other, {"ok": False})
    assert await command_outcome(database, 10**9) is None
    with pytest.raises(UsageError):
        await record_command(database, "nobody", "pause", {}, by="me")


async def test_raised_limits_are_laid_over_those_before_behind_the_fence(
    database: Database, sql: Any
) -> None:
    lease = sql.make_task("t1")
    await store_raised_limits(database, lease, {"max_steps": 5, "max_tokens": 7})
    await store_raised_limits(database, lease, {"max_steps": 9})
    raised = "select spec -> 'raised' from surefoot.tasks"
    assert sql.value(raised) == {"max_steps": 9, "max_tokens": 7}
    sql.steal("t1")
    with pytest.raises(LeaseLost):
        await store_raised_limits(database, lease, {"max_steps": 10})
    assert sql.value(raised) == {"max_steps": 9, "max_tokens": 7}


async def test_durations_add_up_to_the_whole_sample(database: Database, readers: Readers) -> None:
    seconds = [0.5, 1.0, 4.0, 0.25, 3.0, 0.0]
    await bump_durations(database, {"tool": seconds[:2], "other": [2.0]})
    await bump_durations(database, {"tool": seconds[2:], "none": []})
    logs = [math.log(s) for s in seconds if s]
    mean = sum(logs) / len(logs)
    found = await readers.durations()
    assert set(found) == {"tool", "other"}
    assert found["tool"]["n"] == 5
    assert found["tool"]["log_mean"] == pytest.approx(mean)
    assert found["tool"]["log_m2"] == pytest.approx(sum((x - mean) ** 2 for x in logs))


async def test_a_lost_connection_is_a_transient_error(
    database: Database, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await database.pool.close()
    with pytest.raises(DatabaseUnavailable):
        await readers.task_rows()
