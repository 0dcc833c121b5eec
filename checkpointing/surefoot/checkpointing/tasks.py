"""Making and changing task rows, commands and learnt durations, outside a checkpoint."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from psycopg.rows import DictRow

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.json_text import json_text
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.queries import queries
from surefoot.checkpointing.readers import Readers
from surefoot.graph.errors import LeaseLost, UsageError
from surefoot.graph.values import JsonObject


async def create_task(
    database: Database,
    id: str,
    *,
    name: str,
    spec: JsonObject,
    spec_digest: str,
    workspace: str,
    concurrency: int,
    status: str = "queued",
    graph_version: int = 0,
    limits: JsonObject | None = None,
    inputs_manifest: JsonObject | None = None,
    tools_digest: JsonObject | None = None,
    priority: int = 0,
) -> tuple[DictRow, bool]:
    """Make the task, unless one of that id exists.

    Returns:
        The task's row, and True where this call made it.
    """
    parameters: dict[str, Any] = {
        "id": id,
        "name": name,
        "status": status,
        "spec": json_text(spec),
        "spec_digest": spec_digest,
        "graph_version": graph_version,
        "workspace": workspace,
        "concurrency": concurrency,
        "limits": json_text(limits or {}),
        "inputs_manifest": _optional(inputs_manifest),
        "tools_digest": _optional(tools_digest),
        "priority": priority,
    }
    row = await _one(database, "create", parameters)
    if row is not None:
        return row, True
    existing = await Readers(database).task_row(id)
    if existing is None:
        raise UsageError("unknown_task", f"the task {id!r} was deleted just now: try again")
    return existing, False


async def store_raised_limits(database: Database, lease: Lease, raised: JsonObject) -> None:
    """Lay raised limits over those that were raised before.

    Raises:
        LeaseLost: nothing was written.
    """
    fence = {"task_id": lease.task_id, "epoch": lease.epoch}
    row = await _one(database, "raise_limits", fence | {"raised": json_text(raised)})
    if row is None:
        raise LeaseLost(lease.task_id)


async def record_command(
    database: Database, task_id: str, name: str, args: JsonObject, *, by: str
) -> int:
    """Leave a command for the task's holder; returns its id.

    Raises:
        UsageError: `unknown_task`.
    """
    parameters = {"task_id": task_id, "name": name, "args": json_text(args), "by": by}
    row = await _one(database, "record_command", parameters)
    if row is None:
        raise UsageError("unknown_task", f"there is no task {task_id!r}: see `surefoot list`")
    return int(row["id"])


async def command_outcome(database: Database, id: int) -> DictRow | None:
    """The command with `applied_at` and `outcome` (both None while it waits)."""
    return await _one(database, "command_outcome", {"id": id})


async def apply_command(
    database: Database, lease: Lease, id: int, outcome: JsonObject | None = None
) -> bool:
    """Mark a command as applied, with what came of it; False where it already was.

    Raises:
        LeaseLost: only the holder applies commands.
    """
    fence = {"task_id": lease.task_id, "epoch": lease.epoch}
    row = await _one(database, "apply_command", fence | {"id": id, "outcome": _optional(outcome)})
    if row is None:
        raise LeaseLost(lease.task_id)
    return int(row["applied"]) > 0


async def withdraw_command(database: Database, id: int, outcome: JsonObject | None = None) -> bool:
    """Take back a command that nobody has applied yet (its sender gives up); False: too late."""
    parameters = {"id": id, "outcome": _optional(outcome)}
    return await _one(database, "withdraw_command", parameters) is not None


async def withdraw_old_pauses(database: Database, task_id: str) -> None:
    """Forget pauses that nobody applied before the holder was gone: the task is to go on now."""
    await _one(database, "withdraw_old_pauses", {"task_id": task_id})


async def tell_stopping(database: Database, lease: Lease) -> None:
    """Let readers see at once that a running task was told to stop."""
    fence = {"task_id": lease.task_id, "epoch": lease.epoch}
    await _one(database, "tell_stopping", fence)


async def bump_durations(database: Database, samples: Mapping[str, Sequence[float]]) -> None:
    """Add durations to the history that estimates come from.

    Args:
        database: where.
        samples: by tool (or kind): seconds each; what is not above 0 is left out.
    """
    rows: list[JsonObject] = []
    for name, seconds in samples.items():
        logs = [math.log(s) for s in seconds if s > 0]
        if logs:
            mean = math.fsum(logs) / len(logs)
            m2 = math.fsum((log - mean) ** 2 for log in logs)
            rows.append({"name": name, "n": len(logs), "log_mean": mean, "log_m2": m2})
    if rows:
        await _one(database, "bump_durations", {"samples": json_text(rows)})


def _optional(value: JsonObject | None) -> str | None:
    return None if value is None else json_text(value)


async def _one(database: Database, name: str, parameters: Mapping[str, Any]) -> DictRow | None:
    async with database.borrowed() as connection:
        cursor = await connection.execute(queries("tasks")[name], parameters)
        return await cursor.fetchone() if cursor.description else None
