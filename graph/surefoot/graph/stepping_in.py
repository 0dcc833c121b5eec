"""How people step in while a task exists: a new remainder of its plan.

The task's holder applies a command and says so; where nobody holds the task, the caller does it
under the lease, in a go that does nothing else.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from langchain_core.tools import BaseTool

from surefoot.checkpointing.tasks import command_outcome, record_command, withdraw_command
from surefoot.graph.errors import LeaseHeld, UsageError
from surefoot.graph.model_roles import ModelRoles
from surefoot.graph.session import Engine
from surefoot.graph.values import Json, JsonObject
from surefoot.nodes.wishes import wish_of_command

LOOK_EVERY_S = 0.1
LOOKS = 10
"""After so many looks it is asked whether the holder is still there."""


async def replan(
    engine: Engine,
    task_id: str,
    *,
    require: str | None = None,
    plan: JsonObject | None = None,
    objects: Sequence[BaseTool] = (),
    by: str = "person",
) -> None:
    """Have the rest of a task's plan made anew; returns when the new version stands.

    A task that nobody holds is paused afterwards: `resume` goes on with it.

    Args:
        engine: of this process.
        task_id: of the task.
        require: what is required besides the goal: an amendment of it; a planner makes the plan.
        plan: the new remainder (or whole plan), instead.
        objects: the tool objects that the task was made with.
        by: who asked, for the history.

    Raises:
        UsageError: there is no such task, it is completed or cancelled or has not begun, no
            planner is configured, or the plan has faults; nothing was changed.
    """
    if bool(require) == bool(plan):
        raise UsageError("usage", "give either what is required (--require) or a plan (--plan)")
    args: JsonObject = {"require": require} if require else {"plan": plan}
    while True:
        await _check_state(engine, task_id, needs_planner=bool(require))
        with contextlib.suppress(LeaseHeld):
            return await _unheld(engine, task_id, args, objects, by)
        if await _by_holder(engine, task_id, args, by):
            return None


async def _check_state(engine: Engine, task_id: str, *, needs_planner: bool) -> None:
    row = await engine.row(task_id)
    if row["status"] in ("completed", "cancelled"):
        raise UsageError(
            "wrong_state", f"task {task_id!r} is {row['status']}: there is nothing left to plan"
        )
    roles = ModelRoles.of(row["spec"]["task"], engine.settings.model)
    if needs_planner and not roles.ladders["planner"]:
        raise UsageError(
            "missing_model",
            "--require needs a planning model: name one with `model:` in the task file or "
            "SUREFOOT_MODEL, or give the new plan itself with --plan FILE",
        )


async def _unheld(
    engine: Engine, task_id: str, args: JsonObject, objects: Sequence[BaseTool], by: str
) -> None:
    """Do it under the lease. Raises LeaseHeld where somebody holds the task."""
    before = await engine.row(task_id)
    async with engine.hold(task_id, objects) as held:
        if not await held.saver.has_begun(task_id):
            raise UsageError(
                "wrong_state", f"task {task_id!r} has not begun: `surefoot resume {task_id}` first"
            )
        context = held.opened.context
        context.only_replan = True
        await engine.drive(held, {"go": 1, "replan": wish_of_command(args, by)})
        if context.refused is not None:
            raise _refused(task_id, context.refused)
    after = await engine.row(task_id)
    if after["plan_version"] == before["plan_version"]:
        raise UsageError(
            "wrong_state",
            f"task {task_id!r} is {after['status']} and keeps its plan for now; the new one is "
            f"made when it goes on: `surefoot questions {task_id}` and `surefoot status {task_id}`",
        )


async def _by_holder(engine: Engine, task_id: str, args: JsonObject, by: str) -> bool:
    """Leave the command for the holder and wait; False when the holder is gone before it did it.

    Raises:
        UsageError: the plan has faults.
    """
    command = await record_command(engine.database, task_id, "replan", args, by=by)
    while True:
        for _ in range(LOOKS):
            found = await command_outcome(engine.database, command)
            if found is not None and found["applied_at"] is not None:
                outcome: JsonObject = found["outcome"] or {}
                if outcome.get("faults"):
                    raise _refused(task_id, outcome["faults"])
                return True
            await asyncio.sleep(LOOK_EVERY_S)
        with contextlib.suppress(LeaseHeld):
            await engine.leases.release(await engine.leases.acquire(task_id))
            if await withdraw_command(engine.database, command):
                return False


def _refused(task_id: str, faults: Json) -> UsageError:
    first = faults[0] if faults else {"code": "plan_rejected", "message": "it was not accepted"}
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return UsageError(first["code"], f"task {task_id!r} keeps its plan: {first['message']}{more}")
