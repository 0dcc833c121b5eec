"""Arguments of tool calls against the tools' own schemas, and tools that do not exist."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from referencing.exceptions import Unresolvable

from surefoot.graph.errors import ReferenceMissing
from surefoot.graph.plan import Work
from surefoot.graph.ports import ToolSpec
from surefoot.graph.references import (
    Reference,
    dig,
    find_references,
    reference_faults,
    resolve,
    sole_reference,
)
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.validation.outline import Case, Node, Scope
from surefoot.graph.validation.partial_values import Unknown, partial_validator
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.result_types import (
    Types,
    item_types,
    overlapping,
    type_of,
    types_of,
)
from surefoot.graph.validation.wording import did_you_mean, listed, short
from surefoot.graph.values import Json, JsonObject

FINISH = "finish"
"""What every agent may call to end: always there, never a tool of the user's."""

_MOST_PER_CALL = 10


def check_arguments(case: Case, findings: Findings) -> None:
    """Note `unknown_tool` and `bad_arguments`, rungs and `undo` included."""
    judge = _Judge(case, findings)
    for node in case.nodes:
        for where, work in node.works():
            judge.check_work(node, where, work)
        if node.unit.kind == "foreach":
            judge.check_list(node)


@dataclass(eq=False, slots=True)
class _Judge:
    case: Case
    findings: Findings
    _validators: dict[str, Validator] = field(default_factory=dict[str, Validator])

    def check_work(self, node: Node, where: str, work: Work) -> None:
        """Check the calls that one work states."""
        if work.kind == "tool" and work.tool:
            self._call(node, f"{where}.args".lstrip("."), work.tool, work.args)
        if work.undo is not None:
            self._call(node, f"{where}.undo.args".lstrip("."), work.undo.tool, work.undo.args)
        if work.kind == "agent":
            for name in work.tools or []:
                if name != FINISH:
                    self._spec(node, name)

    def check_list(self, node: Node) -> None:
        """A foreach's list, where something is known of it."""
        reference = sole_reference(node.unit.for_each)
        value = substituted(self.case, node, node.unit.for_each)
        types = value.types if isinstance(value, Unknown) else frozenset([type_of(value)])
        if reference is not None and types is not None and not overlapping(types, _ARRAY):
            self.findings.fault(
                "bad_arguments",
                f"subtask {node.id!r}: for_each needs a list, but ${{{reference.text}}} gives "
                f"{' or '.join(sorted(types))}",
                [node.id],
            )

    def _spec(self, node: Node, name: str) -> ToolSpec | None:
        spec = self.case.tools.get(name)
        if spec is None:
            hint = did_you_mean(name, self.case.tools)
            known = sorted(self.case.tools)
            hint = hint or (f"; there are {listed(known, most=20)}" if known else "")
            self.findings.fault(
                "unknown_tool",
                f"subtask {node.id!r} uses the tool {name!r}, which does not exist{hint}",
                [node.id],
            )
        return spec

    def _call(self, node: Node, where: str, tool: str, args: JsonObject) -> None:
        spec = self._spec(node, tool)
        if spec is None:
            return
        place = f"each.{where}" if node.in_each else where
        for problem in self._problems(spec, substituted(self.case, node, args)):
            self.findings.fault(
                "bad_arguments",
                f"subtask {node.id!r}, {place} for {tool!r}: {problem}",
                [node.id],
            )

    def _problems(self, spec: ToolSpec, args: JsonObject) -> Iterator[str]:
        yield from foreign_names(spec.schema, args)
        validator = self._validators.get(spec.name)
        if validator is None:
            validator = self._validators[spec.name] = partial_validator(spec.schema)
        try:
            for n, error in enumerate(validator.iter_errors(args)):
                if n >= _MOST_PER_CALL:
                    break
                yield said_of(error)
        except (Unresolvable, SchemaError, re.error, RecursionError, TypeError, ValueError) as exc:
            self.findings.warn(
                "bad_arguments",
                f"the schema of the tool {spec.name!r} cannot be used, so calls of it are not "
                f"checked: {short(str(exc))}",
            )


_ARRAY: Types = frozenset(["array"])


def foreign_names(schema: JsonObject, args: JsonObject) -> Iterator[str]:
    """Names the tool does not know: a schema that is silent about them drops them silently."""
    properties = schema.get("properties")
    if not is_object(properties) or "additionalProperties" in schema:
        return
    if any(word in schema for word in ("patternProperties", "allOf", "anyOf", "oneOf", "$ref")):
        return
    for name in args:
        if name not in properties:
            yield _foreign(name, properties)


def _foreign(name: str, properties: JsonObject) -> str:
    hint = did_you_mean(name, properties)
    known = f"it takes {listed(list(properties), most=20)}" if properties else "it takes none"
    return f"{name!r} is not an argument of it{hint or '; ' + known}"


def said_of(error: ValidationError) -> str:
    """A schema's complaint in words that name the argument."""
    where = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in error.absolute_path)
    name = where.lstrip(".")
    properties = error.schema.get("properties") if is_object(error.schema) else None
    instance: Json = error.instance
    wanted: Json = error.validator_value
    if error.validator == "additionalProperties" and is_object(properties):
        foreign = [key for key in instance if key not in properties]
        return "; ".join(_foreign(key, properties) for key in foreign) or _cut(error.message)
    if error.validator == "required" and is_array(wanted):
        missing = [str(key) for key in wanted if key not in instance]
        return f"{name + ' ' if name else ''}needs {listed(missing)}"
    if error.validator == "type" and not isinstance(instance, Unknown):
        kinds = " or ".join(wanted) if is_array(wanted) else str(wanted)
        return f"{name or 'the arguments'} must be {kinds}, not {short(instance)}"
    return f"{name}: {_cut(error.message)}" if name else _cut(error.message)


def _cut(text: str) -> str:
    return text if len(text) <= 300 else text[:297] + "..."


def substituted(case: Case, node: Node, value: Json) -> Json:
    """The value with known references replaced and the others as `Unknown`."""
    if isinstance(value, str):
        return _text(case, node, value) if "${" in value else value
    if is_object(value):
        return {key: substituted(case, node, inner) for key, inner in value.items()}
    if is_array(value):
        return [substituted(case, node, inner) for inner in value]
    return value


def _text(case: Case, node: Node, text: str) -> Json:
    alone = sole_reference(text)
    if alone is not None:
        return _looked_up(case, node, alone)
    if reference_faults(text):
        return Unknown(text, inline=True)
    if not find_references(text):
        return resolve(text, lambda _: None)
    known = literal(node.scope, text)
    return Unknown(text, frozenset(["string"]), inline=True) if known is None else known


def literal(scope: Scope, text: str) -> str | None:
    """A text with its look-ups filled in where all of them are the goal's inputs, else None."""
    if "${" not in text:
        return text
    try:
        return str(resolve(text, lambda reference: input_value(scope, reference)))
    except ReferenceMissing:
        return None


def input_value(scope: Scope, reference: Reference) -> Json:
    """The literal value of `${inputs...}` in the task's own plan.

    Raises:
        ReferenceMissing: it is not an input, has no such key, or stands inside a group.
    """
    if reference.head != "inputs" or scope.owner is not None:
        raise ReferenceMissing(reference.text, "not known before the task runs")
    return dig(scope.inputs, reference.path, reference=reference.text)


def _looked_up(case: Case, node: Node, reference: Reference) -> Json:
    scope = node.scope
    if reference.head == "inputs":
        try:
            return input_value(scope, reference)
        except ReferenceMissing:
            return Unknown(reference.text)
    if reference.head == "index":
        return Unknown(reference.text, frozenset(["integer"]))
    if reference.head == "item":
        whole = node.in_each and not reference.path
        return Unknown(reference.text, _item(case, node) if whole else None)
    if reference.head not in scope.index:
        return Unknown(reference.text)
    target = scope.nodes[scope.index[reference.head]]
    return Unknown(reference.text, types_of(case, target, reference))


def _item(case: Case, node: Node) -> Types | None:
    """The types of a foreach's items, as far as its list tells."""
    owner = node.scope.nodes[node.scope.index[node.id.removeprefix(node.scope.prefix)]]
    items = owner.unit.for_each
    reference = sole_reference(items)
    if reference is not None and reference.head in node.scope.index:
        return item_types(case, node.scope.nodes[node.scope.index[reference.head]], reference)
    items = substituted(case, owner, items)
    if not is_array(items) or any(isinstance(item, Unknown) for item in items):
        return None
    return frozenset(type_of(item) for item in items) or None
