"""What an answer does: matched by its question's id alone, checked, stored, applied.

One way for the command and for the resume value of a host's interrupt. What is answered waits no
longer; it is done by whoever takes the subtask up next. An answer that was given is never changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from surefoot.graph.errors import UsageError
from surefoot.graph.plain import digest
from surefoot.graph.plan import rung_work
from surefoot.graph.ports import Command
from surefoot.graph.questions import answer_words, parse_answer
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
from surefoot.nodes.change import Change, Refused
from surefoot.nodes.context import TaskContext, Views
from surefoot.nodes.failing import Reflection, give_up
from surefoot.nodes.person_checks import decided, next_question
from surefoot.nodes.questions import close, inside_of, opened
from surefoot.nodes.wishes import wish


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An answer on its way.

    Attributes:
        question: the id.
        value: as it was given.
        by: who gave it.
        command: the command it came with, 0 for a host's.
        told: row and event were written by the plan around already.
    """

    question: str
    value: Json
    by: str
    command: int = 0
    told: bool = False


async def answer(
    command: Command, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> JsonObject:
    """The command `answer`: `{question, value}`."""
    given = Given(
        question=str(command.args.get("question") or ""),
        value=command.args.get("value"),
        by=command.by,
        command=command.id,
        told=bool(command.args.get("told")),
    )
    return apply_answer(given, state, context, seen, change)


def apply_answer(
    given: Given, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> JsonObject:
    """Apply one answer to `change`; the same answer once more changes nothing.

    Returns:
        `{question, answer}`: what was understood.

    Raises:
        Refused: no such question is open, the answer does not fit, or another one was given.
    """
    earlier = _answers(state, change).get(given.question)
    if earlier is not None:
        return _repeated(given, earlier)
    question = next((q for q in open_questions(state, change) if q["id"] == given.question), None)
    if question is None:
        raise Refused("unknown_question", _unknown(given.question, context))
    parsed = _parsed(question, given.value)
    if inside_of(question) is not None:
        _ride(question, parsed, given, state, context, seen, change)
        return {"question": question["id"], "answer": parsed}
    _apply(question, parsed, given, state, context, seen, change)
    _settle(question, parsed, given, state, context, change)
    return {"question": question["id"], "answer": parsed}


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
        return {"question": given.question, "answer": earlier["answer"]}
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
    if not given.told:
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


def _ride(
    question: Question,
    parsed: JsonObject,
    given: Given,
    state: TaskState,
    context: TaskContext,
    seen: Views,
    change: Change,
) -> None:
    """An answer for inside a group that does not run: it waits on the group's record."""
    group = inside_of(question) or ""
    record = change.record(group, state)
    # Ids tell commands apart that were applied; a host's answer has none of a command's.
    id = given.command or -int(digest(question["id"])[:8], 16)
    args: JsonObject = {"question": question["id"], "value": parsed, "told": True}
    args["subtask"] = question["subtask"]
    wish_inside: JsonObject = {"id": id, "name": "answer", "args": args, "by": given.by}
    record["wishes"] = [*record.get("wishes", ()), wish_inside]
    record.pop("question", None)
    change.put(group, record, context, seen)
    _remove(question, state, change)
    change.answers[question["id"]] = _kept(question, parsed, given)
    _tell(question, parsed, given, answer_words(question, parsed, context.task_id), context)


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
        case "unknown_effect" | "approve" | "other_effect" | "undo_failed":
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
    held: JsonObject | None = record.pop("held", None)
    if held is None:
        raise Refused("wrong_state", f"nothing of subtask {context.full(id)!r} is kept to judge")
    n = (question.get("facts") or {}).get("n", 0)
    outcome = cast("Outcome", {**held, "calls": 0})
    checks = outcome["checks"] = decided(outcome.get("checks") or [], n, parsed, by=given.by)
    asked = None if parsed["choice"] == "fail" else next_question(checks)
    if asked is not None:
        _ask_next(question, asked, record, outcome, state, context, seen, change)
        return
    outcome["ok"] = parsed["choice"] == "pass"
    if not outcome["ok"]:
        why = f"{checks[n].get('id') or checks[n]['type']}: {checks[n]['why']}"
        outcome["failure"] = Failure(kind="check_failed", message=why, retryable=True)
    if outcome["action"] != "improve":
        record["state"] = "running"
    record.pop("cut", None)
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
