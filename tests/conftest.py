"""A real PostgreSQL for every test that asks for one, and a guard for the namespace."""

import asyncio
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.embedded import EmbeddedServer
from surefoot.checkpointing.lease import Lease
from surefoot.graph.settings import Settings

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    stray = [str(p.relative_to(ROOT)) for p in ROOT.glob("*/surefoot/__init__.py")]
    if stray:
        raise pytest.UsageError(f"remove {stray}: surefoot/ is a PEP 420 namespace")


@pytest.fixture
def home() -> Generator[Path]:
    """A home folder of its own that an embedded server can use, also under root."""
    # Not tmp_path: as root that is closed to every other user, and PostgreSQL is one.
    folder = Path(tempfile.mkdtemp(prefix="surefoot-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def server_url() -> Generator[str]:
    """One server per test process, started by our own code; `template_surefoot` is migrated."""
    folder = Path(tempfile.mkdtemp(prefix="surefoot-test-server-"))
    folder.chmod(0o711)
    server = EmbeddedServer(folder)
    url = server.acquire()
    try:
        _administer(url, "create database template_surefoot")
        asyncio.run(_migrate(folder, in_database(url, "template_surefoot")))
        yield url
    finally:
        server.release()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def empty_database_url(server_url: str) -> Generator[str]:
    """A database without any table."""
    yield from _temporary_database(server_url, "template0")


@pytest.fixture
def database_url(server_url: str) -> Generator[str]:
    """A fresh, migrated database."""
    yield from _temporary_database(server_url, "template_surefoot")


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    """Settings with a home of their own and the test's database."""
    return Settings(
        home=home, database_url=database_url, artifacts_url=(home / "artifacts").as_uri()
    )


@pytest.fixture
async def database(settings: Settings) -> AsyncGenerator[Database]:
    """The test's database, open."""
    async with await Database.open(settings) as opened:
        yield opened


class Sql:
    """The test's own eyes and hands in the test's database, apart from the code under test."""

    def __init__(self, url: str) -> None:
        self.url = url

    def rows(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.cursor(row_factory=dict_row).execute(query.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def value(self, query: str, *parameters: Any) -> Any:
        return next(iter(self.rows(query, *parameters)[0].values()))

    def make_task(self, task_id: str, epoch: int = 1) -> Lease:
        """A task row held by nobody in particular, and a lease that fits its epoch."""
        self.rows(
            "insert into surefoot.tasks (id, name, spec, spec_digest, workspace, lease_epoch)"
            " values (%s, %s, '{}', '', '/w', %s)",
            task_id,
            task_id,
            epoch,
        )
        return Lease(task_id=task_id, epoch=epoch, worker_id="w")

    def steal(self, task_id: str) -> None:
        """What a take-over does to the holder."""
        self.rows("update surefoot.tasks set lease_epoch = lease_epoch + 1 where id = %s", task_id)

    def cut_connections(self) -> int:
        """End every other connection to this database; returns how many there were."""
        return self.value(
            "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )


@pytest.fixture
def sql(database_url: str) -> Sql:
    return Sql(database_url)


def in_database(url: str, name: str) -> str:
    """The URL of another database of the same server."""
    return url.replace("/postgres?", f"/{name}?")


def _temporary_database(url: str, template: str) -> Generator[str]:
    name = f"test_{os.getpid()}_{uuid.uuid4().hex[:12]}"
    _administer(url, f"create database {name} template {template}")
    yield in_database(url, name)
    _administer(url, f"drop database {name} with (force)")


def _administer(url: str, command: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(command.encode())


async def _migrate(home: Path, url: str) -> None:
    artifacts = (home / "artifacts").as_uri()
    settings = Settings(home=home, database_url=url, artifacts_url=artifacts)
    async with await Database.open(settings):
        pass
