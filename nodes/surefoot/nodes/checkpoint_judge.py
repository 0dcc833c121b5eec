"""checkpoint_judge: verifies a milestone, or the whole task at its end, on fresh evidence.

Programs first, then a judge, then people, then (at milestones) whether it still serves the goal.
"""

from collections.abc import Mapping
from typing import Any, Literal

from surefoot.graph.errors import InconsistentState
from surefoot.graph.plain import digest
from surefoot.graph.state import TaskState
from surefoot.graph.task import Goal
from surefoot.graph.values import MilestoneRecord, Record, StoredValue
from surefoot.nodes.asking import Stopped, heeding_stops
from surefoot.nodes.briefs import brief_of
from surefoot.nodes.context import TaskContext, Views, journal_task, limits_of, views
from surefoot.nodes.drift import drift
from surefoot.nodes.endings import end, end_inconsistent
from surefoot.nodes.left_to_people import asked_of_people, verdicts_on
from surefoot.nodes.refusing import acceptance_failed, milestone_counts, milestone_failed
from surefoot.nodes.stable_points import take_point


async def judge(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """Judge the milestone that is due; with none due, the task's final acceptance."""
    seen = views(state, context)
    try:
        if seen.ready.due:
            return await _judge_milestone(seen.ready.due[0], state, context, seen)
        return await _judge_acceptance(state, context, seen)
    except Stopped:
        return {"status": "running"}
    except InconsistentState as ours:
        return end_inconsistent(state, context, ours)


def after_judge(
    state: TaskState,
) -> Literal["dispatcher", "rollback", "planner", "human", "end"]:
    """To the dispatcher, which sees what is wished or asked; to the end when the task has ended."""
    return "end" if state.get("status") in ("completed", "failed") else "dispatcher"


# --- milestones ------------------------------------------------------------------------------


async def _judge_milestone(
    id: str, state: TaskState, context: TaskContext, seen: Views
) -> dict[str, Any]:
    milestone = seen.index.milestones[id]
    records = state.get("records") or {}
    verdicts = await verdicts_on(
        id,
        milestone.checks,
        state,
        context,
        seen,
        brief=brief_of(state, context, seen),
        result_of=records.get(milestone.after),
        about=seen.index.members(id),
    )
    doubts = "ask" in milestone.on_failure
    asked = asked_of_people(id, verdicts, state, context, doubts=doubts)
    if asked is not None:
        return asked
    if all(verdict["ok"] for verdict in verdicts):
        look = await heeding_stops(drift(state, context, seen, id), context, tells=True)
        verdicts += [look] if look is not None else []
    passed = all(verdict["ok"] for verdict in verdicts)
    if passed:
        record = await take_point(id, state, context)
    else:
        record = _failed_record(id, records, context, seen)
    update: dict[str, Any] = {
        "milestones": {id: {**record, "verdicts": verdicts}},
        "judging": None,
    }
    if passed:
        seen.ready.milestone_passed(id)
        context.journal.event("MilestonePassed", milestone=id, phase=milestone.after)
        journal_task(context, seen, milestones=milestone_counts(state, context, seen, more=1))
        return update
    return update | await milestone_failed(milestone, verdicts, state, context, seen)


def _failed_record(
    id: str, records: Mapping[str, Record], context: TaskContext, seen: Views
) -> MilestoneRecord:
    """The record of a milestone that does not hold: nobody goes back to it."""
    return MilestoneRecord(
        id=id,
        passed=False,
        at=context.clock(),
        plan_version=seen.index.version,
        checkpoint_id=context.checkpoint_id,
        records_digest=digest(records),
        snapshot=StoredValue(),
        verdicts=[],
    )


# --- acceptance ------------------------------------------------------------------------------


async def _judge_acceptance(state: TaskState, context: TaskContext, seen: Views) -> dict[str, Any]:
    stated = {k: v for k, v in (state.get("goal") or {}).items() if k in Goal.model_fields}
    verdicts = await verdicts_on(
        None,
        Goal.model_validate(stated).acceptance,
        state,
        context,
        seen,
        brief=brief_of(state, context, seen),
        about=_ends(seen),
    )
    asked = asked_of_people(None, verdicts, state, context, doubts=True)
    if asked is not None:
        return asked
    context.journal.event("AcceptanceChecked", verdicts=verdicts)
    if all(verdict["ok"] for verdict in verdicts):
        return end(context, seen, "completed", None, limits_of(state, context, seen))
    return {"judging": None, **acceptance_failed(verdicts, state, context, seen)}


def _ends(seen: Views) -> list[str]:
    """The subtasks that nothing depends on: what the plan leads to."""
    return [id for id in seen.index.raw if not seen.index.dependants.get(id)]
