"""From a model's text to exactly one JSON value of the schema, or the faults in words. Pure.

Removed are a BOM, think tags, fences and prose around the value; inside it nothing is changed. Two
values, a broken one where no whole one follows, or half of one are faults: nothing is guessed.
"""

import json
import math
import re
from functools import lru_cache
from typing import Any, NoReturn, cast

from jsonschema.exceptions import ValidationError
from jsonschema.validators import Draft202012Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from surefoot.graph.plain import NotJson, TooLarge, clean_json, clean_text
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.values import Json, JsonObject

SHOWN_FAULTS = 12
SHOWN_CHARS = 240
MOST_TRIES = 100
"""So many places are tried where a value might begin; a text with more of them is no answer."""

LONGEST_CHARS = 4_000_000

_START = re.compile(r"[{\[]|<(?P<tag>think|thinking|reasoning)>|(?P<fence>```)")
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[{}\[\]]|```', re.DOTALL)
_LIST_OF_OBJECTS = re.compile(r"\[\s*+[{\[]")
_THOUGHT = re.compile(r"<(?P<tag>think|thinking|reasoning)>")
_LEFT_OPEN = re.compile(r"</(?:think|thinking|reasoning)>")


class Unreadable(ValueError):
    """The text is not exactly one JSON value; the message says why in words a model can act on."""


def parse_answer(text: str, schema: JsonObject | None = None) -> tuple[Json, list[str]]:
    """The one JSON value in a text, and what is wrong with it.

    Args:
        text: what the model said.
        schema: JSON Schema that it must fit; None: any object will do.

    Returns:
        (value, []) where it is usable, (None, faults) otherwise. NUL and lone surrogates in texts
        are made visible (`plain.clean_text`); all else is exactly as the model wrote it.
    """
    try:
        value = one_value(text)
    except Unreadable as wrong:
        return None, [str(wrong)]
    if schema is None:
        return (value, []) if is_object(value) else (None, [f"an object is needed, not {value!r}"])
    faults = mismatches(schema, value)
    return (None, faults) if faults else (value, [])


def one_value(text: str) -> Json:
    """The one JSON value in a text.

    Raises:
        Unreadable: there is none, more than one, or half of one.
    """
    if len(text) > LONGEST_CHARS:
        raise Unreadable(f"the answer has {len(text)} characters: at most {LONGEST_CHARS} are read")
    if not text.strip():
        raise Unreadable("the answer is empty: give one JSON object")
    found = _Finder(text).find()
    try:
        return clean_json(found)[0]
    except (NotJson, TooLarge) as wrong:
        raise Unreadable(f"the JSON cannot be kept: {wrong}") from None


def without_thoughts(text: str) -> str:
    """A text for people and histories: leading think tags removed, NUL and surrogates visible."""
    left = text.lstrip("\ufeff \t\r\n")
    while (opening := _THOUGHT.match(left)) is not None:
        end = left.find(f"</{opening['tag']}>")
        if end < 0:
            return ""
        left = left[end + len(opening["tag"]) + 3 :].lstrip()
    return clean_text(left.strip())


def mismatches(schema: JsonObject, value: Json) -> list[str]:
    """Every way in which a value does not fit, each with its place; empty when it fits."""
    found: list[str] = []
    try:
        for error in _validator(json.dumps(schema)).iter_errors(value):
            if len(found) == SHOWN_FAULTS:
                return [*found, "and more"]
            found.append(f"{_place(error)}: {_cut(error.message)}")
    except (Unresolvable, re.error, RecursionError, ValueError) as wrong:
        return [f"the schema cannot be applied: {_cut(str(wrong))}"]
    return found


@lru_cache(maxsize=64)
def _validator(schema: str) -> Any:
    kind = cast("Any", Draft202012Validator)
    return kind(json.loads(schema), registry=cast("Any", Registry)())


def _place(error: ValidationError) -> str:
    path = error.absolute_path
    return "$" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)


def _cut(text: str) -> str:
    if len(text) <= SHOWN_CHARS:
        return text
    # What is wrong stands at the end of jsonschema's messages, the value at their beginning.
    return f"{text[:100]} ... {text[-(SHOWN_CHARS - 100) :]}"


class _Finder:
    """One pass over a text; every place is looked at a bounded number of times."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.fenced = False
        self.why = ""
        self.half = False
        self.tries = 0

    def find(self) -> Json:
        values: list[Json] = []
        at = self._after_left_open()
        while (match := _START.search(self.text, at)) is not None:
            if match["fence"]:
                self.fenced, at = not self.fenced, match.end()
            elif match["tag"]:
                at = self._after_thought(match)
            else:
                value, at = self._value(match.start())
                values += [] if value is None else [value]
            if len(values) > 1:
                raise Unreadable("there are several JSON values: give exactly one")
        if self.half:
            raise Unreadable(
                "the JSON breaks off before its end: give all of it, shorter if need be"
            )
        if not values:
            raise Unreadable(self.why or "there is no JSON object in the answer: give exactly one")
        return values[0]

    def _after_left_open(self) -> int:
        """Where a thought ends whose opening tag the server kept for itself."""
        closing = _LEFT_OPEN.search(self.text)
        if closing is None or self.text.lstrip("\ufeff \t\r\n").startswith(("{", "[", "```")):
            return 0
        before = _START.search(self.text)
        opened = re.search(r"<(?:think|thinking|reasoning)>", self.text[: closing.start()])
        return 0 if opened or before is None else closing.end()

    def _after_thought(self, opening: re.Match[str]) -> int:
        end = self.text.find(f"</{opening['tag']}>", opening.end())
        if end < 0:
            raise Unreadable(f"<{opening['tag']}> is not closed: give the JSON after the thinking")
        return end

    def _value(self, start: int) -> tuple[Json, int]:
        """The value that begins here (None: it is none) and where to go on."""
        self.tries += 1
        if self.tries > MOST_TRIES:
            raise Unreadable("there is too much broken JSON in the answer: give exactly one object")
        try:
            value, end = _decoder.raw_decode(self.text, start)
        except RecursionError:
            raise Unreadable("the JSON is nested too deeply") from None
        except ValueError as wrong:
            return None, self._after_broken(start, wrong)
        if is_array(value) and not any(is_object(one) or is_array(one) for one in value):
            return None, end  # a footnote mark or the like
        return value, end

    def _after_broken(self, start: int, wrong: ValueError) -> int:
        """Behind a value that cannot be read; nothing inside it is taken for an answer."""
        if self.text[start] == "[" and not _LIST_OF_OBJECTS.match(self.text, start):
            return start + 1  # prose
        said = _said(wrong)
        self.why = self.why or f"the JSON cannot be read: {said}"
        depth = 0
        for match in _BRACKETS.finditer(self.text, start):
            sign = match[0]
            depth += sign in ("{", "[")
            depth -= sign in ("}", "]")
            if depth == 0 or (sign == "```" and self.fenced):
                return match.start() if sign == "```" else match.end()
        self.half = True
        return len(self.text)


def _said(wrong: ValueError) -> str:
    if isinstance(wrong, json.JSONDecodeError):
        return f"{wrong.msg} at character {wrong.pos}: {wrong.doc[max(0, wrong.pos - 20) :][:60]!r}"
    return str(wrong)[:SHOWN_CHARS]


def _pairs(pairs: list[tuple[str, Json]]) -> JsonObject:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is given twice in one object")
    return value


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number that can be kept")
    return number


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON: give a number or null")


_decoder = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=_float, parse_constant=_no_constant
)
