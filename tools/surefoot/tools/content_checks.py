"""What can be asked of a piece of text or JSON: does it hold a pattern, does it fit a schema.

Pure. A pattern or schema written by others can be made to run for hours while holding the
interpreter, so whatever is not plainly cheap runs in a killable child (`in_child`).
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Protocol, cast

from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.values import Json, JsonObject

CHEAP_CHARS = 64 * 1024
"""Longer texts are never looked through in the loop's own thread."""

IN_CHILD = "surefoot.tools.content_checks:in_child"
"""How a tool host is asked to run `in_child`."""

SHOWN_MISMATCHES = 20
SHOWN_CHARS = 240

_NAMING = frozenset({"title", "description", "default", "examples"})
_FLAT_KEYWORDS = _NAMING | {"type", "properties", "required", "additionalProperties"}
_PLAIN_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}
_REPETITION = re.compile(r"[*+?{]")
_COSTLY_KEYWORDS = frozenset({"pattern", "patternProperties", "$ref", "$dynamicRef", "uniqueItems"})


class SchemaValidator(Protocol):
    """What is used of a compiled JSON Schema."""

    def iter_errors(self, instance: Json) -> Iterator[Any]:
        """Every mismatch, as jsonschema's `ValidationError`."""
        ...


class FlatSchema:
    """A shortcut for the common case: named arguments of plain types, nothing else asked.

    It only ever says "fits"; whatever it cannot vouch for is for the full validator, which costs
    twenty times as much and stands in the way of every call.
    """

    def __init__(self, schema: JsonObject | bool) -> None:
        self.types: dict[str, tuple[type, ...]] = {}
        self.required: frozenset[str] = frozenset()
        self.usable = is_object(schema) and self._read(schema)

    def fits(self, value: Json) -> bool:
        """True where the value surely fits the schema."""
        if not self.usable or not is_object(value) or not self.required <= value.keys():
            return False
        types = self.types
        return all(key in types and type(one) in types[key] for key, one in value.items())

    def _read(self, schema: JsonObject) -> bool:
        if not schema.keys() <= _FLAT_KEYWORDS or schema.get("type") != "object":
            return False
        self.required = frozenset(schema.get("required", ()))
        for name, one in schema.get("properties", {}).items():
            if not is_object(one) or not one.keys() <= _NAMING | {"type"}:
                return False
            if one.get("type") not in _PLAIN_TYPES:
                return False
            self.types[name] = _PLAIN_TYPES[one["type"]]
        return True


def compile_schema(schema: JsonObject | bool) -> SchemaValidator:
    """A validator for a schema; references to other documents are never fetched.

    Raises:
        ValueError: the schema itself is wrong; the message says where.
    """
    kind = cast("Any", validator_for(schema, default=Draft202012Validator))
    try:
        kind.check_schema(schema)
    except SchemaError as wrong:
        raise ValueError(f"the schema is wrong at {_place(wrong)}: {_cut(wrong.message)}") from None
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None
    return cast("SchemaValidator", kind(schema, registry=cast("Any", Registry)()))


def mismatches(validator: SchemaValidator, value: Json) -> list[str]:
    """Every way in which a value does not fit, each with its place; empty when it fits."""
    found: list[str] = []
    try:
        for error in validator.iter_errors(value):
            if len(found) == SHOWN_MISMATCHES:
                return [*found, "and more"]
            found.append(f"{_place(error)}: {_cut(error.message)}")
    except Unresolvable as missing:
        return [f"the schema refers to {missing.ref!r}, which is not in it"]
    except (re.error, RecursionError, ValueError) as wrong:
        return [f"the schema cannot be applied: {_cut(str(wrong))}"]
    return found


def schema_fault(schema: JsonObject | bool, value: Json) -> str | None:
    """Why a value does not fit a schema, all mismatches in one text; None when it fits."""
    try:
        validator = compile_schema(schema)
    except ValueError as wrong:
        return str(wrong)
    return "; ".join(mismatches(validator, value)) or None


def pattern_fault(pattern: str, text: str) -> str | None:
    """Why nothing in a text matches a pattern (`re.search`); None when something does."""
    try:
        found = re.search(pattern, text)
    except (re.error, RecursionError, OverflowError) as wrong:
        return f"the pattern {pattern!r} is wrong: {wrong}"
    return None if found else f"nothing in it matches {pattern!r}"


def is_cheap_schema(schema: JsonObject | bool, size: int) -> bool:
    """Whether `size` characters of JSON may meet a schema in the loop's own thread."""
    return size <= CHEAP_CHARS and not _keywords_in(schema) & _COSTLY_KEYWORDS


def is_cheap_pattern(pattern: str, size: int) -> bool:
    """Whether a pattern may search `size` characters in the loop's own thread.

    Without repetition a search is linear in the text; any repetition can be made to explode.
    """
    return size <= CHEAP_CHARS and not _REPETITION.search(pattern)


def in_child(context: JsonObject) -> bool | str:
    """The entry for the tool host's child: `{text, pattern}` or `{text, json_schema}`."""
    if "pattern" in context:
        fault = pattern_fault(context["pattern"], context["text"])
    else:
        fault = schema_fault(context["json_schema"], json.loads(context["text"]))
    return True if fault is None else fault  # a text is a failure to the host, whatever it says


def same_json(one: Json, other: Json) -> bool:
    """Equality as JSON means it: 1 equals 1.0, but true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if is_object(one) and is_object(other):
        return one.keys() == other.keys() and all(same_json(v, other[k]) for k, v in one.items())
    if is_array(one) and is_array(other):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)


def _keywords_in(schema: JsonObject | bool) -> set[str]:
    found: set[str] = set()
    stack: list[Json] = [schema]
    while stack:
        top = stack.pop()
        if is_object(top):
            found |= top.keys()
            stack.extend(top.values())
        elif is_array(top):
            stack.extend(top)
    return found


def _place(error: Any) -> str:
    path = cast("ValidationError", error).absolute_path
    return "$" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."
