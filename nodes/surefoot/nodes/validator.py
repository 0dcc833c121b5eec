"""validator: a program that accepts a plan or says everything that is wrong with it."""

from pathlib import Path
from typing import Any, Literal

from surefoot.graph.head import pin
from surefoot.graph.milestones import added_milestones, distance_warnings
from surefoot.graph.state import Round, TaskState
from surefoot.graph.validation import LocalWorld, validate_task
from surefoot.graph.values import JsonObject, TaskFailure
from surefoot.nodes.context import TaskContext, journal_task, limits_of, views
from surefoot.nodes.endings import end
from surefoot.nodes.planning import (
    Judged,
    answer_text,
    judge_goal,
    judge_plan,
    out_of_rounds,
    planning_of,
    rounds_allowed,
    rounds_used,
    summary,
)
from surefoot.nodes.replan_judging import check_replan
from surefoot.nodes.stable_points import with_start


async def check_plan(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """Judge what the planner brought: a model's criteria or plan, or the task file's plan."""
    if state.get("replan"):
        return await check_replan(state, context)
    if state.get("plan"):
        return await with_start(_check_given(state, context), state, context)
    planning = planning_of(state)
    draft, stage = planning.get("draft"), planning.get("stage", "plan")
    if draft is None:
        return await _refuse(planning, planning["faults"], state, context)
    if stage == "goal":
        judged = judge_goal(draft, state, context)
    else:
        judged = await judge_plan(draft, state, context)
    if judged.faults:
        return await _refuse(planning, list(judged.faults), state, context)
    settled: Round = {**planning, "faults": [], "draft": None}
    if judged.goal is not None:
        return _pin_goal(judged.goal, settled, context)
    return await with_start(_accept(judged, settled, state, context), state, context)


def after_validator(state: TaskState) -> Literal["planner", "dispatcher", "end"]:
    """Accepted plans are dispatched; what a model must mend, or has yet to plan, goes back."""
    if state.get("status") == "failed":
        return "end"
    return "dispatcher" if state.get("plan") else "planner"


# --- a model's answers -----------------------------------------------------------------------


async def _refuse(
    planning: Round, faults: list[JsonObject], state: TaskState, context: TaskContext
) -> dict[str, Any]:
    """Send the faults back, or end the task when there is no round left."""
    stage = planning.get("stage", "plan")
    used = rounds_used(planning, stage)
    after: Round = {**planning, "faults": faults, "draft": None}
    if faults:
        raw = planning.get("raw") or {}
        text = (await context.store.get_bytes(raw["sha256"])).decode() if "sha256" in raw else ""
        context.journal.event(
            "PlanRejected",
            stage=stage,
            round=used,
            faults=faults,
            answer=answer_text(text),
            sha256=raw.get("sha256"),
            reason=summary(faults),
        )
    if used < rounds_allowed(state):
        return {"planning": after}
    seen = views(state, context)
    limits = limits_of(state, context, seen)
    ending = out_of_rounds(stage, used, faults)
    return {"planning": after, **end(context, seen, "failed", ending, limits)}


def _pin_goal(goal: JsonObject, planning: Round, context: TaskContext) -> dict[str, Any]:
    """Pin drafted criteria before any plan exists; from here on every request begins with them."""
    shown = ", ".join(str(check.get("id") or check["type"]) for check in goal["acceptance"])
    reason = f"the goal had no acceptance criteria; drafted: {shown}"
    drafted = {k: goal[k] for k in ("acceptance", "prohibitions") if k in goal}
    context.journal.event("GoalPinned", reason=reason, **drafted)
    context.on_goal(goal)
    return {**pin(goal), "planning": planning}


def _accept(
    judged: Judged, planning: Round, state: TaskState, context: TaskContext
) -> dict[str, Any]:
    """Adopt a model's plan as version 1, with the milestones that a program adds to it."""
    drafted = judged.plan or {}
    added = added_milestones(drafted)
    milestones = [*(drafted.get("milestones") or ()), *added]
    plan = {**drafted, "milestones": milestones, "version": 1}
    places = ", ".join(str(milestone["after"]) for milestone in added)
    reason = f"made by {planning.get('model') or 'a model'} in round {planning['rounds']}"
    reason += f"; milestones added after {places}" if added else ""
    context.journal.plan(1, plan, reason)
    warnings = [warning["message"] for warning in judged.warnings] + distance_warnings(plan)
    _announce({**state, "plan": plan}, context, reason=reason, warnings=warnings)
    return {"plan": plan, "planning": planning}


# --- the task file's plan --------------------------------------------------------------------


def _check_given(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """A plan that was validated when its task was created is taken as it is."""
    faults = [] if context.validated else _faults(state, context)
    planning: Round = {**planning_of(state), "faults": faults}
    if not faults:
        _announce(state, context)
        return {"planning": planning}
    context.forget()
    seen = views(state, context)
    context.journal.event("PlanRejected", faults=faults)
    ending = TaskFailure(code="plan_rejected", message=summary(faults), subtask=None)
    limits = limits_of(state, context, seen)
    return {"planning": planning, **end(context, seen, "failed", ending, limits)}


def _announce(state: TaskState, context: TaskContext, **facts: Any) -> None:
    """Tell readers of the accepted plan; the derived views are built anew from it."""
    context.forget()
    seen = views(state, context)
    version = seen.index.version
    context.journal.event("PlanAccepted", version=version, subtasks=len(seen.index.raw), **facts)
    counts = {"total": len(seen.index.milestones), "passed": 0, "failed": 0, "rollbacks": 0}
    limits = limits_of(state, context, seen)
    journal_task(context, seen, plan_version=version, limits=dict(limits), milestones=counts)


def _faults(state: TaskState, context: TaskContext) -> list[JsonObject]:
    given = {k: v for k, v in (state.get("plan") or {}).items() if k != "version"}
    task = {**(state.get("task") or {}), "plan": given}
    folder = state.get("task_dir")
    world = LocalWorld(task_dir=Path(folder) if folder else None)
    report = validate_task(task, tools=context.specs, world=world, models=context.model_names)
    return [fault.as_dict() for fault in report.faults]
