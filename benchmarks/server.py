"""The PostgreSQL server that product and peers share, and a fresh database for each of them.

The server of SUREFOOT_DATABASE_URL if that is set, else the embedded one under a temporary home.
Both sides of a ratio are measured on the same server, in the same run.
"""

import asyncio
import os
import tempfile
import uuid
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from psycopg import AsyncConnection, sql

from surefoot.checkpointing.embedded import EmbeddedServer
from surefoot.graph.settings import Settings


@asynccontextmanager
async def server() -> AsyncGenerator[str]:
    """The URL of a running server, for as long as the block lasts."""
    if url := os.environ.get("SUREFOOT_DATABASE_URL"):
        yield url
        return
    with temporary_home() as home:
        embedded = EmbeddedServer(home)
        try:
            yield await asyncio.to_thread(embedded.acquire)
        finally:
            await asyncio.to_thread(embedded.release)


@asynccontextmanager
async def database(server_url: str) -> AsyncGenerator[str]:
    """The URL of a new, empty database, dropped afterwards."""
    name = f"bench_{uuid.uuid4().hex[:12]}"
    async with await AsyncConnection.connect(server_url, autocommit=True) as admin:
        await admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            yield _named(server_url, name)
        finally:
            drop = sql.SQL("drop database {} with (force)").format(sql.Identifier(name))
            await admin.execute(drop)


@asynccontextmanager
async def settings(database_url: str) -> AsyncGenerator[Settings]:
    """The product's settings for one database, with a temporary home."""
    with temporary_home() as home:
        yield Settings.from_environment(
            {"SUREFOOT_HOME": str(home), "SUREFOOT_DATABASE_URL": database_url}
        )


@contextmanager
def temporary_home() -> Generator[Path]:
    """A folder for SUREFOOT_HOME that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="surefoot-bench-") as name:
        home = Path(name)
        home.chmod(0o755)  # as root the embedded server runs as another user
        yield home


async def table_bytes(database_url: str) -> dict[str, int]:
    """Bytes by table, indexes and TOAST included: LangGraph's tables and our own."""
    query = """
        select schemaname || '.' || relname, pg_total_relation_size(relid)
        from pg_stat_user_tables order by 1
    """
    async with await AsyncConnection.connect(database_url) as connection:
        rows = await (await connection.execute(query)).fetchall()
    return dict(rows)


def _named(url: str, database: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/{database}?{parts.query}".rstrip("?")
