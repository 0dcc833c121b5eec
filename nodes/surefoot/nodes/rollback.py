"""rollback: the node that goes back, to a stable point or to do some subtasks again.

Nothing else runs. What was done outside is undone first, then the workspace is put back, and last,
in one superstep with all its rows, the state is what it was: `Overwrite` for records and
milestones, which is why this node is alone in its superstep. Killed before that, it begins again
and comes to the same. A way back that is blocked is put to people, and the wish stays.
"""

from dataclasses import dataclass
from typing import Any

from langgraph.types import Overwrite

from surefoot.graph.errors import CallStopped, PermanentError
from surefoot.graph.going_back import (
    START,
    WayBack,
    back_to,
    points_before,
    reopened,
    reopened_milestones,
    standing_at,
)
from surefoot.graph.plain import digest
from surefoot.graph.state import Back, TaskState
from surefoot.graph.values import Decision, MilestoneRecord, Record, StoredValue
from surefoot.nodes.context import TaskContext
from surefoot.nodes.questions import is_about_back, opened
from surefoot.nodes.segments import Segment, segments_of
from surefoot.nodes.stable_points import point_at
from surefoot.nodes.telling_back import tell
from surefoot.nodes.undoing import Undone, first_question, undo


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a wish leads: `milestone` None = the start, or `name` '' = nowhere but reopening."""

    name: str
    milestone: MilestoneRecord | None
    segments: list[Segment]

    @property
    def way(self) -> WayBack:
        """What changes in the plan's own records."""
        return self.segments[0].way


async def roll_back(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """Do what is wished, or ask where a way back is blocked."""
    wish = state.get("back")
    if wish is None:
        return {"orders": []}
    target = await way_of(wish, state, context)
    manifest = _manifest(target, state)
    try:
        undone = await undo(target.segments, manifest, state, context)
    except CallStopped:
        if _is_cancelled(context):
            return await _given_up("going back took too long", target, state, context)
        return {"orders": []}  # the dispatcher ends the go; the wish stays
    if undone.questions and _is_cancelled(context):
        why = "; ".join(one["text"] for one in undone.questions)
        return await _given_up(why, target, state, context)
    if undone.questions:
        asked = [opened(question, context) for question in undone.questions]
        questions = [*(state.get("questions") or ()), *asked]
        return {"questions": questions, "back": {**wish, "first": first_question(state)}}
    return _gone_back(wish, target, undone, state, context)


def _is_cancelled(context: TaskContext) -> bool:
    return context.root.control.stopping() == "cancel"


async def _given_up(
    why: str, target: Target, state: TaskState, context: TaskContext
) -> dict[str, Any]:
    """The task is cancelled, and nobody goes on with its way back: what is left of it is told."""
    await _tell_left(why, target, state, context)
    return {"orders": [], "back": None}


async def give_up_blocked(state: TaskState, context: TaskContext) -> None:
    """Tell what is left of a way back that waits for an answer when its task is cancelled."""
    wish = state.get("back")
    if wish is not None:
        asked = (q["text"] for q in state.get("questions") or () if is_about_back(q))
        target = await way_of(wish, state, context)
        await _tell_left("; ".join(asked), target, state, context)


async def _tell_left(why: str, target: Target, state: TaskState, context: TaskContext) -> None:
    gone: list[str] = []
    for id in target.way.taken:
        rows = await context.ledger.of_subtask(context.task_id, context.full(id))
        newest = (state.get("records") or {}).get(id, Record()).get("attempt", 0)
        if any(row.state == "compensated" and row.attempt == newest for row in rows):
            gone.append(context.full(id))
    taken = f"; taken back by then: {', '.join(gone)}" if gone else ""
    context.journal.event("NotTakenBack", reason=f"{why}{taken}")


async def way_of(wish: Back, state: TaskState, context: TaskContext) -> Target:
    """What a wish comes to now.

    A point whose snapshot cannot be read any more is passed over for the one before it; the start
    needs none.
    """
    plan, records = state.get("plan") or {"subtasks": []}, state.get("records") or {}
    ids = wish.get("reopen") or []
    if ids and "milestone" not in wish:
        way = reopened(ids, plan, records)
        segments = await segments_of(way, state, context)
        return Target(name="", milestone=None, segments=segments)
    for milestone in _points(wish, state):
        name = milestone["id"] if milestone is not None else START
        try:
            point = await point_at(milestone, context)
            way = back_to(point, plan, records, by_person=wish["by"] == "person")
            if ids:
                way = _both(way, reopened(ids, plan, way.records))
            segments = await segments_of(way, state, context)
        except PermanentError as gone:
            context.journal.event("RollbackUnavailable", milestone=name, reason=str(gone))
            continue
        return Target(name=name, milestone=milestone, segments=segments)
    raise AssertionError("the start is always there")


def _points(wish: Back, state: TaskState) -> list[MilestoneRecord | None]:
    """The points that may be meant, the best first; None = the start."""
    if wish.get("milestone") == START:
        return [None]
    milestones = state.get("milestones") or {}
    named = wish.get("milestone")
    if named is None:
        return [*points_before(milestones, digest(state.get("records") or {})), None]
    passed = points_before(milestones, "")
    names = [record["id"] for record in passed]
    return [*(passed[names.index(named) :] if named in names else passed), None]


def _both(way: WayBack, more: WayBack) -> WayBack:
    """Back to a point, and some of what stood there is done again as well."""
    way.records = more.records
    for id, stands in more.taken.items():
        way.taken[id] = min(stands, way.taken.get(id, stands))
    way.whole |= more.whole
    way.entered -= more.whole
    return way


def _manifest(target: Target, state: TaskState) -> StoredValue | None:
    """The workspace as it was there; where nothing could write to it until then, as at the start.

    None: it was not looked at.
    """
    start = state.get("start")
    if not target.name:
        return None
    record = target.milestone
    if record is None or ("manifest" not in record and "number" in record):
        record = start
    return record.get("manifest") if record is not None else None


def _gone_back(
    wish: Back, target: Target, undone: Undone, state: TaskState, context: TaskContext
) -> dict[str, Any]:
    """The superstep in which the state is what it was; its rows leave with it."""
    milestones = state.get("milestones") or {}
    ids = list(target.way.taken)
    if target.name:
        milestones = standing_at(milestones, target.milestone["id"] if target.milestone else None)
        ids = wish.get("reopen") or []
    index = target.segments[0].seen.index
    covers = {id: index.members(id) for id in index.milestones}
    after = reopened_milestones(milestones, covers, ids) if ids else milestones
    number = str(len(state.get("decisions") or {}))
    update: dict[str, Any] = {
        "records": Overwrite(target.way.records),
        "milestones": Overwrite(after),
        "orders": [],
        "finished": [],
        "judging": None,
        "back": None,
        "decisions": {number: _decision(wish, target, context)},
    }
    if target.name:
        update["ending"] = None
        if wish["by"] != "person":
            update["rollbacks"] = state.get("rollbacks", 0) + 1
        blocker = wish.get("blocker")
        if blocker:
            update["gone_back"] = [*(state.get("gone_back") or ()), blocker]
    update["questions"] = tell(wish, target.name, target.segments, undone, update, state, context)
    return update


def _decision(wish: Back, target: Target, context: TaskContext) -> Decision:
    redone = target.way.redone
    shown = ", ".join(redone[:10]) + (f" and {len(redone) - 10} more" if len(redone) > 10 else "")
    again = f"; done again: {shown}" if redone else ""
    where = f"back to {target.name!r}" if target.name else "done again"
    return Decision(
        at=context.clock(),
        kind="rollback" if target.name else "reopen",
        subtask=None,
        reason=f"{where} ({wish['by']}): {wish['reason']}{again}",
    )
