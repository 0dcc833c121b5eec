"""The commands by which people step in: pause, skip, retry, edit, replan, rollback."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from surefoot.graph.given import NOT_GIVEN
from surefoot.graph.values import JsonObject
from surefoot.service.carrying import carry_out
from surefoot.service.options import (
    DebugOption,
    JsonOption,
    NoWaitOption,
    SubtaskArgument,
    TaskArgument,
)
from surefoot.service.output import Output

if TYPE_CHECKING:
    from surefoot.service.client import Status, Surefoot

MOST_NAMED = 12


def pause(
    id: TaskArgument,
    *,
    no_wait: NoWaitOption = False,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Pause a task: what is in hand ends and is saved; resume goes on with the next."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        from surefoot.service.client import Surefoot
        from surefoot.service.words import result_line

        async with Surefoot() as surefoot:
            status = await surefoot.pause(id, wait=not no_wait)
            if out.json:
                out.document(dict(status))
            else:
                out.line(result_line(status))
                out.next_step(status)

    carry_out(work, out)


def skip(
    id: TaskArgument,
    subtask: SubtaskArgument,
    *,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Leave a subtask out: it counts as done, and what looks it up finds null.

    What runs of it is stopped. A task that nobody runs is paused afterwards: resume it.
    """
    _carry_out_about(id, lambda surefoot: surefoot.skip(id, subtask), json=json, debug=debug)


def retry(
    id: TaskArgument,
    subtask: SubtaskArgument,
    *,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Try a subtask again, in full and with fresh tries: one that failed, was skipped, or waits.

    A task that nobody runs is paused afterwards: resume it.
    """
    _carry_out_about(id, lambda surefoot: surefoot.retry(id, subtask), json=json, debug=debug)


def edit(
    id: TaskArgument,
    subtask: SubtaskArgument,
    *,
    result: Annotated[
        Path | None, typer.Option("--result", metavar="FILE", help="A JSON file: its result.")
    ] = None,
    artifact: Annotated[
        list[str] | None,
        typer.Option("--artifact", metavar="NAME=FILE", help="An artifact. Repeatable."),
    ] = None,
    args: Annotated[
        str | None,
        typer.Option("--args", metavar="JSON", help="Arguments for its tool; it is done again."),
    ] = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Give a subtask another result, other artifacts, or other arguments.

    A result must pass the subtask's checks. What has used the old value is done again. A task
    that nobody runs is paused afterwards: resume it.
    """

    async def work(surefoot: "Surefoot") -> JsonObject:
        from surefoot.service.given_edits import given_args, given_artifacts, given_result

        return await surefoot.edit(
            id,
            subtask,
            result=NOT_GIVEN if result is None else given_result(result),
            artifacts=given_artifacts(artifact or ()),
            args=None if args is None else given_args(args),
        )

    _carry_out_about(id, work, json=json, debug=debug)


def _carry_out_about(
    id: str,
    command: "Callable[[Surefoot], Awaitable[JsonObject]]",
    *,
    json: bool,
    debug: bool,
) -> NoReturn:
    """Carry out a command about a subtask, and say what is to be done (again) because of it."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        from surefoot.service.client import Surefoot

        async with Surefoot() as surefoot:
            outcome = await command(surefoot)
            if out.json:
                out.document(outcome)
                return
            status = await surefoot.status(id)
            out.line(_said(id, outcome, status))
            out.next_step(status)

    carry_out(work, out)


def rollback(
    id: TaskArgument,
    milestone: Annotated[
        str, typer.Argument(metavar="MILESTONE", help="One that has passed, or `start`.")
    ],
    *,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Go back to a milestone, or to the start: only what came after it is done again.

    Records, workspace and artifacts are what they were; effects since then are compensated where
    they can be. The task must not be running, and is paused afterwards: resume it.
    """
    _carry_out_about(id, lambda surefoot: surefoot.rollback(id, milestone), json=json, debug=debug)


_DONE = {"skip": "skipped", "retry": "is tried again", "edit": "edited"}


def _said(id: str, outcome: JsonObject, status: "Status") -> str:
    """One line: `t: list edited; to be done again: count, report (paused)`."""
    again: list[str] = [one for one in outcome["reopened"] if one != outcome.get("subtask")]
    if outcome["applied"] == "rollback":
        blocked = any(question["kind"] == "undo_failed" for question in status["questions"])
        where = "on its way back, which is blocked, to" if blocked else "back to"
        line = f"{id}: {where} {outcome['milestone']!r}"
    else:
        line = f"{id}: {outcome['subtask']} {_DONE[outcome['applied']]}"
    if again:
        shown = ", ".join(again[:MOST_NAMED])
        more = f" and {len(again) - MOST_NAMED} more" if len(again) > MOST_NAMED else ""
        line += f"; to be done again: {shown}{more}"
    return f"{line} ({status['status']})"


def replan(
    id: TaskArgument,
    *,
    require: Annotated[
        str | None,
        typer.Option("--require", metavar="TEXT", help="What is required besides the goal."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="The new remainder, or a task file with it."),
    ] = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Have the rest of a task's plan made anew; what is finished stands.

    The requirement becomes an amendment of the goal, and a planning model makes the plan. A task
    that nobody runs is paused afterwards: resume it.
    """
    out = Output(json=json, debug=debug)

    async def work() -> None:
        from surefoot.service.client import Surefoot

        async with Surefoot() as surefoot:
            status = await surefoot.replan(id, require=require, plan=plan)
            if out.json:
                out.document(dict(status))
            else:
                out.line(f"{id}: plan version {status['plan_version']} ({status['status']})")
                out.next_step(status)

    carry_out(work, out)
