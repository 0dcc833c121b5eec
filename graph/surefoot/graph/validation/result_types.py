"""What is known of a reference's value before anything runs: keys and JSON types.

Only a tool's declared output schema says anything; an agent's result may be whatever it likes.
"""

from collections.abc import Iterable

from surefoot.graph.plan import Work
from surefoot.graph.references import Reference
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.validation.outline import Case, Node
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.wording import did_you_mean, listed
from surefoot.graph.values import Json, JsonObject

Types = frozenset[str]
"""JSON Schema type names a value may have."""

_ALL = ("null", "boolean", "integer", "number", "string", "array", "object")
_MAX_HOPS = 32
RESULT_ARTIFACT = "_result.json"


def types_of(case: Case, node: Node, reference: Reference) -> Types | None:
    """The types a look-up in the result of `node` may have; None where nothing is known."""
    if reference.artifact is not None:
        return frozenset(["array"] if node.unit.kind == "foreach" else ["string"])
    if node.unit.kind == "foreach":
        return frozenset(["array"]) if not reference.path else None
    found: set[str] = set()
    for _, work in node.works():
        schema = _output_schema(case, work)
        types = None if schema is None else _types_at(schema, reference.path)
        if types is None:
            return None
        found |= types
    return frozenset(found | {"null"} if node.unit.skippable else found)


def item_types(case: Case, node: Node, reference: Reference) -> Types | None:
    """The types an item of the list `${subtask...}` may have; None where nothing is known."""
    if node.unit.kind != "tool" or reference.artifact is not None or node.unit.on_failure:
        return None
    schema = _output_schema(case, node.unit)
    return None if schema is None else _types_at(schema, (*reference.path, "0"))


def overlapping(some: Types, others: Types) -> bool:
    """Whether a value of some type may be of one of the others; whole numbers are numbers."""
    wide = set(others)
    if "number" in wide:
        wide.add("integer")
    return bool(wide & some) or ("number" in some and "integer" in wide)


def check_result_key(
    case: Case, node: Node, reference: Reference, reader: str, findings: Findings
) -> None:
    """Note an artifact or key that `node` surely does not give to `reader` (an id)."""
    if reference.artifact is not None:
        _check_artifact(node, reference, reader, findings)
    elif node.unit.kind == "foreach" and reference.path and not reference.path[0].isdecimal():
        findings.fault(
            "unknown_reference",
            f"{reader!r}: ${{{reference.text}}}: the result of the foreach {node.id!r} is a list "
            f"in item order, so it has no key {reference.path[0]!r}; use ${{{reference.head}}} "
            "or an index",
            dict.fromkeys([reader, node.id]),
        )
    elif node.unit.kind == "tool" and not node.unit.on_failure:
        _check_key(case, node, reference, reader, findings)


def _check_artifact(node: Node, reference: Reference, reader: str, findings: Findings) -> None:
    name = reference.artifact or ""
    if node.unit.kind == "group" or node.damaged or name == RESULT_ARTIFACT:
        return
    declared = declared_artifacts(node)
    if name in declared:
        return
    hint = did_you_mean(name, declared) or f"; its outputs are {listed(sorted(declared))}"
    findings.note(
        "unknown_reference",
        f"{reader!r}: ${{{reference.text}}}: {node.id!r} declares no output {name!r}"
        + (hint if declared else "; state it in its `outputs`"),
        dict.fromkeys([reader, node.id]),
        fatal=bool(declared),
    )


def declared_artifacts(node: Node) -> set[str]:
    """The artifact names a subtask states, those of its rungs and children included."""
    names = {name for _, work in node.works() for name in work.artifact_names()}
    return names | (declared_artifacts(node.each) if node.each is not None else set())


def _check_key(
    case: Case, node: Node, reference: Reference, reader: str, findings: Findings
) -> None:
    """A key that a closed schema lacks, or that looks like a slip for another, is a fault."""
    schema = _output_schema(case, node.unit)
    here = None if schema is None else _deref(schema, schema)
    if here is None or not reference.path or not is_object(here.get("properties")):
        return
    known: JsonObject = here["properties"]
    key = reference.path[0]
    if key in known or here.get("patternProperties") or here.get("additionalProperties"):
        return
    hint = did_you_mean(key, known)
    closed = here.get("additionalProperties") is False
    findings.note(
        "unknown_reference",
        f"{reader!r}: ${{{reference.text}}}: the result of {node.unit.tool!r} has no key "
        f"{key!r}{hint or '; it states ' + listed(list(known))}",
        dict.fromkeys([reader, node.id]),
        fatal=closed or bool(hint),
    )


def _output_schema(case: Case, work: Work) -> JsonObject | None:
    spec = case.tools.get(work.tool or "") if work.kind == "tool" else None
    return None if spec is None else spec.output_schema


def _types_at(root: JsonObject, path: Iterable[str]) -> Types | None:
    here: JsonObject | None = root
    for key in path:
        here = None if here is None else _deref(root, here)
        here = None if here is None else _step(here, key)
    return None if here is None else schema_types(root, here)


def _step(schema: JsonObject, key: str) -> JsonObject | None:
    properties = schema.get("properties")
    if is_object(properties) and is_object(properties.get(key)):
        return properties[key]
    items = schema.get("items")
    if key.isdecimal() and is_object(items) and "prefixItems" not in schema:
        return items
    return None


def schema_types(root: JsonObject, schema: JsonObject, hops: int = 0) -> Types | None:
    """The types a schema allows as far as it says so plainly; None = any, or unclear."""
    here = _deref(root, schema)
    if here is None or hops > _MAX_HOPS:
        return None
    stated = here.get("type")
    if isinstance(stated, str):
        return frozenset([stated]) if stated in _ALL else None
    if is_array(stated):
        return frozenset(str(one) for one in stated)
    for word in ("anyOf", "oneOf"):
        branches = here.get(word)
        if is_array(branches) and branches and all(is_object(branch) for branch in branches):
            found = [schema_types(root, branch, hops + 1) for branch in branches]
            known = [types for types in found if types is not None]
            return frozenset[str]().union(*known) if len(known) == len(found) else None
    if is_array(here.get("enum")) or "const" in here:
        values = here.get("enum") if is_array(here.get("enum")) else [here.get("const")]
        return frozenset(type_of(value) for value in values or [])
    return None


def type_of(value: Json) -> str:
    """The JSON Schema type name of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    if isinstance(value, str):
        return "string"
    return "array" if is_array(value) else "object"


def _deref(root: JsonObject, schema: JsonObject) -> JsonObject | None:
    """Follow local `$ref`s; None where they lead nowhere."""
    here: Json = schema
    for _ in range(_MAX_HOPS):
        if not is_object(here):
            return None
        target = here.get("$ref")
        if not isinstance(target, str):
            return here
        if not target.startswith("#"):
            return None
        here = root
        for part in target[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            here = here.get(name) if is_object(here) else None
    return None
