"""Checking a task file without running it: faults in words, or the plan as it would run."""

from surefoot.graph.values import JsonObject
from surefoot.service import exits
from surefoot.service.client import Surefoot
from surefoot.service.documents import plan_entries
from surefoot.service.output import Output
from surefoot.service.running import RunRequest
from surefoot.service.sources import load
from surefoot.service.words import fault_lines


async def show_validation(request: RunRequest, out: Output) -> int:
    """Validate a file and say what was found; returns the exit code."""
    found = await validation(request)
    if out.json:
        out.document(found)
    else:
        for line in fault_lines(found):
            out.line(line)
    return exits.DONE if found["valid"] else exits.WRONG_USAGE


async def show_plan(request: RunRequest, out: Output) -> int:
    """Validate a file and print its plan; nothing is made."""
    from surefoot.graph.errors import UsageError

    loaded = load(request.source, request.sets)
    found = await validation(request)
    if not found["valid"]:
        out.invalid(UsageError("invalid", f"{request.source} is not valid"), found)
        return exits.WRONG_USAGE
    plan = loaded.mapping.get("plan")
    if not plan:
        raise UsageError(
            "missing_model", "the task file has no plan: this version runs plans that are given"
        )
    columns = ["phase", "subtask", "kind", "tool", "depends_on", "weight"]
    out.rows(plan_entries(plan, {}), columns, none="the plan is empty")
    return exits.DONE


async def validation(request: RunRequest) -> JsonObject:
    """The validator's document on a file."""
    async with Surefoot() as surefoot:
        return await surefoot.validate(
            request.source, sets=request.sets, tools=request.tools, model=request.model
        )
