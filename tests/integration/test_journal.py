import asyncio
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.journal import TaskJournal
from surefoot.checkpointing.json_text import json_text
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.outbox import Fence, Outbox, run_fenced
from surefoot.checkpointing.saver import TaskSaver
from surefoot.graph.errors import DatabaseUnavailable, LeaseLost

EVENT = {"time": 1.0, "type": "Step"}
REF: Any = {"name": "a.txt", "sha256": "0" * 64, "size": 3, "media_type": "text/plain"}


@pytest.fixture
def lease(sql: Any) -> Lease:
    return sql.make_task("t1")


@pytest.fixture
def journal(database: Database, lease: Lease) -> TaskJournal:
    journal = TaskJournal("t1", clock=lambda: 1_700_000_000.25)
    journal.bind(Fence(database, lease))
    return journal


async def test_only_named_columns_of_a_subtask_change(journal: TaskJournal, sql: Any) -> None:
    journal.subtask("s/0", state="running", parent="s", kind="tool", attempt=1, since=10.5)
    await journal.flush()
    journal.subtask("s/0", attempt=2, failure={"kind": "error"}, marks=["m"])
    journal.subtask("s/0", state="failed", since=None)
    await journal.flush()
    row = sql.rows("select * from surefoot.subtasks")[0]
    assert {k: v for k, v in row.items() if v is not None} == {
        "task_id": "t1",
        "id": "s/0",
        "parent": "s",
        "kind": "tool",
        "state": "failed",
        "attempt": 2,
        "attempts": 0,
        "rung": 0,
        "degraded": False,
        "failure": {"kind": "error"},
        "marks": ["m"],
    }


async def test_the_last_of_several_changes_to_one_row_wins(journal: TaskJournal, sql: Any) -> None:
    for n in range(5):
        journal.subtask("s", state="running", step=n)
    journal.subtask("s", state="completed")
    await journal.flush()
    assert sql.rows("select state, step from surefoot.subtasks") == [
        {"state": "completed", "step": 4}
    ]


async def test_events_keep_their_order_and_time(journal: TaskJournal, sql: Any) -> None:
    for n in range(50):
        journal.event("Step", subtask="s", attempt=n, n=n)
    journal.event("Bare")
    await journal.flush()
    rows = sql.rows("select * from surefoot.events order by id")
    assert [r["attempt"] for r in rows] == [*range(50), None]
    assert rows[-1]["facts"] is None
    assert rows[0]["time"] == datetime.fromtimestamp(1_700_000_000.25, UTC)


async def test_text_that_postgres_refuses_is_made_visible(journal: TaskJournal, sql: Any) -> None:
    facts: dict[str, Any] = {"k\0": float("nan"), "literal": "\\u0000"}
    journal.event("Odd", text="a\0b\ud800", **facts)
    journal.subtask("s\0", state="failed", reason="x\0", failure={"message": "\udfff"})
    await journal.flush()
    assert sql.value("select facts from surefoot.events") == {
        "text": "a\\u0000b\\ud800",
        "k\\u0000": None,
        "literal": "\\u0000",
    }
    row = sql.rows("select id, reason, failure from surefoot.subtasks")[0]
    assert row == {"id": "s\\u0000", "reason": "x\\u0000", "failure": {"message": "\\udfff"}}


async def test_artifact_versions_count_up_and_are_not_repeated(
    journal: TaskJournal, sql: Any
) -> None:
    changed: Any = {**REF, "sha256": "1" * 64}
    other: Any = {**REF, "name": "b.txt"}
    journal.artifact("s", 1, REF)
    journal.artifact("s", 2, changed)
    journal.artifact("s", 2, other)
    await journal.flush()
    journal.artifact("s", 2, changed)
    await journal.flush()
    journal.artifact("s", 3, REF)
    await journal.flush()
    query = (
        "select name, version, attempt, left(sha256, 1) as h from surefoot.artifacts order by 1, 2"
    )
    assert [tuple(r.values()) for r in sql.rows(query)] == [
        ("a.txt", 1, 1, "0"),
        ("a.txt", 2, 2, "1"),
        ("a.txt", 3, 3, "0"),
        ("b.txt", 1, 2, "0"),
    ]


async def test_plans_questions_and_task_columns_are_written(journal: TaskJournal, sql: Any) -> None:
    journal.plan(1, {"subtasks": []}, "first")
    journal.question("q1", subtask="s", kind="ask", text="go on?")
    journal.task(status="waiting", progress=0.5, progress_at=5.0, failure={"code": "stuck"})
    journal.task(
        usage={"steps": 3, "tokens": 2**40, "cost_usd": 0.1, "seconds": 1.5, "failures": 1}
    )
    await journal.flush()
    journal.question("q1", open=False, answer="yes", closed_at=20.0)
    journal.task(failure=None, plan_version=1)
    await journal.flush()
    assert sql.rows("select version, plan, reason from surefoot.plans") == [
        {"version": 1, "plan": {"subtasks": []}, "reason": "first"}
    ]
    question = sql.rows("select subtask, text, open, answer, closed_at from surefoot.questions")[0]
    assert question["answer"] == "yes"
    assert (question["subtask"], question["text"], question["open"]) == ("s", "go on?", False)
    task = sql.rows("select * from surefoot.tasks")[0]
    assert (task["status"], task["progress"], task["failure"]) == ("waiting", 0.5, None)
    assert (task["steps"], task["tokens"], task["failures"]) == (3, 2**40, 1)
    assert task["progress_at"] == datetime.fromtimestamp(5, UTC)
    assert task["spec"] == {}


async def test_unknown_columns_are_refused_at_once(journal: TaskJournal) -> None:
    with pytest.raises(ValueError, match="colour"):
        journal.subtask("s", colour="red")
    with pytest.raises(ValueError, match="lease_epoch"):
        journal.task(lease_epoch=7)


async def test_discarded_rows_are_never_written(journal: TaskJournal, sql: Any) -> None:
    journal.event("Dropped")
    journal.discard()
    journal.event("Kept")
    await journal.flush()
    assert sql.rows("select type from surefoot.events") == [{"type": "Kept"}]


async def test_a_flush_whose_answer_was_lost_is_not_written_twice(
    journal: TaskJournal, database: Database, lease: Lease, sql: Any
) -> None:
    class AnswerLost(Fence):
        async def write(self, outbox: Outbox, *, notify: bool = True) -> None:
            await super().write(outbox, notify=notify)
            raise DatabaseUnavailable("the wire broke after the commit")

    journal.bind(AnswerLost(database, lease))
    journal.event("One")
    journal.artifact("s", 1, REF)
    with pytest.raises(DatabaseUnavailable):
        await journal.flush()
    journal.event("Two")
    journal.bind(Fence(database, lease))
    await journal.flush()
    await journal.flush()
    assert [r["type"] for r in sql.rows("select type from surefoot.events order by id")] == [
        "One",
        "Two",
    ]
    assert sql.value("select count(*) from surefoot.artifacts") == 1


async def test_rows_of_a_failed_flush_stay_queued(
    journal: TaskJournal, database: Database, lease: Lease, sql: Any
) -> None:
    class NeverSent(Fence):
        async def write(self, outbox: Outbox, *, notify: bool = True) -> None:
            raise DatabaseUnavailable("away")

    journal.bind(NeverSent(database, lease))
    journal.event("One")
    journal.subtask("s", state="running", step=1)
    with pytest.raises(DatabaseUnavailable):
        await journal.flush()
    journal.subtask("s", state="completed")
    journal.bind(Fence(database, lease))
    await journal.flush()
    assert sql.value("select count(*) from surefoot.events") == 1
    assert sql.rows("select state, step from surefoot.subtasks") == [
        {"state": "completed", "step": 1}
    ]


async def test_listeners_hear_of_a_task_but_not_of_every_commit(
    journal: TaskJournal, sql: Any
) -> None:
    async with await psycopg.AsyncConnection.connect(sql.url, autocommit=True) as ears:
        await ears.execute("listen surefoot")
        for n in range(20):
            journal.event("Step", n=n)
            await journal.flush()
        heard = [n.payload async for n in ears.notifies(timeout=1, stop_after=20)]
    assert set(heard) == {"t1"}
    assert 1 <= len(heard) < 20


async def test_heartbeats_and_commits_on_one_row_disturb_each_other_in_nothing(
    database: Database, lease: Lease, sql: Any
) -> None:
    journal = TaskJournal("t1")
    saver = TaskSaver(database, lease, journal)
    sql.rows("update surefoot.tasks set acquired_by = 'w', acquired_until = now(), worker = '{}'")
    stop = asyncio.Event()

    async def beat() -> int:
        beats = 0
        async with await database.connect() as connection:
            while not stop.is_set():
                await connection.execute(
                    "update surefoot.tasks set acquired_until = now() + interval '1 day'"
                )
                beats += 1
        return beats

    beating = [asyncio.create_task(beat()) for _ in range(2)]
    for n in range(150):
        journal.task(steps=n, progress=n / 150)
        journal.event("Step", n=n)
        await journal.flush()
    stop.set()
    assert all(n > 20 for n in await asyncio.gather(*beating))
    row = sql.rows(
        "select steps, acquired_until > now() + interval '1 hour' as ok from surefoot.tasks"
    )
    assert row == [{"steps": 149, "ok": True}]
    assert sql.value("select count(*) from surefoot.events") == 150
    await saver.close()


async def test_a_take_over_waits_for_a_write_that_is_under_way(
    database: Database, lease: Lease, sql: Any
) -> None:
    async with await database.connect() as writer, writer.transaction():
        await run_fenced(writer, lease, ("events",), {"events": json_text([EVENT])})
        stealing = asyncio.create_task(asyncio.to_thread(sql.steal, "t1"))
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        while not await asyncio.to_thread(sql.value, waiting):
            assert not stealing.done()
        sql.rows("update surefoot.tasks set acquired_until = null")  # a heartbeat does not wait
    await stealing
    assert sql.value("select count(*) from surefoot.events") == 1
    with pytest.raises(LeaseLost):
        async with database.borrowed() as writer:
            await run_fenced(writer, lease, ("events",), {"events": json_text([EVENT])})
    assert sql.value("select count(*) from surefoot.events") == 1
