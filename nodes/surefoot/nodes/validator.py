"""validator: a program that accepts a plan or says everything that is wrong with it."""

from pathlib import Path
from typing import Any, Literal

from surefoot.graph.state import TaskState
from surefoot.graph.validation import LocalWorld, validate_task
from surefoot.graph.values import JsonObject, TaskFailure
from surefoot.nodes.context import TaskContext, journal_task, limits_of, views
from surefoot.nodes.endings import end


async def check_plan(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """Validate the plan; a plan that was validated when its task was created is taken as it is."""
    faults = [] if context.validated else _faults(state, context)
    context.forget()
    seen = views(state, context)
    if not faults:
        context.journal.event(
            "PlanAccepted", version=seen.index.version, subtasks=len(seen.index.raw)
        )
        counts = {"total": len(seen.index.milestones), "passed": 0, "failed": 0, "rollbacks": 0}
        limits = limits_of(state, context, seen)
        journal_task(
            context, seen, plan_version=seen.index.version, limits=dict(limits), milestones=counts
        )
        return {"planning": {**_planning(state), "faults": []}}
    context.journal.event("PlanRejected", faults=faults)
    ending = TaskFailure(code="plan_rejected", message=_summary(faults), subtask=None)
    limits = limits_of(state, context, seen)
    return {
        "planning": {**_planning(state), "faults": faults},
        **end(context, seen, "failed", ending, limits),
    }


def after_validator(state: TaskState) -> Literal["planner", "dispatcher", "end"]:
    """Accepted plans are dispatched. A given plan has no second round: nobody could mend it."""
    planning = state.get("planning")
    return "end" if planning and planning["faults"] else "dispatcher"


def _planning(state: TaskState) -> JsonObject:
    return dict(state.get("planning") or {"rounds": 0, "faults": []})


def _faults(state: TaskState, context: TaskContext) -> list[JsonObject]:
    plan = state.get("plan")
    if plan is None:
        message = "the task file has no plan, and no model is there to make one: give it a plan"
        return [{"code": "missing_model", "message": message, "subtasks": []}]
    given = {k: v for k, v in plan.items() if k != "version"}
    task = {**(state.get("task") or {}), "plan": given}
    folder = state.get("task_dir")
    world = LocalWorld(task_dir=Path(folder) if folder else None)
    report = validate_task(task, tools=context.specs, world=world)
    return [fault.as_dict() for fault in report.faults]


def _summary(faults: list[JsonObject]) -> str:
    first = faults[0]["message"]
    return first if len(faults) == 1 else f"{first} (and {len(faults) - 1} more faults)"
