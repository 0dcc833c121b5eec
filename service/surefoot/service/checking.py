"""Checking a task file without running it: faults in words, or the plan as it would run."""

from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.graph.values import JsonObject
from surefoot.service import exits
from surefoot.service.client import Surefoot
from surefoot.service.documents import plan_entries
from surefoot.service.exporting import export_task, free_name
from surefoot.service.output import Output
from surefoot.service.running import RunRequest
from surefoot.service.sources import load, tool_modules
from surefoot.service.words import fault_lines

if TYPE_CHECKING:
    from surefoot.graph.task_file import LoadedFile

COLUMNS = ["phase", "subtask", "kind", "tool", "depends_on", "weight"]


async def show_validation(request: RunRequest, out: Output) -> int:
    """Validate a file and say what was found; returns the exit code."""
    found = await validation(request)
    if out.json:
        out.document(found)
    else:
        for line in fault_lines(found):
            out.line(line)
    return exits.DONE if found["valid"] else exits.WRONG_USAGE


async def show_plan(request: RunRequest, out: Output, export: Path | None = None) -> int:
    """Validate a task and print its plan, made by a model where there is none; no task is made.

    Args:
        request: what `surefoot run` was asked for.
        out: where to say it.
        export: where a runnable task file is written; absent, a plan that a model made is written
            into the current folder under the task's name.
    """
    from surefoot.graph.errors import UsageError

    loaded = load(request.source, request.sets)
    found = await validation(request)
    if not found["valid"]:
        out.invalid(UsageError("invalid", f"{_shown(request)} is not valid"), found)
        return exits.WRONG_USAGE
    plan = loaded.mapping.get("plan")
    if not plan:
        return await show_made_plan(request, loaded, out, export)
    if export is not None:
        export_task(loaded.mapping, export)
        out.note(f"wrote {export}")
    out.rows(plan_entries(plan, {}), COLUMNS, none="the plan is empty")
    return exits.DONE


async def show_made_plan(
    request: RunRequest, loaded: "LoadedFile", out: Output, export: Path | None
) -> int:
    """Let a model plan, write the task file that can be edited and run, and show the plan.

    In JSON mode stdout is that task file.
    """
    from surefoot.graph.plan import Plan
    from surefoot.graph.plan_alone import plan_alone
    from surefoot.graph.plan_forecast import forecast, forecast_lines
    from surefoot.graph.settings import Settings

    made = await plan_alone(
        loaded,
        Settings.from_environment(),
        extra_tools=tool_modules(request.tools),
        model=request.model,
        told=lambda type, facts: _say_round(type, facts, out),
    )
    file = export or free_name(str(made.task.get("name") or "task"))
    export_task(made.task, file)
    plan = made.task["plan"]
    if out.json:
        out.document(made.task)
    else:
        out.rows(plan_entries(plan, {}), COLUMNS, none="the plan is empty")
    for line in forecast_lines(forecast(Plan.model_validate(plan))):
        out.note(line)
    used = f"{made.usage['steps']} calls, {made.usage['tokens']} tokens"
    out.note(f"planned with {used}; wrote {file}: edit it, then run it with: surefoot run {file}")
    return exits.DONE


def _say_round(type: str, facts: JsonObject, out: Output) -> None:
    if type == "PlanningAsked":
        out.note(f"asking for the {facts['stage']}, round {facts['round']}")
    elif type == "PlanRejected":
        out.note(f"not accepted: {facts['reason']}")
    elif type == "ModelWaits":
        out.note(f"{facts['model']} is asked again later: {facts['reason']}")
    for warning in facts.get("warnings") or ():
        out.note(f"warning: {warning}")


async def validation(request: RunRequest) -> JsonObject:
    """The validator's document on a file."""
    async with Surefoot() as surefoot:
        return await surefoot.validate(
            request.source, sets=request.sets, tools=request.tools, model=request.model
        )


def _shown(request: RunRequest) -> str:
    return str(request.source) if isinstance(request.source, str | Path) else "the task"
