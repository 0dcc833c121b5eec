"""Commands about the inside of a group that does not run: applied to its state, then it is opened.

The group's own graph applies them, in a go that does nothing else; so one way holds for all plans,
however deep. What it has then to do (again) is done when the group goes on.
"""

from surefoot.graph.dependants import Dependants
from surefoot.graph.insides import Inside
from surefoot.graph.ports import Command
from surefoot.graph.state import Order, TaskState
from surefoot.graph.values import JsonObject, Record
from surefoot.nodes.change import Change, Refused
from surefoot.nodes.context import TaskContext, Views
from surefoot.nodes.orders import work_order
from surefoot.nodes.places import Place
from surefoot.nodes.stable_points import is_as_it_was
from surefoot.nodes.stepping import gather_again, open_way, reopen, state_of, wrong_state

_ENDED = (
    *("result", "artifacts", "finished", "failure", "marks", "question", "files", "edited"),
    *("held", "undoing"),
)
"""What a group's record says of an end that is open again."""


async def step_inside(
    place: Place,
    command: Command,
    state: TaskState,
    context: TaskContext,
    seen: Views,
    change: Change,
) -> JsonObject:
    """Apply a command inside the group `place.id`, and let the group go on where it has to.

    Raises:
        Refused: by the group, or it has no inside (yet, or any more).
    """
    id, full = place.id, context.full(place.id)
    old = change.record(id, state)
    if old.get("rung") or state_of(old) == "skipped":
        raise wrong_state(full, "is done without its plan; `surefoot retry` takes it up again")
    if not old.get("attempt"):
        raise wrong_state(full, "has not begun: step in once it runs")
    if await is_as_it_was(id, old, context):
        raise wrong_state(full, "was taken back and begins anew: step in once it runs")
    inner = Command(
        id=command.id,
        name=command.name,
        args={**command.args, "subtask": place.inner},
        by=command.by,
    )
    records = {**(state.get("records") or {}), **change.records}
    order = Order(subtask=id, attempt=old.get("attempt", 0), action="nest")
    found = await context.insides.step_in(
        work_order(order, {**state, "records": records}, context, seen), inner
    )
    error = found.outcome.get("error")
    if error:
        raise Refused(error["code"], error["message"])
    users = _open(id, old, found, state, context, seen, change)
    reopen(users, command, f"{command.by}: {command.name} inside {full}", state, change)
    told: list[str] = found.outcome.get("reopened") or []
    return {**found.outcome, "reopened": [*told, *(context.full(one) for one in users)]}


def _open(
    id: str,
    old: Record,
    found: Inside,
    state: TaskState,
    context: TaskContext,
    seen: Views,
    change: Change,
) -> list[str]:
    """The group's record after something was changed inside; returns who used what it had made."""
    _ask_what_is_left(id, found, state, change)
    if found.failed:
        return []
    users = _users(id, state, context, seen, change) if state_of(old) == "completed" else []
    record = Record(**{k: v for k, v in old.items() if k not in _ENDED})  # pyright: ignore[reportArgumentType]
    record["state"] = "pending"
    record["cut"] = True
    record.setdefault("go", old.get("attempt", 0))
    change.regress = change.regress or state_of(old) == "completed"
    change.put(id, record, context, seen)
    open_way(id, state, seen, change)
    gather_again(id, state, context, seen, change)
    return users


def _ask_what_is_left(id: str, found: Inside, state: TaskState, change: Change) -> None:
    """Of the questions asked inside those stay that are still open there."""
    asked = change.questions if change.questions is not None else state.get("questions") or []
    below = f"{id}/"
    left = [q["id"] for q in found.questions]
    kept = [
        question
        for question in asked
        if question["id"] in left
        or not ((question["subtask"] or "") == id or (question["subtask"] or "").startswith(below))
    ]
    if len(kept) < len(asked):
        change.questions = kept


def _users(
    id: str, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> list[str]:
    records = {**(state.get("records") or {}), **change.records}
    top = id.partition("/")[0]
    return Dependants(seen.index, records, context.specs).using(top, files=True)
