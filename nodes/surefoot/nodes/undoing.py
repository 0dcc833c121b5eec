"""What a segment that is taken back did outside: undone where it can be, else left standing.

Everything here may be done twice: a rollback that was killed begins again, and what was taken back
already is left alone.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from surefoot.graph.errors import (
    AgentError,
    DatabaseUnavailable,
    LeaseLost,
    PermanentError,
    TransientError,
)
from surefoot.graph.going_back import DONE
from surefoot.graph.index import container_of
from surefoot.graph.ports import EffectRow, Restored, WorkOrder
from surefoot.graph.state import TaskState
from surefoot.graph.values import Json, JsonObject, Question, StoredValue
from surefoot.nodes.context import TaskContext
from surefoot.nodes.orders import undo_order
from surefoot.nodes.segments import Segment, takes

T = TypeVar("T")

LOOK_EVERY_S = 0.25
"""How often a stop is looked for while something is undone."""

CANCELLED_WITHIN_S = 30.0
"""How long what was begun is taken back in a task that is cancelled."""

WORKS = ("tool", "agent")
FILES = "undo_failed-files-"


@dataclass(slots=True)
class Undone:
    """What came of it: the questions that block the way, or what was done."""

    questions: list[Question]
    compensated: int = 0
    left_standing: int = 0
    files: int = 0
    kept: list[StoredValue] | None = None
    """Manifests of what lay in the workspace before."""


async def undo(
    segments: list[Segment],
    manifest: StoredValue | None,
    state: TaskState,
    context: TaskContext,
) -> Undone:
    """Take back what the segments did: effects newest first, by `undo`, then the workspace.

    Args:
        segments: of the way back; the first is the plan's own.
        manifest: the workspace as it is to be; None: what attempts found under their `writes`.
        state: of the plan.
        context: of the plan.

    Raises:
        CallStopped: the task was told to stop at once, or was cancelled `CANCELLED_WITHIN_S` ago;
            it goes on from there.
        LeaseLost, DatabaseUnavailable: so for these.
    """
    said, number = _answers(state)
    rows = await _rows(segments, context)
    back = [row for row in rows if row.effect == "reversible"]
    orders = _orders(segments)
    if orders or back:
        work = context.runner.undo(orders, back, said=said, number=number)
        asked = await _heeding(work, context)
        if asked:
            return Undone([_about_back(question, context) for question in asked])
    left = [row for row in await _rows(segments, context) if row.effect == "irreversible"]
    if left:
        await context.ledger.leave_standing(context.task_id, left)
    done = Undone([], compensated=len(back), left_standing=len(left), kept=[])
    first = first_question(state)
    if any(_says_undone(id, answer, first) for id, answer in said.items()):
        return done
    try:
        for restored in await _restored(segments, manifest, context):
            done.files += len(restored.paths)
            done.kept = [*(done.kept or ()), *([restored.kept] if restored.kept else ())]
    except (LeaseLost, DatabaseUnavailable):
        raise
    except (PermanentError, TransientError) as error:
        return Undone([_about_files(error, number)])
    return done


# --- effects ---------------------------------------------------------------------------------


async def _rows(segments: list[Segment], context: TaskContext) -> list[EffectRow]:
    """What stands of the segments, newest first."""
    tops = dict.fromkeys(context.full(container_of(id) or id) for id in segments[0].way.taken)
    if not tops:
        return []
    rows = await context.ledger.standing(context.task_id, list(tops))
    return [row for row in rows if takes(segments, row.subtask, row.attempt)]


def _orders(segments: list[Segment]) -> list[WorkOrder]:
    """The subtasks with an `undo` whose work was done or begun, newest first."""
    found: list[tuple[float, WorkOrder]] = []
    for segment in segments:
        for id, stands in segment.way.taken.items():
            record = segment.record(id)
            # Nothing runs now: inside of a group `running` is what a death has left.
            begun = record.get("state") in ("completed", "running") or bool(record.get("cut"))
            if stands or not begun or id in segment.way.gone:
                continue
            order = undo_order(id, segment.state, segment.context, segment.seen)
            if order is not None and order.work.kind in WORKS:
                found.append((record.get("finished", 0.0), order))
    found.sort(key=lambda pair: pair[0], reverse=True)
    return [order for _, order in found]


async def _heeding(work: Coroutine[Any, Any, T], context: TaskContext) -> T:
    """Wait for it; a second stop signal or a lost lease ends it where it is, a cancel later."""
    undoing = asyncio.ensure_future(work)
    root = context.root
    while not undoing.done():
        now, stopping = context.clock(), context.control.stopping()
        # What a group hears of a cancel is `now`; the task's own control says what it is.
        cancelled = root.control.stopping() == "cancel"
        if cancelled and root.cancelled_at is None:
            root.cancelled_at = now
        late = cancelled and now - (root.cancelled_at or 0.0) >= CANCELLED_WITHIN_S
        stopped = late if cancelled else stopping == "now"
        if context.control.lost() or stopped:
            await context.runner.cut()
        await asyncio.wait({undoing}, timeout=LOOK_EVERY_S)
    return undoing.result()


# --- the workspace ---------------------------------------------------------------------------


async def _restored(
    segments: list[Segment], manifest: StoredValue | None, context: TaskContext
) -> list[Restored]:
    if manifest is not None:
        whole = await context.workspace.restore(manifest)
        return [whole, *await _without_unfinished(segments, context)]
    found: list[tuple[float, str, int, bool]] = []
    for segment in segments:
        for id, stands in segment.way.taken.items():
            record = segment.record(id)
            attempt, wrote = record.get("attempt", 0), "files" in record
            # What is done without files has written nothing that anybody remembers.
            if attempt > stands and (wrote or record.get("state") not in DONE):
                full = segment.context.full(id)
                found.append((record.get("finished", 0.0), full, attempt, wrote))
    restored: list[Restored] = []
    for _, subtask, attempt, wrote in sorted(found, reverse=True):
        one = await context.workspace.put_back(subtask, attempt)
        if one is None and wrote:
            raise PermanentError(f"what was there before {subtask!r} wrote is not known any more")
        restored += [one] if one is not None else []
    return restored


async def _without_unfinished(segments: list[Segment], context: TaskContext) -> list[Restored]:
    """Put back what attempts had written that were under way at the point: they begin anew."""
    restored: list[Restored] = []
    for segment in segments:
        for id, attempt in segment.way.unfinished.items():
            one = await context.workspace.put_back(segment.context.full(id), attempt)
            restored += [one] if one is not None else []
    return restored


# --- people ----------------------------------------------------------------------------------


def _answers(state: TaskState) -> tuple[Mapping[str, Json], int]:
    """What was answered to such questions, and the number that the next one bears."""
    answers = state.get("answers") or {}
    said = {id: kept["answer"] for id, kept in answers.items() if id.startswith("undo_failed-")}
    return said, 1 + len(said)


def first_question(state: TaskState) -> int:
    """The number of the first question of the way back that is under way, or of the next one."""
    wish = state.get("back")
    return (wish or {}).get("first", _answers(state)[1])


def _says_undone(id: str, answer: JsonObject, first: int) -> bool:
    """Whether a person has put the files right by hand, from that question on."""
    asked = id.startswith(FILES) and int(id.removeprefix(FILES)) >= first
    return asked and answer.get("choice") == "undone"


def _about_back(question: Question, context: TaskContext) -> Question:
    """A question of the way back: it holds the whole plan back, not its subtask alone."""
    facts = {**(question.get("facts") or {}), "back": True}
    subtask = (question["subtask"] or "").removeprefix(context.prefix) or None
    return {**question, "subtask": subtask, "facts": facts}


def _about_files(error: AgentError, number: int) -> Question:
    text = (
        f"The workspace is to be what it was, and could not be put back: {error}. Put it right and"
        " answer `undone`, or mend the cause and answer `retry`."
    )
    return Question(
        id=f"{FILES}{number}",
        subtask=None,
        kind="undo_failed",
        text=text,
        choices=["undone", "retry"],
        facts={"back": True},
    )
