"""checkpoint_judge: verifies a milestone, or the whole task at its end, on fresh evidence.

Programs first, then a judge, then (at milestones) whether the work still serves the goal.
"""

from collections.abc import Mapping
from typing import Any, Literal

from surefoot.graph.errors import InconsistentState
from surefoot.graph.plain import canonical_json, digest
from surefoot.graph.state import TaskState
from surefoot.graph.task import Goal
from surefoot.graph.values import JsonObject, MilestoneRecord, Record, StoredValue
from surefoot.nodes.asking import Stopped, heeding_stops
from surefoot.nodes.briefs import brief_of
from surefoot.nodes.context import TaskContext, Views, journal_task, limits_of, views
from surefoot.nodes.drift import drift
from surefoot.nodes.endings import end, end_inconsistent
from surefoot.nodes.evidence import verify
from surefoot.nodes.refusing import acceptance_failed, milestone_counts, milestone_failed


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
    verdicts = await verify(
        milestone.checks,
        records,
        context,
        seen,
        brief=brief_of(state, context, seen),
        result_of=records.get(milestone.after),
        about=seen.index.members(id),
    )
    if all(verdict["ok"] for verdict in verdicts):
        look = await heeding_stops(drift(state, context, seen, id), context, tells=True)
        verdicts += [look] if look is not None else []
    passed = all(verdict["ok"] for verdict in verdicts)
    record = await _milestone_record(id, passed, verdicts, records, context, seen)
    update: dict[str, Any] = {"milestones": {id: record}}
    if passed:
        seen.ready.milestone_passed(id)
        context.journal.event("MilestonePassed", milestone=id, phase=milestone.after)
        journal_task(context, seen, milestones=milestone_counts(state, context, seen, more=1))
        return update
    return update | await milestone_failed(milestone, verdicts, state, context, seen)


async def _milestone_record(
    id: str,
    passed: bool,
    verdicts: list[JsonObject],
    records: Mapping[str, Record],
    context: TaskContext,
    seen: Views,
) -> MilestoneRecord:
    text = canonical_json(records)
    return MilestoneRecord(
        id=id,
        passed=passed,
        at=context.clock(),
        plan_version=seen.index.version,
        checkpoint_id=context.checkpoint_id,
        records_digest=digest(records),
        snapshot=StoredValue(
            sha256=await context.store.put_bytes(text.encode()), size=len(text.encode())
        ),
        verdicts=verdicts,
    )


# --- acceptance ------------------------------------------------------------------------------


async def _judge_acceptance(state: TaskState, context: TaskContext, seen: Views) -> dict[str, Any]:
    stated = {k: v for k, v in (state.get("goal") or {}).items() if k in Goal.model_fields}
    verdicts = await verify(
        Goal.model_validate(stated).acceptance,
        state.get("records") or {},
        context,
        seen,
        brief=brief_of(state, context, seen),
        about=_ends(seen),
    )
    context.journal.event("AcceptanceChecked", verdicts=verdicts)
    if all(verdict["ok"] for verdict in verdicts):
        return end(context, seen, "completed", None, limits_of(state, context, seen))
    return acceptance_failed(verdicts, state, context, seen)


def _ends(seen: Views) -> list[str]:
    """The subtasks that nothing depends on: what the plan leads to."""
    return [id for id in seen.index.raw if not seen.index.dependants.get(id)]
