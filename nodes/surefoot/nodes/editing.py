"""`edit`: a person gives a subtask another result, other artifacts, or other arguments.

What a person gives is held to what the plan demands of it: programs check the result, the tool's
schema the arguments. Whatever has used the old value is done again.
"""

from collections.abc import Sequence

from surefoot.graph.dependants import Dependants
from surefoot.graph.going_back import afresh
from surefoot.graph.index import PlanIndex, container_of
from surefoot.graph.ports import Command
from surefoot.graph.references import RESERVED_HEADS
from surefoot.graph.state import Order, TaskState
from surefoot.graph.validation.given_arguments import argument_faults
from surefoot.graph.validation.result_types import RESULT_ARTIFACT
from surefoot.graph.values import ArtifactRef, JsonObject, Record, StoredValue
from surefoot.nodes.change import Change, Refused
from surefoot.nodes.context import TaskContext, Views
from surefoot.nodes.orders import work_order
from surefoot.nodes.stepping import (
    close_questions_of,
    gather_again,
    in_flight,
    named,
    open_way,
    reopen,
    said_by,
    state_of,
    wrong_state,
)
from surefoot.nodes.unfinished import take_back

_PASSING = (
    *("not_before", "question", "cut", "reflecting", "choices", "failure", "reason", "rung"),
    *("held", "undoing", "said", "answered"),
)
"""What a record says of work that a person's result ends."""


async def edit(
    command: Command, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> JsonObject:
    """Take in what a person gives for a subtask that does not run.

    Raises:
        Refused: it is unknown or runs, or what is given is not what the plan demands.
    """
    id = named(command, state, context, seen, change)
    _refuse_moving(id, state, context, seen, change)
    if "args" in command.args:
        again = await _take_args(id, command, state, context, seen, change)
    else:
        again = await _take_value(id, command, state, context, seen, change)
    open_way(id, state, seen, change)
    told = [context.full(one) for one in again]
    what = " and ".join(_given(command.args))
    reason = said_by(command, f"gave {what}")
    change.decide("edit", id, reason, context)
    facts = {"args": command.args["args"]} if "args" in command.args else {}
    context.journal.event(
        "SubtaskEdited", subtask=id, by=command.by, reason=reason, reopened=told, **facts
    )
    return {"applied": "edit", "subtask": context.full(id), "reopened": told}


def _given(args: JsonObject) -> list[str]:
    found = [f"another {name}" for name in ("result",) if name in args]
    found += ["other arguments"] if "args" in args else []
    named = [ref["name"] for ref in args.get("artifacts") or () if ref["name"] != RESULT_ARTIFACT]
    return found + [f"another artifact {name}" for name in named]


def _refuse_moving(
    id: str, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> None:
    """Raises Refused: what runs, or what is made by its children, is not edited."""
    full, record = context.full(id), change.record(id, state)
    if state_of(record) == "running" and "n" in record:
        raise wrong_state(full, f"is made of its children: edit one of them ({full}/0 ...)")
    if state_of(record) == "running" or in_flight(id, context):
        raise wrong_state(full, "is running: pause the task, or wait until it has ended")
    container = container_of(id)
    if container is None:
        return
    around = change.record(container, state)
    if around.get("rung") or state_of(around) == "skipped":
        raise wrong_state(full, f"counts no more: {context.full(container)!r} is done without it")
    if in_flight(container, context) and state_of(around) == "running":
        gathers = all(known != container for known in in_flight(container, context))
        if not gathers:
            raise wrong_state(full, "is being gathered: try again")


# --- a result or artifacts -------------------------------------------------------------------


async def _take_value(
    id: str,
    command: Command,
    state: TaskState,
    context: TaskContext,
    seen: Views,
    change: Change,
) -> list[str]:
    """The record with what was given; returns what is done again because of it."""
    old = change.record(id, state)
    given: list[ArtifactRef] = list(command.args.get("artifacts") or ())
    record = Record(**{k: v for k, v in old.items() if k not in _PASSING})  # pyright: ignore[reportArgumentType]
    record["state"] = "completed"
    record["edited"] = True
    record["finished"] = context.clock()
    record["result"] = _result(command, old)
    record["artifacts"] = _replaced(old.get("artifacts") or (), given, command)
    if not record["artifacts"]:
        del record["artifacts"]
    await _hold_to_plan(id, record, state, context, seen, change)
    await take_back([id], state, context, change)
    close_questions_of(id, state, context, change)
    users = _users(id, state, context, seen, change, files=bool(given))
    for ref in given:
        context.journal.artifact(id, old.get("attempt", 0), ref)
    change.put(id, record, context, seen)
    gather_again(id, state, context, seen, change)
    reopen(users, command, f"{command.by}: edited {context.full(id)}", state, change)
    return users


def _result(command: Command, old: Record) -> StoredValue:
    if "result" in command.args:
        return command.args["result"]
    return old.get("result") or StoredValue(value=None)


def _replaced(
    old: Sequence[ArtifactRef], given: Sequence[ArtifactRef], command: Command
) -> list[ArtifactRef]:
    """The artifacts with new versions by name; an old result's text goes with the old result."""
    gone = {ref["name"] for ref in given}
    gone |= {RESULT_ARTIFACT} if "result" in command.args else set()
    return [*(ref for ref in old if ref["name"] not in gone), *given]


async def _hold_to_plan(
    id: str, record: Record, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> None:
    """Raises Refused: the subtask's `outputs` or `success` do not hold for what was given."""
    records = {**(state.get("records") or {}), **change.records, id: record}
    order = Order(subtask=id, attempt=max(1, record.get("attempt", 0)), action="improve")
    whole: TaskState = {**state, "records": records}
    given = work_order(order, whole, context, seen)
    reasons = await context.runner.shortfalls(
        given, record.get("result") or StoredValue(value=None), record.get("artifacts") or ()
    )
    if reasons:
        why = "; ".join(reasons)
        raise Refused("check_failed", f"subtask {context.full(id)!r} keeps what it has: {why}")


# --- arguments -------------------------------------------------------------------------------


async def _take_args(
    id: str,
    command: Command,
    state: TaskState,
    context: TaskContext,
    seen: Views,
    change: Change,
) -> list[str]:
    """The record with the arguments that were given; returns what is done (again) with them."""
    old, args = change.record(id, state), command.args["args"]
    _hold_to_schema(id, args, context, seen)
    await take_back([id], state, context, change)
    close_questions_of(id, state, context, change)
    users = _users(id, state, context, seen, change, files=None)
    if state_of(old) == "completed":
        record = Record(**old)
        record.pop("edited", None)
        record["args"] = args
        change.put(id, record, context, seen)
        gather_again(id, state, context, seen, change)
        reopen([id, *users], command, f"{command.by}: edited {context.full(id)}", state, change)
        return [id, *users]
    record = afresh(old)
    record["args"] = args
    change.regress = change.regress or state_of(old) == "skipped"
    change.put(id, record, context, seen)
    reopen(users, command, f"{command.by}: edited {context.full(id)}", state, change)
    return [id, *users]


def _hold_to_schema(id: str, args: JsonObject, context: TaskContext, seen: Views) -> None:
    unit, full = seen.index.unit(id), context.full(id)
    if unit.kind != "tool":
        raise Refused("bad_arguments", f"subtask {full!r} is a {unit.kind}: a tool has arguments")
    spec = context.specs.get(unit.tool or "")
    if spec is None:
        raise Refused("unknown_tool", f"subtask {full!r}: there is no tool {unit.tool!r}")
    top = container_of(id)
    heads = {"inputs", *_ancestors(top or id, seen.index)}
    heads |= set(RESERVED_HEADS) if top else set()
    faults = argument_faults(spec, args, heads)
    if faults:
        raise Refused("bad_arguments", f"subtask {full!r}, {spec.name}: {'; '.join(faults)}")


def _ancestors(id: str, index: PlanIndex) -> set[str]:
    found: set[str] = set()
    waiting = [id]
    while waiting:
        new = [need for need in index.needs(waiting.pop()) if need not in found]
        found.update(new)
        waiting += new
    return found


# --- what follows ----------------------------------------------------------------------------


def _users(
    id: str,
    state: TaskState,
    context: TaskContext,
    seen: Views,
    change: Change,
    *,
    files: bool | None,
) -> list[str]:
    """Who has used what it made. `files`: whether files changed; None: as doing it again may."""
    top = container_of(id) or id
    records = {**(state.get("records") or {}), **change.records}
    found = Dependants(seen.index, records, context.specs)
    return found.using(top, files=found.leaves_files(top) if files is None else files)
