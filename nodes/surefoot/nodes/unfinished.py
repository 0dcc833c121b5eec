"""What attempts left that never came to their end: taken back before a person's word takes over.

Such an attempt was cut, its result waits for a person, or people are asked how to undo it. Whoever
skips or edits its subtask settles it without another attempt, so nobody else would clear it up.
"""

from collections.abc import Collection, Iterable

from surefoot.graph.errors import CallStopped
from surefoot.graph.going_back import DONE, WayBack
from surefoot.graph.index import container_of
from surefoot.graph.plain import digest
from surefoot.graph.ports import Command
from surefoot.graph.state import Order, TaskState
from surefoot.graph.values import JsonObject, Record
from surefoot.nodes.change import Change, NotYet, Refused
from surefoot.nodes.context import TaskContext, Views, journal_record, views
from surefoot.nodes.orders import work_order
from surefoot.nodes.segments import Segment
from surefoot.nodes.stable_points import is_older
from surefoot.nodes.undoing import undo

BLOCKED = "undo_failed"

UNFINISHED = frozenset(("cut", "held", "undoing"))
"""Keys of a record whose newest attempt has not come to its end."""


async def leave_nothing(state: TaskState, context: TaskContext, change: Change) -> None:
    """Of a cancelled task: what was begun and never came to its end is taken back, if it can be.

    What is done stays. Nobody is asked: what is in the way is told, and stands in the ledger.
    """
    try:
        await _one_by_one(state, context, change)
    except Refused as blocked:
        context.journal.event("NotTakenBack", reason=str(blocked))
    except NotYet:
        context.journal.event("NotTakenBack", reason="it took too long")


async def _one_by_one(state: TaskState, context: TaskContext, change: Change) -> None:
    """Take back each by itself, so that what is in the way of one is not in that of others.

    Raises:
        Refused: of some a way back is blocked; the others are taken back.
        NotYet: it took too long.
    """
    records = {**(state.get("records") or {}), **change.records}
    ids = [id for id, record in records.items() if _is_unfinished(record, UNFINISHED)]
    blocked: list[str] = []
    for id in sorted(ids, key=lambda id: records[id].get("started", 0.0), reverse=True):
        try:
            await take_back([id], state, context, change)
        except Refused as why:
            blocked.append(str(why))
    if blocked:
        raise Refused(BLOCKED, "; ".join(blocked))


async def take_back(
    ids: Iterable[str],
    state: TaskState,
    context: TaskContext,
    change: Change,
    *,
    kinds: Collection[str] = UNFINISHED,
) -> None:
    """Undo what the unfinished attempts of these subtasks did: effects, `undo`, files.

    Of groups that are under way too; what was done inside stays, for it was accepted there.

    Args:
        ids: of the plan.
        state: of the plan.
        context: of the plan.
        change: what is changed already.
        kinds: of unfinished attempts.

    Raises:
        Refused: a way back is blocked.
        NotYet: the task is stopped meanwhile.
    """
    records = {**(state.get("records") or {}), **change.records}
    whole: TaskState = {**state, "records": records}
    index = views(state, context).index
    # Records stay of what a replan has taken out of the plan: it was seen to when that was done.
    known = [id for id in ids if (container_of(id) or id) in index.raw]
    unfinished = [id for id in known if _is_unfinished(records.get(id, Record()), kinds)]
    for id in unfinished:
        if index.kind(id) == "group" and not records[id].get("rung"):
            await _leave_inside(id, whole, context)
    # A container on a rung is one call or one agent, whatever is inside of it.
    begun = [id for id in unfinished if records[id].get("rung") or not index.is_container(id)]
    if not begun:
        return
    seen = views(whole, context)
    way = WayBack(records=records, taken={id: _stands(records[id]) for id in begun})
    segments = [Segment(state=whole, context=context, seen=seen, way=way)]
    try:
        undone = await undo(segments, None, whole, context)
    except CallStopped:
        raise NotYet from None
    finally:
        for id in begun:  # an `undo` has shown itself as its subtask's step
            cut = Record(**records[id])
            cut["cut"] = True
            journal_record(context, seen, id, cut)
    if undone.questions:
        why = "; ".join(question["text"] for question in undone.questions)
        raise Refused(BLOCKED, f"what was begun cannot be taken back: {why}")


def _is_unfinished(record: Record, kinds: Collection[str]) -> bool:
    """Whether it has such an attempt; what is tried in full once more stays completed meanwhile."""
    tried = "cut" in kinds and record.get("state") in DONE and "improving" in record
    return tried or bool(record.keys() & set(kinds))


def _stands(record: Record) -> int:
    """The last attempt that stands: of what is done in a simpler way, that before the full one."""
    return record.get("improving", 1) - 1 if record.get("state") in DONE else 0


async def leave(
    command: Command, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> JsonObject:
    """The command by which a plan has a group of it leave nothing unfinished. See `take_back`."""
    del command, seen
    await _one_by_one(state, context, change)
    return {"applied": "leave"}


async def _leave_inside(id: str, state: TaskState, context: TaskContext) -> None:
    """Have a group leave nothing unfinished inside; one that has no thread has left nothing.

    Raises:
        Refused: a way back inside is blocked.
        NotYet: the task is stopped meanwhile.
    """
    record = (state.get("records") or {}).get(id) or Record()
    full = context.full(id)
    values = await context.insides.state_of(full) if record.get("attempt") else None
    if values is None or is_older(record, values):
        return
    command = Command(
        # Below 0 it is nobody's row; another one each time, since one is applied once.
        id=-int(digest([full, context.clock()])[:8], 16),
        name="leave",
        args={"subtask": ""},
        by="",
    )
    order = Order(subtask=id, attempt=record.get("attempt", 0), action="nest")
    seen = views(state, context)
    found = await context.insides.step_in(work_order(order, state, context, seen), command)
    if found.unanswered:
        raise NotYet
    error = found.outcome.get("error")
    if error and error["code"] == BLOCKED:
        raise Refused(BLOCKED, error["message"])
    if (
        error and found.begun
    ):  # nobody can enter it any more, and it must not be in the way for ever
        context.journal.event("NotTakenBack", subtask=id, reason=error["message"])
