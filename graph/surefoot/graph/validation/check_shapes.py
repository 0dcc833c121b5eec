"""Checks that could never be evaluated: patterns and schemas that are not any."""

import re
from collections.abc import Sequence

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from surefoot.graph.checks import ArtifactCheck, Check, ResultCheck
from surefoot.graph.references import find_references
from surefoot.graph.validation.outline import Case
from surefoot.graph.validation.report import Findings
from surefoot.graph.values import Json


def check_shapes(case: Case, findings: Findings) -> None:
    """Note `schema` faults of regular expressions and JSON Schemas in checks."""
    judge = _Judge(findings)
    judge.check("goal.acceptance", (), case.task.goal.acceptance)
    for scope in case.scopes:
        for milestone in scope.plan.milestones:
            full = scope.full(milestone.id)
            judge.check(f"milestone {full!r}", (full,), milestone.checks)
    for node in case.nodes:
        for _, work in node.works():
            judge.check(f"subtask {node.id!r}", (node.id,), work.success)


class _Judge:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._known: dict[str, str | None] = {}

    def check(self, owner: str, ids: Sequence[str], checks: Sequence[Check]) -> None:
        """Check the checks of one owner; `ids` are those to name."""
        for n, check in enumerate(checks):
            why = self._fault_of(check)
            if why is not None:
                self._findings.fault("schema", f"{owner}, {check.type} check [{n}]: {why}", ids)

    def _fault_of(self, check: Check) -> str | None:
        if isinstance(check, ArtifactCheck) and check.regex and not find_references(check.regex):
            try:
                re.compile(check.regex)
            except (re.error, OverflowError, RecursionError) as exc:
                return f"{check.regex!r} is no regular expression: {exc}"
        if isinstance(check, (ArtifactCheck, ResultCheck)) and check.json_schema is not None:
            return self._schema_fault(check.json_schema)
        return None

    def _schema_fault(self, schema: Json) -> str | None:
        key = repr(schema)
        if key not in self._known:
            self._known[key] = _schema_fault(schema)
        return self._known[key]


def _schema_fault(schema: Json) -> str | None:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as exc:
        place = "".join(f".{step}" for step in exc.absolute_path)
        return f"json_schema{place} is no JSON Schema: {exc.message[:200]}"
    except (re.error, RecursionError) as exc:
        return f"json_schema cannot be used: {exc}"
    return None
