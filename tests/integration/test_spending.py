"""What models cost, in the task's row: reserved before, settled after, exact after any death."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Sql

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.journal import TaskJournal
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.outbox import Fence
from surefoot.checkpointing.readers import Readers
from surefoot.checkpointing.spending import TaskSpending
from surefoot.graph.budget import effective_limits
from surefoot.graph.errors import BudgetExhausted, LeaseLost
from surefoot.graph.opening import Stored
from surefoot.graph.spending import Account, Cost
from surefoot.graph.task import Budget
from surefoot.graph.values import Usage

SUMS = (
    "select steps, call_steps, tokens, cost_usd, reserved_tokens, reserved_cost_usd"
    " from surefoot.tasks where id = 't'"
)


def spending_of(
    database: Database, lease: Lease, *, usage: Usage | None = None, **budget: float
) -> TaskSpending:
    """A spending of its own steps, as a task without orders has it."""
    used = usage or Usage(steps=0, tokens=0, cost_usd=0.0, seconds=0.0, failures=0)
    account = Account(used)

    def count_step(subtask: str | None) -> None:
        del subtask
        account.call_steps += 1
        used["steps"] += 1

    limits = effective_limits(Budget.model_validate(budget), leaves=1)
    return TaskSpending(database, lease, account, limits=lambda: limits, count_step=count_step)


def sums(sql: Sql) -> tuple[Any, ...]:
    return tuple(sql.rows(SUMS)[0].values())


async def test_what_is_reserved_stands_in_the_row_before_the_call_and_what_was_used_after_it(
    database: Database, sql: Sql
) -> None:
    spending = spending_of(database, sql.make_task("t"))
    most = Cost(tokens=1000, cost_usd=0.5)
    await spending.reserve(most, subtask=None)
    assert sums(sql) == (1, 1, 0, 0.0, 1000, 0.5)
    await spending.settle(most, Cost(tokens=300, cost_usd=0.1))
    assert sums(sql) == (1, 1, 300, 0.1, 0, 0.0)


async def test_steps_of_orders_and_of_calls_never_overwrite_each_other(
    database: Database, sql: Sql
) -> None:
    lease = sql.make_task("t")
    spending = spending_of(database, lease)
    journal = TaskJournal("t")
    journal.bind(Fence(database, lease))
    journal.task(steps=7)
    await spending.reserve(Cost(tokens=1), subtask=None)
    await journal.flush()
    assert sums(sql)[:2] == (8, 1)
    await spending.reserve(Cost(tokens=1), subtask=None)
    journal.task(steps=7)
    await journal.flush()
    assert sums(sql)[:2] == (9, 2)


async def test_where_there_is_no_room_for_the_most_the_largest_that_fits_is_reserved(
    database: Database, sql: Sql
) -> None:
    spending = spending_of(database, sql.make_task("t"), max_tokens=100)
    smaller = [Cost(tokens=120), Cost(tokens=60), Cost(tokens=30)]
    got = await spending.reserve(Cost(tokens=240), subtask=None, smaller=smaller)
    assert got is smaller[1]
    assert sums(sql)[4] == 60
    waiting = asyncio.create_task(spending.reserve(Cost(tokens=80), subtask=None, smaller=smaller))
    await asyncio.sleep(0)
    assert not waiting.done()  # what is under way may leave room for the whole
    await spending.settle(got, Cost(tokens=10))
    assert (await waiting).tokens == 80


async def test_a_refused_reservation_leaves_the_row_as_it_was(database: Database, sql: Sql) -> None:
    spending = spending_of(database, sql.make_task("t"), max_tokens=100)
    with pytest.raises(BudgetExhausted) as refused:
        await spending.reserve(Cost(tokens=101), subtask=None)
    assert refused.value.limit == "max_tokens"
    assert sums(sql) == (0, 0, 0, 0.0, 0, 0.0)
    await spending.reserve(Cost(tokens=100), subtask=None)


async def test_who_finds_no_room_waits_until_a_call_under_way_leaves_some(
    database: Database, sql: Sql
) -> None:
    spending = spending_of(database, sql.make_task("t"), max_tokens=100)
    first, second = Cost(tokens=80), Cost(tokens=80)
    await spending.reserve(first, subtask=None)
    waiting = asyncio.create_task(spending.reserve(second, subtask=None))
    await asyncio.sleep(0)
    assert not waiting.done()
    await spending.settle(first, Cost(tokens=10))
    await waiting
    assert sums(sql)[2:5] == (10, 0.0, 80)


async def test_a_torn_off_call_counts_as_reserved_and_leaves_no_room(
    database: Database, sql: Sql
) -> None:
    spending = spending_of(database, sql.make_task("t"), max_tokens=100)
    first = Cost(tokens=80)
    await spending.reserve(first, subtask=None)
    waiting = asyncio.create_task(spending.reserve(Cost(tokens=80), subtask=None))
    await asyncio.sleep(0)
    spending.forfeit(first)
    with pytest.raises(BudgetExhausted):
        await waiting
    await spending.close()
    assert sums(sql)[2:5] == (80, 0.0, 0)


async def test_many_calls_at_a_time_share_a_few_statements_and_add_up(
    database: Database, sql: Sql
) -> None:
    spending = spending_of(database, sql.make_task("t"))

    async def call(tokens: int) -> None:
        most = Cost(tokens=1000)
        await spending.reserve(most, subtask=None)
        await spending.settle(most, Cost(tokens=tokens))

    await asyncio.gather(*(call(n) for n in range(200)))
    assert sums(sql) == (200, 200, sum(range(200)), 0.0, 0, 0.0)


async def test_a_worker_whose_task_was_taken_over_reserves_nothing(
    database: Database, sql: Sql
) -> None:
    spending = spending_of(database, sql.make_task("t"))
    sql.steal("t")
    with pytest.raises(LeaseLost):
        await spending.reserve(Cost(tokens=1), subtask=None)
    assert sums(sql) == (0, 0, 0, 0.0, 0, 0.0)


async def test_a_lost_connection_is_waited_for_and_nothing_is_counted_twice(
    database: Database, sql: Sql
) -> None:
    spending = spending_of(database, sql.make_task("t"))
    most = Cost(tokens=1000)
    await spending.reserve(most, subtask=None)
    sql.cut_connections()
    await spending.settle(most, Cost(tokens=300))
    assert sums(sql) == (1, 1, 300, 0.0, 0, 0.0)


DYING = """
import asyncio, os, signal, sys
from dataclasses import replace
from pathlib import Path
from surefoot.checkpointing.database import Database
from surefoot.checkpointing.lease import Lease
from surefoot.graph.settings import Settings
from surefoot.graph.spending import Cost
from test_spending import spending_of

async def main(url, home):
    settings = Settings(home=Path(home), database_url=url, artifacts_url=Path(home).as_uri())
    async with await Database.open(settings) as database:
        spending = spending_of(database, Lease(task_id="t", epoch=1, worker_id="w"))
        first, second = Cost(tokens=100, cost_usd=0.1), Cost(tokens=1000, cost_usd=0.5)
        await spending.reserve(first, subtask=None)
        await spending.settle(first, Cost(tokens=30, cost_usd=0.02))
        await spending.reserve(second, subtask=None)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_what_a_killed_worker_left_reserved_counts_as_used_by_the_next_one(
    database: Database, sql: Sql, tmp_path: Any
) -> None:
    lease = sql.make_task("t")
    path = ":".join([*sys.path, str(Path(__file__).parent)])
    code = f"import sys; sys.path[:] = {path!r}.split(':')\n{DYING}"
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code, sql.url, str(tmp_path)], check=False
    )
    assert done.returncode == -9
    assert sums(sql) == (2, 2, 30, 0.02, 1000, 0.5)
    row = await Readers(database).task_row("t")
    assert row is not None
    stored = Stored.from_row(row)
    assert (stored.usage["tokens"], stored.usage["steps"], stored.reserved) == (1030, 2, True)
    taken_up = spending_of(database, lease, usage=stored.usage)
    taken_up.account.call_steps = stored.call_steps
    await taken_up.write()
    assert sums(sql) == (2, 2, 1030, 0.52, 0, 0.0)
