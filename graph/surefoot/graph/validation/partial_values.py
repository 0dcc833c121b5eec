"""Judging arguments before their references are known.

`Unknown` stands for a value looked up later, of known types or none. The validator is JSON Schema
2020-12 that never blames what is unknown for what it might be, only for what it cannot be.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from referencing import Registry

from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.validation.result_types import Types, overlapping, type_of
from surefoot.graph.values import Json, JsonObject


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value looked up at run time; `types` None = it may be anything.

    `text` is a reference's own text, or where `inline` a whole text with references in it.
    """

    text: str
    types: Types | None = None
    inline: bool = False

    def __repr__(self) -> str:
        return repr(self.text) if self.inline else f"${{{self.text}}}"


Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]

_DESCENDING = frozenset(["$ref", "$dynamicRef", "allOf", "anyOf"])
"""Keywords that only lead to other schemas: they work for unknown values too."""

_COMPARING = frozenset(["enum", "const", "uniqueItems", "contains", "not", "if", "oneOf"])
"""Keywords that need to know a value through and through."""


def holds_unknown(value: Json) -> bool:
    """Whether something inside is unknown."""
    stack: list[Json] = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, Unknown):
            return True
        if is_object(top):
            stack.extend(top.values())
        elif is_array(top):
            stack.extend(top)
    return False


def _type_keyword(
    validator: Any, types: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    allowed = frozenset([types] if isinstance(types, str) else types)
    if not isinstance(instance, Unknown):
        yield from _ORIGINAL["type"](validator, types, instance, schema) or ()
    elif instance.types is not None and not overlapping(instance.types, allowed):
        kinds, wanted = " or ".join(sorted(instance.types)), " or ".join(sorted(allowed))
        if instance.inline:
            yield ValidationError(
                f"must be {wanted}, and {instance!r} is a text; a reference keeps its type only "
                "where it stands alone"
            )
        else:
            yield ValidationError(f"{instance!r} gives {kinds}, not {wanted}")


def _one_of(validator: Any, branches: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """For what is partly unknown several branches may hold: one is enough."""
    keyword = "anyOf" if holds_unknown(instance) else "oneOf"
    yield from _ORIGINAL[keyword](validator, branches, instance, schema) or ()


def _values_keyword(name: str) -> Keyword:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if not isinstance(instance, Unknown) or instance.types is None:
            if not holds_unknown(instance):
                yield from _ORIGINAL[name](validator, value, instance, schema) or ()
            return
        values: list[Json] = [value] if name == "const" else list(value)
        if not overlapping(frozenset(type_of(one) for one in values), instance.types):
            yield ValidationError(f"{instance!r} can be none of {values!r}")

    return check


def _tolerant(name: str, original: Keyword) -> Keyword:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if isinstance(instance, Unknown) or (name in _COMPARING and holds_unknown(instance)):
            return
        yield from original(validator, value, instance, schema) or ()

    return check


_ORIGINAL = cast("Mapping[str, Keyword]", Draft202012Validator.VALIDATORS)

_KEYWORDS: dict[str, Keyword] = {
    **{name: _tolerant(name, fn) for name, fn in _ORIGINAL.items() if name not in _DESCENDING},
    "type": _type_keyword,
    "oneOf": _one_of,
    "enum": _values_keyword("enum"),
    "const": _values_keyword("const"),
}

_extend = cast("Callable[..., Callable[..., Validator]]", getattr(validators, "extend"))  # noqa: B009 - untyped
_NOTHING_REMOTE = cast("Callable[[], object]", Registry)()


def partial_validator(schema: JsonObject) -> Validator:
    """A validator that lets the unknown pass, and never fetches a schema from anywhere."""
    return _CLASS(schema, registry=_NOTHING_REMOTE)


_CLASS = _extend(Draft202012Validator, _KEYWORDS)
