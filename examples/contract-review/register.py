"""The register: one row per contract, as CSV."""

import csv
import io

from facts import (
    Finding,
    at_will_of,
    count,
    liability_of,
    parties_of,
    renewal_of,
    term_of,
)

COLUMNS = (
    "number file title reviewed language parties agreement_date effective_date expires"
    " governing_law term renewal termination_at_will liability high medium low risks"
).split()


def register_csv(findings: list[Finding]) -> str:
    """The register of all contracts, in their order, each in exactly one row."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for number, finding in enumerate(findings, start=1):
        writer.writerow(_row(number, finding))
    return out.getvalue()


def _row(number: int, finding: Finding) -> dict[str, str | int]:
    row: dict[str, str | int] = {
        "number": number,
        "file": finding["file"],
        "title": _text(finding["title"]),
        "reviewed": finding["reviewed"],
        "risks": " ".join(risk["code"] for risk in finding["risks"]),
    }
    row |= {level: count(finding, level) for level in ("high", "medium", "low")}
    if "term" not in finding:
        return row
    dates = finding["dates"]
    return row | {
        "language": finding["language"],
        "parties": _text(parties_of(finding)),
        "agreement_date": dates["agreement"] or "",
        "effective_date": dates["effective"] or "",
        "expires": dates["expires"] or "",
        "governing_law": finding["governing_law"] or "",
        "term": term_of(finding) or "",
        "renewal": renewal_of(finding) or "",
        "termination_at_will": at_will_of(finding) or "",
        "liability": _text(liability_of(finding) or ""),
    }


def _text(value: str) -> str:
    """Words from a contract must not become a formula in a spreadsheet."""
    return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t")) else value
