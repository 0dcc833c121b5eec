"""load: the first node of every go. Makes a fresh task's state, or takes an old one up again.

Whatever was running in another life of this task is a cut attempt: it keeps its number, counts
nowhere, and the ledger is asked about its effect before anything is done again. A consistency
report comes first: when the world is not what the state says, the task waits.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from langgraph.types import Overwrite

from surefoot.graph.errors import UsageError
from surefoot.graph.head import pin
from surefoot.graph.index import PlanIndex, container_of
from surefoot.graph.plain import digest
from surefoot.graph.replanning import starts_afresh
from surefoot.graph.state import DELTAS, GRAPH_VERSION, Replan, TaskState
from surefoot.graph.values import Outcome, Question, Record
from surefoot.nodes.context import TaskContext, journal_record, journal_task, views
from surefoot.nodes.cuts import cut_facts
from surefoot.nodes.held_back import looked_at_again
from surefoot.nodes.inconsistencies import look
from surefoot.nodes.orders import work_of
from surefoot.nodes.questions import close, opened
from surefoot.nodes.stable_points import gone_back
from surefoot.nodes.taking_up import Taken, take_up
from surefoot.nodes.wishes import next_wish, replans_for

LIMIT_CODES = ("budget_exhausted", "deadline", "too_many_failures")
RECHECKED = (
    *LIMIT_CODES,
    *("stuck", "milestone_failed", "acceptance_failed", "model_unavailable", "missing_model"),
)
"""Endings that are worked out anew when a task goes on; others stand until a person steps in."""


async def load(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """Start or take up a task.

    Raises:
        UsageError: the thread was written by another graph version, or holds another task.
    """
    context.forget()
    context.over = False
    context.loaded = True
    if _is_cancelled(context):
        context.over = True
        return {"status": "cancelled"}
    taken = await take_up(state, context)
    if taken.fresh:
        return _fresh(taken.state, context)
    if context.outer is not None and context.taken_back > taken.state.get("taken_back", 0):
        update = await _taken_back(taken.state, context)
        below = taken.saved_with({k: v for k, v in update.items() if k not in DELTAS})
        return {**below, **update}
    if context.only_commands:
        return taken.saved_with(_for_commands(taken, context))
    return taken.saved_with(await _again(taken, context))


def was_left(state: TaskState, context: TaskContext) -> bool:
    """Whether something was running in a process that is gone, and nobody has looked yet."""
    if context.loaded:
        return False
    context.loaded = True
    known = {id for id, _ in context.runner.known()}
    return any(
        record.get("state") == "running" and "n" not in record and id not in known
        for id, record in (state.get("records") or {}).items()
    )


def after_load(state: TaskState) -> Literal["planner", "dispatcher", "reflector", "human", "end"]:
    """The way from load: by what the state already holds."""
    if state.get("status") in ("completed", "cancelled", "paused", "failed"):
        return "end"  # nothing is left to do, or nothing is there to apply a command to
    waits = state.get("status") == "waiting"  # not so in a go that brings the answer
    if waits and any(q["kind"] == "inconsistent_state" for q in state.get("questions") or ()):
        return "human"
    if state.get("finished"):
        return "reflector"
    return "dispatcher" if state.get("plan") else "planner"


def _fresh(state: TaskState, context: TaskContext) -> dict[str, Any]:
    task = state.get("task")
    if not task:
        raise UsageError(
            "schema", 'the first input of a task is {"task": <task file as a mapping>}'
        )
    context.journal.event("TaskStarted", name=task.get("name"), **_hosted(context))
    context.journal.task(status="running", graph_version=GRAPH_VERSION)
    return {
        "graph_version": GRAPH_VERSION,
        "spec_digest": digest(task),
        **pin(task["goal"]),
        **(_group_begins(context) if context.outer is not None else {}),
        "planning": {"rounds": 0, "faults": []},
        "orders": [],
        "finished": [],
        "questions": [],
        "ending": None,
        "status": "running",
    }


def _is_cancelled(context: TaskContext) -> bool:
    """Whether the task was ended for good where a host's checkpointer has not heard of it."""
    return context.outer is None and context.tables.row.get("status") == "cancelled"


def _hosted(context: TaskContext) -> dict[str, Any]:
    """Said of a go under a host's checkpointer: the state of the task is known there alone."""
    return {} if context.root.rows_ride else {"hosted": True}


def _group_begins(context: TaskContext) -> dict[str, Any]:
    """The go; and of what it was before a replan the numbers, so that no attempt is told twice."""
    records = {id: starts_afresh(record) for id, record in context.earlier.items()}
    return {"tried": context.go, "taken_back": context.taken_back, "records": records}


async def _taken_back(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """A group that was taken back by what it stands in: its plan stands where it was then.

    What it did outside and its rows were seen to by who took it back.
    """
    _refuse_foreign(state)
    _take_up_usage(state, context)
    context.status_before = "paused"
    context.on_goal(state.get("goal") or {})
    back = await gone_back(state, context.kept_inside, context)
    return {
        "records": Overwrite(back["records"]),
        "milestones": Overwrite(back["milestones"]),
        "orders": [],
        "finished": [],
        "questions": [],
        "ending": None,
        "replan": None,
        "back": None,
        "judging": None,
        "status": "running",
        "tried": context.go,
        "taken_back": context.taken_back,
    }


def _for_commands(taken: Taken, context: TaskContext) -> dict[str, Any]:
    """A go that applies what people asked for: what stands still stands, nothing is tried anew."""
    state, index = taken.state, taken.index
    _refuse_foreign(state)
    context.on_goal(state.get("goal") or {})
    context.status_before = state.get("status") or ""
    if context.outer is not None:
        _take_up_usage(state, context)
    if not state.get("plan"):
        context.over = True
        return {"status": "paused" if context.status_before == "running" else context.status_before}
    changed = cut_records(state.get("records") or {}, state.get("finished") or [], index, context)
    update: dict[str, Any] = {"records": changed, "orders": [], "status": "running"}
    wanted = next_wish(state, context)
    if wanted is not None:
        context.journal.event("ReplanAsked", reason=wanted["reason"], by=wanted["by"])
        update |= {"replan": {**wanted, "ending": state.get("ending")}, "ending": None}
    _journal_records(state, update, context)
    return update


async def _again(taken: Taken, context: TaskContext) -> dict[str, Any]:
    state, index = taken.state, taken.index
    _refuse_foreign(state)
    if state.get("status") in ("completed", "cancelled"):
        context.over = True
        return {"finished": state.get("finished") or []}
    context.on_goal(state.get("goal") or {})
    records = state.get("records") or {}
    asked = state.get("questions") or []
    reopened = looked_at_again(asked, records)
    if context.outer is not None:
        reopened |= _group_again(state, context)
    changed = cut_records({**records, **reopened}, state.get("finished") or [], index, context)
    changed = {**reopened, **changed}
    ending = state.get("ending")
    if ending is not None and (ending["code"] in RECHECKED or _is_new_go(state, context)):
        ending = None
    wanted = state.get("replan")
    if wanted and _is_replan_due(wanted, state, context):
        wanted = {**wanted, "ending": ending or wanted["ending"]}
        ending = None
    looked = await look(state, index, context)
    faults = looked.questions
    update: dict[str, Any] = {
        **looked.update,
        "records": changed,
        "orders": [],
        "questions": _still_asked(asked, faults, context),
        "ending": ending,
        "replan": wanted,
        "status": "waiting" if faults else "running",
    }
    if context.outer is not None:
        update["tried"] = context.go
    _journal(state, update, context)
    return update


def _still_asked(
    asked: Sequence[Question], faults: Sequence[Question], context: TaskContext
) -> list[Question]:
    """What is open when a task goes on: what people have not answered, and what is wrong now."""
    before = {question["id"]: question for question in asked}
    now = {question["id"] for question in faults}
    kept: list[Question] = []
    for question in asked:
        if question["kind"] != "inconsistent_state":
            kept.append(question)
        elif question["id"] not in now:
            close(question, context)
    return [*kept, *(before.get(one["id"]) or opened(one, context) for one in faults)]


def _is_replan_due(wanted: Replan, state: TaskState, context: TaskContext) -> bool:
    """Whether the new remainder can be made: a person wishes it, or the limits leave one."""
    by_person = wanted["by"] == "person"
    return by_person or replans_for(state, context, wanted["blocker"]).possible


def _is_new_go(state: TaskState, context: TaskContext) -> bool:
    """Whether a group that failed is tried once more by what it stands in."""
    new = context.outer is not None and state.get("tried") != context.go
    return new and state.get("status") == "failed"


def _group_again(state: TaskState, context: TaskContext) -> dict[str, Record]:
    """What a group has used so far, and in a new go what had failed in it: pending again."""
    _take_up_usage(state, context)
    if not _is_new_go(state, context):
        return {}
    failed = {
        id: record
        for id, record in (state.get("records") or {}).items()
        if record.get("state") == "failed"
    }
    return {id: _tried_anew(record) for id, record in failed.items()}


def _take_up_usage(state: TaskState, context: TaskContext) -> None:
    spent = state.get("spent")
    if spent:
        context.usage.update(spent)
        context.seconds_before = spent["seconds"]


def _tried_anew(record: Record) -> Record:
    numbers = {"attempt": record.get("attempt", 0), "ended": record.get("ended", 0)}
    return cast("Record", {"state": "pending", **numbers})


def _refuse_foreign(state: TaskState) -> None:
    task = state.get("task") or {}
    if task.get("plan") and digest(task) != state.get("spec_digest"):
        raise UsageError("id_taken", "this thread holds another task: choose another id")


def cut_records(
    records: Mapping[str, Record],
    finished: list[Outcome],
    index: PlanIndex,
    context: TaskContext,
) -> dict[str, Record]:
    """The records of attempts that another life began and nobody ended: pending, marked as cut.

    Their steps are counted as made: what is unknown counts as the reservation.
    """
    known = {id for id, _ in context.runner.known()} | {o["subtask"] for o in finished}
    changed: dict[str, Record] = {}
    for id, record in records.items():
        if record.get("state") != "running" or id in known:
            continue
        if "n" in record and container_of(id) is None:
            continue
        again = Record(**record)
        again["state"] = "pending"
        if again.get("attempt"):
            again["cut"] = True
        if again.get("attempt") and (again.get("rung") or not index.is_container(id)):
            unit = index.unit(id)
            if work_of(unit, again, "attempt").kind != "agent":
                context.spend(steps=1)  # an agent's calls of models were counted when made
            facts = cut_facts(unit, again, context, "it was running when its worker stopped")
            context.journal.event("AttemptCut", subtask=id, attempt=again.get("attempt"), **facts)
        changed[id] = again
    return changed


def _journal(state: TaskState, update: dict[str, Any], context: TaskContext) -> None:
    _journal_records(state, update, context)
    moved: dict[str, Any] = {"from": state.get("status"), "to": update["status"]}
    reason = "go on from the last checkpoint"
    moved |= _hosted(context)
    context.journal.event("TaskResumed", strategy="resume at the step", reason=reason, **moved)
    seen = views(_merged(state, update), context)
    journal_task(context, seen, status=update["status"], failure=None, stopping=False)


def _journal_records(state: TaskState, update: dict[str, Any], context: TaskContext) -> None:
    seen = views(_merged(state, update), context)
    for id, record in update["records"].items():
        journal_record(context, seen, id, record)


def _merged(state: TaskState, update: dict[str, Any]) -> TaskState:
    records = {**(state.get("records") or {}), **update["records"]}
    return cast("TaskState", {**state, **update, "records": records})
