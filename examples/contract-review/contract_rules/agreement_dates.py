"""When an English contract was made and when it takes effect."""

import re

from contract_rules.dates import FoundDate, find_dates
from contract_rules.found import Found
from contract_rules.spans import Source

_OPENING_CHARS = 9_000
_CONTEXT = 170
_RECITALS = re.compile(
    r"\bWHEREAS\b|\bRE?CE?ITALS?\b|\bW\s?I\s?T\s?N\s?E\s?S\s?S\s?E\s?T\s?H\b|\bBACKGROUND\b"
)

_MADE = re.compile(r"\b(?:made|entered\s+into|executed|concluded|signed)\b[^.;]{0,110}$", re.I)
_DATED = re.compile(r"\b(?:this|the\s+present)\b.{0,140}\bdated?\b[^.;]{0,30}$", re.I | re.S)
_DATED_ANY = re.compile(r"\bdated?\b\s{0,5}(?:as\s+of|effective)?[\s:*]{0,6}$", re.I)
_EFFECTIVE = re.compile(r"\beffective\b[^.;]{0,60}$", re.I)
_OTHER_DEED = re.compile(
    r"\b(?:pursuant\s+to|plan\s+of\s+merger|prior|original|certain|amend(?:s|ed|ing)|previously)\b[^()]{0,90}$",
    re.I,
)
_EFFECTIVE_AFTER = re.compile(r"^[\s,]{0,3}\(?[^.()]{0,40}[\"“'‘]\s?effective\s+date", re.I)
_SIGNED = re.compile(
    r"\b(?:dated?|signed|executed\s+as\s+of|accepted\s+as\s+of)\b[^.;\w]{0,30}(?:this|the|on)?\s*$|/s/[^;]{0,190}$",
    re.I,
)
_FOOTER = re.compile(r"\bSource:[^\n]{0,120}$")
_EFFECTIVE_MEANS = re.compile(
    r"[\"“']effective\s+date[\"”']\s+(?:means|shall\s+mean|is)\b[^;]{0,120}$", re.I
)
_TAKES_EFFECT = re.compile(
    r"\b(?:agreement|contract|lease|licen[cs]e|amendment|deed)\b[^.;]{0,60}"
    r"\b(?:commenc|begin|takes?\s+effect|(?:made|is|shall\s+be|become)s?\s+effective)\w*\b[^.;]{0,40}$"
    r"|\beffective\s+(?:as\s+of|on|from|date:?)\s*(?:the\s+)?$|\)\s{0,3}effective\s+$",
    re.I,
)


def read_dates(source: Source, found: Found) -> None:
    """Fill in the agreement date and the effective date, from the opening or the signatures."""
    text = source.text
    recitals = _RECITALS.search(text, 0, _OPENING_CHARS)
    opening = find_dates(text, 0, min(len(text), _OPENING_CHARS))
    late = recitals.start() if recitals else _OPENING_CHARS
    chosen = _best(text, opening, late) or _signature_date(text)
    if chosen is None and opening and opening[0].start < 1_500:
        chosen = opening[0]
    if chosen is not None:
        found.agreement_date, found.ambiguous_date = chosen.iso, chosen.ambiguous
        found.add(source.quote("agreement_date", chosen.start, chosen.end))
    _read_effective(source, found, opening)


def _best(text: str, opening: list[FoundDate], late: int) -> FoundDate | None:
    """The date with the best support; what stands in the recitals is about something else."""
    ranked: list[tuple[int, int]] = []
    for n, date in enumerate(opening):
        rank = _rank(text, date)
        if rank is not None:
            ranked.append((rank + 4 * (date.start > late), n))
    return opening[min(ranked)[1]] if ranked else None


def _rank(text: str, date: FoundDate) -> int | None:
    before = text[max(0, date.start - _CONTEXT) : date.start]
    other = 3 * (_OTHER_DEED.search(before) is not None)
    if _MADE.search(before):
        return other
    if _DATED.search(before):
        return 1 + other
    if _EFFECTIVE_AFTER.match(text[date.end : date.end + 80]) or _EFFECTIVE.search(before):
        return 2 + other
    return 4 + other if _DATED_ANY.search(before) else None


def _signature_date(text: str) -> FoundDate | None:
    """The latest date given beside the signatures: with it the last one signed."""
    start = max(len(text) // 2, len(text) - 8_000)
    dates = [
        d for d in find_dates(text, start) if _is_signature(text[max(0, d.start - 200) : d.start])
    ]
    return max(dates, key=lambda d: d.iso, default=None)


def _is_signature(before: str) -> bool:
    """Whether a date follows a signature and not a filing's own footer."""
    return _SIGNED.search(before) is not None and _FOOTER.search(before) is None


def _read_effective(source: Source, found: Found, opening: list[FoundDate]) -> None:
    text = source.text
    for date in opening:
        before = text[max(0, date.start - _CONTEXT) : date.start]
        stated = _EFFECTIVE_MEANS.search(before) or _TAKES_EFFECT.search(before)
        if stated or _EFFECTIVE_AFTER.match(text[date.end : date.end + 80]):
            found.effective_date = date.iso
            found.ambiguous_date = found.ambiguous_date or date.ambiguous
            found.add(source.quote("effective_date", date.start, date.end))
            return
