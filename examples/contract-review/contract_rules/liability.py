"""What an English contract says about liability: a cap, losses left out, no limit at all."""

import re

from contract_rules.found import Found
from contract_rules.spans import Source, fold

_LIABLE = re.compile(r"\b(?:liable|liabilit(?:y|ies)|damages)\b", re.I)
_LIABILITY = re.compile(r"\b(?:liable|liabilit(?:y|ies))\b", re.I)
_CAPPED = re.compile(
    r"\b(?:not\s+exceed|in\s+excess\s+of|limited\s+to|no\s+more\s+than|not\s+be\s+more\s+than"
    r"|cumulative\s+maximum|up\s+to\s+a\s+maximum|maximum\s+(?:aggregate\s+)?liability|exceeds?\s+the)\b",
    re.I,
)
_ABOUT = re.compile(r"\bliab\w+|\bdamages|\bobligation", re.I)
_INDIRECT = re.compile(
    r"\b(?:consequential|indirect|incidental|special|punitive|exemplary|lost\s+profits?|loss\s+of\s+profits?)\b",
    re.I,
)
_LEFT_OUT = re.compile(
    r"\b(?:no\s+event|not\s+(?:be\s+)?(?:held\s+)?(?:liable|responsible)|neither|nor\b.{0,40}liab\w+|none\s+of"
    r"|no\s+liability|exclu\w+|disclaim\w*|shall\s+not\s+have\s+any\s+liability|waive[sd]?)\b",
    re.I | re.S,
)
_UNLIMITED = re.compile(
    r"\bunlimited\s+liability\b(?!\s+compan)|\bliab\w+\b[^.;]{0,80}\b(?:unlimited|uncapped"
    r"|without\s+(?:any\s+)?limit(?:ation)?\s+(?:in|of)\s+amount|(?<!but\s)not\s+(?:be\s+)?(?:limited|capped)(?!\s+to))\b"
    r"(?!\s+liability\s+compan)",
    re.I,
)
_AMOUNT = re.compile(
    r"(?:USD|EUR|GBP|US\$|CAD|CHF|[$€£])\s?\d[\d,. ]{0,18}\d(?:\s?(?:million|thousand))?"
    r"|\d[\d,.]{0,18}\d\s?(?:USD|EUR|GBP|dollars|euros?|pounds)",
    re.I,
)
_MEASURE = re.compile(
    r"\b(?:exceeds?|excess\s+of|limited\s+to|more\s+than)\b\s{0,3}((?:(?!\b(?:provided|except|unless)\b)[^.;:()]){5,140})",
    re.I,
)


def read_liability(source: Source, found: Found) -> None:
    """Fill in the cap, whether indirect losses are left out, and liability without any limit."""
    for start, end in source.spans:
        sentence = source.text[start:end]
        liable = _LIABLE.search(sentence)
        if liable is None:
            continue
        at = start + liable.start()
        if _UNLIMITED.search(sentence):
            found.unlimited = True
            found.add(source.quote("unlimited_liability", at, at + 1))
        _read_cap(source, found, sentence, start)
        if _INDIRECT.search(sentence) and _LEFT_OUT.search(sentence):
            found.excludes_indirect = True
            found.add(source.quote("excluded_losses", at, at + 1))


def _read_cap(source: Source, found: Found, sentence: str, start: int) -> None:
    capped = _CAPPED.search(sentence)
    if capped is None or not _LIABILITY.search(sentence) or not _caps(sentence, capped):
        return
    amount, measure = _AMOUNT.search(sentence, capped.start()), _MEASURE.search(sentence)
    value = amount.group() if amount else measure.group(1) if measure else "as quoted"
    found.cap = found.cap or fold(value).strip(" ,")
    found.add(source.quote("liability_cap", start + capped.start(), start + capped.end()))


def _caps(sentence: str, capped: re.Match[str]) -> bool:
    """`limited to` also stands in `including but not limited to`: that caps nothing."""
    before = sentence[max(0, capped.start() - 160) : capped.start()]
    if before.rstrip().lower().endswith("not") and capped.group().lower().startswith("limited"):
        return False
    return _ABOUT.search(before) is not None
