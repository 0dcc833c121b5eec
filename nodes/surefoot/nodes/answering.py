"""What an answer does: matched by its question's id alone, checked, stored, applied.

One way for the command and for the resume value of a host's interrupt. What is answered waits no
longer; it is done by whoever takes the subtask up next. An answer that was given is never changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from surefoot.graph.errors import UsageError
from surefoot.graph.plan import rung_work
from surefoot.graph.ports import Command
from surefoot.graph.questions import answer_words, decided, next_question, parse_answer
from surefoot.graph.state import Back, TaskState
from surefoot.graph.values import (
    Decision,
    Failure,
    Json,
    JsonObject,
    Outcome,
    Question,
    Record,
    TaskFailure,
)
from surefoot.nodes.change import Change, NotYet, Refused
from surefoot.nodes.context import TaskContext, Views
from surefoot.nodes.failing import Reflection, give_up
from surefoot.nodes.inside import step_inside
from surefoot.nodes.left_to_people import next_asked
from surefoot.nodes.places import Place
from surefoot.nodes.questions import close, inside_of, opened
from surefoot.nodes.wishes import wish


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An answer on its way.

    Attributes:
        question: the id.
        value: as it was given.
        by: who gave it.
    """

    question: str
    value: Json
    by: str


async def answer(
    command: Command, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> JsonObject:
    """The command `answer`: `{question, value}`; the same answer once more changes nothing.

    Returns:
        `{question, answer}`: what was understood.

    Raises:
        Refused: no such question is open, the answer does not fit, or another one was given.
        NotYet: it is being looked at whether the question still stands.
    """
    id = str(command.args.get("question") or "")
    group = next((inside_of(q) for q in open_questions(state, change) if q["id"] == id), None)
    if group is not None:
        return await step_inside(Place(group), command, state, context, seen, change)
    given = Given(question=id, value=command.args.get("value"), by=command.by)
    question, parsed = understood(given, state, context, change)
    if question is not None:
        _apply(question, parsed, given, state, context, seen, change)
        _settle(question, parsed, given, state, context, change)
    return {"question": id, "answer": parsed}


def understood(
    given: Given, state: TaskState, context: TaskContext, change: Change
) -> tuple[Question | None, JsonObject]:
    """The open question that an answer is for, and what it means; changes nothing.

    None where the same answer was given before.

    Raises:
        Refused: no such question is open, the answer does not fit, or another one was given.
    """
    earlier = {**(state.get("answers") or {}), **change.answers}.get(given.question)
    if earlier is not None:
        return None, _repeated(given, earlier)
    question = next((q for q in open_questions(state, change) if q["id"] == given.question), None)
    if question is None:
        raise Refused("unknown_question", _unknown(given.question, context))
    return question, _parsed(question, given.value)


def open_questions(state: TaskState, change: Change) -> list[Question]:
    """The questions that are open now."""
    changed = change.questions
    return list((state.get("questions") or ()) if changed is None else changed)


# --- matching --------------------------------------------------------------------------------


def _answers(state: TaskState, change: Change) -> Mapping[str, JsonObject]:
    return {**(state.get("answers") or {}), **change.answers}


def _repeated(given: Given, earlier: JsonObject) -> JsonObject:
    """The same answer again is no mistake; another one is refused."""
    question = cast("Question", earlier["question"])
    if _parsed(question, given.value) == earlier["answer"]:
        return earlier["answer"]
    raise Refused(
        "answered",
        f"question {given.question!r} was answered with {earlier['answer']['choice']!r} already; "
        "an answer is not changed",
    )


def _unknown(id: str, context: TaskContext) -> str:
    return (
        f"task {context.task_id!r} has no open question {id!r}: `surefoot questions "
        f"{context.task_id}` lists those that are open"
    )


def _parsed(question: Question, value: Json) -> JsonObject:
    try:
        return parse_answer(question, value)
    except UsageError as refused:
        raise Refused(refused.code, str(refused)) from None


# --- settling --------------------------------------------------------------------------------


def _settle(
    question: Question,
    parsed: JsonObject,
    given: Given,
    state: TaskState,
    context: TaskContext,
    change: Change,
) -> None:
    """The question is closed and the answer kept, told and remembered for models."""
    _remove(question, state, change)
    change.answers[question["id"]] = _kept(question, parsed, given)
    words = answer_words(question, parsed, context.task_id)
    change.decisions.append(
        Decision(at=context.clock(), kind="answer", subtask=question["subtask"], reason=words)
    )
    _tell(question, parsed, given, words, context)


def _kept(question: Question, parsed: JsonObject, given: Given) -> JsonObject:
    """What the state remembers: the answer, and what it takes to compare it with another one."""
    about: JsonObject = {"id": question["id"], "kind": question["kind"]}
    about["choices"] = question.get("choices")
    return {"question": about, "answer": parsed, "by": given.by}


def _tell(
    question: Question, parsed: JsonObject, given: Given, words: str, context: TaskContext
) -> None:
    now = context.clock()
    close(question, context, answer=parsed, answered_at=now, answered_by=given.by)
    context.journal.event(
        "QuestionAnswered",
        subtask=question["subtask"],
        question=question["id"],
        by=given.by,
        answer=parsed,
        reason=words,
    )


def _remove(question: Question, state: TaskState, change: Change) -> None:
    left = [q for q in open_questions(state, change) if q["id"] != question["id"]]
    change.questions = left


# --- applying --------------------------------------------------------------------------------


def _apply(
    question: Question,
    parsed: JsonObject,
    given: Given,
    state: TaskState,
    context: TaskContext,
    seen: Views,
    change: Change,
) -> None:
    match question["kind"]:
        case "undo_failed" if (question.get("facts") or {}).get("back"):
            pass  # the rollback node reads it among the answers
        case "unknown_effect" | "approve" | "other_effect" | "undo_failed":
            if (question.get("facts") or {}).get("back"):
                return  # the way back that it holds up reads it
            _take_up(question, parsed, state, context, seen, change)
        case "check" | "verdict" if question["subtask"] is not None:
            _decide_attempt(question, parsed, given, state, context, seen, change)
        case "check" | "verdict":
            _decide_judging(question, parsed, given, state, context, change)
        case "ask":
            _move_on_ladder(question, parsed, given, state, context, seen, change)
        case "milestone":
            _after_milestone(question, parsed, given, state, context, change)
        case "inconsistent_state":
            pass  # `load` reads it when the task goes on: nothing runs before that


def _held_record(question: Question, state: TaskState, change: Change) -> tuple[str, Record]:
    """The subtask that a question holds back, and its record without the question."""
    id = question["subtask"] or ""
    record = change.record(id, state)
    record.pop("question", None)
    return id, record


def _take_up(
    question: Question,
    parsed: JsonObject,
    state: TaskState,
    context: TaskContext,
    seen: Views,
    change: Change,
) -> None:
    """The attempt goes on with the answer: what it does with that is said where calls are made."""
    id, record = _held_record(question, state, change)
    if record.get("state") == "running":
        raise NotYet  # it is being looked at once more: perhaps nothing is left to be answered
    record["said"] = {**record.get("said", {}), question["id"]: parsed}
    change.put(id, record, context, seen)


def _decide_attempt(
    question: Question,
    parsed: JsonObject,
    given: Given,
    state: TaskState,
    context: TaskContext,
    seen: Views,
    change: Change,
) -> None:
    """A kept result is accepted, or its attempt has failed; or the next check is asked about."""
    id, record = _held_record(question, state, change)
    held = record.pop("held", None)
    if held is None:
        raise Refused("wrong_state", f"nothing of subtask {context.full(id)!r} is kept to judge")
    n = int((question.get("facts") or {}).get("n", 0))
    before = cast("list[JsonObject]", held.get("checks") or [])
    checks = decided(before, n, parsed, by=given.by)
    outcome = cast("Outcome", {**held, "calls": 0, "checks": checks})
    following = None if parsed["choice"] == "fail" else next_question(checks)
    if following is not None:
        _ask_next(question, following, record, outcome, state, context, seen, change)
        return
    if parsed["choice"] == "pass":
        outcome["ok"] = True
        _settle_attempt(id, record, outcome, context, seen, change)
        return
    why = f"{checks[n].get('id') or checks[n]['type']}: {checks[n]['why']}"
    failure = Failure(kind="check_failed", message=why, retryable=True)
    outcome["failure"] = failure
    if outcome["action"] not in ("attempt", "improve"):
        _settle_attempt(id, record, outcome, context, seen, change)
        return
    # What it did has to be taken back before it has failed: its next order does that.
    record["undoing"], record["cut"] = failure, True
    change.put(id, record, context, seen)


def _settle_attempt(
    id: str,
    record: Record,
    outcome: Outcome,
    context: TaskContext,
    seen: Views,
    change: Change,
) -> None:
    """The outcome goes the way of any other: it is accepted, or it has failed."""
    if outcome["action"] != "improve":
        record["state"] = "running"
    change.put(id, record, context, seen)
    change.finished.append(outcome)


def _ask_next(
    before: Question,
    asked: Question,
    record: Record,
    outcome: Outcome,
    state: TaskState,
    context: TaskContext,
    seen: Views,
    change: Change,
) -> None:
    """Put the next check of the same attempt to people."""
    id = before["subtask"] or ""
    stem = before["id"].rpartition(".")[0] if (before.get("facts") or {}).get("n") else before["id"]
    n = (asked.get("facts") or {}).get("n", 0)
    question = opened({**asked, "id": f"{stem}.{n}", "subtask": id}, context)
    record["question"] = question["id"]
    record["held"] = cast("JsonObject", outcome)
    change.put(id, record, context, seen)
    change.questions = [*open_questions(state, change), question]


def _decide_judging(
    question: Question,
    parsed: JsonObject,
    given: Given,
    state: TaskState,
    context: TaskContext,
    change: Change,
) -> None:
    """A milestone (or the acceptance) is judged on with what a person says of one check."""
    judging = change.judging or state.get("judging")
    if judging is None:
        return  # it was taken back meanwhile, and will be judged anew
    facts = question.get("facts") or {}
    verdicts = decided(judging["verdicts"], facts.get("n", 0), parsed, by=given.by)
    change.judging = {**judging, "verdicts": verdicts}
    if parsed["choice"] == "pass":
        answers = {**_answers(state, change), question["id"]: {}}
        following = next_asked(judging["milestone"], verdicts, answers, context)
        if following is not None:
            change.questions = [*open_questions(state, change), following]


def _move_on_ladder(
    question: Question,
    parsed: JsonObject,
    given: Given,
    state: TaskState,
    context: TaskContext,
    seen: Views,
    change: Change,
) -> None:
    """After an `ask` rung: once more in full, left out, or given up."""
    id, record = _held_record(question, state, change)
    unit, said = seen.index.unit(id), f"{given.by} said {parsed['choice']}"
    reason = f"{said}: {parsed['reason']}" if parsed.get("reason") else said
    record.pop("cut", None)
    match parsed["choice"]:
        case "retry":
            if rung_work(unit, record.get("rung", 0)) is None:
                record["rung"] = 0
            record.pop("not_before", None)
            hint = parsed.get("hint") or parsed.get("reason")
            if hint:
                before = record.get("criticism", "")
                record["criticism"] = f"{before}\n\nA person says: {hint}".strip()
        case "skip":
            record["state"], record["reason"] = "skipped", reason
            context.journal.event("SubtaskSkipped", subtask=id, reason=reason, by=given.by)
        case _:
            _fail(id, record, reason, state, context, change)
    change.put(id, record, context, seen)


def _fail(
    id: str, record: Record, reason: str, state: TaskState, context: TaskContext, change: Change
) -> None:
    found = Reflection(ending=change.ending or state.get("ending"))
    kind, message = "given_up", reason
    before = record.get("failure")
    if before:
        kind, message = before["kind"], f"{before['message']}; {reason}"
    give_up(id, record, Failure(kind=kind, message=message, retryable=False), state, context, found)
    change.ending = change.ending or found.ending


def _after_milestone(
    question: Question,
    parsed: JsonObject,
    given: Given,
    state: TaskState,
    context: TaskContext,
    change: Change,
) -> None:
    """After a milestone that did not hold: judged again (it is still due), or what was said."""
    facts = question.get("facts") or {}
    why = f"milestone {facts.get('milestone')!r} failed: {facts.get('why')}"
    said = f"; {given.by}: {parsed['reason']}" if parsed.get("reason") else ""
    match parsed["choice"]:
        case "rollback":
            back = Back(by="person", reason=f"{why}{said}")
            if parsed.get("milestone"):
                _check_passed(str(parsed["milestone"]), state)
                back["milestone"] = str(parsed["milestone"])
            change.back = back
        case "replan":
            require = {"require": parsed["require"]} if parsed.get("require") else {}
            change.replan = wish("person", f"{why}{said}", ending=None, **require)
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
