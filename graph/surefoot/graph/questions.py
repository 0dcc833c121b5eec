"""Questions to people: what may be answered to each kind, in which words, and what it means.

An answer is normalised to `{"choice": WORD}` with what belongs to it (`reason`, `result`, `hint`,
`milestone`, `require`); that is what is stored, compared and applied. Pure.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from surefoot.graph.errors import UsageError
from surefoot.graph.plain import clean_json, compact_json
from surefoot.graph.shapes import is_object
from surefoot.graph.values import Json, JsonObject, Question, QuestionKind

SHOWN_VALUE = 120
"""Characters of a refused answer that are said back."""

_YES = "yes y true ok okay approve approved pass passed accept accepted agree agreed good right"
_NO = "no n false reject rejected fail failed refuse refused deny denied decline declined bad wrong"
_DONE = "done yes y true happened it_happened did it_did sent succeeded ok pass"
_NOT_DONE = "not_done no n false not_happened did_not it_did_not didn't undone not_sent"
_GIVE_UP = "give_up giveup failed stop abort abandon"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """What may be answered to one kind of question.

    Attributes:
        choices: the words, the first that fits best.
        means: what each may be called as well.
        plain: the words that true and false stand for, () where they stand for none.
        extra: by choice, the field that says more (besides `reason`) and its JSON Schema.
    """

    choices: tuple[str, ...]
    means: Mapping[str, str] = field(default_factory=dict[str, str])
    plain: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, JsonObject]] = field(
        default_factory=dict[str, tuple[str, JsonObject]]
    )


_TEXT: JsonObject = {"type": "string"}
_PASS = _Form(
    choices=("pass", "fail"),
    means={"pass": f"{_YES} done", "fail": f"{_NO} not_done"},
    plain=("pass", "fail"),
)
_FORMS: Mapping[QuestionKind, _Form] = {
    "unknown_effect": _Form(
        choices=("done", "not_done", "fail"),
        means={"done": _DONE, "not_done": _NOT_DONE, "fail": _GIVE_UP},
        plain=("done", "not_done"),
        extra={"done": ("result", {})},
    ),
    "approve": _Form(
        choices=("yes", "no"),
        means={"yes": f"{_YES} done", "no": f"{_NO} not_done"},
        plain=("yes", "no"),
    ),
    "check": _PASS,
    "verdict": _PASS,
    "ask": _Form(
        choices=("retry", "skip", "fail"),
        means={
            "retry": "again try_again once_more resume continue go_on done mended fixed yes ok",
            "skip": "skipped leave_out",
            "fail": "no stop abort give_up failed",
        },
        plain=("retry", "fail"),
        extra={"retry": ("hint", _TEXT)},
    ),
    "milestone": _Form(
        choices=("judge", "rollback", "replan", "fail"),
        means={
            "judge": "judge_again again retry recheck check check_again done mended fixed yes ok",
            "rollback": "roll_back back go_back",
            "replan": "plan_again new_plan",
            "fail": "no stop abort give_up failed",
        },
        plain=("judge", "fail"),
        extra={"rollback": ("milestone", _TEXT), "replan": ("require", _TEXT)},
    ),
    "inconsistent_state": _Form(
        choices=("recheck", "restore", "accept", "redo"),
        means={
            "recheck": "check check_again again retry done mended fixed",
            "restore": "put_back roll_back rollback back",
            "accept": "accepted ok go_on continue",
            "redo": "do_again rerun make_again",
        },
    ),
    "other_effect": _Form(
        choices=("do", "reuse", "fail"),
        means={
            "do": "make make_it again do_it new yes",
            "reuse": "use keep same the_same old",
            "fail": f"{_GIVE_UP} no",
        },
    ),
    "undo_failed": _Form(
        choices=("undone", "retry"),
        means={"undone": "done cleared yes", "retry": "again try_again once_more mended fixed"},
    ),
}

_NAMED = ("choice", "answer", "decision", "verdict")
"""Under these names a mapping says its choice, whatever is asked."""

_PLAIN_NAMES = ("result", "pass", "passed", "approve", "approved", "ok", "done", "happened")
"""Under these as well, where true or false could be answered and the name means nothing else."""


class AnswerRefused(UsageError):
    """An answer that its question cannot take; the text says what is possible."""

    def __init__(self, question: Question, value: Json) -> None:
        self.question = question
        said = compact_json(clean_json(value)[0])
        shown = said if len(said) <= SHOWN_VALUE else f"{said[:SHOWN_VALUE]}..."
        possible = possible_answers(question)
        super().__init__(
            "bad_answer", f"question {question['id']!r} cannot take {shown}: answer {possible}"
        )


# --- asking ----------------------------------------------------------------------------------


def question_id(kind: QuestionKind, name: str, number: int, *, about: str = "") -> str:
    """The id of a question: the same whenever the same attempt (or judgement) asks the same.

    Args:
        kind: what kind it is.
        name: full id of what it is about.
        number: which attempt or judgement, counted so that one that was cut counts not.
        about: what tells several questions of one attempt apart.
    """
    # A dot is in no id: `a-b` and `a/b` ask questions of their own.
    told_apart = f".{about}" if about else ""
    return f"{kind}-{name.replace('/', '.')}-{number}{told_apart}"


def completed(
    question: Question, task_id: str, *, choices: Sequence[str] | None = None
) -> Question:
    """A question with everything that a person and a program need to answer it.

    Args:
        question: with its id, kind and what is unknown.
        task_id: of the task, for the command in the text.
        choices: those of its kind that are possible here; absent: the question's own, else all.
    """
    form = _FORMS[question["kind"]]
    wanted = choices or question.get("choices") or form.choices
    possible = [word for word in form.choices if word in wanted] or list(form.choices)
    whole = Question(**question)
    whole["choices"] = possible
    whole["schema"] = _schema(question["kind"], possible)
    whole["text"] = f"{question['text']} {how_to_answer(whole, task_id)}"
    return whole


def how_to_answer(question: Question, task_id: str) -> str:
    """The command that answers a question, with the possible values."""
    words = _words(question)
    command = f"`surefoot answer {task_id} {question['id']} {words[0]}`"
    others = f" (or {_listed(words[1:])})" if words[1:] else ""
    return f"Answer with {command}{others}."


def possible_answers(question: Question) -> str:
    """What may be answered, in words."""
    extra = _FORMS[question["kind"]].extra
    said: list[str] = []
    for word in _words(question):
        more = extra.get(word)
        said.append(f"{word} (or {word}: {more[0].upper()})" if more else word)
    return f"{_listed(said)}; a reason may follow a colon or stand in {{'choice', 'reason'}}"


def _words(question: Question) -> list[str]:
    return list(question.get("choices") or _FORMS[question["kind"]].choices)


def _listed(words: Sequence[str]) -> str:
    return " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]


def _schema(kind: QuestionKind, choices: Sequence[str]) -> JsonObject:
    form = _FORMS[kind]
    properties: JsonObject = {"choice": {"enum": list(choices)}, "reason": _TEXT}
    properties |= {name: schema for word, (name, schema) in form.extra.items() if word in choices}
    mapping: JsonObject = {
        "type": "object",
        "properties": properties,
        "required": ["choice"],
        "additionalProperties": False,
    }
    plain: list[JsonObject] = [{"type": "boolean"}] if form.plain else []
    return {"anyOf": [{"enum": list(choices)}, *plain, mapping]}


# --- answering -------------------------------------------------------------------------------


def parse_answer(question: Question, value: Json) -> JsonObject:
    """What an answer means, normalised.

    Args:
        question: what was asked.
        value: a word of its choices or a synonym, `WORD: REASON`, true or false where that is
            clear, or a mapping with `choice` and what belongs to it.

    Raises:
        AnswerRefused: it is none of these.
    """
    if isinstance(value, bool):
        found = _plain(question, value=value)
        parsed = {"choice": found} if found else None
    elif isinstance(value, str):
        parsed = _from_text(question, value)
    else:
        parsed = _from_mapping(question, value) if is_object(value) else None
    if parsed is None:
        raise AnswerRefused(question, value)
    return clean_json(parsed)[0]


def _plain(question: Question, *, value: bool) -> str | None:
    meant = _FORMS[question["kind"]].plain
    word = (meant[0] if value else meant[1]) if meant else None
    return word if word in _words(question) else None


def _from_text(question: Question, text: str) -> JsonObject | None:
    word = _choice(question, text)
    if word is not None:
        return {"choice": word}
    head, colon, rest = text.partition(":")
    word = _choice(question, head) if colon else None
    if word is None or not rest.strip():
        return None
    return _with_more(question, word, rest.strip())


def _with_more(question: Question, word: str, text: str) -> JsonObject:
    """A word and what stood behind its colon: its own further field, else the reason."""
    name, schema = _FORMS[question["kind"]].extra.get(word, ("reason", _TEXT))
    return {"choice": word, name: text if schema else _json_or_text(text)}


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _choice(question: Question, said: Json) -> str | None:
    """The choice that a word (or true, false) stands for; None where it stands for none here."""
    if isinstance(said, bool):
        return _plain(question, value=said)
    if not isinstance(said, str):
        return None
    word = "_".join(said.strip().casefold().replace("-", " ").split())
    choices = _words(question)
    if word in choices:
        return word
    means = _FORMS[question["kind"]].means
    return next((c for c in choices if word in means.get(c, "").split()), None)


def _from_mapping(question: Question, given: JsonObject) -> JsonObject | None:
    form, fields = _FORMS[question["kind"]], dict(given)
    word = _taken_choice(question, fields)
    if word is None:
        return None
    name, schema = form.extra.get(word, ("", _TEXT))
    parsed: JsonObject = {"choice": word}
    for key, value in fields.items():
        known = key == "reason" or (name and key == name)
        if not known or ((schema or key == "reason") and not isinstance(value, str)):
            return None
        parsed[key] = value
    return parsed


def _taken_choice(question: Question, fields: JsonObject) -> str | None:
    """The choice of a mapping, its key taken out; what stands for it stays as a field."""
    form = _FORMS[question["kind"]]
    own = {name for name, _ in form.extra.values()}
    names = [*_NAMED, *(n for n in _PLAIN_NAMES if form.plain and n not in own)]
    for name in names:
        if name in fields and (name in _NAMED or _choice(question, fields[name]) is not None):
            return _choice(question, fields.pop(name))
    for word in _words(question):
        extra = form.extra.get(word, ("reason", _TEXT))[0]
        said_plainly = word in _PLAIN_NAMES and word not in form.extra
        if word in fields and not said_plainly:  # {"retry": "use the other file"}
            fields[extra] = fields.pop(word)
            return word
    for word, (name, _) in form.extra.items():
        if name in fields and word in _words(question):  # {"result": ...} alone: it is done
            return word
    return None


def answer_words(question: Question, answer: JsonObject, task_id: str) -> str:
    """A question and its answer as one text for the decision record and the history, verbatim."""
    asked = question["text"].removesuffix(how_to_answer(question, task_id)).strip()
    more = "; ".join(
        f"{name}: {value if isinstance(value, str) else compact_json(value)}"
        for name, value in answer.items()
        if name != "choice"
    )
    return f"{asked} -> {answer['choice']}{f' ({more})' if more else ''}"


def _check_text(check: JsonObject) -> str:
    """What a person is asked about one check: the question, and what it is to be judged on.

    Args:
        check: the evidence of it, with `shown` (texts) where something is to be looked at.
    """
    if check["type"] == "person":
        asked = str(check["question"])
    else:
        asked = f"A judge is not sure whether this holds: {check.get('rubric')} ({check['why']})"
    shown = "\n".join(f"- {text}" for text in check.get("shown") or ())
    return f"{asked}\nTo be judged on:\n{shown}\n" if shown else asked


def next_question(checks: Sequence[JsonObject]) -> Question | None:
    """The question about the first check that is left to people; its id and subtask are missing.

    A judge's doubts come before what was people's from the start.
    """
    order = sorted(range(len(checks)), key=lambda n: (checks[n]["type"] == "person", n))
    for n in order:
        if checks[n].get("undecided"):
            kind = "check" if checks[n]["type"] == "person" else "verdict"
            return Question(
                id="", subtask=None, kind=kind, text=_check_text(checks[n]), facts={"n": n}
            )
    return None


def decided(
    checks: Sequence[JsonObject], n: int, answer: JsonObject, *, by: str
) -> list[JsonObject]:
    """The evidence with what a person said of the n-th check."""
    ok = answer["choice"] == "pass"
    why = f"{by} says that it {'holds' if ok else 'does not hold'}"
    if answer.get("reason"):
        why = f"{why}: {answer['reason']}"
    said = {k: v for k, v in checks[n].items() if k not in ("undecided", "shown")}
    return [*checks[:n], {**said, "ok": ok, "why": why, "by": by}, *checks[n + 1 :]]
