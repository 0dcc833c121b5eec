"""What attempts left that never came to their end: taken back before a person's word takes over.

Such an attempt was cut, its result waits for a person, or people are asked how to undo it. Whoever
skips or edits its subtask settles it without another attempt, so nobody else would clear it up.
"""

from collections.abc import Collection, Iterable

from surefoot.graph.errors import CallStopped
from surefoot.graph.going_back import reopened
from surefoot.graph.state import TaskState
from surefoot.graph.values import Record
from surefoot.nodes.change import Change, NotYet, Refused
from surefoot.nodes.context import TaskContext, views
from surefoot.nodes.segments import segments_of
from surefoot.nodes.undoing import undo

UNFINISHED = frozenset(("cut", "held", "undoing"))
"""Keys of a record whose newest attempt has not come to its end."""


async def leave_nothing(state: TaskState, context: TaskContext, change: Change) -> None:
    """Of a cancelled task: what was begun and never came to its end is taken back, if it can be.

    What is done stays. Nobody is asked: what is in the way is told, and stands in the ledger.
    """
    ids = {**(state.get("records") or {}), **change.records}
    try:
        await take_back(ids, state, context, change, although_cancelled=True)
    except Refused as blocked:
        context.journal.event("NotTakenBack", reason=str(blocked))
    except NotYet:
        context.journal.event("NotTakenBack", reason="it took too long")


async def take_back(
    ids: Iterable[str],
    state: TaskState,
    context: TaskContext,
    change: Change,
    *,
    kinds: Collection[str] = UNFINISHED,
    although_cancelled: bool = False,
) -> None:
    """Undo what the unfinished attempts of these subtasks did: effects, `undo`, files.

    Groups are left as they are inside: what was done there was accepted there.

    Args:
        ids: of the plan.
        state: of the plan.
        context: of the plan.
        change: what is changed already.
        kinds: of unfinished attempts.
        although_cancelled: see `undo`.

    Raises:
        Refused: a way back is blocked.
        NotYet: the task is stopped meanwhile.
    """
    records = {**(state.get("records") or {}), **change.records}
    index = views(state, context).index
    begun = [
        id
        for id in ids
        if records.get(id, Record()).keys() & set(kinds) and index.kind(id) in ("tool", "agent")
    ]
    if not begun:
        return
    whole: TaskState = {**state, "records": records}
    way = reopened(begun, state.get("plan") or {"subtasks": []}, records)
    try:
        segments = await segments_of(way, whole, context)
        undone = await undo(segments, None, whole, context, although_cancelled=although_cancelled)
    except CallStopped:
        raise NotYet from None
    if undone.questions:
        why = "; ".join(question["text"] for question in undone.questions)
        raise Refused("undo_failed", f"what was begun cannot be taken back: {why}")
