"""The thread that keeps this process's leases: its own connection, deaf to a blocked event loop.

It extends what is held, notices what was taken away, and fetches the commands people gave.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import DictRow

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.queries import queries
from surefoot.graph.errors import DatabaseUnavailable
from surefoot.graph.ports import Command

RECONNECT_CAP_S = 2.0

log = logging.getLogger(__name__)


def ticks() -> float:
    """Seconds of a clock that also runs while the process or the machine sleeps."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


@dataclass(slots=True)
class Held:
    """One lease in the care of the thread; callbacks are called in the loop's thread."""

    epoch: int
    until: float
    """In `ticks`: so long it surely is ours, whatever the server's clock says."""
    on_lost: Callable[[], None] | None = None
    on_command: Callable[[Command], None] | None = None
    lost: bool = False
    handed: set[int] = field(default_factory=set[int])
    """Commands already handed over."""


class Heartbeat:
    """Runs from `start` to `stop`; `add` and `remove` leases at any time."""

    def __init__(
        self,
        database: Database,
        *,
        lease_seconds: float,
        extend_seconds: float,
        poll_seconds: float,
    ) -> None:
        self.database = database
        self.lease_seconds = lease_seconds
        self.extend_seconds = extend_seconds
        self.poll_seconds = poll_seconds
        self._held: dict[str, Held] = {}
        self._mutex = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._loop = asyncio.get_running_loop()
        self._thread: threading.Thread | None = None
        self._connection: Connection[DictRow] | None = None

    def add(self, task_id: str, held: Held) -> None:
        """Keep a lease that was just acquired; starts the thread the first time."""
        with self._mutex:
            self._held[task_id] = held
        self.revive()
        self._wake.set()

    def revive(self) -> None:
        """Start the thread, anew where it has ended by an error of its own."""
        if self._stopping or (self._thread is not None and self._thread.is_alive()):
            return
        self._thread = threading.Thread(target=self._run, name="surefoot-heartbeat", daemon=True)
        self._thread.start()

    def remove(self, task_id: str) -> None:
        """Keep it no longer."""
        with self._mutex:
            self._held.pop(task_id, None)

    def lost(self, task_id: str) -> bool:
        """True once a kept lease was found to be another worker's."""
        held = self._held.get(task_id)
        return held is not None and held.lost

    def left_s(self, task_id: str, epoch: int) -> float:
        """Seconds that a kept lease surely lasts from now; below 0 where nobody can tell."""
        held = self._held.get(task_id)
        if held is None or held.lost or held.epoch != epoch:
            return -1.0
        return held.until - ticks()

    def learn(self, extended: Mapping[str, int], kept: Collection[str], *, asked: float) -> None:
        """Take in what came of an extension.

        Args:
            extended: the leases that were to be extended, task and epoch.
            kept: the tasks for which that was done; the others are lost.
            asked: the `ticks` before it was asked for.
        """
        with self._mutex:
            for task_id, epoch in extended.items():
                held = self._held.get(task_id)
                # Released and acquired again meanwhile: then it is not this one that is meant.
                if held is None or held.epoch != epoch or held.lost:
                    continue
                if task_id in kept:
                    held.until = max(held.until, asked + self.lease_seconds)
                else:
                    held.lost = True
                    self._call(held.on_lost)

    def stop(self, *, seconds: float = 5.0) -> None:
        """End the thread and its connection (blocks, at most so long)."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        next_extension = 0.0
        pause = 0.1
        while not self._stopping:
            try:
                if time.monotonic() >= next_extension:
                    self._extend()
                    next_extension = time.monotonic() + self.extend_seconds
                self._fetch_commands()
                pause = 0.1
                self._wake.wait(self.poll_seconds)
                self._wake.clear()
            except Exception as exc:  # whatever it is: without this thread the lease runs out
                if not isinstance(exc, psycopg.Error | DatabaseUnavailable):
                    log.exception("the heartbeat met an error and goes on")
                self._disconnect()
                next_extension = 0.0  # the first thing after the connection is back
                self._wake.wait(pause)
                pause = min(2 * pause, RECONNECT_CAP_S)
        self._disconnect()

    def _extend(self) -> None:
        with self._mutex:
            mine = {id: held.epoch for id, held in self._held.items() if not held.lost}
        if not mine:
            return
        ids, epochs, asked = list(mine), list(mine.values()), ticks()
        parameters = {"ids": ids, "epochs": epochs, "seconds": self.lease_seconds}
        self.learn(mine, {row["id"] for row in self._query("extend", parameters)}, asked=asked)

    def _fetch_commands(self) -> None:
        with self._mutex:
            listening = [id for id, held in self._held.items() if held.on_command and not held.lost]
        if not listening:
            return
        for row in self._query("open_commands", {"ids": listening}):
            held = self._held.get(row["task_id"])
            if held is None or held.on_command is None or row["id"] in held.handed:
                continue
            held.handed.add(row["id"])
            command = Command(id=row["id"], name=row["name"], args=row["args"], by=row["by"])
            self._call(held.on_command, command)

    def _call(self, callback: Callable[..., None] | None, *arguments: object) -> None:
        if callback is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended before us
                self._loop.call_soon_threadsafe(callback, *arguments)

    def _query(self, name: str, parameters: dict[str, Any]) -> list[DictRow]:
        if self._connection is None:
            self._connection = self.database.connect_sync()
            # A lost extension only makes the next one matter more: no need to wait for the disk.
            self._connection.execute("set synchronous_commit = off")
        return self._connection.execute(queries("lease")[name], parameters).fetchall()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
