"""One contract's text in, one finding out."""

import re
from typing import Any

from contract_rules.agreement_dates import read_dates
from contract_rules.chinese import read_chinese
from contract_rules.found import Found
from contract_rules.governing_law import read_governing_law
from contract_rules.liability import read_liability
from contract_rules.parties import find_parties
from contract_rules.risks import risks_of
from contract_rules.spans import Source, fold
from contract_rules.term import read_renewal, read_term
from contract_rules.termination import read_termination

_CJK = re.compile(r"[\u3400-\u9fff]")
_TITLE_EN = re.compile(
    r"\b(?:(?!THIS\b|This\b)(?:[A-Z][A-Za-z&-]{1,20}|of|and|for|to|the),?\s){0,7}"
    r"(?:AGREEMENT|Agreement|CONTRACT|Contract|LEASE|Lease|DEED|Deed|LICEN[CS]E"
    r"|Terms\s+and\s+Conditions)\b"
)
_NOT_TITLE = re.compile(
    r"^(?:(?:This|The|of|Execution\s+(?:Copy|Version)|Exhibit\s+[\w.-]+)\s+)+|[-=_*#\s]+$", re.I
)
_TITLE_ZH = re.compile(r"^[#\s*《]{0,8}(?P<title>[^\n。，,：:]{2,30}?(?:合同|协议)(?:书)?)", re.M)


def language_of(text: str) -> str:
    """`zh` when at least one character in ten is a Chinese one, else `en`."""
    visible = len(text) - text.count(" ") - text.count("\n")
    return "zh" if visible and len(_CJK.findall(text)) * 10 >= visible else "en"


def title_of(text: str, fallback: str) -> str:
    """What the contract calls itself near its beginning."""
    chinese = _TITLE_ZH.search(text, 0, 400) if language_of(text) == "zh" else None
    if chinese:
        return chinese["title"].strip(" #*《》")
    first = next((fold(line).strip("#* ") for line in text.splitlines() if line.strip()), "")
    if 3 < len(first) <= 80 and re.search(
        r"\b(?:agreement|contract|lease|deed|licen[cs]e)\b", first, re.I
    ):
        return _NOT_TITLE.sub("", first)
    match = _TITLE_EN.search(text, 0, 3_000)
    return _NOT_TITLE.sub("", fold(match.group())) if match else fallback


def review_text(text: str, file: str) -> dict[str, Any]:
    """Review one contract.

    Args:
        text: the text exactly as it was read; quotes and offsets refer to it.
        file: the file's name, kept in the finding.

    Returns:
        The finding: `title file language chars parties dates governing_law term termination
        liability quotes risks`. Values that were not found are null or false.
    """
    source = Source(text)
    found = Found()
    language = language_of(text)
    if language == "zh":
        read_chinese(source, found)
    else:
        _read_english(source, found)
    return _finding(found, title_of(text, file), file, language, len(text))


def _read_english(source: Source, found: Found) -> None:
    parties, quotes = find_parties(source)
    found.parties = [(p.name, p.role) for p in parties]
    for quote in quotes:
        found.add(quote, most=6)
    read_dates(source, found)
    read_governing_law(source, found)
    read_term(source, found)
    read_renewal(source, found)
    read_termination(source, found)
    read_liability(source, found)


def _finding(found: Found, title: str, file: str, language: str, chars: int) -> dict[str, Any]:
    return {
        "title": title,
        "file": file,
        "language": language,
        "chars": chars,
        "reviewed": "in full",
        "parties": [{"name": name, "role": role} for name, role in found.parties],
        "dates": {
            "agreement": found.agreement_date,
            "effective": found.effective_date,
            "expires": found.expires,
        },
        "governing_law": found.governing_law,
        "term": {
            "length": found.length,
            "perpetual": found.perpetual,
            "renewal": found.renewal,
            "renewal_notice": found.renewal_notice,
        },
        "termination": {
            "convenience": found.convenience,
            "one_sided": found.one_sided,
            "convenience_notice": found.convenience_notice,
            "cause": found.cause,
            "cure_period": found.cure_period,
        },
        "liability": {
            "cap": found.cap,
            "excludes_indirect": found.excludes_indirect,
            "unlimited": found.unlimited,
        },
        "quotes": [quote.as_json() for quote in found.quotes],
        "risks": risks_of(found),
    }
