import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.kept_connection import KeptConnection
from surefoot.checkpointing.lease import LeaseKeeper
from surefoot.graph.errors import DatabaseUnavailable, UsageError
from surefoot.graph.settings import Settings

OPEN = """
import asyncio, sys
from pathlib import Path
from surefoot.checkpointing.database import Database
from surefoot.graph.settings import Settings

async def main(home, url):
    home = Path(home)
    settings = Settings(home=home, database_url=url or None, artifacts_url=(home / "a").as_uri())
    async with await Database.open(settings) as database:
        async with database.pool.connection() as connection:
            await connection.execute("select count(*) from surefoot.tasks")
        print("open", flush=True)
        sys.stdin.readline()

asyncio.run(main(*sys.argv[1:]))
"""


def opener(home: Path, url: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", OPEN, str(home), url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("embedded", [True, False])
async def test_four_processes_may_open_an_empty_database_at_once(
    home: Path, empty_database_url: str, embedded: bool
) -> None:
    processes = [opener(home, "" if embedded else empty_database_url) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert (await asyncio.to_thread(process.stdout.readline)) == "open\n"
    for process in processes:
        _, errors = await asyncio.to_thread(process.communicate, "stop\n")
        assert (process.returncode, errors) == (0, "")


async def test_an_open_database_is_migrated_once(settings: Settings, sql: Any) -> None:
    before = sql.rows("select * from surefoot.migrations")
    async with await Database.open(settings) as database:
        assert database.url == settings.database_url
    assert sql.rows("select * from surefoot.migrations") == before
    assert sql.value("select count(*) from pg_index where not indisvalid") == 0


async def test_a_migration_that_was_cut_is_applied_by_the_next(
    settings: Settings, empty_database_url: str
) -> None:
    cut = replace(settings, database_url=empty_database_url)
    process = opener(settings.home, empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        for _ in range(400):
            row = connection.execute("select to_regclass('checkpoints') is not null").fetchone()
            if row == (True,):
                break
            await asyncio.sleep(0.01)
    process.kill()
    await asyncio.to_thread(process.communicate)
    async with await Database.open(cut) as database, database.pool.connection() as connection:
        cursor = await connection.execute("select max(v) as v from checkpoint_migrations")
        assert await cursor.fetchone() == {"v": 9}


async def test_a_database_of_a_newer_version_is_refused(settings: Settings, sql: Any) -> None:
    sql.rows("insert into surefoot.migrations (number) values (9999)")
    with pytest.raises(UsageError, match="upgrade Surefoot") as caught:
        await Database.open(settings)
    assert caught.value.code == "database_newer"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("postgresql://u:s3cret@127.0.0.1:1/x", "database_unreachable"),
        ("postgresql://u:s3cret@nowhere.invalid/x", "database_unreachable"),
        ("host=127.0.0.1 port=1 password=s3cret", "database_unreachable"),
        ("postgresql://u:s3cret@h:port/x", "database_url"),
        ("postgresql://u:x/s3cret@h/x", "database_url"),
        ("postgresql://u:x@s3cret@h/x", "database_url"),
        ("postgresql://u:s3cret@[::1/x", "database_url"),
        ("mysql://u:s3cret@h/x", "database_url"),
        ("s3cret nonsense", "database_url"),
    ],
)
async def test_an_unreachable_or_odd_url_is_one_line_without_the_password(
    settings: Settings, url: str, code: str
) -> None:
    with pytest.raises(UsageError) as caught:
        await Database.open(replace(settings, database_url=url))
    assert caught.value.code == code
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_an_unknown_database_is_unreachable(settings: Settings, server_url: str) -> None:
    url = server_url.replace("/postgres?", "/nothing_here?")
    with pytest.raises(UsageError, match="nothing_here") as caught:
        await Database.open(replace(settings, database_url=url))
    assert caught.value.code == "database_unreachable"


async def test_a_home_that_cannot_be_written_is_named(settings: Settings) -> None:
    with pytest.raises(UsageError, match="/proc/surefoot") as caught:
        await Database.open(replace(settings, home=Path("/proc/surefoot")))
    assert caught.value.code == "home_not_writable"


async def test_a_user_without_rights_is_told_what_to_grant(
    settings: Settings, empty_database_url: str
) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("drop role if exists poor_user")
        connection.execute("create role poor_user login")
    url = empty_database_url.replace("postgres@", "poor_user@")
    with pytest.raises(UsageError, match="CREATE") as caught:
        await Database.open(replace(settings, database_url=url))
    assert caught.value.code == "database_permission"


async def test_sessions_speak_utc_and_keep_the_options_of_the_url(
    settings: Settings,
) -> None:
    assert settings.database_url is not None
    url = settings.database_url + "&options=-c%20work_mem%3D5MB"
    async with await Database.open(replace(settings, database_url=url)) as database:
        async with await database.connect(hot=True) as connection:
            query = "select current_setting('TimeZone') as tz, current_setting('work_mem') as wm"
            row = await (await connection.execute(query)).fetchone()
            assert row == {"tz": "UTC", "wm": "5MB"}
        with database.connect_sync() as sync:
            assert sync.execute("show timezone").fetchone() == {"TimeZone": "UTC"}


async def test_cut_connections_of_the_pool_are_replaced(database: Database, sql: Any) -> None:
    for _ in range(3):
        async with database.borrowed() as connection:
            await connection.execute("select 1")
        assert sql.cut_connections() > 0


async def test_savers_keep_at_most_half_the_pool(database: Database, sql: Any) -> None:
    kept = [KeptConnection(database) for _ in range(20)]

    async def ask(connection: Any, again: bool) -> None:
        await connection.execute("select 1")

    await asyncio.gather(*(k.run(ask) for k in kept))
    count = "select count(*) from pg_stat_activity where application_name = 'surefoot'"
    assert sql.value(count) <= database.pool_size // 2 + database.pool_size
    for one in kept:
        await one.close()
    again = KeptConnection(database)
    await again.run(ask)
    assert database.may_keep()
    await again.close()


async def test_wait_until_back_gives_up_in_time(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await database.wait_until_back(5)
    monkeypatch.setattr(database, "url", "postgresql://u:s3cret@127.0.0.1:1/x")
    began = time.monotonic()
    with pytest.raises(DatabaseUnavailable) as caught:
        await database.wait_until_back(0.5)
    assert 0.4 < time.monotonic() - began < 10
    assert "s3cret" not in str(caught.value)


async def test_who_begins_to_wait_late_does_not_wait_all_over_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.checkpointing.database.GONE_FOR_S", 1.0)
    monkeypatch.setattr(database, "url", "postgresql://u@127.0.0.1:1/x")
    with pytest.raises(DatabaseUnavailable):
        await database.wait_until_back(600)
    asked = 0
    ask = database._ask  # pyright: ignore[reportPrivateUsage]

    async def counted() -> None:
        nonlocal asked
        asked += 1
        await ask()

    monkeypatch.setattr(database, "_ask", counted)
    with pytest.raises(DatabaseUnavailable):
        await database.wait_until_back(600)
    assert asked == 1


async def test_a_killed_embedded_server_comes_back_with_all_its_connections(home: Path) -> None:
    settings = Settings(home=home, database_url=None, artifacts_url=(home / "a").as_uri())
    async with await Database.open(settings) as database:
        async with database.borrowed() as connection:
            await connection.execute(
                "insert into surefoot.tasks (id, name, spec, spec_digest, workspace)"
                " values ('t1', 'n', '{}', '', '/w')"
            )
        keeper = LeaseKeeper(database, extend_seconds=0.1, poll_seconds=0.05)
        await keeper.acquire("t1")
        os.kill(postmaster(home), signal.SIGKILL)
        await database.wait_until_back(60)
        async with database.borrowed() as connection:
            cursor = await connection.execute("select id from surefoot.tasks")
            assert await cursor.fetchone() == {"id": "t1"}
        await keeper.close()


async def test_the_heartbeat_alone_brings_a_killed_embedded_server_back(home: Path) -> None:
    settings = Settings(home=home, database_url=None, artifacts_url=(home / "a").as_uri())
    async with await Database.open(settings) as database:
        async with database.borrowed() as connection:
            await connection.execute(
                "insert into surefoot.tasks (id, name, spec, spec_digest, workspace)"
                " values ('t1', 'n', '{}', '', '/w')"
            )
        keeper = LeaseKeeper(database, extend_seconds=0.1, poll_seconds=0.05)
        await keeper.acquire("t1")
        first = postmaster(home)
        os.kill(first, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while postmaster(home) == first:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        assert not keeper.lost("t1")
        await keeper.close()


def postmaster(home: Path) -> int:
    try:
        return int((home / "pg/data/postmaster.pid").read_text().split()[0])
    except (OSError, IndexError):
        return 0
