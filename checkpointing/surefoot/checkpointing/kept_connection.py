"""A connection that a task's hot statements keep, and what happens when it is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.weather import BAD_WEATHER
from surefoot.graph.errors import DatabaseUnavailable

T = TypeVar("T")


class KeptConnection:
    """One connection for the hot statements of one task, or the pool when too many are kept.

    A statement whose connection died is repeated once on a new one; it learns that it may have
    been committed already.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._connection: AsyncConnection[DictRow] | None = None
        self._keeps: bool | None = None
        self._lock = asyncio.Lock()

    async def run(self, statement: Callable[[AsyncConnection[DictRow], bool], Awaitable[T]]) -> T:
        """Run `statement(connection, again)`; `again` is True on the repeat.

        Raises:
            DatabaseUnavailable: the connection was lost, and the repeat failed as well.
        """
        async with self._lock:
            try:
                return await self._once(statement, again=False)
            except (*BAD_WEATHER, DatabaseUnavailable):
                await self._drop()
            try:
                return await self._once(statement, again=True)
            except BAD_WEATHER as exc:
                await self._drop()
                raise self.database.unavailable(exc) from exc

    async def close(self) -> None:
        """Close the connection; the next `run` would open another one."""
        async with self._lock:
            await self._drop()
            if self._keeps:
                self.database.keep_no_longer()
            self._keeps = None

    async def _once(
        self, statement: Callable[[AsyncConnection[DictRow], bool], Awaitable[T]], *, again: bool
    ) -> T:
        if self._keeps is None:
            self._keeps = self.database.may_keep()
        if not self._keeps:
            async with self.database.borrowed() as connection:
                return await statement(connection, again)
        if self._connection is None or self._connection.closed:
            self._connection = await self.database.connect(hot=True)
        done = await statement(self._connection, again)
        self.database.weather.is_good()
        return done

    async def _drop(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
