"""Outcomes that are not accepted: cut, unknown, or failed, and what the policy chooses then."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from surefoot.graph.attempts import INCONSISTENT, Choice, failure_code, max_attempts
from surefoot.graph.fingerprints import blocker, fingerprint
from surefoot.graph.index import container_of
from surefoot.graph.plan import Unit, rung_work
from surefoot.graph.questions import question_id
from surefoot.graph.reflecting import (
    ReflectionChoice,
    Replans,
    allowed_choices,
    applied,
    criticism_in,
    evidence_text,
    own_choice,
    worth_reflecting,
)
from surefoot.graph.state import Back, Replan, TaskState
from surefoot.graph.values import (
    Decision,
    Failure,
    JsonObject,
    Outcome,
    Question,
    Record,
    TaskFailure,
    life_of,
)
from surefoot.nodes.context import TaskContext, Views, views
from surefoot.nodes.cuts import cut_facts
from surefoot.nodes.orders import work_of
from surefoot.nodes.questions import opened, unanswered
from surefoot.nodes.ways_back import failure_may_go_back
from surefoot.nodes.wishes import replans_for, why_no_replan, wish

KEPT_FINGERPRINTS = 8
"""Of the failures on one rung; circles are looked for in the last four."""


@dataclass(slots=True)
class Reflection:
    """What one superstep changed."""

    records: dict[str, Record] = field(default_factory=dict[str, Record])
    decisions: list[Decision] = field(default_factory=list[Decision])
    questions: list[Question] = field(default_factory=list[Question])
    """Newly asked, or told of by a group."""
    asked: set[str] = field(default_factory=set[str])
    """Ids of the questions that were asked, or asked once more."""
    ending: TaskFailure | None = None
    replan: Replan | None = None
    back: Back | None = None


def cut(outcome: Outcome, old: Record, context: TaskContext, seen: Views) -> Record:
    """Stopped by us: the attempt keeps its number and counts nowhere."""
    record = Record(**old)
    if outcome["action"] in ("improve", "reflect"):
        return record
    if outcome["action"] == "gather":
        record["state"] = "running"
        return record
    record["state"] = "pending"
    if outcome["action"] == "nest":
        record["cut"] = True
    if outcome["action"] == "attempt":
        record["cut"] = True
        facts = cut_facts(seen.index.unit(outcome["subtask"]), old, context, "it was stopped")
        context.journal.event(
            "AttemptCut", subtask=outcome["subtask"], attempt=outcome["attempt"], **facts
        )
    return record


def fail(
    outcome: Outcome, old: Record, state: TaskState, context: TaskContext, found: Reflection
) -> Record:
    """The record after a failed attempt: tried again, degraded, skipped, asked about, or failed.

    Where a model may say what is best, the record waits for its word (`reflecting`).
    """
    failure = outcome.get("failure") or Failure(
        kind="internal", message="no reason given", retryable=False
    )
    seen = views(state, context)
    work = work_of(seen.index.unit(outcome["subtask"]), old, outcome["action"])
    if failure["kind"] == "budget_exhausted" and work.kind != "group":
        return out_of_budget(outcome, old, failure, context, seen, found)
    if outcome["action"] in ("attempt", "improve"):
        context.spend(failures=1)
    else:
        failure = Failure(kind=failure["kind"], message=failure["message"], retryable=False)
    if outcome["action"] == "improve" and failure["kind"] != INCONSISTENT:
        return _not_improved(outcome, old, failure, context)
    record = _ended(outcome, old, failure, by_model=work.kind == "agent")
    case = _case(outcome["subtask"], record, failure, state, context, found)
    if case.asks(work.kind):
        record["reflecting"] = failure
        record["choices"] = list(case.allowed)
        record.setdefault("criticism", evidence_text(failure, outcome.get("checks") or []))
        _attempt_failed(outcome, failure, "reflect", context)
        return record
    choice = case.own(context.draw(), bool(outcome.get("null_reference")))
    _attempt_failed(outcome, failure, choice.kind, context)
    return lay(choice, record, outcome, case, by="policy")


def out_of_budget(
    outcome: Outcome,
    old: Record,
    failure: Failure,
    context: TaskContext,
    seen: Views,
    found: Reflection,
) -> Record:
    """A limit refused its next call: it is cut there, and goes on once the limit is raised."""
    if found.ending is None:
        code, why = failure["kind"], failure["message"]
        found.ending = TaskFailure(code=code, message=why, subtask=outcome["subtask"])
    return cut(outcome, old, context, seen)


def reflected(
    outcome: Outcome, old: Record, state: TaskState, context: TaskContext, found: Reflection
) -> Record:
    """The record after a reflection: its choice where policy allows it, else the policy's own."""
    record = Record(**old)
    record.pop("choices", None)
    failure = record.pop("reflecting", None)
    if failure is None:
        return record
    broken = outcome.get("failure")
    if broken is not None and broken["kind"] == INCONSISTENT:
        record["failure"] = failure = broken
    case = _case(outcome["subtask"], record, failure, state, context, found)
    proposed, criticism = criticism_in(outcome.get("reflection"))
    if criticism:
        evidence = record.get("criticism", "")
        record["criticism"] = f"{evidence}\n\nWhat a critic says of it:\n{criticism}"
    own = case.own(context.draw(), null_reference=False)
    choice = applied(proposed, case.allowed, case.unit, record, own)
    unusable = "; ".join(outcome.get("marks") or ())
    context.journal.event(
        "FailureReflected",
        subtask=outcome["subtask"],
        attempt=outcome["attempt"] or None,
        choice=choice.kind,
        proposed=proposed,
        reason=criticism or unusable or "no usable word",
    )
    taken = proposed == choice.kind and choice != own
    return lay(choice, record, outcome, case, by="reflection" if taken else "policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A failure with all that a choice about it looks at."""

    id: str
    unit: Unit
    record: Record
    failure: Failure
    attempts: int
    replans: Replans
    blocker: str
    no_replan: str
    rollback: bool
    answers: Mapping[str, JsonObject]
    """All that was answered until now, by question id."""
    context: TaskContext
    found: Reflection

    @property
    def allowed(self) -> tuple[ReflectionChoice, ...]:
        """What policy leaves to a reflection."""
        return allowed_choices(
            self.unit,
            self.record,
            self.failure,
            attempts=self.attempts,
            replans=self.replans,
            rollback=self.rollback,
        )

    def asks(self, kind: str) -> bool:
        """Whether a model is asked for its criticism."""
        there = self.context.models.has("judge") and self.found.ending is None
        return there and worth_reflecting(kind, self.failure, self.allowed)

    def own(self, draw: float, null_reference: bool) -> Choice:
        """The policy's own choice."""
        return own_choice(
            self.unit,
            self.record,
            self.failure,
            attempts=self.attempts,
            replans=self.replans,
            draw=draw,
            null_reference=null_reference,
        )


def _case(
    id: str,
    record: Record,
    failure: Failure,
    state: TaskState,
    context: TaskContext,
    found: Reflection,
) -> Case:
    seen = views(state, context)
    unit = seen.index.unit(id)
    rung = record.get("rung", 0)
    work = rung_work(unit, rung) or unit
    spec = context.specs.get(work.tool or "")
    stands_in_the_way = blocker(seen.index.raw[container_of(id) or id], failure)
    return Case(
        id=id,
        unit=unit,
        record=record,
        failure=failure,
        attempts=max_attempts(unit, work, rung=rung, spec=spec),
        replans=replans_for(state, context, stands_in_the_way),
        blocker=stands_in_the_way,
        no_replan=why_no_replan(state, context, stands_in_the_way),
        rollback=work.kind == "agent"
        and failure_may_go_back(id, state, context, stands_in_the_way),
        answers=state.get("answers") or {},
        context=context,
        found=found,
    )


def _ended(outcome: Outcome, old: Record, failure: Failure, *, by_model: bool) -> Record:
    """The record of an attempt that ended without success, before the choice is laid on it.

    `by_model`: the next attempt is told what was found, and circles are looked for.
    """
    one = 1 if outcome["action"] == "attempt" else 0
    record = Record(
        state="pending",
        attempt=old.get("attempt", 0),
        ended=old.get("ended", 0) + one,
        tries=old.get("tries", 0) + one,
        rung=old.get("rung", 0),
        failure=failure,
        started=outcome["started"],
        finished=outcome["ended"],
    )
    record |= life_of(old)
    if "args" in old:
        record["args"] = old["args"]
    if outcome["action"] == "gather":  # its children stand: it may be gathered once more by hand
        record["n"], record["items"] = old.get("n", 0), old.get("items") or {"value": []}
    if by_model and one:
        checks = outcome.get("checks") or []
        record["criticism"] = evidence_text(failure, checks)
        seen = [*(old.get("seen") or ()), fingerprint(failure, checks)]
        record["seen"] = seen[-KEPT_FINGERPRINTS:]
    return record


def _not_improved(outcome: Outcome, old: Record, failure: Failure, context: TaskContext) -> Record:
    """The one more full try failed: the degraded result stays."""
    record = Record(**old)
    record["improved"] = True
    record.pop("improving", None)
    record["ended"] = old.get("ended", 0) + 1
    context.journal.event(
        "ImprovementFailed",
        subtask=outcome["subtask"],
        attempt=outcome["attempt"],
        reason=failure["message"],
        kind=failure["kind"],
    )
    return record


def _attempt_failed(outcome: Outcome, failure: Failure, choice: str, context: TaskContext) -> None:
    context.journal.event(
        "AttemptFailed",
        subtask=outcome["subtask"],
        attempt=None if outcome["action"] == "nest" else outcome["attempt"] or None,
        reason=failure["message"],
        kind=failure["kind"],
        choice=choice,
    )


def lay(choice: Choice, record: Record, outcome: Outcome, case: Case, *, by: str) -> Record:
    """Lay a choice on the record of a failed attempt, with its event and its decision."""
    context, id, reason = case.context, case.id, case.failure["message"]
    if choice.kind in ("retry", "degrade", "ask"):
        record.pop("n", None)
        record.pop("items", None)
    if choice.kind == "retry":
        record["not_before"] = outcome["ended"] + choice.delay_s
        return record
    if choice.kind == "rollback":  # nothing starts before that is done, nor this one again
        why = f"subtask {context.full(id)!r} failed: {reason}"
        case.found.back = Back(by=by, reason=why, blocker=case.blocker)
        return record
    case.found.decisions.append(
        Decision(at=context.clock(), kind=choice.kind, subtask=id, reason=reason)
    )
    if choice.kind == "degrade":
        record["rung"], record["tries"], record["reason"] = choice.rung, 0, reason
        record.pop("seen", None)
        context.journal.event("SubtaskDegraded", subtask=id, rung=choice.rung, reason=reason)
    elif choice.kind == "skip":
        record["state"], record["reason"] = "skipped", reason
        context.journal.event("SubtaskSkipped", subtask=id, reason=reason)
    elif choice.kind == "ask":
        _ask_on_ladder(record, case, rung=choice.rung)
    else:
        _give_up(record, case, wants_replan=choice.kind == "replan", by=by)
    return record


def give_up(
    id: str,
    record: Record,
    failure: Failure,
    state: TaskState,
    context: TaskContext,
    found: Reflection,
) -> None:
    """A person gives a subtask up: it has failed, with the event and the ending of that."""
    record["failure"] = failure
    _give_up(record, _case(id, record, failure, state, context, found), wants_replan=False, by="")


def _give_up(record: Record, case: Case, *, wants_replan: bool, by: str) -> None:
    """No rung left: a new remainder is wished for, or the task ends once what runs has ended.

    An ending because no replan is left keeps the wish: with a raised limit the task goes on.
    """
    record["state"] = "failed"
    failure, found = case.failure, case.found
    case.context.journal.event(
        "SubtaskFailed", subtask=case.id, reason=failure["message"], kind=failure["kind"]
    )
    ended = record.get("ended", 0)
    tries = f" after {ended} attempt{'s' if ended != 1 else ''}" if ended else ""
    settled = wants_replan or failure["kind"] == INCONSISTENT
    no_replan = "" if settled else case.no_replan
    name = case.context.full(case.id)
    ending = TaskFailure(
        code=failure_code(failure),
        message=f"subtask {name!r} failed{tries}: {failure['message']}{no_replan}",
        subtask=case.id,
    )
    if not wants_replan and found.ending is None:
        found.ending = ending
    if found.replan is None and (wants_replan or no_replan):
        found.replan = wish(
            by, failure["message"], ending=ending, blocker=case.blocker, subtask=case.id
        )


def _ask_on_ladder(record: Record, case: Case, *, rung: int) -> None:
    """A rung says to ask: what the attempts came to, and how it shall go on."""
    context, id = case.context, case.id
    question = Question(
        id=question_id("ask", context.full(id), record.get("ended", 0)),
        subtask=id,
        kind="ask",
        text=(
            f"Subtask {context.full(id)!r} failed and its plan says to ask: "
            f"{case.failure['message']}. `retry` tries it once more in full, with a hint in words "
            "if you give one."
        ),
    )
    choices = ("retry", "skip", "fail") if case.unit.skippable else ("retry", "fail")
    asked = opened(unanswered(question, case.answers), context, choices=choices)
    case.found.questions.append(asked)
    case.found.asked.add(asked["id"])
    record["rung"], record["question"] = rung, asked["id"]
