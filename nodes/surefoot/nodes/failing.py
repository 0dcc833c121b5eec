"""Outcomes that are not accepted: cut, unknown, or failed, and what the policy chooses then."""

from dataclasses import dataclass, field

from surefoot.graph.attempts import Choice, after_failure, failure_code, max_attempts
from surefoot.graph.values import Decision, Failure, Outcome, Question, Record, TaskFailure
from surefoot.nodes.context import TaskContext, Views
from surefoot.nodes.orders import work_of


@dataclass(slots=True)
class Reflection:
    """What one superstep changed."""

    records: dict[str, Record] = field(default_factory=dict[str, Record])
    decisions: list[Decision] = field(default_factory=list[Decision])
    questions: list[Question] = field(default_factory=list[Question])
    ending: TaskFailure | None = None


def cut(outcome: Outcome, old: Record, context: TaskContext) -> Record:
    """Stopped by us: the attempt keeps its number and counts nowhere."""
    record = Record(**old)
    if outcome["action"] == "improve":
        return record
    if outcome["action"] == "gather":
        record["state"] = "running"
        return record
    record["state"] = "pending"
    if outcome["action"] == "attempt":
        record["cut"] = True
        context.journal.event("AttemptCut", subtask=outcome["subtask"], attempt=outcome["attempt"])
    return record


def ask(question: Question, old: Record, context: TaskContext, found: Reflection) -> Record:
    """Put a question to people and hold its subtask back until it is settled."""
    id, subtask, text = question["id"], question["subtask"], question["text"]
    context.journal.question(id, subtask=subtask, kind=question["kind"], text=text, open=True)
    context.journal.event("QuestionAsked", subtask=subtask, question=id, reason=text)
    found.questions.append(question)
    record = Record(**old)
    record["state"] = "pending"
    record["question"] = id
    record["cut"] = True
    return record


def fail(
    outcome: Outcome, old: Record, context: TaskContext, seen: Views, found: Reflection
) -> Record:
    """The record after a failed attempt: tried again, degraded, skipped, asked about, or failed."""
    failure = outcome.get("failure") or Failure(
        kind="internal", message="no reason given", retryable=False
    )
    if outcome["action"] in ("attempt", "improve"):
        context.usage["failures"] += 1
    else:
        failure = Failure(kind=failure["kind"], message=failure["message"], retryable=False)
    if outcome["action"] == "improve":
        return _not_improved(outcome, old, failure, context)
    record = _ended(outcome, old, failure)
    choice = _choose(outcome, old, failure, context, seen)
    return _chosen(choice, record, outcome, context, found)


def _choose(
    outcome: Outcome, old: Record, failure: Failure, context: TaskContext, seen: Views
) -> Choice:
    unit = seen.index.unit(outcome["subtask"])
    work = work_of(unit, old, outcome["action"])
    spec = context.specs.get(work.tool or "")
    return after_failure(
        unit,
        old,
        failure,
        allowed=max_attempts(unit, work, rung=old.get("rung", 0), spec=spec),
        null_reference=bool(outcome.get("null_reference")),
        draw=context.draw(),
    )


def _ended(outcome: Outcome, old: Record, failure: Failure) -> Record:
    """The record of an attempt that ended without success, before the choice is laid on it."""
    one = 1 if outcome["action"] == "attempt" else 0
    return Record(
        state="pending",
        attempt=old.get("attempt", 0),
        ended=old.get("ended", 0) + one,
        tries=old.get("tries", 0) + one,
        rung=old.get("rung", 0),
        failure=failure,
        started=outcome["started"],
        finished=outcome["ended"],
    )


def _not_improved(outcome: Outcome, old: Record, failure: Failure, context: TaskContext) -> Record:
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
    choice: Choice, record: Record, outcome: Outcome, context: TaskContext, found: Reflection
) -> Record:
    """Lay a choice on the record of a failed attempt, with its event and its decision."""
    id, failure = outcome["subtask"], record.get("failure")
    if failure is None:
        raise AssertionError("a failed attempt has a failure")
    reason = failure["message"]
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
        return record
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
        return ask(_ladder_question(id, failure, context), record, context, found)
    else:
        _give_up(record, failure, id, context, found)
    return record


def _give_up(
    record: Record, failure: Failure, id: str, context: TaskContext, found: Reflection
) -> None:
    """No rung left: the task ends once what runs has ended."""
    record["state"] = "failed"
    context.journal.event(
        "SubtaskFailed", subtask=id, reason=failure["message"], kind=failure["kind"]
    )
    if found.ending is None:
        ended = record.get("ended", 0)
        tries = f" after {ended} attempt{'s' if ended != 1 else ''}" if ended else ""
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
            f"Subtask {id!r} failed and its plan says to ask: {failure['message']}. Mend the "
            f"cause, then `surefoot resume {context.task_id}` tries it once more in full."
        ),
    )
