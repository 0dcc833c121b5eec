"""What follows from an answer: an attempt goes on, a result stands, a ladder or milestone moves on.

Nothing is executed here: records and wishes change, and whoever takes them up next acts on that.
"""

from dataclasses import dataclass
from typing import cast

from surefoot.graph.plan import Unit, rung_work
from surefoot.graph.questions import decided, next_question
from surefoot.graph.state import Back, TaskState
from surefoot.graph.values import Failure, JsonObject, Outcome, Question, Record, TaskFailure
from surefoot.nodes.change import Change, NotYet, Refused
from surefoot.nodes.context import TaskContext, Views
from surefoot.nodes.failing import Reflection, give_up
from surefoot.nodes.left_to_people import next_asked
from surefoot.nodes.questions import open_questions, opened
from surefoot.nodes.wishes import wish


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A question with its normalised answer, who gave it, and what it may change."""

    question: Question
    answer: JsonObject
    by: str
    state: TaskState
    context: TaskContext
    seen: Views
    change: Change

    @property
    def choice(self) -> str:
        """The word that was chosen."""
        return str(self.answer["choice"])

    @property
    def facts(self) -> JsonObject:
        """What the answer is applied to."""
        return self.question.get("facts") or {}

    @property
    def because(self) -> str:
        """The reason that was given, as the end of a sentence; '' without one."""
        return f": {self.answer['reason']}" if self.answer.get("reason") else ""

    def held_back(self) -> tuple[str, Record]:
        """The subtask that the question holds back, and its record without the question."""
        id = self.question["subtask"] or ""
        record = self.change.record(id, self.state)
        record.pop("question", None)
        return id, record

    def put(self, id: str, record: Record) -> None:
        """Change a record."""
        self.change.put(id, record, self.context, self.seen)

    def ask(self, question: Question) -> None:
        """One more question is open."""
        self.change.questions = [*open_questions(self.state, self.change), question]


def follow(answered: Answered) -> None:
    """Change what follows from an answer.

    Raises:
        Refused: it cannot be applied to what there is.
        NotYet: its subtask is being looked at once more.
    """
    match answered.question["kind"]:
        case "undo_failed" if answered.facts.get("back"):
            pass  # the rollback node reads it among the answers
        case "unknown_effect" | "approve" | "other_effect" | "undo_failed":
            _take_up(answered)
        case "check" | "verdict" if answered.question["subtask"] is not None:
            _decide_attempt(answered)
        case "check" | "verdict":
            _decide_judging(answered)
        case "ask":
            _move_on_ladder(answered)
        case "milestone":
            _after_milestone(answered)
        case "inconsistent_state":
            pass  # `load` reads it when the task goes on: nothing runs before that


def _take_up(answered: Answered) -> None:
    """The attempt goes on with the answer: what it does with that is said where calls are made."""
    id, record = answered.held_back()
    if record.get("state") == "running":
        raise NotYet  # perhaps nothing is left to be answered once that has ended
    record["said"] = {**record.get("said", {}), answered.question["id"]: answered.answer}
    record["answered"] = record.get("attempt", 0)
    answered.put(id, record)


# --- results that people judge ---------------------------------------------------------------


def _decide_attempt(answered: Answered) -> None:
    """A kept result is accepted, or its attempt has failed; or the next check is asked about."""
    id, record = answered.held_back()
    held = record.pop("held", None)
    if held is None:
        full = answered.context.full(id)
        raise Refused("wrong_state", f"nothing of subtask {full!r} is kept to judge")
    n = int(answered.facts.get("n", 0))
    before = cast("list[JsonObject]", held.get("checks") or [])
    checks = decided(before, n, answered.answer, by=answered.by)
    outcome = cast("Outcome", {**held, "calls": 0, "checks": checks})
    if answered.choice == "fail":
        why = f"{checks[n].get('id') or checks[n]['type']}: {checks[n]['why']}"
        _fail_attempt(answered, record, outcome, why)
        return
    following = next_question(checks)
    if following is not None:
        _ask_next(answered, following, record, outcome)
        return
    outcome["ok"] = True
    _settle_attempt(answered, record, outcome)


def _fail_attempt(answered: Answered, record: Record, outcome: Outcome, why: str) -> None:
    """What the attempt did has to be taken back before it has failed: its next order does that."""
    failure = Failure(kind="check_failed", message=why, retryable=True)
    if outcome["action"] not in ("attempt", "improve"):
        outcome["failure"] = failure
        _settle_attempt(answered, record, outcome)
        return
    record["undoing"], record["cut"] = failure, True
    answered.put(outcome["subtask"], record)


def _settle_attempt(answered: Answered, record: Record, outcome: Outcome) -> None:
    """The outcome goes the way of any other: it is accepted, or it has failed."""
    if outcome["action"] != "improve":
        record["state"] = "running"
    answered.put(outcome["subtask"], record)
    answered.change.finished.append(outcome)


def _ask_next(answered: Answered, asked: Question, record: Record, outcome: Outcome) -> None:
    """Put the next check of the same attempt to people."""
    id, before = outcome["subtask"], answered.question["id"]
    stem = before.rpartition(".")[0] if answered.facts.get("follows") else before
    facts: JsonObject = {**(asked.get("facts") or {}), "follows": True}
    following: Question = {**asked, "id": f"{stem}.{facts['n']}", "subtask": id, "facts": facts}
    question = opened(following, answered.context)
    record["question"] = question["id"]
    record["held"] = cast("JsonObject", outcome)
    answered.put(id, record)
    answered.ask(question)


def _decide_judging(answered: Answered) -> None:
    """A milestone (or the acceptance) is judged on with what a person says of one check."""
    state, change = answered.state, answered.change
    judging = change.judging or state.get("judging")
    if judging is None:
        return  # it was taken back meanwhile, and will be judged anew
    n = int(answered.facts.get("n", 0))
    verdicts = decided(judging["verdicts"], n, answered.answer, by=answered.by)
    change.judging = {**judging, "verdicts": verdicts}
    if answered.choice == "fail":
        return
    answers = {**(state.get("answers") or {}), **change.answers, answered.question["id"]: {}}
    following = next_asked(judging["milestone"], verdicts, answers, answered.context)
    if following is not None:
        answered.ask(following)


# --- ladders and milestones ------------------------------------------------------------------


def _move_on_ladder(answered: Answered) -> None:
    """After an `ask` rung: once more in full, left out, or given up."""
    id, record = answered.held_back()
    reason = f"{answered.by} said {answered.choice}{answered.because}"
    record.pop("cut", None)
    match answered.choice:
        case "retry":
            _try_again(answered, record, answered.seen.index.unit(id))
        case "skip":
            record["state"], record["reason"] = "skipped", reason
            journal = answered.context.journal
            journal.event("SubtaskSkipped", subtask=id, reason=reason, by=answered.by)
        case _:
            _give_up(answered, id, record, reason)
    answered.put(id, record)


def _try_again(answered: Answered, record: Record, unit: Unit) -> None:
    if rung_work(unit, record.get("rung", 0)) is None:
        record["rung"] = 0
    record.pop("not_before", None)
    hint = answered.answer.get("hint") or answered.answer.get("reason")
    if hint:
        before = record.get("criticism", "")
        record["criticism"] = f"{before}\n\nA person says: {hint}".strip()


def _give_up(answered: Answered, id: str, record: Record, reason: str) -> None:
    state, change = answered.state, answered.change
    found = Reflection(ending=change.ending or state.get("ending"))
    kind, message = "given_up", reason
    before = record.get("failure")
    if before:
        kind, message = before["kind"], f"{before['message']}; {reason}"
    failure = Failure(kind=kind, message=message, retryable=False)
    give_up(id, record, failure, state, answered.context, found)
    change.ending = change.ending or found.ending


def _after_milestone(answered: Answered) -> None:
    """After a milestone that did not hold: judged again (it is still due), or what was said."""
    facts, change = answered.facts, answered.change
    why = f"milestone {facts.get('milestone')!r} failed: {facts.get('why')}"
    said = f"; {answered.by}{answered.because}" if answered.because else ""
    match answered.choice:
        case "rollback":
            back = Back(by="person", reason=f"{why}{said}")
            if answered.answer.get("milestone"):
                back["milestone"] = str(answered.answer["milestone"])
                _check_passed(back["milestone"], answered.state)
            change.back = back
        case "replan":
            required = answered.answer.get("require")
            more = {"require": required} if required else {}
            change.replan = wish("person", f"{why}{said}", ending=None, **more)
        case "fail":
            change.ending = TaskFailure(
                code="milestone_failed", message=f"{why}{said}", subtask=None
            )
        case _:
            pass


def _check_passed(milestone: str, state: TaskState) -> None:
    passed = [id for id, m in (state.get("milestones") or {}).items() if m["passed"]]
    if milestone not in (*passed, "start"):
        known = ", ".join([*passed, "start"])
        raise Refused("unknown_milestone", f"there is no way back to {milestone!r}; to {known}")
