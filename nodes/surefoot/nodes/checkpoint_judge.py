"""checkpoint_judge: verifies a milestone, or the whole task at its end, on fresh evidence."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from surefoot.graph.checks import ArtifactCheck, Check
from surefoot.graph.plain import canonical_json, digest
from surefoot.graph.plan import Milestone
from surefoot.graph.references import find_references
from surefoot.graph.state import TaskState
from surefoot.graph.task import Goal
from surefoot.graph.values import (
    ArtifactRef,
    JsonObject,
    MilestoneRecord,
    Record,
    StoredValue,
    TaskFailure,
)
from surefoot.nodes.context import TaskContext, Views, journal_task, limits_of, views
from surefoot.nodes.endings import end
from surefoot.nodes.orders import binding


async def judge(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """Judge the milestone that is due; with none due, the task's final acceptance."""
    seen = views(state, context)
    if seen.ready.due:
        return await _judge_milestone(seen.ready.due[0], state, context, seen)
    return await _judge_acceptance(state, context, seen)


def after_judge(
    state: TaskState,
) -> Literal["dispatcher", "rollback", "planner", "human", "end"]:
    """On when a milestone passed; the end when the task is accepted or failed."""
    return "end" if state.get("status") in ("completed", "failed") else "dispatcher"


# --- milestones ------------------------------------------------------------------------------


async def _judge_milestone(
    id: str, state: TaskState, context: TaskContext, seen: Views
) -> dict[str, Any]:
    milestone = seen.index.milestones[id]
    records = state.get("records") or {}
    of = records.get(milestone.after)
    verdicts = await _verify(milestone.checks, records, context, seen, result_of=of)
    if verdicts is None:
        return {"status": "running"}
    passed = all(verdict["ok"] for verdict in verdicts)
    record = await _milestone_record(id, passed, verdicts, records, context, seen)
    update: dict[str, Any] = {"milestones": {id: record}}
    if passed:
        seen.ready.milestone_passed(id)
        context.journal.event("MilestonePassed", milestone=id, phase=milestone.after)
        journal_task(context, seen, milestones=_counts(state, context, seen, more=1))
        return update
    context.milestones_failed += 1
    return update | _milestone_failed(milestone, verdicts, state, context, seen)


def _milestone_failed(
    milestone: Milestone,
    verdicts: Sequence[JsonObject],
    state: TaskState,
    context: TaskContext,
    seen: Views,
) -> dict[str, Any]:
    """Go down the milestone's choices; those this version cannot take fall to the next, visibly."""
    why = _reasons(verdicts)
    context.journal.event("MilestoneFailed", milestone=milestone.id, reason=why)
    for choice in milestone.on_failure:
        if choice == "fail":
            break
        context.journal.event(
            "MilestoneChoiceUnavailable",
            milestone=milestone.id,
            choice=choice,
            reason=f"this version cannot {choice} at a milestone; the next choice is taken",
        )
    context.journal.task(milestones=_counts(state, context, seen, more=0))
    ending = TaskFailure(
        code="milestone_failed", message=f"milestone {milestone.id!r} failed: {why}", subtask=None
    )
    return end(context, seen, "failed", ending, limits_of(state, context, seen))


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


def _counts(state: TaskState, context: TaskContext, seen: Views, *, more: int) -> JsonObject:
    before = sum(1 for m in (state.get("milestones") or {}).values() if m["passed"])
    return {
        "total": len(seen.index.milestones),
        "passed": before + more,
        "failed": context.milestones_failed,
        "rollbacks": 0,
    }


# --- acceptance ------------------------------------------------------------------------------


async def _judge_acceptance(state: TaskState, context: TaskContext, seen: Views) -> dict[str, Any]:
    goal = Goal.model_validate(state.get("goal") or {})
    verdicts = await _verify(goal.acceptance, state.get("records") or {}, context, seen)
    if verdicts is None:
        return {"status": "running"}
    limits = limits_of(state, context, seen)
    context.journal.event("AcceptanceChecked", verdicts=verdicts)
    if all(verdict["ok"] for verdict in verdicts):
        return end(context, seen, "completed", None, limits)
    ending = TaskFailure(code="acceptance_failed", message=_reasons(verdicts), subtask=None)
    return end(context, seen, "failed", ending, limits)


def _reasons(verdicts: Sequence[JsonObject]) -> str:
    return "; ".join(
        f"{verdict.get('id') or verdict['type']}: {verdict['why']}"
        for verdict in verdicts
        if not verdict["ok"]
    )


# --- evidence --------------------------------------------------------------------------------


async def _verify(
    checks: Sequence[Check],
    records: Mapping[str, Record],
    context: TaskContext,
    seen: Views,
    *,
    result_of: Record | None = None,
) -> list[JsonObject] | None:
    """Evaluate checks; None when the task was told to stop meanwhile."""
    if not checks:
        return []
    heads = find_references([check.model_dump(exclude_unset=True) for check in checks])
    bindings = {
        r.head: binding(r.head, records, children=bool(r.artifact), prefix=context.prefix)
        for r in heads
        if r.head in seen.index.raw
    }
    names = {check.name for check in checks if isinstance(check, ArtifactCheck)}
    if any(check.type == "python" for check in checks):
        names |= {name for raw in seen.index.raw.values() for name in _all_declared(raw)}
    named = {name: artifacts_named(name, records, seen) for name in names}
    work = asyncio.ensure_future(
        context.runner.verify(
            checks,
            bindings,
            result=(result_of or {}).get("result"),
            artifacts={name: refs for name, refs in named.items() if refs is not None},
        )
    )
    return await _unless_stopped(work, context)


async def _unless_stopped(
    work: "asyncio.Future[list[JsonObject]]", context: TaskContext
) -> list[JsonObject] | None:
    while not work.done():
        if context.control.stopping() in ("cancel", "now"):
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            return None
        woken = asyncio.ensure_future(context.runner.wait())
        await asyncio.wait({work, woken}, return_when=asyncio.FIRST_COMPLETED)
        woken.cancel()
        await asyncio.gather(woken, return_exceptions=True)
    return work.result()


def artifacts_named(
    name: str, records: Mapping[str, Record], seen: Views
) -> list[ArtifactRef] | None:
    """What an artifact name means: `SUBTASK/NAME`, or the bare name's declarer.

    Of a foreach it means every child's; an empty foreach has none, and that is no fault. None
    where there is no such artifact.
    """
    producer, slash, bare = name.rpartition("/")
    producers = [producer] if slash else [id for id in seen.index.raw if _declares(seen, id, bare)]
    found: list[ArtifactRef] = []
    empty = False
    for id in producers:
        record = records.get(id) or Record()
        empty = empty or record.get("n") == 0
        found.extend(_refs(record, bare))
        for child in range(record.get("n", 0)):
            found.extend(_refs(records.get(f"{id}/{child}"), bare))
    return found if found or empty else None


def _declares(seen: Views, id: str, name: str) -> bool:
    return name in _all_declared(seen.index.raw[id])


def _all_declared(raw: JsonObject) -> list[str]:
    """The outputs of a subtask, and of the children it will have."""
    return [*_declared(raw), *_declared(cast("JsonObject", raw.get("each") or {}))]


def _declared(raw: JsonObject) -> list[str]:
    outputs = raw.get("outputs")
    return cast("list[str]", outputs) if isinstance(outputs, list) else []


def _refs(record: Record | None, name: str) -> list[ArtifactRef]:
    if not record or record.get("state") != "completed":
        return []
    return [ref for ref in record.get("artifacts", ()) if ref["name"] == name]
