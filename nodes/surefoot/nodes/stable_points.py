"""Stable points: the complete snapshots at passed milestones and before anything runs.

A snapshot is one document in the shape of the state (goal, head, records, milestones, decisions,
replans ...), with the plan and what is inside groups that are under way as blobs beside it.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from surefoot.graph.environment import fingerprint_of
from surefoot.graph.errors import (
    DatabaseUnavailable,
    LeaseLost,
    PermanentError,
    TransientError,
)
from surefoot.graph.going_back import (
    START,
    Point,
    back_to,
    is_open_group,
    next_number,
    unpassed,
)
from surefoot.graph.gone_snapshots import gone_of
from surefoot.graph.index import PlanIndex
from surefoot.graph.model_roles import ModelRoles
from surefoot.graph.plain import canonical_json, digest
from surefoot.graph.ports import Manifest
from surefoot.graph.state import DELTAS, TaskState
from surefoot.graph.stored_values import stored_value
from surefoot.graph.values import (
    Json,
    JsonObject,
    MilestoneRecord,
    Record,
    StoredValue,
)
from surefoot.graph.writers import can_write
from surefoot.nodes.context import TaskContext

DOCUMENT = (
    *("graph_version", "spec_digest", "goal", "head", "planning", "records", "milestones"),
    *("decisions", "replans", "rollbacks", "gone_back", "answers", "spent", "tried", "taken_back"),
)
"""The channels that a snapshot keeps as they are."""

NOT_LOOKED_AT = StoredValue(value=None)
"""The manifest of a workspace that nothing in the plan could write to."""


# --- taking ----------------------------------------------------------------------------------


async def take_point(id: str, state: TaskState, context: TaskContext) -> MilestoneRecord:
    """The record of a milestone that has passed, with its complete snapshot.

    Of a group's milestone the workspace is not looked at: others write to it at the same time.
    """
    records, milestones = state.get("records") or {}, state.get("milestones") or {}
    document = _document(state)
    document["plan_at"] = await _kept(state.get("plan") or {"subtasks": []}, context)
    document["groups"] = await _groups(state, context)
    snapshot = await _kept(document, context)
    record = MilestoneRecord(
        id=id,
        passed=True,
        at=context.clock(),
        plan_version=(state.get("plan") or {}).get("version", 1),
        checkpoint_id=context.checkpoint_id,
        records_digest=digest(records),
        snapshot=snapshot,
        number=next_number(milestones),
        verdicts=[],
    )
    return await _with_workspace(record, state, context)


async def with_start(
    update: dict[str, Any], state: TaskState, context: TaskContext
) -> dict[str, Any]:
    """The update of an accepted plan, with the point before anything ran.

    Nothing more where it exists already; of a new plan that can write, where the one before could
    not, the workspace is looked at now. A group's own start needs no snapshot: its records are
    none.
    """
    after = cast("TaskState", {**state, **update})
    start = after.get("start")
    done = start is not None and "manifest" in start
    if context.outer is not None or after.get("status") == "failed" or done:
        return update
    if start is None:  # with a new plan for an older program's task, which has none
        first = state.get("replan") is None
        return {**update, "start": await _start(after, context)} if first else update
    looked = await _with_workspace(start, after, context)
    return {**update, "start": looked} if "manifest" in looked else update


async def _start(state: TaskState, context: TaskContext) -> MilestoneRecord:
    snapshot = await _kept(_document(state), context)
    record = MilestoneRecord(
        id=START,
        passed=True,
        at=context.clock(),
        plan_version=(state.get("plan") or {}).get("version", 1),
        checkpoint_id=context.checkpoint_id,
        records_digest=digest({}),
        snapshot=snapshot,
        number=0,
        verdicts=[],
    )
    return await _with_workspace(record, state, context)


async def _with_workspace(
    record: MilestoneRecord, state: TaskState, context: TaskContext
) -> MilestoneRecord:
    """Look at the workspace where the plan could write to it, and tell the tables."""
    if context.outer is not None:
        return record
    found, size = NOT_LOOKED_AT, (0, 0)
    manifest = await _looked_at(record["id"], state, context)
    if manifest is not None:
        found, size = manifest.stored, (manifest.files, manifest.bytes)
        record = {**record, "manifest": found}
    ladders = ModelRoles.of(state.get("task") or {}).ladders
    context.journal.snapshot(
        "complete",
        milestone=record["id"],
        manifest=found,
        state=record["snapshot"],
        environment=fingerprint_of(
            tools=context.manifest.get("tools module") or {},
            models={role: list(names) for role, names in ladders.items() if names},
        ),
        files=size[0],
        bytes=size[1],
    )
    return record


async def _looked_at(id: str, state: TaskState, context: TaskContext) -> Manifest | None:
    """The workspace as it is; None where nothing can write to it, or it cannot be read now.

    Without it a way back puts back what attempts found under their `writes`.
    """
    if not can_write(state.get("plan") or {"subtasks": []}, context.specs):
        return None
    try:
        return await context.workspace.take()
    except (LeaseLost, DatabaseUnavailable):
        raise
    except (PermanentError, TransientError) as error:
        context.journal.event("WorkspaceNotKept", milestone=id, reason=str(error))
        return None


def _document(state: TaskState) -> JsonObject:
    return {name: state[name] for name in DOCUMENT if name in state}


async def _groups(state: TaskState, context: TaskContext) -> JsonObject:
    """What is inside the groups that are under way, each as a document of its own."""
    index = PlanIndex(state.get("plan") or {"subtasks": []})
    found: JsonObject = {}
    for id, record in (state.get("records") or {}).items():
        if not is_open_group(record) or not is_group(id, index):
            continue
        inner = await state_inside(id, record, context)
        if inner is not None:
            below = context_inside(id, inner, context)
            document = _document(inner)
            document["plan_at"] = await _kept(inner.get("plan") or {"subtasks": []}, context)
            document["groups"] = await _groups(inner, below)
            found[id] = await _kept(document, context)
    return found


async def _kept(value: Json, context: TaskContext) -> StoredValue:
    return await stored_value(value, context.store.put_bytes, text=canonical_json(value))


# --- reading ---------------------------------------------------------------------------------


async def point_at(record: MilestoneRecord | None, context: TaskContext) -> Point:
    """The point that a passed milestone is; None = the start.

    Raises:
        PermanentError: its snapshot is gone or damaged.
    """
    if record is None or record["id"] == START:
        return Point()
    if record.get("pruned"):
        raise PermanentError("its snapshot was removed by `surefoot gc`")
    document = await read_stored(record["snapshot"], context)
    if "number" not in record:  # of an earlier version: the records alone
        return Point(records=document)
    return await _point(document, context, stale=record.get("stale", ()))


async def point_inside(inside: StoredValue | None, context: TaskContext) -> tuple[Point, set[str]]:
    """The point that a group's plan goes back to, and the milestones that were passed there."""
    if inside is None:
        return Point(), set()
    document = await read_stored(inside, context)
    milestones: Mapping[str, MilestoneRecord] = document.get("milestones") or {}
    passed = {id for id, record in milestones.items() if record["passed"]}
    return await _point(document, context), passed


async def _point(document: JsonObject, context: TaskContext, *, stale: Any = ()) -> Point:
    return Point(
        records=document.get("records") or {},
        plan=await read_stored(document["plan_at"], context) if "plan_at" in document else None,
        groups=document.get("groups") or {},
        stale=frozenset(stale),
    )


async def read_stored(stored: StoredValue, context: TaskContext) -> Any:
    """A value, wherever it lies. Raises PermanentError when it is missing or damaged."""
    if "sha256" in stored:
        return json.loads(await context.store.get_bytes(stored["sha256"]))
    return stored.get("value") or {}


# --- inside groups ---------------------------------------------------------------------------


def is_group(id: str, index: PlanIndex) -> bool:
    """Whether an id of the plan (or a child) is a group."""
    top = id.partition("/")[0]
    return top in index.raw and index.kind(id) == "group"


async def is_as_it_was(id: str, record: Record, context: TaskContext) -> bool:
    """Whether a group was taken back and not entered since: its thread is of the time before."""
    if "taken_back" not in record:
        return False
    return is_older(record, await context.insides.state_of(context.full(id)))


def is_older(record: Record, values: JsonObject | TaskState | None) -> bool:
    """Whether this state of a group is of the time before it was taken back."""
    return record.get("taken_back", 0) > (values or {}).get("taken_back", 0)


async def state_inside(id: str, record: Record, context: TaskContext) -> TaskState | None:
    """The state of a group's plan as it is meant now; None where it has none that is whole.

    A group that was taken back and not entered since still holds what it was before that.
    """
    values = cast("TaskState | None", await context.insides.state_of(context.full(id)))
    if values is None or not values.get("plan") or gone_of(values, DELTAS):
        return None
    if not is_older(record, values):
        return values
    below = context_inside(id, values, context)
    return {**values, **await gone_back(values, record.get("inside"), below)}  # pyright: ignore[reportReturnType]


async def gone_back(
    state: TaskState, inside: StoredValue | None, context: TaskContext
) -> dict[str, Any]:
    """The records and milestones of a group's plan after going back; whole, to overwrite."""
    point, passed = await point_inside(inside, context)
    plan = state.get("plan") or {"subtasks": []}
    way = back_to(point, plan, state.get("records") or {})
    milestones = state.get("milestones") or {}
    return {
        "records": way.records,
        "milestones": {
            id: record if id in passed else unpassed(record) for id, record in milestones.items()
        },
    }


def context_inside(id: str, inner: TaskState, context: TaskContext) -> TaskContext:
    """What the plan of a group may touch while the group does not run: for looking alone."""
    goal: JsonObject = (inner.get("task") or {}).get("goal") or {}
    return TaskContext(
        task_id=context.task_id,
        runner=context.runner,
        journal=context.journal,
        control=context.control,
        store=context.store,
        specs=context.specs,
        slots=context.slots,
        usage=context.usage,
        ledger=context.ledger,
        workspace=context.workspace,
        clock=context.clock,
        outer=context,
        prefix=f"{context.full(id)}/",
        inputs=goal.get("inputs") or {},
        insides=context.insides,
    )
