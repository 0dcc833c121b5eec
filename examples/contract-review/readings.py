"""What is said of a contract in two sentences, by a model or by the rules: a reading.

`{file, summary, risk: low|medium|high, quotes: [text]}`. A program checks the quotes either way.
"""

from pathlib import Path
from typing import Any

from facts import Finding, count, parties_of

Reading = dict[str, Any]

SHORTEST, LONGEST, MOST = 20, 400, 3


def by_rules(finding: Finding, path: str) -> Reading:
    """The reading that the rules' finding amounts to."""
    high, medium = count(finding, "high"), count(finding, "medium")
    names = parties_of(finding) or "Parties that are not named"
    flagged = "; ".join(risk["text"] for risk in finding["risks"]) or "No risk was flagged."
    return {
        "file": path,
        "summary": f"{finding['title']}: {names}. {flagged}"[:1000],
        "risk": "high" if high else "medium" if medium else "low",
        "quotes": _shown(finding),
        "by": "rules",
    }


def by_file(findings: list[Finding], readings: list[Reading | None]) -> list[Finding]:
    """The findings, each with the reading of its file where there is one."""
    said = {Path(one["file"]).name: one for one in readings if one}
    return [
        finding | {"reading": said[finding["file"]]} if finding["file"] in said else finding
        for finding in findings
    ]


def _shown(finding: Finding) -> list[str]:
    """The first quotes of a fit length; a long one is cut to its beginning."""
    texts = [quote["text"][:LONGEST] for quote in finding["quotes"]]
    return [text for text in texts if len(text) >= SHORTEST][:MOST]
