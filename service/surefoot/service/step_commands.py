"""The commands by which people step in: replan."""

from pathlib import Path
from typing import Annotated

import typer

from surefoot.service.carrying import carry_out
from surefoot.service.options import DebugOption, JsonOption, TaskArgument
from surefoot.service.output import Output


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

    carry_out(work, out)
