"""reflector: looks at evidence and chooses: accept, retry, degrade, skip, ask, or give up.

Evidence is what programs saw (check results, exit codes, exceptions); the choice itself is the
pure policy of `surefoot.graph.attempts`.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from langgraph.types import Command

from surefoot.graph.attempts import (
    Choice,
    after_failure,
    failure_code,
    max_attempts,
)
from surefoot.graph.index import container_of
from surefoot.graph.state import TaskState
from surefoot.graph.values import (
    Decision,
    Failure,
    Outcome,
    Question,
    Record,
    TaskFailure,
)
from surefoot.nodes.context import (
    TaskContext,
    Views,
    journal_record,
    journal_task,
    note,
    views,
)
from surefoot.nodes.expansion import writes_overlap
from surefoot.nodes.orders import work_of

Node = Literal["dispatcher"]


@dataclass(slots=True)
class Reflection:
    """What one superstep changed."""

    records: dict[str, Record] = field(default_factory=dict[str, Record])
    decisions: list[Decision] = field(default_factory=list[Decision])
    questions: list[Question] = field(default_factory=list[Question])
    ending: TaskFailure | None = None


async def reflect(state: TaskState, context: TaskContext) -> Command[Node]:
    """Judge every outcome that came in, in the order they finished."""
    seen = views(state, context)
    outcomes = state.get("finished") or []
    context.runner.acknowledge(outcomes)
    found = Reflection(ending=state.get("ending"))
    for outcome in outcomes:
        await _reflect_on(outcome, state, context, seen, found)
    journal_task(context, seen)
    return Command(update=_update(state, found), goto="dispatcher")


def _update(state: TaskState, found: Reflection) -> dict[str, Any]:
    update: dict[str, Any] = {"finished": [], "records": found.records}
    if found.decisions:
        first = len(state.get("decisions") or {})
        update["decisions"] = {str(first + n): d for n, d in enumerate(found.decisions)}
    if found.questions:
        update["questions"] = [*(state.get("questions") or ()), *found.questions]
    if found.ending is not None and state.get("ending") is None:
        update["ending"] = found.ending
    return update


async def _reflect_on(
    outcome: Outcome, state: TaskState, context: TaskContext, seen: Views, found: Reflection
) -> None:
    id = outcome["subtask"]
    records = state.get("records") or {}
    old = found.records.get(id) or records.get(id) or Record()
    if outcome["action"] in ("attempt", "improve"):
        context.reserved = max(0, context.reserved - 1)
        context.usage["steps"] += outcome.get("calls", 1)
    if outcome.get("recovery"):
        context.journal.event(
            "AttemptRecovered", subtask=id, attempt=outcome["attempt"], **(outcome["recovery"] or {})  # pyright: ignore[reportTypedDictNotRequiredAccess]
        )
    if outcome.get("question"):
        record = _ask(outcome, old, context, found)
    elif outcome.get("cut"):
        record = _cut(outcome, old, context)
    elif outcome["ok"]:
        record = await _accept(outcome, old, context, seen)
    else:
        record = _fail(outcome, old, context, seen, found)
    found.records[id] = record
    note(context, seen, id, record)
    journal_record(context, seen, id, record)


# --- accepted --------------------------------------------------------------------------------


async def _accept(outcome: Outcome, old: Record, context: TaskContext, seen: Views) -> Record:
    id, action = outcome["subtask"], outcome["action"]
    if action == "expand":
        return await _expanded(outcome, old, context, seen)
    record = Record(
        state="completed",
        attempt=old.get("attempt", 0),
        started=old.get("started", outcome["started"]) if action == "gather" else outcome["started"],
        finished=outcome["ended"],
        result=outcome.get("result") or {"value": None},
    )
    for key in ("n", "items", "serial"):
        if key in old:
            record[key] = old[key]
    if action != "gather":
        record["ended"] = old.get("ended", 0) + 1
    if old.get("rung") and action != "improve":
        record["rung"] = old["rung"]  # pyright: ignore[reportTypedDictNotRequiredAccess]
        record["reason"] = old.get("reason", "")
    if outcome.get("artifacts"):
        record["artifacts"] = outcome["artifacts"]  # pyright: ignore[reportTypedDictNotRequiredAccess]
    if outcome.get("marks"):
        record["marks"] = outcome["marks"]  # pyright: ignore[reportTypedDictNotRequiredAccess]
    for ref in outcome.get("artifacts") or ():
        context.journal.artifact(id, outcome["attempt"], ref)
    context.journal.event(
        "SubtaskImproved" if action == "improve" else "SubtaskCompleted",
        subtask=id,
        attempt=outcome["attempt"] or None,
        phase=seen.index.phase_of(id),
        **({"marks": outcome["marks"]} if outcome.get("marks") else {}),  # pyright: ignore[reportTypedDictNotRequiredAccess]
    )
    return record


async def _expanded(outcome: Outcome, old: Record, context: TaskContext, seen: Views) -> Record:
    id = outcome["subtask"]
    items = outcome.get("result") or {"value": []}
    record = Record(**old)
    record["n"] = outcome.get("n", 0)
    record["items"] = items
    record["started"] = outcome["started"]
    if await writes_overlap(seen.index.each(id), items, record["n"], context.store):
        record["serial"] = True
    context.journal.event("SubtaskExpanded", subtask=id, n=record["n"])
    return record


# --- not accepted ----------------------------------------------------------------------------


def _cut(outcome: Outcome, old: Record, context: TaskContext) -> Record:
    """Stopped by us: the attempt keeps its number and counts nowhere."""
    record = Record(**old)
    if outcome["action"] == "improve":
        return record
    record["state"] = "running" if "n" in old and outcome["action"] == "gather" else "pending"
    if outcome["action"] == "attempt":
        record["cut"] = True
        context.journal.event("AttemptCut", subtask=outcome["subtask"], attempt=outcome["attempt"])
    return record


def _ask(outcome: Outcome, old: Record, context: TaskContext, found: Reflection) -> Record:
    """Nobody knows what came of the call: the subtask waits for a person."""
    question = outcome["question"]  # pyright: ignore[reportTypedDictNotRequiredAccess]
    if question is None:
        raise AssertionError("an outcome with a question has one")
    return ask(question, old, context, found)


def ask(question: Question, old: Record, context: TaskContext, found: Reflection) -> Record:
    """Put a question to people and hold its subtask back until it is settled."""
    context.journal.question(
        question["id"], subtask=question["subtask"], kind=question["kind"], text=question["text"], open=True
    )
    context.journal.event(
        "QuestionAsked", subtask=question["subtask"], question=question["id"], reason=question["text"]
    )
    found.questions.append(question)
    record = Record(**old)
    record["state"] = "pending"
    record["question"] = question["id"]
    record["cut"] = True
    return record


def _fail(
    outcome: Outcome, old: Record, context: TaskContext, seen: Views, found: Reflection
) -> Record:
    id, action = outcome["subtask"], outcome["action"]
    failure = outcome.get("failure") or Failure(kind="internal", message="no reason given", retryable=False)
    attempt = action in ("attempt", "improve")
    if attempt:
        context.usage["failures"] += 1
    if action == "improve":
        return _not_improved(outcome, old, failure, context)
    unit = seen.index.unit(id)
    work = work_of(unit, old, action)
    rung = old.get("rung", 0)
    allowed = max_attempts(unit, work, rung=rung, spec=context.specs.get(work.tool or ""))
    choice = after_failure(
        unit,
        old,
        failure if attempt else Failure(**{**failure, "retryable": False}),
        allowed=allowed,
        null_reference=bool(outcome.get("null_reference")),
        draw=context.draw(),
    )
    record = _ended(outcome, old, failure)
    _chosen(choice, record, failure, outcome, context, found)
    return record


def _ended(outcome: Outcome, old: Record, failure: Failure) -> Record:
    """The record of an attempt that ended without success, before the choice is laid on it."""
    record = Record(
        state="pending",
        attempt=old.get("attempt", 0),
        ended=old.get("ended", 0),
        tries=old.get("tries", 0),
        rung=old.get("rung", 0),
        failure=failure,
        started=outcome["started"],
        finished=outcome["ended"],
    )
    if outcome["action"] == "attempt":
        record["ended"] = old.get("ended", 0) + 1
        record["tries"] = old.get("tries", 0) + 1
    return record


def _not_improved(
    outcome: Outcome, old: Record, failure: Failure, context: TaskContext
) -> Record:
    """The one more full try failed: the degraded result stays."""
    record = Record(**old)
    record["improved"] = True
    record["ended"] = old.get("ended", 0) + 1
    context.journal.event(
        "ImprovementFailed",
        subtask=outcome["subtask"],
        attempt=outcome["attempt"],
        reason=failure["message"],
        kind=failure["kind"],
    )
    return record


def _chosen(
    choice: Choice,
    record: Record,
    failure: Failure,
    outcome: Outcome,
    context: TaskContext,
    found: Reflection,
) -> None:
    """Lay a choice on the record of a failed attempt, with its event and its decision."""
    id, reason = outcome["subtask"], failure["message"]
    context.journal.event(
        "AttemptFailed",
        subtask=id,
        attempt=outcome["attempt"] or None,
        reason=reason,
        kind=failure["kind"],
        choice=choice.kind,
    )
    if choice.kind == "retry":
        record["not_before"] = outcome["ended"] + choice.delay_s
        return
    found.decisions.append(
        Decision(at=context.clock(), kind=choice.kind, subtask=id, reason=reason)
    )
    if choice.kind == "degrade":
        record["rung"], record["tries"], record["reason"] = choice.rung, 0, reason
        context.journal.event("SubtaskDegraded", subtask=id, rung=choice.rung, reason=reason)
    elif choice.kind == "skip":
        record["state"], record["reason"] = "skipped", reason
        context.journal.event("SubtaskSkipped", subtask=id, reason=reason)
    elif choice.kind == "ask":
        record["rung"] = choice.rung
        record.update(ask(_ladder_question(id, failure, context), record, context, found))
    else:
        _give_up(record, failure, id, context, found)


def _give_up(
    record: Record, failure: Failure, id: str, context: TaskContext, found: Reflection
) -> None:
    record["state"] = "failed"
    context.journal.event("SubtaskFailed", subtask=id, reason=failure["message"], kind=failure["kind"])
    if found.ending is None:
        tries = f" after {record.get('ended', 0)} attempts" if not container_of(id) else ""
        found.ending = TaskFailure(
            code=failure_code(failure),
            message=f"subtask {id!r} failed{tries}: {failure['message']}",
            subtask=id,
        )


def _ladder_question(id: str, failure: Failure, context: TaskContext) -> Question:
    return Question(
        id=f"ask-{id.replace('/', '-')}-{int(context.clock() * 1000)}",
        subtask=id,
        kind="ask",
        text=(
            f"Subtask {id!r} failed and its plan says to ask: {failure['message']}. Mend the cause, "
            f"then `surefoot resume {context.task_id}` tries it once more in full."
        ),
    )
