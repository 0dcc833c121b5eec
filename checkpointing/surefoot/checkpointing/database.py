"""The door to PostgreSQL: an embedded server or any other by URL, migrated and pooled.

Connections here are in autocommit mode, prepare every statement and return dict rows in UTC.
No message of this module holds a password.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from surefoot.checkpointing.connection_text import conninfo, describe
from surefoot.checkpointing.embedded import EmbeddedServer
from surefoot.checkpointing.migrate import migrate
from surefoot.checkpointing.server_folders import make_home
from surefoot.checkpointing.weather import BAD_WEATHER, Weather, reached
from surefoot.graph.errors import DatabaseUnavailable, UsageError
from surefoot.graph.setbacks import Setbacks
from surefoot.graph.settings import Settings

POOL_WAIT_SECONDS = 30.0
GONE_FOR_S = 300.0
"""Whoever begins to wait: it is given up when it has been unreachable for so long."""

AWAY_WAIT_SECONDS = 1.0
"""How long a connection is waited for while it is known that nobody answers."""

BACKOFF_CAP_S = 5.0
HOT_SETTINGS = (
    # The few hot statements run for hours on tables that were empty when they were planned: keep
    # one plan, and never one that reads a whole table.
    "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off "
    "-c enable_hashjoin=off -c enable_mergejoin=off"
)
OLDEST_SERVER = 130000

Pool = AsyncConnectionPool[AsyncConnection[DictRow]]


class Database:
    """One process's access to the database: made with `open`, used in the loop it was made in."""

    def __init__(self, url: str, *, pool_size: int, server: EmbeddedServer | None) -> None:
        self.url = url
        self.server = server
        self.pool_size = pool_size
        self.weather = Weather()
        self._kept = 0
        self.pool: Pool = AsyncConnectionPool(
            conninfo(url),
            kwargs=_options(),
            connection_class=AsyncConnection[DictRow],
            min_size=1,
            max_size=pool_size,
            timeout=POOL_WAIT_SECONDS,
            check=AsyncConnectionPool[AsyncConnection[DictRow]].check_connection,
            open=False,
            name="surefoot",
        )

    @classmethod
    async def open(cls, settings: Settings) -> Self:
        """Reach the database of these settings, start the embedded one if needed, and migrate.

        Raises:
            UsageError: `database_unreachable`, `database_url`, `database_newer`,
                `home_not_writable` and the embedded server's own; one line each.
        """
        server = None
        await asyncio.to_thread(make_home, settings.home)
        if settings.database_url is None:
            server = EmbeddedServer(settings.home)
            url = await asyncio.to_thread(server.acquire)
        else:
            url = settings.database_url
        try:
            await _prepare(url)
            database = cls(url, pool_size=settings.pool_size, server=server)
            await database.pool.open()
        except BaseException:
            if server is not None:
                await asyncio.to_thread(server.release)
            raise
        return database

    async def close(self) -> None:
        """Close the pool; the last user of an embedded server stops it."""
        await self.pool.close()
        if self.server is not None:
            await asyncio.to_thread(self.server.release)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self, *, hot: bool = False) -> AsyncConnection[DictRow]:
        """A connection of the caller's own; the caller closes it.

        Args:
            hot: for the saver's and ledger's statements: plans are kept and use indexes only.

        Raises:
            DatabaseUnavailable: no connection now.
        """
        try:
            return await AsyncConnection[DictRow].connect(
                conninfo(self.url, HOT_SETTINGS if hot else ""), **_options()
            )
        except psycopg.OperationalError as exc:
            raise self.unavailable(exc) from exc

    def connect_sync(self) -> Connection[DictRow]:
        """The same for threads. A dead embedded server is started again first.

        Raises:
            DatabaseUnavailable: no connection now.
        """
        try:
            if self.server is not None:
                self.server.ensure_running()
            return Connection[DictRow].connect(conninfo(self.url), **_options())
        except (psycopg.OperationalError, UsageError) as exc:
            raise self.unavailable(exc) from exc

    @asynccontextmanager
    async def borrowed(self) -> AsyncGenerator[AsyncConnection[DictRow]]:
        """A checked connection of the pool; a lost connection becomes `DatabaseUnavailable`."""
        wait_s = AWAY_WAIT_SECONDS if self.weather.away else POOL_WAIT_SECONDS
        try:
            async with self.pool.connection(wait_s) as connection:
                yield connection
        except BAD_WEATHER as exc:
            raise self.unavailable(exc) from exc

    async def wait_until_back(self, deadline_s: float) -> None:
        """Return as soon as the database answers; an embedded server that died is started again.

        Args:
            deadline_s: give up after so many seconds; at once where nobody in this process has
                reached it for `GONE_FOR_S`. It is asked once at least.

        Raises:
            DatabaseUnavailable: it did not come back in time.
        """
        deadline = min(time.monotonic() + deadline_s, self.weather.away_since + GONE_FOR_S)
        pause = 0.1
        while True:
            try:
                await self._ask()
                self.weather.answers()
                return
            except (psycopg.OperationalError, DatabaseUnavailable, UsageError) as exc:
                gone = self.unavailable(exc)
                left = deadline - time.monotonic()
                if left <= 0:
                    raise gone from exc
                self.weather.is_bad("away", str(gone))
                await asyncio.sleep(min(pause, left))
                pause = min(pause * 2, BACKOFF_CAP_S)

    async def _ask(self) -> None:
        if self.server is not None:
            await asyncio.to_thread(self.server.ensure_running)
        async with await self.connect() as connection:
            await connection.execute("select 1")

    def may_keep(self) -> bool:
        """Count one more kept connection, if fewer than half the pool's size are kept."""
        if self._kept >= max(1, self.pool_size // 2):
            return False
        self._kept += 1
        return True

    def keep_no_longer(self) -> None:
        """One kept connection was given up."""
        self._kept -= 1

    def unavailable(self, exc: BaseException) -> DatabaseUnavailable:
        """The transient error for bad weather, in one line without a password."""
        if isinstance(exc, DatabaseUnavailable):
            return exc
        says = "refuses" if reached(exc) else "does not answer"
        return DatabaseUnavailable(f"PostgreSQL {says}: {describe(exc, self.url)}")

    async def sit_out(self, setbacks: Setbacks, error: BaseException, *, saved: int = 0) -> bool:
        """Wait after a statement that met bad weather, so that it can be tried again.

        A server that answers and refuses every write is asked less and less often.

        Args:
            setbacks: the failures in a row; they say when to give up.
            error: what the statement met.
            saved: how many statements of its sort have succeeded.

        Returns:
            False: it is time to give up.

        Raises:
            DatabaseUnavailable: the server itself did not come back in that time.
        """
        pause_s = setbacks.pause_s(saved=saved, now=time.monotonic())
        if pause_s is None:
            return False
        await self.wait_until_back(setbacks.left_s(now=time.monotonic()))
        if pause_s > 0:
            self.weather.is_bad("refusing", str(self.unavailable(error)))
            await asyncio.sleep(pause_s)
        return True


def _options() -> dict[str, Any]:
    return {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}


async def _prepare(url: str) -> None:
    try:
        connection = await AsyncConnection[DictRow].connect(conninfo(url), **_options())
        async with connection:
            await _check_server(connection)
            await migrate(connection)
    except psycopg.errors.InsufficientPrivilege as exc:
        raise UsageError(
            "database_permission",
            f"the database user may not make what Surefoot needs ({describe(exc, url)}): "
            "grant it CREATE on the database",
        ) from exc
    except psycopg.OperationalError as exc:
        raise UsageError(
            "database_unreachable",
            f"cannot reach PostgreSQL: {describe(exc, url)}; check the server and "
            "SUREFOOT_DATABASE_URL, or unset it for an embedded one",
        ) from exc


async def _check_server(connection: AsyncConnection[DictRow]) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if connection.info.server_version < OLDEST_SERVER or encoding != "UTF8":
        raise UsageError(
            "database_unsuitable",
            f"the database server is version {connection.info.server_version // 10000} with "
            f"encoding {encoding}: Surefoot needs at least 13 and UTF8",
        )
