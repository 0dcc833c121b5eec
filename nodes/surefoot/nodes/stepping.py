"""What all commands about one subtask have in common: which one, what runs of it, what follows."""

from collections.abc import Iterable, Iterator, Sequence

from surefoot.graph.attempts import INCONSISTENT, failure_code
from surefoot.graph.going_back import afresh, together
from surefoot.graph.index import PlanIndex, container_of
from surefoot.graph.ports import Command
from surefoot.graph.state import Back, TaskState
from surefoot.graph.values import Record, SubtaskState, TaskFailure
from surefoot.nodes.change import Change, NotYet, Refused
from surefoot.nodes.context import TaskContext, Views
from surefoot.nodes.endings import withdraw
from surefoot.nodes.places import near_names, place_of
from surefoot.nodes.questions import still_open

LIMIT_CODES = ("budget_exhausted", "deadline", "too_many_failures")
"""Endings that only a raised limit undoes."""

REPLANNING = ("policy", "reflection")
"""Who wishes for a new remainder because of a subtask."""


def named(
    command: Command, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> str:
    """The subtask or child of this plan that a command is about.

    Raises:
        Refused: `unknown_subtask`, or it is just being taken back.
    """
    id = str(command.args.get("subtask") or "")
    records = {**(state.get("records") or {}), **change.records}
    place = place_of(id, seen.index, records)
    if place is None or place.inner:
        near = near_names(id, seen.index, records)
        what = f"there is no subtask {context.full(id)!r} here{near}"
        listed = "" if near else f": `surefoot plan {context.task_id}` lists them"
        raise Refused("unknown_subtask", f"{what}{listed}")
    going = (change.back or state.get("back") or Back(by="", reason="")).get("reopen") or ()
    if id in going:
        raise wrong_state(context.full(id), "is just being taken back to be done again")
    return id


def wrong_state(full: str, why: str) -> Refused:
    """The refusal of a command that a subtask's state forbids."""
    return Refused("wrong_state", f"subtask {full!r} {why}")


def state_of(record: Record) -> SubtaskState:
    """The state that a record says."""
    return record.get("state", "pending")


def in_flight(id: str, context: TaskContext) -> list[str]:
    """Ids of what runs, waits for a slot, or has just ended, of a subtask and its children."""
    below = f"{id}/"
    return [known for known, _ in context.runner.known() if known == id or known.startswith(below)]


async def at_rest(
    id: str, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> None:
    """Have what runs of a subtask ended.

    Raises:
        NotYet: something ran; it was stopped, and the command comes again once that is judged.
    """
    if not in_flight(id, context):
        return
    withdraw(state, context, seen, change.records)
    running = in_flight(id, context)
    if running:
        await context.runner.cut(subtasks=running)
        raise NotYet


def close_questions_of(id: str, state: TaskState, context: TaskContext, change: Change) -> None:
    """Close what is asked about a subtask (or inside it): a person has stepped in instead."""
    asked = change.questions if change.questions is not None else state.get("questions") or []
    left = still_open(asked, (id,), context)
    if len(left) < len(asked):
        change.questions = left


def open_way(id: str, state: TaskState, seen: Views, change: Change) -> None:
    """A person has mended something: the task goes on, unless something else has failed as well.

    Call it when the record is changed. A limit that was reached stands until it is raised.
    """
    wish = state.get("replan")
    if wish is not None and wish["by"] in REPLANNING and wish.get("subtask") == id:
        change.keeps_wish = False
    ending = change.ending if change.ending or not change.ends else state.get("ending")
    if ending is None or ending["code"] in LIMIT_CODES:
        return
    if ending["code"] == INCONSISTENT and ending["subtask"] is None:
        return
    change.ends = False
    taken_back = (change.back or Back(by="", reason="")).get("reopen") or ()
    left = sorted(seen.ready.failed.difference(taken_back))
    change.ending = next(_failures(left, state, change), None)


def _failures(ids: Iterable[str], state: TaskState, change: Change) -> Iterator[TaskFailure]:
    for id in ids:
        failure = change.record(id, state).get("failure")
        if failure:
            why = f"subtask {id!r} failed: {failure['message']}"
            yield TaskFailure(code=failure_code(failure), message=why, subtask=id)


def reopen(
    ids: Sequence[str], command: Command, reason: str, state: TaskState, change: Change
) -> None:
    """Wish that these are done again, together with what is to be taken back already."""
    if ids:
        wanted = Back(by="person", reason=reason, reopen=list(ids), command=command.id)
        change.back = together(change.back or state.get("back"), wanted)


def gathering(record: Record) -> Record:
    """The record of a foreach whose children have ended: their results are put together anew."""
    again = afresh(record)
    again["state"] = "running"
    again["n"] = record.get("n", 0)
    again["items"] = record.get("items") or {"value": []}
    if "started" in record:
        again["started"] = record["started"]
    return again


def gather_again(
    id: str, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> None:
    """What a child made has changed: its foreach, if it has ended, is gathered once more."""
    container = container_of(id)
    if container is None:
        return
    old = change.record(container, state)
    if state_of(old) in ("completed", "failed") and "n" in old:
        change.put(container, gathering(old), context, seen)
        change.regress = True
        open_way(container, state, seen, change)


def said_by(command: Command, what: str) -> str:
    """A reason for the history: who did what."""
    return f"{command.by}: {what}"


def failed_children(id: str, index: PlanIndex, state: TaskState, change: Change) -> list[str]:
    """The children of a foreach that failed, in item order; none of anything else."""
    if id not in index.raw or index.raw[id]["kind"] != "foreach":
        return []
    children = change.record(id, state).get("n", 0)
    ids = (f"{id}/{child}" for child in range(children))
    return [child for child in ids if state_of(change.record(child, state)) == "failed"]
