"""reflector: looks at evidence and chooses: accept, retry, degrade, skip, ask, or give up.

Evidence is what programs saw (check results, exit codes, exceptions); the choice itself is the
pure policy of `surefoot.graph.attempts`. Here outcomes are sorted; `accepting` and `failing` lay
the choice on the record.
"""

from typing import Any, Literal

from langgraph.types import Command

from surefoot.graph.going_back import together
from surefoot.graph.state import TaskState
from surefoot.graph.values import Outcome, Record
from surefoot.nodes.accepting import accept
from surefoot.nodes.context import (
    TaskContext,
    Views,
    journal_record,
    journal_task,
    note,
    views,
)
from surefoot.nodes.failing import (
    Reflection,
    cut,
    fail,
    out_of_budget,
    reflected,
)
from surefoot.nodes.held_back import ask, ask_inside, left_open

Node = Literal["dispatcher"]


async def reflect(state: TaskState, context: TaskContext) -> Command[Node]:
    """Judge every outcome that came in, in the order they finished."""
    seen = views(state, context)
    outcomes = state.get("finished") or []
    context.runner.acknowledge(outcomes)
    found = Reflection(ending=state.get("ending"))
    for outcome in outcomes:
        await _reflect_on(outcome, state, context, seen, found)
    journal_task(context, seen)
    return Command(update=_update(state, context, found), goto="dispatcher")


async def _reflect_on(
    outcome: Outcome, state: TaskState, context: TaskContext, seen: Views, found: Reflection
) -> None:
    id = outcome["subtask"]
    old = found.records.get(id) or (state.get("records") or {}).get(id) or Record()
    _count(outcome, context)
    if "more_questions" in outcome:
        record = ask_inside(outcome, old, found)
    elif outcome.get("question"):
        record = ask(outcome, old, state, context, found)
    elif outcome.get("cut") and (limit := outcome.get("failure")):
        record = out_of_budget(outcome, old, limit, context, seen, found)
    elif outcome.get("cut"):
        record = cut(outcome, old, context, seen)
    elif outcome["action"] == "reflect":
        record = reflected(outcome, old, state, context, found)
    elif outcome["ok"]:
        record = await accept(outcome, old, context, seen)
    else:
        record = fail(outcome, old, state, context, found)
    found.records[id] = record
    note(context, seen, id, record)
    journal_record(context, seen, id, record)


def _count(outcome: Outcome, context: TaskContext) -> None:
    """Turn the reservation into what was used, and say how a cut attempt was recovered."""
    if outcome["action"] in ("attempt", "improve"):
        context.held.discard(outcome["subtask"])
        context.spend(steps=outcome.get("calls", 1))
    put_back = outcome.get("put_back")
    if put_back:
        context.journal.event(
            "WorkspacePutBack",
            subtask=outcome["subtask"],
            attempt=outcome["attempt"],
            **put_back,
        )
    recovery = outcome.get("recovery")
    if recovery:
        context.journal.event(
            "AttemptRecovered",
            subtask=outcome["subtask"],
            attempt=outcome["attempt"],
            strategy=recovery.get("strategy"),
            reason=recovery.get("reason"),
        )


def _update(state: TaskState, context: TaskContext, found: Reflection) -> dict[str, Any]:
    update: dict[str, Any] = {"finished": [], "records": found.records}
    if context.outer is not None:
        update["spent"] = dict(context.usage)
    if found.decisions:
        first = len(state.get("decisions") or {})
        update["decisions"] = {str(first + n): d for n, d in enumerate(found.decisions)}
    asked = state.get("questions") or ()
    if asked or found.questions:
        outcomes = state.get("finished") or ()
        judged = {outcome["subtask"] for outcome in outcomes if not outcome.get("cut")}
        update["questions"] = left_open(asked, judged, found, context)
    if found.ending is not None and state.get("ending") is None:
        update["ending"] = found.ending
    if found.replan is not None and state.get("replan") is None:
        update["replan"] = found.replan
    if found.back is not None:
        update["back"] = together(state.get("back"), found.back)
    return update
