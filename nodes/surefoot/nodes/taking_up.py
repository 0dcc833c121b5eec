"""Taking a thread up: upgraded, and made anew where another life's checkpoints are gone or torn.

A thread that lost something would silently begin from scratch, or go on from an older state. So
what every state must have is looked for, and what it says is compared with the rows that left with
it; where the rows know more the state is made anew (`rebuilding`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from langgraph.types import Overwrite

from surefoot.graph.errors import PermanentError
from surefoot.graph.index import PlanIndex
from surefoot.graph.rebuilding import REASON, TELLING, rebuilt
from surefoot.graph.recovery import choose
from surefoot.graph.state import DELTAS, GRAPH_VERSION, TaskState
from surefoot.graph.tables import Snapshot
from surefoot.graph.upgrades import changed_channels, upgraded
from surefoot.graph.values import JsonObject, StoredValue
from surefoot.graph.whole_states import behind, is_whole, may_be_behind, tally_of
from surefoot.nodes.context import TaskContext
from surefoot.nodes.ways_back import rollbacks_made

NOTHING_PLANNED = "the saved state was lost before a plan was accepted: nothing was done yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A state as the go begins with it.

    Attributes:
        state: upgraded and whole.
        index: of its plan.
        channels: what it has that the thread has not, to be saved with the first superstep.
        fresh: nothing was begun: the task starts.
    """

    state: TaskState
    index: PlanIndex
    channels: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fresh: bool = False

    def saved_with(self, update: dict[str, Any]) -> dict[str, Any]:
        """The first superstep's update with what was upgraded or made anew below it."""
        if not self.channels:
            return update
        below = {
            name: Overwrite({**value, **update.get(name, {})}) if name in DELTAS else value
            for name, value in self.channels.items()
            if not isinstance(update.get(name), Overwrite)
        }
        return {**below, **{k: v for k, v in update.items() if k not in below or k not in DELTAS}}


async def take_up(state: TaskState, context: TaskContext) -> Taken:
    """The state to go on with.

    Raises:
        UsageError: `graph_version`: it cannot be taken up by this program.
    """
    if "graph_version" in state:
        before, state = state, upgraded(state)
        changed = changed_channels(before, state)
    else:
        changed = {}
    index = PlanIndex(state.get("plan") or {"subtasks": []})
    if not _has_begun(context):
        fresh = "goal" not in state
        return Taken(state=state, index=index, channels=_told(changed, context), fresh=fresh)
    lost = await _lost(state, index, context)
    if not lost:
        return Taken(state=state, index=index, channels=_told(changed, context))
    return await _made_anew(state, lost, context)


def _told(changed: dict[str, Any], context: TaskContext) -> dict[str, Any]:
    if "graph_version" in changed:
        version = changed["graph_version"]
        context.journal.event("StateUpgraded", version=version)
        context.journal.task(graph_version=version)
    return changed


def _has_begun(context: TaskContext) -> bool:
    """Whether another life has saved something of this plan; asked once for a group."""
    if context.outer is None:
        return bool(context.tables.row.get("graph_version"))
    if context.earlier:
        return False  # it means something else now, and begins anew
    group = context.prefix.removesuffix("/")
    known = group in context.root.inner.begun
    context.root.inner.begun.discard(group)
    return known


async def _lost(state: TaskState, index: PlanIndex, context: TaskContext) -> str:
    """What is not whole, in words; '' where the state is what the rows say."""
    planned = context.outer is None and context.tables.row.get("plan_version", 0) > 0
    if not is_whole(state, planned=planned):
        return "its checkpoints are gone or torn"
    if not state.get("plan") or not context.root.rows_ride:
        return ""
    if context.outer is None and index.version < context.tables.row["plan_version"]:
        return f"its checkpoints end before plan version {context.tables.row['plan_version']}"
    if context.outer is None and rollbacks_made(state) < _rollbacks_told(context):
        return "its checkpoints end before a way back"
    records = state.get("records") or {}
    foreaches = foreaches_of(index)
    tally = await context.tables.tally(context.prefix, foreaches)
    if not may_be_behind(tally_of(records, index), tally):
        return ""
    ahead = behind(records, await context.tables.rows(context.prefix, foreaches), index)
    return f"its checkpoints end before what is known of {len(ahead)} subtasks" if ahead else ""


def _rollbacks_told(context: TaskContext) -> int:
    counts: JsonObject = context.tables.row.get("milestones") or {}
    return counts.get("rollbacks", 0)


async def _made_anew(state: TaskState, lost: str, context: TaskContext) -> Taken:
    plan = await _plan(state, context)
    if plan is None and not context.tables.row.get("plan_version"):
        context.journal.event("StateLost", reason=f"{lost}; {NOTHING_PLANNED}")
        return Taken(state=state, index=PlanIndex({"subtasks": []}), fresh=True)
    foreaches = foreaches_of(PlanIndex(plan)) if plan else []
    saved = await context.tables.saved(context.prefix, foreaches, plan, TELLING)
    points = await _points(context) if context.outer is None else []
    chosen = choose("cut", effect="read", world="state lost", stable=True)
    if not state.get("task"):
        state = cast("TaskState", {**state, **context.task_file})
    known = replace(saved, points=points)
    whole = rebuilt(state, known, context.tables.row, inside=context.outer is not None)
    for id in saved.open_questions:
        context.journal.question(id, open=False)
    if not _was_left(state, context):
        context.journal.event("StateRebuilt", strategy=chosen.strategy, reason=f"{lost}: {REASON}")
    context.journal.task(graph_version=GRAPH_VERSION)
    channels = cast("dict[str, Any]", whole)
    return Taken(state=whole, index=PlanIndex(channels["plan"]), channels=channels)


def _was_left(state: TaskState, context: TaskContext) -> bool:
    """Whether it is a group's thread that was taken back while another was in use.

    It means what it meant before an edit or a replan again: older than the rows, and not lost.
    """
    return context.outer is not None and context.taken_back > state.get("taken_back", 0)


async def _plan(state: TaskState, context: TaskContext) -> JsonObject | None:
    """The newest plan that is known: from the tables, the state, or as it was given."""
    stored = await context.tables.plan(context.prefix)
    if stored is not None:
        return stored
    if state.get("plan"):
        return state.get("plan")
    given: JsonObject | None = (state.get("task") or {}).get("plan")
    return {**given, "version": 1} if given else None


async def _points(context: TaskContext) -> list[tuple[Snapshot, JsonObject]]:
    """Complete snapshots and what they say of the state, as far as they can be read."""
    found: list[tuple[Snapshot, JsonObject]] = []
    for snapshot in await context.tables.snapshots():
        document = await _read(snapshot.state, context) if snapshot.state else None
        if document is not None and "records" in document:
            found.append((snapshot, cast("JsonObject", upgraded(cast("TaskState", document)))))
    return found


async def _read(stored: StoredValue, context: TaskContext) -> JsonObject | None:
    if "sha256" not in stored:
        return stored.get("value")
    try:
        return json.loads(await context.store.get_bytes(stored["sha256"]))
    except PermanentError:
        return None


def foreaches_of(index: PlanIndex) -> list[str]:
    """The plan's foreaches."""
    return [id for id, subtask in index.raw.items() if subtask.get("kind") == "foreach"]
