"""What a planner asks next and what its answers are worth. Decisions only: nothing is asked here.

A round is one question and one answer. The answer is stored before anybody judges it, and becomes
the goal's criteria or the plan only when a program has nothing against it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from surefoot.graph.checks import PROGRAM_CHECKS
from surefoot.graph.shapes import is_array
from surefoot.graph.state import Round, TaskState
from surefoot.graph.task import Limits
from surefoot.graph.validation import LocalWorld, Report, validate_plan, validate_task
from surefoot.graph.values import Json, JsonObject, TaskFailure
from surefoot.nodes.context import TaskContext

Stage = Literal["goal", "plan"]

SHOWN_ANSWER = 16 * 1024
"""So much of a refused answer stands in its event; the whole is a blob."""


def planning_of(state: TaskState) -> Round:
    """Where planning stands; a copy."""
    return Round(**(state.get("planning") or Round(rounds=0, faults=[])))


def stage_of(state: TaskState) -> Stage:
    """What a model is asked for next: a goal that says nothing of criteria comes before any plan.

    An empty list of them is an answer: whoever wrote it wants every subtask verified, no more.
    """
    return "goal" if (state.get("goal") or {}).get("acceptance") is None else "plan"


def rounds_used(planning: Round, stage: Stage) -> int:
    """Answers already taken in a stage."""
    return planning["rounds"] if stage == "plan" else planning.get("goal_rounds", 0)


def counted(planning: Round, stage: Stage) -> Round:
    """The same with one more answer taken."""
    used = rounds_used(planning, stage) + 1
    more: Round = {**planning, "stage": stage}
    if stage == "plan":
        more["rounds"] = used
    else:
        more["goal_rounds"] = used
    return more


def rounds_allowed(state: TaskState) -> int:
    """`limits.plan_rounds`: answers that may be asked for in each stage."""
    return Limits.model_validate((state.get("task") or {}).get("limits") or {}).plan_rounds


def out_of_rounds(stage: Stage, used: int, faults: Sequence[JsonObject]) -> TaskFailure:
    """The failure of a task whose planner never gave an answer that holds."""
    what = "acceptance criteria" if stage == "goal" else "a plan"
    why = f"the last one: {summary(faults)}" if faults else "limits.plan_rounds allows none"
    message = f"no answer with {what} was accepted in {used} rounds; {why}"
    return TaskFailure(code="plan_rejected", message=message, subtask=None)


def summary(faults: Sequence[JsonObject]) -> str:
    """The first fault, and how many more there are."""
    if not faults:
        return ""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{faults[0]['message']}{more}"


def shape_fault(message: str) -> JsonObject:
    """A `schema` fault about an answer as a whole."""
    return {"code": "schema", "message": message, "subtasks": []}


# --- judging ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What became of an answer: its faults, and where there are none what it means."""

    faults: tuple[JsonObject, ...]
    warnings: tuple[JsonObject, ...] = ()
    goal: JsonObject | None = None
    plan: JsonObject | None = None


def judge_goal(answer: JsonObject, state: TaskState, context: TaskContext) -> Judged:
    """Judge drafted criteria and prohibitions; the user's own prohibitions stay in front."""
    faults = list(_goal_shape(answer))
    if faults:
        return Judged(faults=tuple(faults))
    goal = dict(state.get("goal") or {})
    before: list[Json] = list(goal.get("prohibitions") or ())
    drafted = {
        **goal,
        "acceptance": answer["acceptance"],
        "prohibitions": [*before, *answer["prohibitions"]],
    }
    task = {**_without_plan(state), "goal": drafted}
    report = validate_task(
        task, tools=context.specs, world=_world(state), models=context.model_names
    )
    found = [fault.as_dict() for fault in report.faults]
    if not found and report.task is not None:
        found = list(_useless(report))
    return Judged(faults=tuple(found), goal=None if found else drafted)


async def judge_plan(answer: JsonObject, state: TaskState, context: TaskContext) -> Judged:
    """Judge a model's plan for the goal as it is pinned."""
    report = await draft_report(answer, state, context)
    return Judged(
        faults=tuple(fault.as_dict() for fault in report.faults),
        warnings=tuple(warning.as_dict() for warning in report.warnings),
        plan=answer if report.valid else None,
    )


async def draft_report(answer: JsonObject, state: TaskState, context: TaskContext) -> Report:
    """The validator's report on a model's plan."""
    return validate_plan(
        answer,
        {**_without_plan(state), "goal": state.get("goal") or {}},
        tools=context.specs,
        world=_world(state),
        models=context.model_names,
        seconds=await context.history(),
    )


def _goal_shape(answer: JsonObject) -> Sequence[JsonObject]:
    faults = [
        shape_fault(f"the answer needs {name!r}, a list")
        for name in ("acceptance", "prohibitions")
        if not is_array(answer.get(name))
    ]
    if not faults and not answer["acceptance"]:
        faults.append(shape_fault("'acceptance' is empty; state at least one criterion"))
    unknown = sorted(set(answer) - {"acceptance", "prohibitions"})
    if unknown:
        shown = ", ".join(map(repr, unknown[:5]))
        faults.append(shape_fault(f"the answer has unknown keys: {shown}"))
    return faults


def _useless(report: Report) -> Sequence[JsonObject]:
    """Criteria that could decide nothing at the end of a task."""
    acceptance = report.task.goal.acceptance if report.task else []
    faults = [
        {
            "code": "unverifiable",
            "message": f"criterion {check.id or n!r}: a `result` check belongs to a subtask, and "
            "the task has no result of its own; name an artifact, a file or a command",
            "subtasks": [check.id] if check.id else [],
        }
        for n, check in enumerate(acceptance)
        if check.type == "result"
    ]
    if not any(check.type in PROGRAM_CHECKS for check in acceptance):
        says = "no criterion is one that a program can check; add an artifact, file or command"
        faults.append({"code": "unverifiable", "message": says, "subtasks": []})
    return faults


def _without_plan(state: TaskState) -> JsonObject:
    return {key: value for key, value in (state.get("task") or {}).items() if key != "plan"}


def _world(state: TaskState) -> LocalWorld:
    folder = state.get("task_dir")
    return LocalWorld(task_dir=Path(folder) if folder else None)


def answer_text(raw: str) -> str:
    """A refused answer as its event shows it: cut where it is long, and said so."""
    if len(raw) <= SHOWN_ANSWER:
        return raw
    return f"{raw[:SHOWN_ANSWER]} [... {len(raw) - SHOWN_ANSWER} characters more, see the blob]"
