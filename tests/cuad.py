"""Findings held against lawyers' labels: real contracts of CUAD v1, if they are there.

A clause is recalled when one of its quotes shares words with a labelled span, a party when its
name is among the names found, a date or law when the value is the same.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MATERIAL = Path(__file__).resolve().parents[2] / "shared" / "material" / "contracts_cuad"

CLAUSES: dict[str, tuple[str, ...]] = {
    "Expiration Date": ("term",),
    "Renewal Term": ("renewal",),
    "Termination For Convenience": ("termination_for_convenience",),
    "Cap On Liability": ("liability_cap", "excluded_losses"),
}
"""Label -> the clauses of a finding that answer it."""

LEAST = {
    "parties": 0.8,
    "agreement_date": 0.8,
    "governing_law": 0.8,
    "Expiration Date": 0.8,
    "Renewal Term": 0.8,
    "Termination For Convenience": 0.7,
    "Cap On Liability": 0.8,
}
"""The recall below which a test fails; what is reached stands in the example's README."""

Finding = dict[str, Any]
Recall = dict[str, tuple[int, int]]


def gold() -> dict[str, Any]:
    """The labels by the name of the text file."""
    lines = (MATERIAL / "gold.dev.jsonl").read_text("utf-8").splitlines()
    return {f"{row['file']}.txt": row["gold"] for row in map(json.loads, lines)}


def recall(findings: list[Finding]) -> Recall:
    """What was found of what is labelled: (found, labelled) by label."""
    labels = gold()
    counts: dict[str, list[bool]] = {name: [] for name in LEAST}
    for finding in findings:
        for name, ok in _answers(finding, labels[finding["file"]]):
            counts[name].append(ok)
    return {name: (sum(oks), len(oks)) for name, oks in counts.items()}


def shown(found: Recall) -> str:
    """The recall as a table for people."""
    return "\n".join(f"{n:<28} {a:>3} of {b:<3} {a / b:.2f}" for n, (a, b) in found.items())


def _answers(finding: Finding, gold: Any) -> Iterator[tuple[str, bool]]:
    names = [_squeezed(party["name"]) for party in finding["parties"]]
    for name in _party_names(gold["Parties"]["answer"]):
        yield "parties", any(name in found or found in name for found in names)
    made = _iso(gold["Agreement Date"]["answer"])
    if made:
        yield "agreement_date", finding["dates"]["agreement"] == made
    law = gold["Governing Law"]["answer"]
    if law:
        yield "governing_law", (finding["governing_law"] or "").startswith(law)
    for label, clauses in CLAUSES.items():
        spans, answer = gold[label]["spans"], gold[label]["answer"]
        if spans and answer != "No":
            quotes = [q["text"] for q in finding["quotes"] if q["clause"] in clauses]
            yield label, any(_shares_words(quote, span) for quote in quotes for span in spans)


def _party_names(answer: str) -> Iterator[str]:
    for item in answer.split(";"):
        name = re.split(r"[(“\"]|\btogether with", item.strip())[0].strip(" ,")
        collective = " and " in name and "ollectively" in item
        if name and name != "[]" and not collective:
            yield _squeezed(name)


def _squeezed(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def _iso(answer: str) -> str | None:
    """`5/17/12` is 2012-05-17; what is blank in the contract (`[]`) is left out as in a finding."""
    match = re.fullmatch(r"(\d+|\[\])/(\d+|\[\])/(\d+|\[\])", answer.strip())
    if match is None:
        return None
    month, day, year = (None if part == "[]" else int(part) for part in match.groups())
    if year is not None and year < 100:
        year += 1900 if year >= 70 else 2000
    if month is None or day is None:
        return None if year is None else f"{year:04d}"
    return f"--{month:02d}-{day:02d}" if year is None else f"{year:04d}-{month:02d}-{day:02d}"


def _shares_words(quote: str, span: str) -> bool:
    """Whether 60 characters in a row are common, white space folded (or one holds the other)."""
    whole = " ".join(quote.split())
    for part in span.split("<omitted>"):
        text = " ".join(part.split())
        if text and (text in whole or whole in text):
            return True
        pieces = (text[at : at + 60] for at in range(0, max(0, len(text) - 60), 20))
        if any(piece in whole for piece in pieces):
            return True
    return False
