"""What is asked of a plan because a model made it: every field stated, and sane amounts.

A file's author may rely on defaults that the documentation names; a model that leaves a field out
has not thought about it.
"""

from collections.abc import Iterator

from surefoot.graph.answer_shapes import COMMON_FIELDS
from surefoot.graph.plan import Subtask
from surefoot.graph.validation.outline import Case, Node
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.wording import listed

MAX_WEIGHT = 1e6
"""Weights are shares of the work; beyond this one a model has lost itself."""

MAX_TEXT = 16 * 1024
"""Characters of one text in a plan; longer material belongs in an input or an artifact."""


def check_model_plan(case: Case, findings: Findings) -> None:
    """Note `schema` faults of a model's plan; nothing for a file's."""
    if not case.by_model:
        return
    for node in case.nodes:
        unit = node.unit
        if isinstance(unit, Subtask) and not node.damaged:
            _check_fields(node, unit, findings)
        for name, length in _long_texts(node):
            findings.fault(
                "schema",
                f"subtask {node.id!r}: `{name}` has {length} characters, at most {MAX_TEXT}; put "
                "long material into an artifact and refer to it",
                [node.id],
            )


def _check_fields(node: Node, unit: Subtask, findings: Findings) -> None:
    stated = {name for name in unit.model_fields_set if getattr(unit, name) is not None}
    needed = [*COMMON_FIELDS, *(("args",) if unit.kind == "tool" else ())]
    missing = [name for name in needed if name not in stated]
    if missing:
        findings.fault(
            "schema",
            f"subtask {node.id!r} does not state {listed(missing)}; a plan states every field",
            [node.id],
        )
    if unit.weight > MAX_WEIGHT:
        findings.fault(
            "schema",
            f"subtask {node.id!r} has the weight {unit.weight:g}, at most {MAX_WEIGHT:g}; weights "
            "are shares of the work, such as 1 to 100",
            [node.id],
        )


def _long_texts(node: Node) -> Iterator[tuple[str, int]]:
    for name in ("name", "description", "instructions"):
        value = getattr(node.unit, name)
        if isinstance(value, str) and len(value) > MAX_TEXT:
            yield name, len(value)
