"""A state made anew, when the checkpoints of a thread are gone or not whole. Pure.

The newest complete snapshot says what the tables do not keep; the tables know what happened since,
for they left in one statement with every checkpoint. What is done stays done; what was running is
a cut attempt, whose effect the ledger knows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from surefoot.graph.errors import InconsistentState
from surefoot.graph.going_back import START, next_number, unpassed
from surefoot.graph.gone_snapshots import gone_of
from surefoot.graph.head import amended, check_pin, pin
from surefoot.graph.index import PlanIndex
from surefoot.graph.plain import digest
from surefoot.graph.rebuilt_records import TAKEN_BACK, records_anew
from surefoot.graph.state import DELTAS, GRAPH_VERSION, TaskState
from surefoot.graph.tables import Row, Saved, Snapshot
from surefoot.graph.values import (
    Decision,
    JsonObject,
    MilestoneRecord,
    Record,
    StoredValue,
    TaskFailure,
    Usage,
)

TELLING = (
    "AttemptFailed",
    "SubtaskExpanded",
    "GoalPinned",
    "PlanDrafted",
    "PlanReplaced",
    "MilestonePassed",
    "RolledBack",
    "SubtasksReopened",
)
"""Events that say what no other table keeps."""

KEPT: JsonObject = {"gone_back": [], "taken_back": 0, "judging": None}
"""Further channels, with what they are where nothing is known."""

REASON = "the saved state of the task was lost; it was made anew from its snapshots and tables"


def rebuilt(state: TaskState, saved: Saved, row: Row, *, inside: bool = False) -> TaskState:
    """The whole state anew.

    Args:
        state: what of it could be read, perhaps nothing but the task file.
        saved: what the tables say, with a plan.
        row: the task's row.
        inside: it is a group's: then how the task stands says nothing about it.

    Returns:
        Every channel; questions that were open are not among them and are asked again where they
        are met again.
    """
    gone = gone_of(state, DELTAS)
    state = cast("TaskState", {k: v for k, v in state.items() if k not in gone})
    states = [cast("TaskState", document) for _, document in saved.points]
    plan = saved.plan or {"subtasks": []}
    index = PlanIndex(plan)
    candidates = [s.get("records") or {} for s in (state, *states)]
    status, ending = _ending(state, row, inside=inside)
    made: dict[str, Any] = {
        "task": {**(state.get("task") or {}), "plan": None},
        "task_dir": state.get("task_dir") or ".",
        "graph_version": GRAPH_VERSION,
        "spec_digest": row.get("spec_digest", ""),
        **_goal(state, states, saved),
        "plan": plan,
        "planning": _planning(state, states, saved),
        "records": records_anew(candidates, saved, index),
        "milestones": _milestones(state, states, saved, index),
        "decisions": _decisions(state, states, saved),
        "orders": [],
        "finished": [],
        "questions": [],
        "ending": ending,
        "replan": None,
        "replans": _replans(state, states, saved),
        "back": None,
        "rollbacks": _rollbacks(state, states, saved),
        "applied": state.get("applied") or [],
        "answers": _answers(state, states, saved),
        "status": status,
        **_start(state, saved, index.version),
        **{name: _newest(state, states, name, default) for name, default in KEPT.items()},
    }
    if inside:
        made["spent"] = state.get("spent") or _spent(made["records"])
        made["tried"] = state.get("tried", 0)
    return cast("TaskState", made)


# --- the other channels ----------------------------------------------------------------------


def _goal(state: TaskState, states: Sequence[TaskState], saved: Saved) -> dict[str, Any]:
    """The goal with its head: as it was pinned, else from the task file and what was added."""
    for one in (state, *states):
        if _belong(one):
            return {"goal": one.get("goal"), "head": one.get("head")}
    stated: JsonObject = state.get("task") or {}
    goal: JsonObject = stated.get("goal") or {}
    for event in saved.events:
        facts: JsonObject = event["facts"]
        if event["type"] == "GoalPinned":
            goal = {**goal, **{k: facts[k] for k in ("acceptance", "prohibitions") if k in facts}}
        if event["type"] == "PlanReplaced" and facts.get("require"):
            goal = amended(goal, facts["require"])
    return dict(pin(goal))


def _belong(state: TaskState) -> bool:
    """Whether there are a goal and a head, and they are of one another."""
    head, goal = state.get("head"), state.get("goal")
    if not head or not goal:
        return False
    try:
        check_pin(head, goal)
    except InconsistentState:
        return False
    return True


def _planning(state: TaskState, states: Sequence[TaskState], saved: Saved) -> JsonObject:
    found: JsonObject = _newest(state, states, "planning", {})
    if found:
        return {**found, "draft": None, "faults": []}
    drafted = [e["facts"].get("model") for e in saved.events if e["type"] == "PlanDrafted"]
    by = {"model": drafted[-1]} if drafted and drafted[-1] else {}
    return {"rounds": max(1, len(drafted)), "faults": [], **by}


def _milestones(
    state: TaskState, states: Sequence[TaskState], saved: Saved, index: PlanIndex
) -> dict[str, MilestoneRecord]:
    """Verdicts that are still known; and those that were told of, where all work of it is done."""
    merged: dict[str, MilestoneRecord] = {}
    for one in (*reversed(states), state):
        merged |= one.get("milestones") or {}
    for id, at in _told_to_pass(saved).items():
        known = merged.get(id)
        if at is None:
            if known and known["passed"]:
                merged[id] = unpassed(known)
            continue
        if not (known and known["passed"]) and _is_reached(id, saved, index):
            merged[id] = _passed(id, at, saved, index)
    return {id: record for id, record in merged.items() if id in index.milestones}


def _told_to_pass(saved: Saved) -> dict[str, float | None]:
    """When each milestone passed; None: it was taken back since, and is judged again."""
    passed: dict[str, float | None] = {}
    for event in saved.events:
        facts: JsonObject = event["facts"]
        if not _is_of_this_plan(event):
            continue
        if event["type"] == "MilestonePassed":
            passed[str(facts.get("milestone"))] = event["time"]
        elif event["type"] in TAKEN_BACK:
            standing = {str(id).rpartition("/")[2] for id in facts.get("passed") or ()}
            passed.update(dict.fromkeys(passed.keys() - standing))
    return passed


def _is_of_this_plan(event: Row) -> bool:
    """Whether it tells of this plan's milestones, and not of those inside one of its groups."""
    milestone = event["facts"].get("milestone")
    return "/" not in milestone if milestone else event["subtask"] is None


def _is_reached(id: str, saved: Saved, index: PlanIndex) -> bool:
    members = index.members(id) if id in index.milestones else []
    states = [saved.rows[member]["state"] if member in saved.rows else "" for member in members]
    return bool(states) and all(state in ("completed", "skipped") for state in states)


def _passed(id: str, at: float, saved: Saved, index: PlanIndex) -> MilestoneRecord:
    """A verdict by its snapshot; without one nothing but the fact is left."""
    for snapshot, document in saved.points:
        if snapshot.milestone == id and snapshot.state is not None:
            return milestone_at(snapshot, document, index.version)
    bare = Snapshot(milestone=id, at=at, manifest=StoredValue(), state=StoredValue())
    return milestone_at(bare, {}, index.version)


def milestone_at(snapshot: Snapshot, document: JsonObject, version: int) -> MilestoneRecord:
    """The record of a stable point, from its complete snapshot."""
    record = MilestoneRecord(
        id=snapshot.milestone,
        passed=True,
        at=snapshot.at,
        plan_version=version,
        checkpoint_id="",
        records_digest=digest(document.get("records") or {}) if document else "",
        snapshot=snapshot.state or StoredValue(),
        number=next_number(document.get("milestones") or {}),
        verdicts=[],
    )
    if snapshot.is_of_workspace:
        record["manifest"] = snapshot.manifest
    return record


def _start(state: TaskState, saved: Saved, version: int) -> JsonObject:
    known = state.get("start")
    if known is not None:
        return {"start": known}
    for snapshot, document in saved.points:
        if snapshot.milestone == START:
            return {"start": {**milestone_at(snapshot, document, version), "number": 0}}
    return {}


def _answers(state: TaskState, states: Sequence[TaskState], saved: Saved) -> JsonObject:
    """All that people answered; what was answered to reports of the world is used up."""
    merged: JsonObject = {}
    for one in (*reversed(states), state):
        merged |= one.get("answers") or {}
    for one in saved.answered:
        kept: JsonObject = {k: one[k] for k in ("id", "kind", "choices") if one.get(k) is not None}
        found: JsonObject = {"question": kept, "answer": one["answer"], "by": one["answered_by"]}
        if one["kind"] == "inconsistent_state":
            found["applied"] = True
        merged.setdefault(one["id"], found)
    return merged


def _decisions(state: TaskState, states: Sequence[TaskState], saved: Saved) -> dict[str, Decision]:
    """Those that are still known, and the ways back that were told of since; numbered anew."""
    merged: dict[str, Decision] = {}
    for one in (*reversed(states), state):
        merged |= one.get("decisions") or {}
    known = [merged[number] for number in sorted(merged, key=int)]
    made = sum(1 for decision in known if decision["kind"] == "rollback")
    for event in _rolled_back(saved)[made:]:
        facts: JsonObject = event["facts"]
        reason = f"back to {facts.get('milestone')!r} ({facts.get('by')}): {facts.get('reason')}"
        known.append(Decision(at=event["time"], kind="rollback", subtask=None, reason=reason))
    return {str(number): decision for number, decision in enumerate(known)}


def _rolled_back(saved: Saved) -> list[Row]:
    """The events of this plan's own ways back, oldest first."""
    return [e for e in saved.events if e["type"] == "RolledBack" and _is_of_this_plan(e)]


def _rollbacks(state: TaskState, states: Sequence[TaskState], saved: Saved) -> int:
    """Those that count toward the limit: all but people's."""
    told = sum(1 for event in _rolled_back(saved) if event["facts"].get("by") != "person")
    return max(told, _newest(state, states, "rollbacks", 0))


def _replans(state: TaskState, states: Sequence[TaskState], saved: Saved) -> JsonObject:
    found: JsonObject = _newest(state, states, "replans", {})
    made = [e["facts"] for e in saved.events if e["type"] == "PlanReplaced"]
    removed = dict.fromkeys(id for facts in made for id in facts.get("removed") or ())
    return {
        **found,
        "used": max(found.get("used", 0), sum(1 for f in made if f.get("by") != "person")),
        "removed": [*dict.fromkeys([*(found.get("removed") or ()), *removed])],
    }


def _ending(state: TaskState, row: Row, *, inside: bool) -> tuple[str, TaskFailure | None]:
    if inside:
        return state.get("status") or "running", state.get("ending")
    failed = row.get("status") == "failed" and row.get("failure")
    return row.get("status") or "running", row["failure"] if failed else None


def _spent(records: Mapping[str, Record]) -> Usage:
    """What a group surely used: a call for each attempt. The task's own sums are in its row."""
    steps = sum(record.get("attempt", 0) for record in records.values())
    return Usage(steps=steps, tokens=0, cost_usd=0.0, seconds=0.0, failures=0)


def _newest(state: TaskState, states: Sequence[TaskState], name: str, default: Any) -> Any:
    for one in (state, *states):
        if one.get(name) is not None:
            return one[name]  # pyright: ignore[reportTypedDictNotRequiredAccess,reportUnknownVariableType]
    return default
