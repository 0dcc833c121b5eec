"""Effects: what cannot be taken back and nobody would be asked about, and work done twice."""

import json
from collections.abc import Iterator

from surefoot.graph.errors import ReferenceMissing
from surefoot.graph.plan import Unit, Work
from surefoot.graph.ports import ToolSpec
from surefoot.graph.references import Reference, find_references, resolve
from surefoot.graph.shapes import is_object
from surefoot.graph.validation.arguments import input_value
from surefoot.graph.validation.outline import Case, Node, Scope
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.wording import listed
from surefoot.graph.values import Json, JsonObject

RUN_COMMAND = "run_command"


def check_effects(case: Case, findings: Findings) -> None:
    """Note `no_way_back` and `duplicate_work`."""
    for node in case.nodes:
        for _, work in node.works():
            _check_way_back(case, node, work, findings)
    for scope in case.scopes:
        _check_duplicates(case, scope, findings)


def effect_of(spec: ToolSpec, work: Work) -> str:
    """The effect of a call: that of the tool; a command with stated `writes` is idempotent."""
    if spec.name == RUN_COMMAND and work.writes is not None:
        return "idempotent"
    return spec.effect


def _check_way_back(case: Case, node: Node, work: Work, findings: Findings) -> None:
    """Contract §2: irreversible, without probe, without `undo` and `ask`, and nobody approves."""
    if work.approve != "never" or work.undo is not None or _asks(node.unit):
        return
    for spec in _tools_of(case, work):
        if effect_of(spec, work) == "irreversible" and not spec.has_probe:
            findings.fault(
                "no_way_back",
                f"subtask {node.id!r} calls {spec.name!r}, which cannot be undone, with `approve: "
                "never`: if its outcome is ever unknown, nothing can be done. Give the tool a "
                "probe, add `undo` or an `ask` rung, or let a person approve it",
                [node.id],
            )


def _asks(unit: Unit) -> bool:
    return "ask" in unit.on_failure


def _tools_of(case: Case, work: Work) -> Iterator[ToolSpec]:
    names = [work.tool] if work.kind == "tool" else (work.tools or [])
    for name in names:
        spec = case.tools.get(name or "")
        if spec is not None:
            yield spec


def _check_duplicates(case: Case, scope: Scope, findings: Findings) -> None:
    seen: dict[tuple[str, str], list[Node]] = {}
    for node in scope.nodes:
        unit = node.unit
        if unit.kind == "tool" and unit.tool:
            seen.setdefault((unit.tool, _meaning(case, scope, unit)), []).append(node)
    for (tool, _), nodes in seen.items():
        ids = list(dict.fromkeys(node.id for node in nodes))
        if len(ids) > 1:
            spec = case.tools.get(tool)
            changes = spec is not None and spec.effect != "read"
            findings.note(
                "duplicate_work",
                f"{listed(ids)} call {tool!r} with the same arguments; do it once and let the "
                "others look the result up",
                ids,
                fatal=changes and (case.by_model or _is_literal(nodes[0].unit)),
            )


def _meaning(case: Case, scope: Scope, unit: Unit) -> str:
    """Arguments as they would be after look-ups: two ways to write one value are one.

    Defaults of the tool's schema are filled in, inputs looked up; a reference to a result stands
    for itself, without what may be left out of its text.
    """

    def lookup(reference: Reference) -> Json:
        try:
            return input_value(scope, reference)
        except ReferenceMissing:
            return "\0".join(["", reference.head, *reference.path, reference.artifact or "", ""])

    try:
        args = resolve(unit.args, lookup)
    except ReferenceMissing:
        args = unit.args
    return json.dumps({**_defaults(case.tools.get(unit.tool or "")), **args}, sort_keys=True)


def _defaults(spec: ToolSpec | None) -> JsonObject:
    properties = spec.schema.get("properties") if spec is not None else None
    if not is_object(properties):
        return {}
    return {
        name: schema["default"]
        for name, schema in properties.items()
        if is_object(schema) and "default" in schema
    }


def _is_literal(unit: Unit) -> bool:
    return all(reference.head == "inputs" for reference in find_references(unit.args))
