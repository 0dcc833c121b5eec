"""A finding in words: the rows that the register and both reports show."""

from dataclasses import dataclass
from typing import Any

Finding = dict[str, Any]

NOT_FOUND = "not found"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing known of a contract, and the clauses whose quotes support it."""

    label: str
    value: str
    clauses: tuple[str, ...]
    found: bool = True


def not_reviewed(file: str) -> Finding:
    """What stands in the register for a contract whose review was skipped."""
    risk = {"code": "not_reviewed", "level": "high", "text": "Nobody has read it.", "clause": ""}
    return {"title": file, "file": file, "reviewed": "not", "quotes": [], "risks": [risk]}


def parties_of(finding: Finding) -> str:
    """`Name (role); Name (role)`."""
    parties = finding.get("parties", [])
    return "; ".join(f"{p['name']} ({p['role']})" if p["role"] else p["name"] for p in parties)


def count(finding: Finding, level: str) -> int:
    """How many risks of a level."""
    return sum(risk["level"] == level for risk in finding["risks"])


def facts_of(finding: Finding) -> list[Fact]:
    """All facts of a fully reviewed contract, in reading order; none of any other."""
    if "term" not in finding:
        return []
    dates = finding["dates"]
    return [
        _fact("Parties", parties_of(finding), "parties"),
        _fact("Made", dates["agreement"], "agreement_date"),
        _fact("In effect", dates["effective"], "effective_date"),
        _fact("Term", term_of(finding), "term"),
        _fact("Ends", dates["expires"], "term"),
        _fact("Renewal", renewal_of(finding), "renewal"),
        _fact("Governing law", finding["governing_law"], "governing_law"),
        _fact("Ending at will", at_will_of(finding), "termination_for_convenience"),
        _fact("Ending for cause", _for_cause(finding), "termination_for_cause"),
        _fact("Liability", liability_of(finding), "liability_cap", "unlimited_liability"),
        _fact("Losses left out", _left_out(finding), "excluded_losses"),
    ]


def term_of(finding: Finding) -> str | None:
    """How long it runs: a length, `without end`, or where only an end is agreed, until then."""
    term, ends = finding["term"], finding["dates"]["expires"]
    if term["perpetual"]:
        return "without end"
    return term["length"] or (f"until {ends}" if ends else None)


def renewal_of(finding: Finding) -> str | None:
    term = finding["term"]
    if term["renewal"] is None:
        return None
    notice = f", unless stopped {term['renewal_notice']} before" if term["renewal_notice"] else ""
    return term["renewal"] + notice


def at_will_of(finding: Finding) -> str | None:
    termination = finding["termination"]
    if not termination["convenience"]:
        return None
    who = "one side only" if termination["one_sided"] else "yes"
    notice = termination["convenience_notice"]
    return f"{who}, on {notice} notice" if notice else who


def liability_of(finding: Finding) -> str | None:
    liability = finding["liability"]
    if liability["unlimited"]:
        return "unlimited in whole or part"
    return f"capped: {_quiet(liability['cap'])}" if liability["cap"] else None


def _quiet(words: str) -> str:
    """Shouted words in lower case; amounts such as `USD 2,000,000` as they are."""
    shouted = words.isupper() and not any(c.isdigit() for c in words)
    return words.lower() if shouted else words


def _for_cause(finding: Finding) -> str | None:
    termination = finding["termination"]
    if not termination["cause"]:
        return None
    cure = termination["cure_period"]
    return f"yes, after {cure}" if cure else "yes"


def _left_out(finding: Finding) -> str | None:
    return "indirect loss and the like" if finding["liability"]["excludes_indirect"] else None


def _fact(label: str, value: str | None, *clauses: str) -> Fact:
    return Fact(label, value or NOT_FOUND, clauses, found=bool(value))
