"""planner: takes the plan of the task file, or asks a model for one. It never runs anything.

One round is one superstep: one question, and its answer stored unjudged. So a kill loses at most
the call in hand, and nothing of an answer is executed before the validator has accepted it.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

from surefoot.graph.answer_shapes import goal_shape
from surefoot.graph.budget import exhausted
from surefoot.graph.errors import (
    AnswerUnusable,
    BudgetExhausted,
    InconsistentState,
    MissingModel,
    ModelUnavailable,
)
from surefoot.graph.model_ports import Answer, Ask
from surefoot.graph.state import Round, TaskState
from surefoot.graph.validation import plain_faults
from surefoot.graph.values import JsonObject, StoredValue, TaskFailure
from surefoot.nodes.asking import Stopped, heeding_stops
from surefoot.nodes.briefs import brief_of
from surefoot.nodes.context import TaskContext, limits_of, views
from surefoot.nodes.endings import end, end_inconsistent
from surefoot.nodes.inputs_seen import describe_inputs
from surefoot.nodes.planning import (
    Stage,
    counted,
    planning_of,
    rounds_allowed,
    rounds_used,
    shape_fault,
    stage_of,
)
from surefoot.nodes.planning_prompts import (
    GOAL_OUTLINE,
    goal_matter,
    plan_matter,
    plan_outline,
    plan_schema,
)
from surefoot.nodes.replanning import redraft


async def draft_plan(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """Adopt the task file's plan, or take one round of planning with a model."""
    try:
        return await _draft(state, context)
    except InconsistentState as ours:
        return end_inconsistent(state, context, ours)


async def _draft(state: TaskState, context: TaskContext) -> dict[str, Any]:
    if state.get("replan"):
        return await redraft(state, context)
    if (state.get("task") or {}).get("plan"):
        return _adopt(state, context)
    planning = planning_of(state)
    if planning.get("draft") is not None:
        return {"planning": planning}  # paid for in another life: it is judged next
    stage = stage_of(state)
    if rounds_used(planning, stage) >= rounds_allowed(state):
        return {"planning": {**planning, "stage": stage}}
    return _stopped(state, context) or await _take_round(state, context, planning, stage)


def after_planner(state: TaskState) -> Literal["validator", "end"]:
    """To the validator, unless the go ended while a model was asked."""
    return "end" if state.get("status") in ("failed", "paused", "cancelled") else "validator"


def _adopt(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """Take the file's plan as version 1.

    The plan then lives in its own channel alone: the task file's copy is dropped, or every
    restart would read it twice.
    """
    task = state.get("task") or {}
    plan = {**task["plan"], "version": 1}
    context.journal.plan(1, plan, "given in the task file")
    planning: Round = {**planning_of(state), "rounds": 1, "faults": []}
    return {"plan": plan, "task": {**task, "plan": None}, "planning": planning}


# --- one round -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Heard:
    """What came of a question: an answer, or why there is none that can be used."""

    raw: str
    model: str = ""
    draft: JsonObject | None = None
    faults: tuple[str, ...] = ()


async def _take_round(
    state: TaskState, context: TaskContext, planning: Round, stage: Stage
) -> dict[str, Any]:
    number = rounds_used(planning, stage) + 1
    ask = await _question(state, context, planning, stage)
    context.journal.event("PlanningAsked", stage=stage, round=number)
    await context.journal.flush()  # a call may take minutes: people see at once what is going on
    try:
        heard = await _heard(ask, context, _deadline(state, context))
    except Stopped:
        return _stopped(state, context) or {"planning": planning}
    except (ModelUnavailable, BudgetExhausted, MissingModel) as error:
        return _failed(state, context, _failure(error))
    stored = await _kept(heard.raw, context)
    context.journal.event("PlanDrafted", stage=stage, round=number, model=heard.model, raw=stored)
    after = counted(planning, stage)
    after["raw"], after["model"], after["draft"] = stored, heard.model, heard.draft
    after["faults"] = [shape_fault(fault) for fault in heard.faults]
    return {"planning": after}


async def _question(state: TaskState, context: TaskContext, planning: Round, stage: Stage) -> Ask:
    goal = state.get("goal") or {}
    seen = await asyncio.to_thread(describe_inputs, goal.get("inputs") or {})
    tools = sorted(context.specs.values(), key=lambda spec: spec.name)
    faults = planning["faults"] if planning.get("stage", stage) == stage else []
    brief = brief_of(state, context, views(state, context))
    if stage == "goal":
        matter = goal_matter(tools, seen, faults)
        shape, outline = goal_shape(), GOAL_OUTLINE
    else:
        answer = await _last_answer(planning, context) if faults else ""
        seconds = await context.history()
        matter = plan_matter(tools, seen, faults=faults, answer=answer, seconds=seconds)
        shape, outline = plan_schema(goal, context.specs), plan_outline(goal)
    return Ask(
        call=stage,
        role="planner",
        brief=brief,
        matter=matter,
        schema=shape,
        outline=outline,
        rounds=1,
        shape_binds=False,
        until=_deadline(state, context),
    )


async def _heard(ask: Ask, context: TaskContext, until: float) -> _Heard:
    try:
        answer: Answer = await heeding_stops(
            context.models.ask(ask), context, until=until, tells=True
        )
    except AnswerUnusable as unusable:
        return _Heard(unusable.raw, faults=unusable.faults or ("the answer cannot be used",))
    faults = plain_faults(answer.value)
    return _Heard(answer.raw, answer.model, None if faults else answer.value, tuple(faults))


async def _last_answer(planning: Round, context: TaskContext) -> str:
    raw = planning.get("raw") or StoredValue()
    return (await context.store.get_bytes(raw["sha256"])).decode() if "sha256" in raw else ""


async def _kept(raw: str, context: TaskContext) -> StoredValue:
    """Keep what a model said, whatever it was; half characters are written visibly."""
    content = raw.encode("utf-8", "backslashreplace")
    return StoredValue(sha256=await context.store.put_bytes(content), size=len(content))


# --- endings ---------------------------------------------------------------------------------


def _stopped(state: TaskState, context: TaskContext) -> dict[str, Any] | None:
    """The end of this go where somebody asked for it or a limit is passed; None = go on."""
    seen = views(state, context)
    limits = limits_of(state, context, seen)
    stopping = context.control.stopping()
    if stopping is not None:
        status = "cancelled" if stopping == "cancel" else "paused"
        return end(context, seen, status, None, limits)
    passed = exhausted(limits, {**context.usage, "seconds": context.seconds()})
    return None if passed is None else end(context, seen, "failed", passed, limits)


def _deadline(state: TaskState, context: TaskContext) -> float:
    limits = limits_of(state, context, views(state, context))
    return context.clock() + limits["max_seconds"] - context.seconds()


def _failure(error: ModelUnavailable | BudgetExhausted | MissingModel) -> TaskFailure:
    if isinstance(error, ModelUnavailable):
        code = "model_unavailable"
    else:
        code = "budget_exhausted" if isinstance(error, BudgetExhausted) else "missing_model"
    return TaskFailure(code=code, message=str(error), subtask=None)


def _failed(state: TaskState, context: TaskContext, failure: TaskFailure) -> dict[str, Any]:
    seen = views(state, context)
    return end(context, seen, "failed", failure, limits_of(state, context, seen))
