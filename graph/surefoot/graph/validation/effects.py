"""Effects: what cannot be taken back and nobody would be asked about, and work done twice."""

import json
from collections.abc import Iterator

from surefoot.graph.plan import Unit, Work
from surefoot.graph.ports import ToolSpec
from surefoot.graph.references import find_references
from surefoot.graph.validation.outline import Case, Node, Scope
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.wording import listed

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
    seen: dict[tuple[str, str], list[str]] = {}
    for node in scope.nodes:
        unit = node.unit
        if unit.kind == "tool" and unit.tool and _is_literal(unit):
            args = json.dumps(unit.args, sort_keys=True)
            seen.setdefault((unit.tool, args), []).append(node.id)
    for (tool, _), ids in seen.items():
        distinct = list(dict.fromkeys(ids))
        if len(distinct) > 1:
            spec = case.tools.get(tool)
            findings.note(
                "duplicate_work",
                f"{listed(distinct)} call {tool!r} with the same arguments; do it once and let the "
                "others look the result up",
                distinct,
                fatal=spec is not None and spec.effect != "read",
            )


def _is_literal(unit: Unit) -> bool:
    return all(reference.head == "inputs" for reference in find_references(unit.args))
