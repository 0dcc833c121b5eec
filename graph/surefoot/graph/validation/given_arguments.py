"""Arguments that a person gives for one subtask while its task exists: what is wrong with them.

Apart from the task they stand in: what `${...}` would mean is not known here, only that it may.
"""

import re
from collections.abc import Collection

from jsonschema.exceptions import SchemaError
from referencing.exceptions import Unresolvable

from surefoot.graph.errors import ReferenceMissing
from surefoot.graph.ports import ToolSpec
from surefoot.graph.references import (
    find_references,
    reference_faults,
    resolve,
    sole_reference,
)
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.validation.arguments import foreign_names, said_of
from surefoot.graph.validation.partial_values import Unknown, partial_validator
from surefoot.graph.values import Json, JsonObject

MOST = 5


def argument_faults(spec: ToolSpec, args: JsonObject, seen: Collection[str]) -> list[str]:
    """What is wrong with arguments, one phrase each; at most `MOST`.

    Args:
        spec: of the tool.
        args: as given, `${...}` included.
        seen: the heads that references may have here: what it depends on, `inputs`, `item` ...
    """
    faults = list(reference_faults(args))
    heads = dict.fromkeys(reference.head for reference in find_references(args))
    faults += [f"${{{head}}} is nothing that it depends on" for head in heads if head not in seen]
    faults += foreign_names(spec.schema, args)
    try:
        errors = partial_validator(spec.schema).iter_errors(_with_unknowns(args))
        faults += [said_of(error) for _, error in zip(range(MOST), errors, strict=False)]
    except (Unresolvable, SchemaError, re.error, RecursionError, TypeError, ValueError):
        pass  # a schema that cannot be used judges nothing, here as in a plan
    return faults[:MOST]


def _with_unknowns(value: Json) -> Json:
    """The value with what is looked up later as `Unknown`."""
    if isinstance(value, str):
        return _text(value) if "${" in value else value
    if is_object(value):
        return {key: _with_unknowns(inner) for key, inner in value.items()}
    if is_array(value):
        return [_with_unknowns(inner) for inner in value]
    return value


def _text(text: str) -> Json:
    alone = sole_reference(text)
    if alone is not None:
        return Unknown(alone.text)
    try:
        return resolve(text, _not_known)
    except ReferenceMissing:
        return Unknown(text, frozenset(["string"]), inline=True)


def _not_known(reference: object) -> Json:
    raise ReferenceMissing(str(reference), "is not known yet")
