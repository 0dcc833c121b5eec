"""Who may write a task: one worker at a time, by a lease with an epoch.

Every write names the epoch in its own transaction; a take-over raises the epoch, and whoever still
writes under the old one gets `LeaseLost`. A lease is acquired, extended (by the heartbeat thread),
released, and, when its holder died, acquired by somebody else.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.heartbeat import Heartbeat, Held
from surefoot.checkpointing.incarnation import Worker, wait_until_gone
from surefoot.checkpointing.json_text import json_text
from surefoot.checkpointing.queries import queries
from surefoot.graph.errors import LeaseHeld, LeaseLost, UsageError
from surefoot.graph.ports import Command

LEASE_SECONDS = 20.0
EXTEND_SECONDS = 3.0
POLL_SECONDS = 0.5
CHILDREN_SECONDS = 10.0
"""How long a take-over waits for the tool processes of the dead holder."""


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
        children_seconds: float = CHILDREN_SECONDS,
        worker: Worker | None = None,
    ) -> None:
        self.database = database
        self.lease_seconds = lease_seconds
        self.children_seconds = children_seconds
        self.worker = worker or Worker.this_process()
        self.worker_id = self.worker.new_id()
        self._heartbeat = Heartbeat(
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

        A dead holder on this machine is replaced at once, as soon as its tool processes are gone
        too; one elsewhere when its lease has run out.

        Args:
            task_id: an existing task.
            on_lost: called in the loop once the lease is known to be lost.
            on_command: called in the loop with each command not yet applied, once per lease.

        Raises:
            LeaseHeld: a live worker holds it, or tool processes of a dead one still run.
            UsageError: `unknown_task`.
            DatabaseUnavailable: no connection.
        """
        while True:
            row = await self._one("holder", {"task_id": task_id})
            if row is None:
                raise UsageError(
                    "unknown_task", f"there is no task {task_id!r}: see `surefoot list`"
                )
            dead = row["acquired_by"] is not None and await self._may_replace(task_id, row)
            mine = {"worker_id": self.worker_id, "worker": json_text(self.worker.as_json())}
            seen = {"task_id": task_id, "seen": row["lease_epoch"], "dead": dead}
            got = await self._one("acquire", mine | seen | {"seconds": self.lease_seconds})
            if got is not None:
                epoch = int(got["lease_epoch"])
                held = Held(epoch=epoch, on_lost=on_lost, on_command=on_command)
                self._heartbeat.add(task_id, held)
                return Lease(task_id=task_id, epoch=epoch, worker_id=self.worker_id)

    async def release(self, lease: Lease) -> None:
        """Give the task up, so that anybody may acquire it; nothing happens where it was lost."""
        self._heartbeat.remove(lease.task_id)
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

    def lost(self, task_id: str) -> bool:
        """True once it is known that another worker took the task."""
        return self._heartbeat.lost(task_id)

    async def close(self) -> None:
        """End the heartbeat. Leases that were not released run out by themselves."""
        await asyncio.to_thread(self._heartbeat.stop)

    async def _may_replace(self, task_id: str, row: dict[str, Any]) -> bool:
        """True where the holder is surely dead; False where only its lease has run out."""
        holder = Worker.parse(row["worker"])
        dead = holder.gone()
        if not dead and not row["expired"]:
            raise LeaseHeld(task_id, holder.describe())
        if holder.on_this_machine():
            left = await wait_until_gone(holder.children, seconds=self.children_seconds)
            if left:
                pids = ", ".join(str(pid) for pid in left)
                raise LeaseHeld(
                    task_id, f"its worker is gone, but tool processes of it still run: {pids}"
                )
        return dead

    async def _one(self, name: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
        async with self.database.borrowed() as connection:
            cursor = await connection.execute(queries("lease")[name], parameters)
            return await cursor.fetchone() if cursor.description else None
