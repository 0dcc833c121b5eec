"""How people step in while a task exists: one way for every command that changes it.

A command is a row. The task's holder applies it and says what came of it; where nobody holds the
task, the caller does that under the lease, in a go that does nothing else.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool

from surefoot.checkpointing.readers import Readers
from surefoot.checkpointing.tasks import command_outcome, record_command, withdraw_command
from surefoot.graph.edits import Edit, kept_edit
from surefoot.graph.errors import DatabaseUnavailable, LeaseHeld, UsageError
from surefoot.graph.holding import Held
from surefoot.graph.model_roles import ModelRoles
from surefoot.graph.ports import Command
from surefoot.graph.questions import parse_answer
from surefoot.graph.session import Engine
from surefoot.graph.values import Json, JsonObject, Question

LOOK_EVERY_S = 0.1
LOOKS = 10
"""After so many looks it is asked whether the holder is still there."""

OVER = ("completed", "cancelled")

GOS = ("TaskStarted", "TaskResumed")
"""Events with which a go begins."""


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
    row = await engine.row(task_id)
    if row["status"] in OVER:
        raise UsageError(
            "wrong_state", f"task {task_id!r} is {row['status']}: there is nothing left to plan"
        )
    roles = ModelRoles.of(row["spec"]["task"], engine.settings.model)
    if require and not roles.ladders["planner"]:
        raise UsageError(
            "missing_model",
            "--require needs a planning model: name one with `model:` in the task file or "
            "SUREFOOT_MODEL, or give the new plan itself with --plan FILE",
        )
    args: JsonObject = {"require": require} if require else {"plan": plan}
    outcome = await step_in(engine, task_id, "replan", args, objects=objects, by=by)
    if outcome.get("faults"):
        raise _refused(task_id, outcome["faults"])


async def skip(
    engine: Engine,
    task_id: str,
    subtask: str,
    *,
    objects: Sequence[BaseTool] = (),
    by: str = "person",
) -> JsonObject:
    """Leave a subtask out, whatever its plan says; what runs of it is stopped. See `step_in`."""
    return await _about(engine, task_id, "skip", {"subtask": subtask}, objects=objects, by=by)


async def retry(
    engine: Engine,
    task_id: str,
    subtask: str,
    *,
    objects: Sequence[BaseTool] = (),
    by: str = "person",
) -> JsonObject:
    """Have a subtask tried again in full that failed, was skipped or waits. See `step_in`."""
    return await _about(engine, task_id, "retry", {"subtask": subtask}, objects=objects, by=by)


async def edit(
    engine: Engine,
    task_id: str,
    subtask: str,
    given: Edit,
    *,
    objects: Sequence[BaseTool] = (),
    by: str = "person",
) -> JsonObject:
    """Give a subtask another result, artifacts or arguments; its users are done again.

    Raises:
        UsageError: as `step_in`; or what is given is not what the plan demands.
    """
    args = {"subtask": subtask, **await kept_edit(given, engine.shared.store)}
    return await _about(engine, task_id, "edit", args, objects=objects, by=by)


async def answer(
    engine: Engine,
    task_id: str,
    question: str,
    value: Json,
    *,
    objects: Sequence[BaseTool] = (),
    by: str = "person",
) -> JsonObject:
    """Answer a question by its id; returns `{question, answer}` once that is applied.

    Args:
        engine: of this process.
        task_id: of the task.
        question: its id.
        value: see `questions.parse_answer`.
        objects: the tool objects that the task was made with.
        by: who answers, for the history.

    Raises:
        UsageError: there is no such task or question, the value does not fit, another answer was
            given before, or the task is over; nothing was changed.
    """
    row = await engine.row(task_id)
    rows = await Readers(engine.database).question_rows(task_id, open_only=False)
    asked = next((one for one in rows if one["id"] == question), None)
    if asked is None:
        ids = ", ".join(one["id"] for one in rows if one["open"]) or "none"
        raise UsageError(
            "unknown_question", f"task {task_id!r} has no question {question!r}; open are: {ids}"
        )
    about = Question(id=question, subtask=asked["subtask"], kind=asked["kind"], text=asked["text"])
    about["choices"] = asked["choices"] or []
    parsed = parse_answer(about, value)
    if not asked["open"] and asked["answer"] is not None:
        return _given_before(question, asked["answer"], parsed)
    _refuse_over(row)
    if not asked["open"]:
        raise UsageError("closed_question", f"question {question!r} is closed: it is settled")
    args: JsonObject = {"question": question, "value": parsed, "subtask": asked["subtask"]}
    return await step_in(engine, task_id, "answer", args, objects=objects, by=by)


def _given_before(question: str, before: JsonObject, now: JsonObject) -> JsonObject:
    """The same answer once more is no mistake. Raises UsageError for another one."""
    if before == now:
        return {"question": question, "answer": now}
    raise UsageError(
        "answered",
        f"question {question!r} was answered with {before['choice']!r} already: an answer is not "
        "changed",
    )


async def _about(
    engine: Engine,
    task_id: str,
    name: str,
    args: JsonObject,
    *,
    objects: Sequence[BaseTool],
    by: str,
) -> JsonObject:
    """A command about one subtask: `{"applied", "subtask", "reopened"}`."""
    _refuse_over(await engine.row(task_id))
    return await step_in(engine, task_id, name, args, objects=objects, by=by)


def _refuse_over(row: Mapping[str, Any]) -> None:
    """Raises UsageError: the task is completed or cancelled."""
    if row["status"] in OVER:
        back = f"; `surefoot rollback {row['id']} MILESTONE` (or start) opens it again"
        over = f"task {row['id']!r} is {row['status']}: it is over"
        raise UsageError("wrong_state", over + (back if row["status"] == "completed" else ""))


async def rollback(
    engine: Engine,
    task_id: str,
    milestone: str,
    *,
    objects: Sequence[BaseTool] = (),
    by: str = "person",
) -> JsonObject:
    """Go back to a passed milestone, or to `start`; the task is paused afterwards.

    Args:
        engine: of this process.
        task_id: of a task that nobody runs; a completed one may go back as well.
        milestone: that has passed, or `start`.
        objects: the tool objects that the task was made with.
        by: who asked, for the history.

    Returns:
        `{"applied": "rollback", "milestone", "reopened"}`: what is done again.

    Raises:
        UsageError: there is no such task, it runs or is cancelled, or there is no way back to
            that milestone; nothing was changed.
    """
    if (await engine.row(task_id))["status"] == "cancelled":
        raise UsageError("wrong_state", f"task {task_id!r} is cancelled: it is over")
    return await step_in(
        engine, task_id, "rollback", {"milestone": milestone}, objects=objects, by=by
    )


async def step_in(
    engine: Engine,
    task_id: str,
    name: str,
    args: JsonObject,
    *,
    objects: Sequence[BaseTool] = (),
    by: str = "person",
) -> JsonObject:
    """Have a command applied, by the task's holder or by ourselves; returns what came of it.

    Args:
        engine: of this process.
        task_id: of the task.
        name: of the command: one of `nodes.commands.COMMANDS`, or `replan`.
        args: its arguments.
        objects: the tool objects that the task was made with.
        by: who asked, for the history.

    Raises:
        UsageError: there is no such task, or the command was refused; nothing was changed.
    """
    await engine.row(task_id)
    id = await record_command(engine.database, task_id, name, args, by=by)
    command = Command(id=id, name=name, args=args, by=by)
    try:
        outcome = await _applied(engine, task_id, command, objects)
    except BaseException:
        await _withdraw(engine, task_id, command)
        raise
    error = outcome.get("error")
    if error:
        raise UsageError(error["code"], error["message"])
    return outcome


async def _withdraw(engine: Engine, task_id: str, command: Command) -> None:
    """Raises DatabaseUnavailable: the command stands, and whoever holds the task applies it."""
    try:
        await withdraw_command(engine.database, command.id)
    except DatabaseUnavailable as gone:
        raise DatabaseUnavailable(
            f"{gone}; `{command.name}` was recorded and may still be applied: look before you "
            f"repeat it (`surefoot history {task_id}`)"
        ) from None


async def _applied(
    engine: Engine, task_id: str, command: Command, objects: Sequence[BaseTool]
) -> JsonObject:
    while True:
        with contextlib.suppress(LeaseHeld):
            await _unheld(engine, task_id, command, objects)
        for _ in range(LOOKS):
            found = await command_outcome(engine.database, command.id)
            if found is None:
                raise UsageError("unknown_task", f"the task {task_id!r} was deleted meanwhile")
            if found["applied_at"] is not None:
                return found["outcome"] or {}
            await asyncio.sleep(LOOK_EVERY_S)


async def _unheld(
    engine: Engine, task_id: str, command: Command, objects: Sequence[BaseTool]
) -> None:
    """Apply it under the lease. Raises LeaseHeld where somebody holds the task."""
    async with engine.hold(task_id, objects) as held:
        found = await command_outcome(engine.database, command.id)
        if found is not None and found["applied_at"] is not None:
            return
        if command.name != "rollback":
            _refuse_over(await engine.row(task_id))
        if not held.stored.begun and not await held.saver.has_begun(task_id):
            raise UsageError(
                "wrong_state", f"task {task_id!r} has not begun: `surefoot resume {task_id}` first"
            )
        await _refuse_hosted(engine, held)
        held.opened.context.only_commands = True
        held.opened.control.ask(command)
        await engine.drive(held, {"go": 1})
        told = {applied["id"] for applied in held.opened.context.applied}
        left = {one.id for one in held.opened.control.asked()} - told
        if command.id in left:
            raise UsageError(
                "wrong_state",
                f"task {task_id!r} cannot do that now; see `surefoot status {task_id}`",
            )


async def _refuse_hosted(engine: Engine, held: Held) -> None:
    """Raises UsageError: the state is in a host's checkpointer, which would go on without this."""
    id = held.stored.id
    if await held.saver.has_begun(id):
        return
    gos = await Readers(engine.database).event_rows(id, types=GOS)
    facts: JsonObject = (gos[-1]["facts"] if gos else None) or {}
    if facts.get("hosted"):
        raise UsageError(
            "wrong_state",
            f"task {id!r} is run by a host's graph, whose checkpointer has its state: ask for it "
            f"there. Where that is gone, `surefoot resume {id}` makes the state anew first",
        )


def _refused(task_id: str, faults: Json) -> UsageError:
    first = faults[0] if faults else {"code": "plan_rejected", "message": "it was not accepted"}
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return UsageError(first["code"], f"task {task_id!r} keeps its plan: {first['message']}{more}")
