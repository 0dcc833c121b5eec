"""Planning the remainder anew: the planner's rounds about a wish (`state.Replan`).

The same two nodes as for a first plan, one question a round, each answer stored before it is
judged: a kill loses at most the call in hand. Nothing of a candidate counts before it is accepted;
the present plan stands until then, and stays where no candidate is.
"""

import asyncio
from typing import Any

from surefoot.graph.budget import exhausted
from surefoot.graph.errors import AnswerUnusable, BudgetExhausted, MissingModel, ModelUnavailable
from surefoot.graph.head import amended, pin
from surefoot.graph.model_ports import Answer, Ask
from surefoot.graph.replanning import (
    Standing,
    merged,
    standing,
)
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.state import Replan, TaskState
from surefoot.graph.values import EffectiveLimits, Json, JsonObject, TaskFailure
from surefoot.nodes.asking import Stopped, heeding_stops
from surefoot.nodes.briefs import brief_of
from surefoot.nodes.context import TaskContext, limits_of, views
from surefoot.nodes.endings import end
from surefoot.nodes.inputs_seen import describe_inputs
from surefoot.nodes.planning import shape_fault
from surefoot.nodes.planning_prompts import plan_matter, plan_outline, plan_schema
from surefoot.nodes.replan_prompts import remainder_matter

SHOWN_ANSWER = 16_000
NO_MORE_ROUNDS = 1_000_000


async def redraft(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """One round: a candidate for the new plan, from a person's file or from a model."""
    request = request_of(state)
    if request.get("candidate") is not None:
        return {"replan": request}  # paid for in another life: it is judged next
    given = request.get("plan")
    if given is not None:
        return {"replan": _candidate(request, given, state)}
    stopping = context.control.stopping()
    if stopping is not None or _passed(state, context) is not None:
        return {"replan": request}  # the dispatcher ends the go
    return await _ask(request, state, context)


def request_of(state: TaskState) -> Replan:
    """The wish that planner and validator work on."""
    request = state.get("replan")
    if request is None:
        raise AssertionError("a replan was wished for")
    return Replan(**request)


# --- a round ---------------------------------------------------------------------------------


async def _ask(request: Replan, state: TaskState, context: TaskContext) -> dict[str, Any]:
    ask = await _question(request, state, context)
    used = request.get("rounds", 0) + 1
    context.journal.event("PlanningAsked", stage="replan", round=used, reason=request["reason"])
    await context.journal.flush()  # a call may take minutes: people see at once what is going on
    until = context.clock() + _limits(state, context)["max_seconds"] - context.seconds()
    try:
        answer: Answer = await heeding_stops(
            context.models.ask(ask), context, until=until, tells=True
        )
    except Stopped:
        return {"replan": request}
    except AnswerUnusable as unusable:
        faults = [shape_fault(fault) for fault in unusable.faults]
        raw = unusable.raw[:SHOWN_ANSWER]
        return {"replan": {**request, "rounds": used, "faults": faults, "answer": raw}}
    except (ModelUnavailable, BudgetExhausted, MissingModel) as error:
        return _unanswered(request, _failure(error), state, context)
    after: Replan = {**request, "rounds": used, "answer": answer.raw[:SHOWN_ANSWER]}
    return {"replan": _candidate(after, answer.value, state)}


async def _question(request: Replan, state: TaskState, context: TaskContext) -> Ask:
    plan, records = state.get("plan") or {"subtasks": []}, state.get("records") or {}
    meant: Any = {**state, **required_goal(request, state)}
    seen = await asyncio.to_thread(describe_inputs, (state.get("goal") or {}).get("inputs") or {})
    faults = request.get("faults") or []
    matter = plan_matter(
        sorted(context.specs.values(), key=lambda spec: spec.name),
        seen,
        faults=faults,
        answer=request.get("answer", "") if faults else "",
        seconds=await context.history(),
        further=remainder_matter(request, plan, stands_for(request, state), records),
    )
    return Ask(
        call="plan",
        role="planner",
        brief=brief_of(meant, context, views(state, context)),
        matter=matter,
        schema=plan_schema(meant.get("goal") or {}, context.specs),
        outline=plan_outline(meant.get("goal") or {}),
        rounds=1,
        shape_binds=False,
    )


def _candidate(request: Replan, new: JsonObject, state: TaskState) -> Replan:
    """The request with the merged plan as its candidate, and what the merge found wrong."""
    faults = _unmergeable(new)
    if faults:
        return {**request, "candidate": None, "faults": faults}
    found = merged(
        state.get("plan") or {"subtasks": []},
        new,
        stands_for(request, state),
        by_person=request.get("plan") is not None,
    )
    return {**request, "candidate": found.plan, "faults": list(found.faults)}


def _unmergeable(new: JsonObject) -> list[JsonObject]:
    """Why an answer has no subtasks that could be put beside the finished ones."""
    if not is_array(new.get("subtasks")):
        return [shape_fault("the plan needs 'subtasks', a list")]
    for name in ("subtasks", "phases", "milestones"):
        part: Json = new.get(name) or []
        if not is_array(part) or not all(is_object(one) for one in part):
            return [shape_fault("phases, subtasks and milestones are lists of mappings")]
    return []


def stands_for(request: Replan, state: TaskState) -> Standing:
    """What of the present plan stands, whatever comes of the wish."""
    passed = [id for id, m in (state.get("milestones") or {}).items() if m["passed"]]
    plan = state.get("plan") or {"subtasks": []}
    return standing(plan, state.get("records") or {}, passed, request.get("subtask"))


def required_goal(request: Replan, state: TaskState) -> dict[str, Any]:
    """The state's update that amends the goal by what a person requires; {} where they do not."""
    text = request.get("require")
    return pin(amended(state.get("goal") or {}, text)) if text else {}


# --- endings -------------------------------------------------------------------------------


def ended(state: TaskState, context: TaskContext, failure: TaskFailure) -> dict[str, Any]:
    """The end of the go with a failure."""
    seen = views(state, context)
    return end(context, seen, "failed", failure, limits_of(state, context, seen))


def _unanswered(
    request: Replan, failure: TaskFailure, state: TaskState, context: TaskContext
) -> dict[str, Any]:
    """Nobody could be asked: a person's wish is given up, for others the task ends (resumable)."""
    if request["by"] != "person":
        return ended(state, context, failure)
    fault: JsonObject = {"code": failure["code"], "message": failure["message"], "subtasks": []}
    return {"replan": {**request, "rounds": NO_MORE_ROUNDS, "faults": [fault]}}


def _failure(error: ModelUnavailable | BudgetExhausted | MissingModel) -> TaskFailure:
    match error:
        case ModelUnavailable():
            code = "model_unavailable"
        case BudgetExhausted():
            code = "budget_exhausted"
        case MissingModel():
            code = "missing_model"
    return TaskFailure(code=code, message=str(error), subtask=None)


def _limits(state: TaskState, context: TaskContext) -> EffectiveLimits:
    return limits_of(state, context, views(state, context))


def _passed(state: TaskState, context: TaskContext) -> TaskFailure | None:
    return exhausted(_limits(state, context), {**context.usage, "seconds": context.seconds()})
