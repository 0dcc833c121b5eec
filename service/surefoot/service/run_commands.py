"""The commands that run: run, resume, cancel."""

from pathlib import Path
from typing import Annotated, Any

import typer

from surefoot.graph.errors import UsageError
from surefoot.service.carrying import carry_out
from surefoot.service.options import (
    DebugOption,
    JsonOption,
    ModelOption,
    NoWaitOption,
    QuietOption,
    SetOption,
    TaskArgument,
    ToolsOption,
)
from surefoot.service.output import Output

MOST_NAME = 60


def run(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The task file.")] = None,
    *,
    goal: Annotated[
        str | None, typer.Option("--goal", metavar="TEXT", help="A goal instead of a file.")
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="The task's id; the same again goes on with it.")
    ] = None,
    sets: SetOption = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", metavar="N", min=1, max=1000)
    ] = None,
    workspace: Annotated[
        str | None, typer.Option("--workspace", metavar="DIR", help="Where tools may write.")
    ] = None,
    model: ModelOption = None,
    tools: ToolsOption = None,
    plan_only: Annotated[
        bool,
        typer.Option("--plan-only", help="Check (or make) the plan and print it; make no task."),
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="With --plan-only: where to write it."),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a task here to its end.

    Exit codes: 0 completed, 1 failed, 2 wrong usage or an invalid file, 3 paused or waiting,
    4 cancelled, 5 a live worker holds the task.
    """
    out = Output(json=json, quiet=quiet, debug=debug)

    async def work() -> int:
        from surefoot.graph.task_file import parse_set
        from surefoot.service.checking import show_plan
        from surefoot.service.running import RunRequest, run_file

        request = RunRequest(
            source=_given(file, goal),
            id=id,
            sets=dict(parse_set(text) for text in sets or ()),
            tools=tools or (),
            concurrency=concurrency,
            workspace=workspace,
            model=model,
        )
        return await (show_plan(request, out, export) if plan_only else run_file(request, out))

    carry_out(work, out, runs=True)


def resume(
    id: TaskArgument,
    *,
    max_steps: Annotated[int | None, typer.Option("--max-steps", metavar="N", min=0)] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", metavar="N", min=0)] = None,
    max_seconds: Annotated[float | None, typer.Option("--max-seconds", metavar="N", min=0)] = None,
    max_failures: Annotated[int | None, typer.Option("--max-failures", metavar="N", min=0)] = None,
    max_cost_usd: Annotated[
        float | None, typer.Option("--max-cost-usd", metavar="N", min=0)
    ] = None,
    replans: Annotated[int | None, typer.Option("--replans", metavar="N", min=0)] = None,
    rollbacks: Annotated[int | None, typer.Option("--rollbacks", metavar="N", min=0)] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Continue a task after a crash, a pause, an answer, or with a raised limit."""
    out = Output(json=json, quiet=quiet, debug=debug)
    given = {
        "max_steps": max_steps,
        "max_tokens": max_tokens,
        "max_seconds": max_seconds,
        "max_failures": max_failures,
        "max_cost_usd": max_cost_usd,
        "replans": replans,
        "rollbacks": rollbacks,
    }

    async def work() -> int:
        from surefoot.service.running import resume_task

        limits = {name: value for name, value in given.items() if value is not None}
        return await resume_task(id, limits, out)

    carry_out(work, out, runs=True)


def cancel(
    id: TaskArgument,
    *,
    no_wait: NoWaitOption = False,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Cancel a task for good; what it has done stays."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        from surefoot.service.client import Surefoot
        from surefoot.service.words import result_line

        async with Surefoot() as surefoot:
            status = await surefoot.cancel(id, wait=not no_wait)
            if out.json:
                out.document(dict(status))
            else:
                out.line(result_line(status))

    carry_out(work, out)


def _given(file: Path | None, goal: str | None) -> Path | dict[str, Any]:
    """The task: a file, or a goal in words that a model plans. Raises UsageError: neither."""
    if file is not None and goal is not None:
        raise UsageError("usage", "give a task file or --goal, not both")
    if goal is not None:
        if not goal.strip():
            raise UsageError("usage", "--goal is empty: say in words what the task is for")
        return {"name": goal_name(goal), "goal": {"objective": goal}}
    if file is None:
        raise UsageError("usage", 'name a task file: surefoot run FILE, or say --goal "..."')
    return file


def goal_name(goal: str) -> str:
    """A task's name from the first words of its goal."""
    words = " ".join(goal.split())
    return words if len(words) <= MOST_NAME else words[:MOST_NAME].rpartition(" ")[0] or "task"
