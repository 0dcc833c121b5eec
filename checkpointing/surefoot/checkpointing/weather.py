"""Bad weather at the database: which errors mean it, and how a process says that it waits.

A server that is gone, restarting, full, read-only or out of connections is waited for. Whoever
watches a run must be told once that it waits and once that it goes on, however many statements
meet the same trouble.
"""

import logging
import time
from typing import Literal

import psycopg

Trouble = Literal["away", "refusing"]

AWAY = (psycopg.OperationalError, psycopg.InterfaceError)
"""The connection is gone, or the server has no room, memory, disk or patience for it."""

BAD_WEATHER = (*AWAY, psycopg.errors.ReadOnlySqlTransaction)
"""The same, or it does not write at the moment: nothing of ours is wrong, and waiting may help."""

log = logging.getLogger(__name__)


class Weather:
    """What one process knows of its database's state, and has told."""

    def __init__(self) -> None:
        self._trouble: Trouble | None = None
        self._since = 0.0

    @property
    def away(self) -> bool:
        """Whether nobody answered when it was last asked."""
        return self._trouble == "away"

    @property
    def away_since(self) -> float:
        """Since when nobody has answered, of the monotonic clock; now, where it is not away."""
        return self._since if self.away else time.monotonic()

    def is_bad(self, trouble: Trouble, why: str) -> None:
        """The database is away, or answers and refuses to write; told where that is news.

        Args:
            trouble: which of the two.
            why: one line without a password.
        """
        if self._trouble is None:
            self._since = time.monotonic()
        if self._trouble != trouble:
            log.warning("surefoot: %s; waiting for it, nothing is lost", why)
        self._trouble = trouble

    def answers(self) -> None:
        """It can be reached; whether it also writes is not known."""
        if self._trouble == "away":
            self.is_good()

    def is_good(self) -> None:
        """Something was written."""
        if self._trouble is not None:
            gone_s = time.monotonic() - self._since
            log.warning("surefoot: the database is well again after %.1f s; going on", gone_s)
            self._trouble = None


def reached(error: BaseException) -> bool:
    """Whether the server itself said this, and not only the lost or refused connection to it."""
    state = getattr(error, "sqlstate", None)
    return bool(state) and state[:2] not in ("08", "57")
