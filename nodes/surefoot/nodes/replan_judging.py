"""Judging a candidate for the new remainder: adopted as a new version, sent back, or given up.

Nothing of a candidate counts before it is accepted; what is finished keeps its ids and records.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from surefoot.graph.index import container_of
from surefoot.graph.replanning import about_kept, dropped, is_same, starts_afresh
from surefoot.graph.state import Replan, Replans, TaskState
from surefoot.graph.validation import LocalWorld, validate_task
from surefoot.graph.values import Decision, JsonObject, Record, TaskFailure
from surefoot.nodes.change import Change, NotYet, Refused
from surefoot.nodes.context import TaskContext, journal_record, journal_task, limits_of, views
from surefoot.nodes.planning import draft_report, summary
from surefoot.nodes.questions import still_open
from surefoot.nodes.replanning import ended, request_of, required_goal, stands_for
from surefoot.nodes.stable_points import with_start
from surefoot.nodes.unfinished import take_back
from surefoot.nodes.ways_back import rollbacks_made
from surefoot.nodes.wishes import is_made_by_model, limits_on_replans


async def check_replan(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """Judge the candidate: adopt it, send its faults back, or give up."""
    request = request_of(state)
    candidate = request.get("candidate")
    faults = list(request.get("faults") or ())
    if candidate is None and not (faults and request.get("rounds")):
        return {"replan": request}
    if candidate is not None:
        faults += await _found(candidate, request, state, context)
        faults += [] if faults else await _left_behind(candidate, state, context)
        if not faults:
            return await with_start(_adopt(candidate, request, state, context), state, context)
    context.journal.event("ReplanRejected", faults=faults, reason=summary(faults), by=request["by"])
    out_of_rounds = request.get("rounds", 0) >= limits_on_replans(state, context).plan_rounds
    if request.get("plan") is not None or out_of_rounds:
        return _given_up(request, faults, state, context)
    return {"replan": {**request, "candidate": None, "faults": faults}}


async def _found(
    candidate: JsonObject, request: Replan, state: TaskState, context: TaskContext
) -> list[JsonObject]:
    """What the validator has against the whole new plan, save what is about the finished alone."""
    given = {k: v for k, v in (state.get("goal") or {}).items() if k != "amendments"}
    meant: Any = {**state, "goal": given}
    if request.get("plan") is None and is_made_by_model(state):
        report = await draft_report(candidate, meant, context)
    else:
        folder = state.get("task_dir")
        report = validate_task(
            {**(state.get("task") or {}), "goal": given, "plan": candidate},
            tools=context.specs,
            world=LocalWorld(task_dir=Path(folder) if folder else None),
            models=context.model_names,
        )
    stands = stands_for(request, state)
    found = [fault.as_dict() for fault in report.faults]
    return [fault for fault in found if not about_kept(fault, stands)]


async def _left_behind(
    candidate: JsonObject, state: TaskState, context: TaskContext
) -> list[JsonObject]:
    """Take back what was begun and is no part of the new plan; what is in the way is a fault."""
    olds = {one["id"]: one for one in (state.get("plan") or {"subtasks": []})["subtasks"]}
    news = {one["id"]: one for one in candidate["subtasks"]}
    ids = [
        id
        for id in state.get("records") or {}
        if (top := container_of(id) or id) in olds and not _means_the_same(olds[top], news.get(top))
    ]
    try:
        await take_back(ids, state, context, Change())
    except Refused as blocked:
        return [{"code": blocked.code, "message": str(blocked), "subtasks": []}]
    except NotYet:
        return [{"code": "stopped", "message": "stopped before it was adopted", "subtasks": []}]
    return []


def _adopt(
    candidate: JsonObject, request: Replan, state: TaskState, context: TaskContext
) -> dict[str, Any]:
    """Make the candidate the plan: a new version, with the records of what stands."""
    old = state.get("plan") or {"subtasks": []}
    version = old.get("version", 1) + 1
    plan = {**candidate, "version": version}
    context.changed = True
    gone, reason = dropped(old, plan), request["reason"]
    records = _records(plan, gone, state)
    update: dict[str, Any] = {
        "plan": plan,
        "records": records,
        "questions": still_open(state.get("questions") or (), {*gone, *records}, context),
        "replan": None,
        "replans": _used(request, [context.full(id) for id in (*gone, *_anew(plan, state))], state),
        "ending": None,
        "decisions": _decisions(request, version, state, context),
    }
    update |= required_goal(request, state)
    context.journal.plan(version, plan, f"{request['by']}: {reason}")
    context.journal.event(
        "PlanReplaced",
        version=version,
        by=request["by"],
        reason=reason,
        removed=gone,
        strategy="replan",
        command=request.get("command"),
        require=request.get("require"),
    )
    _announce({**state, **update}, update["records"], state, context)
    return update


def _announce(
    after: Any, changed: dict[str, Record], before: TaskState, context: TaskContext
) -> None:
    """Tell readers of the new version; the derived views are built anew from it."""
    context.forget()
    _forget_inside(after, before, context)
    now: Any = {**after, "records": {**(before.get("records") or {}), **changed}}
    seen = views(now, context)
    for id, record in changed.items():
        if (container_of(id) or id) in seen.index.raw:
            journal_record(context, seen, id, record)
    passed = sum(1 for m in (before.get("milestones") or {}).values() if m["passed"])
    journal_task(
        context,
        seen,
        plan_version=seen.index.version,
        limits=dict(limits_of(after, context, seen)),
        milestones={
            "total": len(seen.index.milestones),
            "passed": passed,
            "failed": context.milestones_failed,
            "rollbacks": rollbacks_made(before),
        },
    )


def _forget_inside(after: Any, before: TaskState, context: TaskContext) -> None:
    """What was inside groups that mean new work, or are gone, counts no more: they begin anew."""
    olds = {one["id"]: one for one in (before.get("plan") or {"subtasks": []})["subtasks"]}
    news = {one["id"]: one for one in after["plan"]["subtasks"]}
    anew = {id for id, old in olds.items() if not _means_the_same(old, news.get(id))}
    known = context.root.inner
    for full in list(known.states):
        local = full.removeprefix(context.prefix)
        top, slash, _ = local.partition("/")
        if slash and full.startswith(context.prefix) and top in anew:
            known.expanded.pop(full, None)
            if known.states.pop(full) != "pending":
                context.journal.subtask(local, state="pending", failure=None, n=None)
    for full in [full for full in known.plans if full.removeprefix(context.prefix) in anew]:
        del known.plans[full]


def _records(plan: JsonObject, gone: Sequence[str], state: TaskState) -> dict[str, Record]:
    """Records that the new version changes: failed ones taken up again, containers given up."""
    records = state.get("records") or {}
    olds = {
        subtask["id"]: subtask for subtask in (state.get("plan") or {"subtasks": []})["subtasks"]
    }
    children = _children(records)
    changed: dict[str, Record] = {}
    for subtask in plan["subtasks"]:
        id = subtask["id"]
        record = records.get(id)
        if record is None or record.get("state") in ("completed", "skipped"):
            continue
        afresh = record.get("state") == "failed" or not _means_the_same(subtask, olds.get(id))
        if afresh:
            changed[id] = starts_afresh(record)
        for child in children.get(id, ()):
            if afresh or records[child].get("state") == "failed":
                changed[child] = starts_afresh(records[child])
    for id in gone:
        record = records.get(id)
        if record is not None and record.get("state") == "running":
            changed[id] = {**record, "state": "failed"}
    return changed


def _anew(plan: JsonObject, state: TaskState) -> list[str]:
    """Containers that begin anew: what was done inside answers whoever does the same there now."""
    olds = {one["id"]: one for one in (state.get("plan") or {"subtasks": []})["subtasks"]}
    containers = [one for one in plan["subtasks"] if one["kind"] in ("foreach", "group")]
    return [
        one["id"]
        for one in containers
        if one["id"] in olds and not _means_the_same(one, olds[one["id"]])
    ]


def _means_the_same(one: JsonObject, other: JsonObject | None) -> bool:
    return other is not None and is_same(one, other)


def _children(records: Mapping[str, Record]) -> dict[str, list[str]]:
    """The recorded children of every foreach."""
    found: dict[str, list[str]] = {}
    for id in records:
        container = container_of(id)
        if container is not None:
            found.setdefault(container, []).append(id)
    return found


def _used(request: Replan, gone: Sequence[str], state: TaskState) -> Replans:
    before = state.get("replans") or Replans()
    counts = 0 if request["by"] == "person" else 1
    blocker, command = request.get("blocker"), request.get("command")
    return Replans(
        used=before.get("used", 0) + counts,
        blockers=[*before.get("blockers", ()), *([blocker] if blocker and counts else ())],
        commands=[*before.get("commands", ()), *([command] if command else ())],
        removed=[*before.get("removed", ()), *gone],
    )


def _decisions(
    request: Replan, version: int, state: TaskState, context: TaskContext
) -> dict[str, Decision]:
    first, now = len(state.get("decisions") or {}), context.clock()
    reason = f"plan version {version} ({request['by']}): {request['reason']}"
    made = [Decision(at=now, kind="replan", subtask=request.get("subtask"), reason=reason)]
    required = request.get("require")
    if required:
        made.append(Decision(at=now, kind="amendment", subtask=None, reason=required))
    return {str(first + n): decision for n, decision in enumerate(made)}


# --- giving up -------------------------------------------------------------------------------


def _given_up(
    request: Replan, faults: Sequence[JsonObject], state: TaskState, context: TaskContext
) -> dict[str, Any]:
    """No candidate was accepted: a person's wish is refused, else the task ends."""
    update: dict[str, Any] = {"replan": None, "ending": request.get("ending")}
    if request["by"] == "person":
        before = state.get("replans") or Replans()
        command = request.get("command")
        commands = [*before.get("commands", ()), *([command] if command else ())]
        refused = {"command": command or 0, "faults": list(faults)}
        return {**update, "replans": {**before, "commands": commands, "refused": refused}}
    ending = request.get("ending")
    rounds = request.get("rounds", 0)
    before_that = f"; it was wanted because {ending['message']}" if ending else ""
    return ended(
        state,
        context,
        TaskFailure(
            code="plan_rejected",
            message=f"no plan for the rest was accepted in {rounds} rounds; the last one: "
            f"{summary(faults)}{before_that}",
            subtask=request.get("subtask"),
        ),
    )
