"""The tools of this example: list, review, register, report. None of them asks a model."""

import hashlib
import json
from pathlib import Path
from typing import Any

from contract_rules import review_text
from facts import Finding, not_reviewed
from langchain_core.tools import tool
from reading import list_documents, read_document
from readings import Reading, by_file, by_rules
from register import register_csv
from report import html_report, markdown_report

from surefoot.tools import ToolContext, effect


@effect("read")
@tool
def list_contracts(folder: str) -> dict[str, Any]:
    """List the contracts of a folder (txt, md, pdf, docx), sorted by name."""
    return {"files": [str(path) for path in list_documents(Path(folder))]}


@effect("idempotent", retry_on=OSError)  # a document that cannot be parsed stays what it is
@tool
def review_contract(path: str, context: ToolContext) -> dict[str, Any]:
    """Read one contract, apply the rules, and put the finding as finding.json."""
    document = Path(path)
    finding = review_text(read_document(document), document.name)
    return _put(finding, document, context)


@effect("idempotent")
@tool
def review_contract_simple(path: str, context: ToolContext) -> dict[str, Any]:
    """Note only name, size and first lines of a contract that cannot be reviewed in full."""
    document = Path(path)
    finding = not_reviewed(document.name) | {"first_lines": _first_lines(document)}
    finding["reviewed"] = "simple"
    return _put(finding, document, context)


@effect("read")
@tool
def read_by_rules(path: str) -> Reading:
    """Say of a contract what the rules know: what a model would say, without one."""
    document = Path(path)
    return by_rules(review_text(read_document(document), document.name), path)


@effect("idempotent")
@tool
def write_register(
    files: list[str], findings: list[str | None], context: ToolContext
) -> dict[str, Any]:
    """Write register.csv: one row per contract; a null finding is one that was skipped."""
    loaded = _load(files, findings)
    context.artifacts.put("register.csv", register_csv(loaded), media_type="text/csv")
    return _totals(loaded)


@effect("idempotent")
@tool
def write_report(
    files: list[str],
    findings: list[str | None],
    context: ToolContext,
    readings: list[Reading | None] | None = None,
) -> dict[str, Any]:
    """Write report.md and report.html: the table of contracts, then each with its quotes.

    `readings`: what was said of each contract besides (`read_by_rules`, or a model), null where
    nothing was.
    """
    loaded = by_file(_load(files, findings), readings or [])
    context.artifacts.put("report.md", markdown_report(loaded), media_type="text/markdown")
    context.artifacts.put("report.html", html_report(loaded), media_type="text/html")
    return _totals(loaded)


def _put(finding: Finding, document: Path, context: ToolContext) -> dict[str, Any]:
    finding["sha256"] = hashlib.sha256(document.read_bytes()).hexdigest()
    content = json.dumps(finding, ensure_ascii=False, indent=1)
    context.artifacts.put("finding.json", content, media_type="application/json")
    return {
        "file": finding["file"],
        "title": finding["title"],
        "reviewed": finding["reviewed"],
        "risks": [risk["code"] for risk in finding["risks"]],
        "quotes": len(finding["quotes"]),
    }


def _first_lines(document: Path) -> list[str]:
    try:
        lines = read_document(document)[:4_000].splitlines()
    except Exception as exc:  # whatever the parsers of foreign documents raise
        return [f"The text cannot be read: {exc}"]
    return [line.strip() for line in lines if line.strip()][:5]


def _load(files: list[str], findings: list[str | None]) -> list[Finding]:
    """The findings in the order of the files.

    Raises:
        ValueError: the two lists do not belong together.
    """
    if len(files) != len(findings):
        raise ValueError(f"{len(files)} files, but {len(findings)} findings")
    return [
        not_reviewed(Path(file).name) if path is None else json.loads(Path(path).read_bytes())
        for file, path in zip(files, findings, strict=True)
    ]


def _totals(findings: list[Finding]) -> dict[str, Any]:
    levels = [risk["level"] for finding in findings for risk in finding["risks"]]
    return {
        "contracts": len(findings),
        "in_full": sum(finding["reviewed"] == "in full" for finding in findings),
        "risks": {level: levels.count(level) for level in ("high", "medium", "low")},
    }


TOOLS = [
    list_contracts,
    review_contract,
    review_contract_simple,
    read_by_rules,
    write_register,
    write_report,
]
