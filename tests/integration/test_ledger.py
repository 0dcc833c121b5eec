import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any, cast

import pytest

from surefoot.checkpointing import ledger as ledger_module
from surefoot.checkpointing.database import Database
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.ledger import PostgresLedger
from surefoot.graph.errors import DatabaseUnavailable, LeaseLost
from surefoot.graph.keys import undo_key
from surefoot.graph.ports import EffectCall, EffectKind, EffectState

REF: Any = {"name": "a.txt", "sha256": "0" * 64, "size": 3, "media_type": "text/plain"}


@pytest.fixture
def leases(sql: Any) -> dict[str, Lease]:
    return {name: sql.make_task(name) for name in ("t1", "t2")}


@pytest.fixture
async def ledger(database: Database, leases: dict[str, Lease]) -> AsyncGenerator[PostgresLedger]:
    ledger = PostgresLedger(database, leases.__getitem__)
    yield ledger
    await ledger.close()


def call(key: str = "k", effect: EffectKind = "irreversible", **other: Any) -> EffectCall:
    plain = EffectCall(
        task_id="t1",
        key=key,
        scope="s1",
        subtask="s1",
        attempt=1,
        tool="send",
        effect=effect,
        args={"to": "x", "n": 2**70},
    )
    return replace(plain, **other)


async def test_a_done_effect_answers_and_is_not_intended_again(ledger: PostgresLedger) -> None:
    assert await ledger.intend(call()) is None
    await ledger.settle(call(), "done", result={"value": {"id": 7}}, artifacts=[REF], note="n")
    standing = await ledger.intend(call(attempt=2))
    assert standing is not None
    assert (standing.state, standing.result) == ("done", {"value": {"id": 7}})
    assert standing.attempt == 1
    assert standing.args == {"to": "x", "n": 2**70}
    assert standing.artifacts == (REF,)
    assert await ledger.find("t1", "k", "s1") == standing


async def test_an_intent_without_an_outcome_stands(ledger: PostgresLedger) -> None:
    assert await ledger.intend(call()) is None
    standing = await ledger.intend(call(attempt=2))
    assert standing is not None
    assert (standing.state, standing.result, standing.artifacts) == ("intent", None, ())


@pytest.mark.parametrize("state", ["failed", "compensated"])
async def test_what_was_not_done_or_undone_is_done_again(
    ledger: PostgresLedger, sql: Any, state: Any
) -> None:
    await ledger.intend(call())
    await ledger.settle(call(), state, note="why")
    assert await ledger.find("t1", "k", "s1") is None
    assert await ledger.intend(call(attempt=2)) is None
    row = sql.rows("select attempt, state, note, outcome_at from surefoot.effects")[0]
    assert row == {"attempt": 2, "state": "intent", "note": None, "outcome_at": None}


async def test_idempotent_calls_are_simply_made_again(ledger: PostgresLedger) -> None:
    assert await ledger.intend(call(effect="idempotent")) is None
    await ledger.settle(call(effect="idempotent"), "done", result={"value": 1})
    assert await ledger.intend(call(effect="idempotent", attempt=2)) is None


async def test_the_same_key_in_another_scope_or_task_is_another_effect(
    ledger: PostgresLedger,
) -> None:
    assert await ledger.intend(call()) is None
    assert await ledger.intend(call(scope="s2", subtask="s2")) is None
    assert await ledger.intend(call(task_id="t2")) is None


async def test_an_outcome_without_a_value_stays_without_one(
    ledger: PostgresLedger, sql: Any
) -> None:
    await ledger.intend(call())
    await ledger.settle(call(), "done", result={"value": None})
    assert sql.value("select result from surefoot.effects") == {"value": None}
    await ledger.settle(call(), "done")
    assert sql.value("select result is null and artifacts is null from surefoot.effects")


async def test_many_calls_at_once_share_commits_and_all_land(
    ledger: PostgresLedger, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = 0
    write = ledger._write  # pyright: ignore[reportPrivateUsage]

    async def counted(batch: Any) -> Any:
        nonlocal statements
        statements += 1
        return await write(batch)

    monkeypatch.setattr(ledger, "_write", counted)

    async def one(n: int) -> None:
        assert await ledger.intend(call(f"k{n}", task_id=f"t{n % 2 + 1}")) is None
        await ledger.settle(call(f"k{n}", task_id=f"t{n % 2 + 1}"), "done", result={"value": n})

    await asyncio.gather(*(one(n) for n in range(300)))
    assert statements < 30
    rows = sql.rows("select key, result -> 'value' as v, state from surefoot.effects")
    assert {r["key"]: r["v"] for r in rows} == {f"k{n}": n for n in range(300)}
    assert {r["state"] for r in rows} == {"done"}


async def test_of_the_same_intents_at_once_one_goes_ahead(ledger: PostgresLedger) -> None:
    answers = await asyncio.gather(*(ledger.intend(call(attempt=n)) for n in range(1, 6)))
    assert [a.attempt if a else None for a in answers] == [None, 1, 1, 1, 1]


async def test_a_lost_lease_fails_only_its_own_task(ledger: PostgresLedger, sql: Any) -> None:
    sql.steal("t1")
    lost, kept = await asyncio.gather(
        ledger.intend(call()), ledger.intend(call(task_id="t2")), return_exceptions=True
    )
    assert isinstance(lost, LeaseLost)
    assert lost.task_id == "t1"
    assert kept is None
    with pytest.raises(LeaseLost):
        await ledger.settle(call(), "done")
    assert sql.rows("select task_id from surefoot.effects") == [{"task_id": "t2"}]


async def test_cut_connections_are_not_noticed_by_callers(ledger: PostgresLedger, sql: Any) -> None:
    for n in range(5):
        assert await ledger.intend(call(f"k{n}")) is None
        assert sql.cut_connections() > 0
        await ledger.settle(call(f"k{n}"), "done", result={"value": n})
    assert sql.value("select count(*) from surefoot.effects where state = 'done'") == 5


async def test_an_intent_whose_answer_was_lost_is_recognised_as_ours(
    ledger: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ledger._write  # pyright: ignore[reportPrivateUsage]
    lost = False

    async def answer_lost(batch: Any) -> Any:
        nonlocal lost
        answers = await write(batch)
        if not lost:
            lost = True
            raise DatabaseUnavailable("the wire broke after the commit")
        return answers

    monkeypatch.setattr(ledger, "_write", answer_lost)
    assert await ledger.intend(call()) is None
    assert lost


async def test_a_database_that_stays_away_is_a_transient_error_in_the_end(
    ledger: PostgresLedger, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(database, "url", "postgresql://u:secret@127.0.0.1:1/x")
    with pytest.raises(DatabaseUnavailable) as caught:
        await ledger.intend(call())
    assert "secret" not in str(caught.value)


async def test_a_cancelled_caller_disturbs_nobody(ledger: PostgresLedger) -> None:
    first = asyncio.create_task(ledger.intend(call("a")))
    second = asyncio.create_task(ledger.intend(call("b")))
    await asyncio.sleep(0)
    first.cancel()
    assert await second is None
    with pytest.raises(asyncio.CancelledError):
        await first


# --- what is taken back ----------------------------------------------------------------------


async def test_an_effect_that_is_being_taken_back_is_unknown_and_keeps_its_result(
    ledger: PostgresLedger, sql: Any
) -> None:
    await ledger.intend(call())
    await ledger.settle(call(), "done", result={"value": 7}, artifacts=[REF])
    await ledger.settle(call(), "intent", result={"value": 7}, artifacts=[REF], note="leaving")
    assert sql.value("select outcome_at is null from surefoot.effects")
    standing = await ledger.intend(call(attempt=2))
    assert standing is not None
    assert (standing.state, standing.result, standing.note) == ("intent", {"value": 7}, "leaving")
    await ledger.settle(call(), "compensated")
    assert await ledger.intend(call(attempt=2)) is None


async def test_a_late_word_about_a_call_that_was_made_anew_changes_nothing(
    ledger: PostgresLedger, sql: Any
) -> None:
    await ledger.intend(call())
    await ledger.settle(call(), "failed")
    await ledger.intend(call(attempt=2))
    await ledger.settle(call(), "done", result={"value": "late"})
    row = sql.rows("select attempt, state, result from surefoot.effects")[0]
    assert row == {"attempt": 2, "state": "intent", "result": None}
    await ledger.settle(call(attempt=2), "done", result={"value": "new"})
    await ledger.settle(call(), "failed")
    assert sql.value("select result from surefoot.effects") == {"value": "new"}


async def test_a_later_attempt_and_another_subtask_settle_what_an_earlier_one_began(
    ledger: PostgresLedger, sql: Any
) -> None:
    await ledger.intend(call("own", scope="", attempt=3))
    await ledger.settle(call("own", scope="", subtask="s2"), "done", result={"value": 1})
    assert sql.value("select state from surefoot.effects") == "done"


async def test_all_that_a_subtask_called_is_found_and_its_undo_is_no_effect_that_stands(
    ledger: PostgresLedger,
) -> None:
    undo = undo_key("t1", "s1", "digest", 1).key
    for key, state in (("a", "done"), ("b", "compensated"), (undo, "done")):
        await ledger.intend(call(key))
        await ledger.settle(call(key), cast("EffectState", state))
    await ledger.intend(call("c"))
    await ledger.intend(call("d", scope="s1/0", subtask="s1/0"))
    assert [row.key for row in await ledger.of_subtask("t1", "s1")] == ["c", undo, "b", "a"]
    assert [row.key for row in await ledger.standing("t1", ["s1"])] == ["d", "c", "a"]
    assert [row.key for row in await ledger.standing("t1", ["s1/0"])] == ["d"]


async def test_what_was_left_standing_answers_its_own_subtask_and_stands_again(
    ledger: PostgresLedger,
) -> None:
    await ledger.intend(call())
    await ledger.settle(call(), "done", result={"value": 1})
    await ledger.leave_standing("t1", await ledger.standing("t1", ["s1"]))
    (left,) = await ledger.left_standing("t1", "send")
    assert left.rolled_back
    assert await ledger.left_standing("t1", "other") == []
    await ledger.adopt(call(attempt=2), [])
    assert await ledger.left_standing("t1", "send") == []
    standing = await ledger.find("t1", "k", "s1")
    assert standing is not None
    assert (standing.state, standing.rolled_back) == ("done", False)


async def test_what_was_left_standing_goes_over_to_one_other_subtask(
    ledger: PostgresLedger,
) -> None:
    await ledger.intend(call())
    await ledger.settle(call(), "done", result={"value": 1})
    await ledger.adopt(call(scope="s2", subtask="s2"), [])
    assert await ledger.find("t1", "k", "s2") is None, "its subtask was not taken back"
    await ledger.leave_standing("t1", await ledger.standing("t1", ["s1"]))
    for scope in ("s2", "s3"):
        await ledger.adopt(call(scope=scope, subtask=scope), [])
    taken = await ledger.find("t1", "k", "s2")
    assert taken is not None
    assert (taken.subtask, taken.rolled_back, taken.result) == ("s2", False, {"value": 1})
    assert await ledger.find("t1", "k", "s1") is None
    assert await ledger.find("t1", "k", "s3") is None


async def test_a_task_without_a_rollback_is_asked_what_it_left_once_a_lease(
    ledger: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    rows = ledger._rows  # pyright: ignore[reportPrivateUsage]

    async def counted(name: str, parameters: Any) -> Any:
        asked.append(name)
        return await rows(name, parameters)

    monkeypatch.setattr(ledger, "_rows", counted)
    for _ in range(3):
        assert await ledger.left_standing("t1", "send") == []
    assert asked == ["left_standing"]
    await ledger.intend(call())
    await ledger.settle(call(), "done")
    await ledger.leave_standing("t1", await ledger.standing("t1", ["s1"]))
    assert len(await ledger.left_standing("t1", "send")) == 1
