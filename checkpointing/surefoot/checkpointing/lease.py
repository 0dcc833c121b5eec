"""Who may write a task: one worker at a time, by a lease with an epoch.

Every write names the epoch in its own transaction; a take-over raises the epoch, and whoever still
writes under the old one gets `LeaseLost`. A lease is acquired, extended (by the heartbeat thread),
released, and, when its holder died or stands still, acquired by somebody else. What no epoch can
fence are the effects of tools: the taker ends the tool processes of the one before, and a holder
begins no call unless its lease surely lasts a while.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.heartbeat import Heartbeat, Held, ticks
from surefoot.checkpointing.incarnation import Worker, end_children
from surefoot.checkpointing.json_text import json_text
from surefoot.checkpointing.queries import queries
from surefoot.graph.errors import DatabaseUnavailable, LeaseHeld, LeaseLost, UsageError
from surefoot.graph.ports import Command

LEASE_SECONDS = 20.0
EXTEND_SECONDS = 3.0
POLL_SECONDS = 0.5
GRACE_SECONDS = 8.0
"""How long a take-over lets the tool processes of a dead holder end by themselves."""

KILL_SECONDS = 5.0
"""How long those that a take-over kills may take to be gone."""

MARGIN = 0.25
"""Share of the lease that must be left for a call to begin."""

COME_BACK_SECONDS = 5.0
"""How long a holder elsewhere has to extend its lease after the server was started."""

GIVE_UP_SECONDS = 300.0
"""How long a database is waited for that alone can say whose the lease is."""

AGAIN_SECONDS = 0.2

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to write a task: whoever writes names the epoch, and a newer one ends the right."""

    task_id: str
    epoch: int
    worker_id: str


class LeaseKeeper:
    """The leases of this process. One per `Database`; use it in the database's loop."""

    def __init__(
        self,
        database: Database,
        *,
        lease_seconds: float = LEASE_SECONDS,
        extend_seconds: float = EXTEND_SECONDS,
        poll_seconds: float = POLL_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        worker: Worker | None = None,
    ) -> None:
        self.database = database
        self.lease_seconds = lease_seconds
        self.grace_seconds = grace_seconds
        self.worker = worker or Worker.this_process()
        self.worker_id = self.worker.new_id()
        self.heartbeat = Heartbeat(
            database,
            lease_seconds=lease_seconds,
            extend_seconds=extend_seconds,
            poll_seconds=poll_seconds,
        )

    async def acquire(
        self,
        task_id: str,
        *,
        on_lost: Callable[[], None] | None = None,
        on_command: Callable[[Command], None] | None = None,
    ) -> Lease:
        """Become the one who may write this task; kept alive until `release`.

        A dead holder on this machine is replaced at once; one that stands still, or is elsewhere,
        when its lease has run out. On this machine its tool processes are gone when this returns:
        a dead holder's end by themselves, those of one that stands still are killed.

        Args:
            task_id: an existing task.
            on_lost: called in the loop once the lease is known to be lost.
            on_command: called in the loop with each command not yet applied, once per lease.

        Raises:
            LeaseHeld: a live worker holds it, or tool processes of the last one cannot be ended.
            UsageError: `unknown_task`.
            DatabaseUnavailable: no connection.
        """
        while True:
            row = await self._holder(task_id)
            before = Worker.parse(row["worker"]) if row["acquired_by"] is not None else None
            dead = before is not None and before.gone()
            if before is not None and not dead and not row["expired"]:
                raise LeaseHeld(task_id, before.describe())
            elsewhere = before is not None and not dead and not before.on_this_machine()
            if elsewhere and await _come_back(row):
                continue
            lease = await self._take(task_id, row, before, dead, on_lost, on_command)
            if lease is not None:
                if before is not None:
                    await self._end_children(lease, before, dead=dead)
                return lease

    async def release(self, lease: Lease) -> None:
        """Give the task up, so that anybody may acquire it; nothing happens where it was lost."""
        self.heartbeat.remove(lease.task_id)
        await self._one("release", {"task_id": lease.task_id, "epoch": lease.epoch})

    async def set_children(self, lease: Lease, children: Sequence[tuple[int, float]]) -> None:
        """Record the tool processes, (pid, start time) each, that a take-over must see gone.

        Raises:
            LeaseLost: the task is another worker's now.
        """
        listed = json_text([list(child) for child in children])
        where = {"task_id": lease.task_id, "epoch": lease.epoch}
        if await self._one("set_children", where | {"children": listed}) is None:
            raise LeaseLost(lease.task_id)

    def sure(self, lease: Lease) -> bool:
        """Whether nobody else can have acquired it, nor can within the margin: by our own clock."""
        left_s = self.heartbeat.left_s(lease.task_id, lease.epoch)
        return left_s > MARGIN * self.lease_seconds

    async def make_sure(self, lease: Lease) -> None:
        """Return once it is sure: extend it from here, and start a dead heartbeat again.

        Raises:
            LeaseLost: another worker acquired it, or it was released.
            DatabaseUnavailable: nobody could be asked for five minutes.
        """
        if not self.sure(lease):
            log.warning(
                "the lease of task %s was not extended in time; no call begins until it is",
                lease.task_id,
            )
        give_up = ticks() + GIVE_UP_SECONDS
        while not self.sure(lease):
            self.heartbeat.revive()
            try:
                await self._extend(lease)
            except DatabaseUnavailable:
                await self.database.wait_until_back(max(0.0, give_up - ticks()))
                if ticks() >= give_up:
                    raise
                await asyncio.sleep(AGAIN_SECONDS)

    def lost(self, task_id: str) -> bool:
        """True once it is known that another worker took the task."""
        return self.heartbeat.lost(task_id)

    async def close(self) -> None:
        """End the heartbeat. Leases that were not released run out by themselves."""
        await asyncio.to_thread(self.heartbeat.stop)

    async def _holder(self, task_id: str) -> dict[str, Any]:
        row = await self._one("holder", {"task_id": task_id})
        if row is None:
            raise UsageError("unknown_task", f"there is no task {task_id!r}: see `surefoot list`")
        return row

    async def _take(
        self,
        task_id: str,
        row: dict[str, Any],
        before: Worker | None,
        dead: bool,
        on_lost: Callable[[], None] | None,
        on_command: Callable[[Command], None] | None,
    ) -> Lease | None:
        """The lease, unless something has changed since the holder was looked at."""
        worker = self.worker
        if before is not None and before.on_this_machine():
            # Until they are gone they stay listed: should we die meanwhile, the next one ends them.
            worker = replace(worker, children=before.children)
        mine = {"worker_id": self.worker_id, "worker": json_text(worker.as_json())}
        seen = {"task_id": task_id, "seen": row["lease_epoch"], "dead": dead}
        until = ticks() + self.lease_seconds
        got = await self._one("acquire", mine | seen | {"seconds": self.lease_seconds})
        if got is None:
            return None
        epoch = int(got["lease_epoch"])
        held = Held(epoch=epoch, until=until, on_lost=on_lost, on_command=on_command)
        self.heartbeat.add(task_id, held)
        return Lease(task_id=task_id, epoch=epoch, worker_id=self.worker_id)

    async def _end_children(self, lease: Lease, before: Worker, *, dead: bool) -> None:
        """Wait until nothing runs any more of what the last holder started here.

        Raises:
            LeaseHeld: some of it cannot be ended; the lease is given back, and still lists it.
        """
        if not before.on_this_machine():
            return
        left: list[int] = [pid for pid, _ in before.children]
        try:
            grace_s = self.grace_seconds if dead else 0.0
            left = await end_children(before.children, grace_s=grace_s, seconds=KILL_SECONDS)
        finally:
            if left:
                self.heartbeat.remove(lease.task_id)
                where = {"task_id": lease.task_id, "epoch": lease.epoch}
                await self._one("give_back", where)
        if left:
            pids = ", ".join(str(pid) for pid in left)
            raise LeaseHeld(
                lease.task_id, f"its worker is gone, but tool processes of it still run: {pids}"
            )

    async def _extend(self, lease: Lease) -> None:
        asked = ticks()
        mine = {"ids": [lease.task_id], "epochs": [lease.epoch], "seconds": self.lease_seconds}
        kept = await self._one("extend", mine)
        self.heartbeat.learn(
            {lease.task_id: lease.epoch}, [lease.task_id] if kept else [], asked=asked
        )
        if kept is None:
            raise LeaseLost(lease.task_id)

    async def _one(self, name: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
        async with self.database.borrowed() as connection:
            cursor = await connection.execute(queries("lease")[name], parameters)
            return await cursor.fetchone() if cursor.description else None


class LeaseHold:
    """One lease as those see it who begin calls under it (`ports.Hold`)."""

    def __init__(self, keeper: LeaseKeeper, lease: Lease) -> None:
        self._keeper = keeper
        self._lease = lease

    def sure(self) -> bool:
        """See `Hold.sure`."""
        return self._keeper.sure(self._lease)

    async def make_sure(self) -> None:
        """See `Hold.make_sure`."""
        await self._keeper.make_sure(self._lease)


async def _come_back(row: dict[str, Any]) -> bool:
    """Where the server has just started: give the holder time to extend; True = look again.

    Nobody could extend anything while the server was away, and whoever could be asked whether a
    holder elsewhere lives is that holder itself.
    """
    left_s = COME_BACK_SECONDS - row["server_up_s"]
    if left_s <= 0:
        return False
    await asyncio.sleep(left_s)
    return True
