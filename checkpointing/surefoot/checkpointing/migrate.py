"""Bring a database to the present version: our numbered files, and LangGraph's saver tables.

Any number of processes may start on an empty database at once: one works, the others wait.
"""

import asyncio
import re
from importlib.metadata import version
from importlib.resources import files

from psycopg import AsyncConnection, sql
from psycopg.rows import DictRow

from surefoot.graph.errors import UsageError

LOCK_KEY = 0x5F0075EF
"""Of the advisory lock around all migrations."""


async def migrate(connection: AsyncConnection[DictRow]) -> None:
    """Apply what is missing; nothing at all where the database is up to date.

    Args:
        connection: in autocommit mode, used by nobody else meanwhile.

    Raises:
        UsageError: `database_newer`: a newer Surefoot wrote this database.
    """
    steps = _steps()
    if await _applied(connection) == len(steps) and await _saver_ready(connection):
        return
    await _acquire(connection)
    try:
        for number in range(await _applied(connection) + 1, len(steps) + 1):
            await _apply(connection, number, steps[number - 1])
        if not await _saver_ready(connection):
            await _set_up_saver(connection)
    finally:
        await connection.execute("select pg_advisory_unlock(%s)", (LOCK_KEY,))


def _steps() -> list[bytes]:
    found: dict[int, bytes] = {}
    for entry in (files("surefoot.checkpointing") / "migrations").iterdir():
        if match := re.match(r"(\d{4})_\w+\.sql$", entry.name):
            found[int(match[1])] = entry.read_bytes()
    return [found[number] for number in range(1, len(found) + 1)]


async def _acquire(connection: AsyncConnection[DictRow]) -> None:
    # Tried again and again instead of waited for: a waiting statement holds a snapshot, and
    # CREATE INDEX CONCURRENTLY in the process that works would wait for that: a deadlock.
    while True:
        cursor = await connection.execute("select pg_try_advisory_lock(%s) as got", (LOCK_KEY,))
        row = await cursor.fetchone()
        if row is not None and row["got"]:
            return
        await asyncio.sleep(0.05)


async def _applied(connection: AsyncConnection[DictRow]) -> int:
    if not await _exists(connection, "surefoot.migrations"):
        return 0
    cursor = await connection.execute("select max(number) as number from surefoot.migrations")
    row = await cursor.fetchone()
    number = int(row["number"] or 0) if row else 0
    if number > len(_steps()):
        raise UsageError(
            "database_newer",
            f"the database was written by a newer Surefoot (migration {number}, this one knows "
            f"{len(_steps())}): upgrade Surefoot, or use another database",
        )
    return number


async def _apply(connection: AsyncConnection[DictRow], number: int, commands: bytes) -> None:
    async with connection.transaction():
        if number == 1:
            await connection.execute("create schema if not exists surefoot")
            await connection.execute(
                "create table surefoot.migrations "
                "(number int primary key, at timestamptz not null default now())"
            )
        # Not prepared: a prepared statement cannot hold several commands.
        await connection.execute(commands, prepare=False)
        await connection.execute("insert into surefoot.migrations (number) values (%s)", (number,))


async def _set_up_saver(connection: AsyncConnection[DictRow]) -> None:
    # Imported only when there is something to set up: LangGraph takes longer to import than a
    # look at a task's status takes altogether.
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    # CREATE INDEX CONCURRENTLY inside: no transaction may be open here.
    await AsyncPostgresSaver(connection).setup()
    done = sql.SQL("comment on schema surefoot is {}").format(sql.Literal(_saver_version()))
    await connection.execute(done)


def _saver_version() -> str:
    return (
        f"saver tables of langgraph-checkpoint-postgres {version('langgraph-checkpoint-postgres')}"
    )


async def _saver_ready(connection: AsyncConnection[DictRow]) -> bool:
    """Whether the present version of the saver has set up its tables here."""
    if not await _exists(connection, "checkpoint_migrations"):
        return False
    cursor = await connection.execute(
        "select obj_description(to_regnamespace('surefoot'), 'pg_namespace') as done"
    )
    row = await cursor.fetchone()
    return row is not None and row["done"] == _saver_version()


async def _exists(connection: AsyncConnection[DictRow], table: str) -> bool:
    cursor = await connection.execute("select to_regclass(%s) is not null as there", (table,))
    row = await cursor.fetchone()
    return row is not None and bool(row["there"])
