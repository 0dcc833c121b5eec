"""How long an English contract runs, when it ends, and whether it renews itself."""

import re

from contract_rules.dates import add_months, find_dates, find_durations, notice_period
from contract_rules.found import Found
from contract_rules.spans import Source

_TERM = re.compile(
    r"\b(?:term|period|duration|(?:continue|remain)s?\s+(?:in\s+(?:full\s+)?(?:force|effect)|until|for)"
    r"|expires?|commenc\w+|terminat\w+\s+on|in\s+effect|effective|in\s+perpetuity|perpetual"
    r"|unlimited\s+period|comes?\s+to\s+an\s+end)\b",
    re.I,
)
_ABOUT = re.compile(
    r"\bterm\s+of\s+(?:this|the|each)\b|\b(?:initial|fixed|basic|contract)\s+(?:term|period)\b"
    r"|\bthis\s+(?:\w+\s+){0,3}(?:agreement|contract|lease|licen[cs]e|deed|amendment)\b.{0,150}"
    r"\b(?:term|period|continue|remain|effect|expire|commence|terminat|perpet|binding|for\s+an\s+unlimited)"
    r"|\bthe\s+[\"“]?term[\"”]?\s+(?:shall|will|commences|begins|is|of)\b|[\"“]term[\"”]",
    re.I | re.S,
)
_NOT_ABOUT = re.compile(
    r"\b(?:warrant(?:y|ies)|confidential\w*|non-?compet\w*|invoice|payment|cure[sd]?|breach|notice"
    r"|insurance|records|survive|audit)\b",
    re.I,
)
_MERELY_DURING = re.compile(
    r"\b(?:during|throughout)\s+the\s+(?:\w+\s+)?term\b(?:\s+of\s+this\s+\w+)?", re.I
)
_NAMED = re.compile(
    r"\bterm\s+of\s+this\b|\binitial\s+(?:term|period)\b|[\"“](?:initial\s+)?term[\"”]|\bcontract\s+period\b",
    re.I,
)
_RUNS = re.compile(
    r"\bthis\s+(?:\w+\s+)?(?:agreement|contract|lease|licen[cs]e|deed)\s+is\s+for\s+a\s+(?:term|period)\b"
    r"|\bthis\s+(?:\w+\s+)?(?:agreement|contract|lease|licen[cs]e|deed)\s+(?:shall|will)\s+"
    r"(?:be(?:come)?|commence|come\s+into|take)\b.{0,160}\b(?:continue|remain|until|ending|end)\b"
    r"|\bterm\s+(?:shall|will)\s+commence\b",
    re.I | re.S,
)
_LASTS = re.compile(
    r"\b(?:commenc\w*|begin\w*|continue\w*|remains?\s+in\s+(?:full\s+)?(?:force|effect))\b", re.I
)
_FOREVER = re.compile(
    r"\b(?:in\s+perpetuity|perpetual(?:ly)?|unlimited\s+period|indefinite(?:ly)?"
    r"|until\s+(?:it\s+is\s+)?terminated|end\s+when\s+terminated)\b",
    re.I,
)
_UNTIL = re.compile(
    r"\b(?:until|through|terminating\s+on|conclud\w+(?:\s+on)?|expir\w+\s+on|ending\s+on|ends?\s+on"
    r"|to\s+and\s+including)\b[^.;]{0,60}$",
    re.I,
)


def read_term(source: Source, found: Found) -> None:
    """Fill in length and end of the term; the end is computed from the start where it can be."""
    best: tuple[int, int] | None = None
    for start, end in source.spans:
        score = _term_score(source.text[start:end])
        if score > 0 and (best is None or score > best[0]):
            best = (score, start)
    if best is None:
        return
    start, end = source.sentence(best[1])
    at = _TERM.search(source.text, start, end)
    _fill_term(source.text[start:end], found)
    position = at.start() if at else start
    found.add(source.quote("term", position, position + 1))


def _term_score(sentence: str) -> int:
    """How much a sentence says about the contract's term; 0 and below = nothing."""
    sentence = _MERELY_DURING.sub("", sentence)
    if not _TERM.search(sentence) or not _ABOUT.search(sentence):
        return 0
    lasting = any(d.unit in ("year", "month") for d, _ in find_durations(sentence))
    score = 3 * bool(_ends(sentence)) + 2 * lasting + 2 * bool(_FOREVER.search(sentence))
    score += 2 * bool(_NAMED.search(sentence)) + 3 * bool(_RUNS.search(sentence))
    score += bool(_LASTS.search(sentence))
    return score - 3 * bool(_NOT_ABOUT.search(sentence)) if score >= 3 else 0


def _ends(sentence: str) -> list[str]:
    """Dates on which something ends."""
    return [
        d.iso
        for d in find_dates(sentence)
        if _UNTIL.search(sentence[max(0, d.start - 70) : d.start])
    ]


def _fill_term(sentence: str, found: Found) -> None:
    durations = [d for d, _ in find_durations(sentence) if d.unit in ("year", "month")]
    ends = _ends(sentence)
    if ends:
        found.expires = ends[-1]
    if durations:
        found.length = str(durations[0])
        begin = _begin(sentence) or found.effective_date or found.agreement_date
        if found.expires is None and begin and durations[0].months:
            found.expires = add_months(begin, durations[0].months)
    elif not ends and _FOREVER.search(sentence):
        found.perpetual = True


def _begin(sentence: str) -> str | None:
    """The day a term is said to start, where its own sentence says so."""
    dates = find_dates(sentence)
    starts = (d.iso for d in dates if _FROM.search(sentence[max(0, d.start - 40) : d.start]))
    return next(starts, None)


_FROM = re.compile(
    r"\b(?:from|commenc\w+|beginning|starting)\s+(?:on\s+|as\s+of\s+)?(?:the\s+)?$", re.I
)
_RENEW = re.compile(
    r"\b(?:renew(?:s|ed|al|ing)?|(?:year|month)[\s-]+to[\s-]+(?:year|month)"
    r"|extended?\s+(?:automatically|for)|automatic(?:ally)?\s+extend\w*)\b",
    re.I,
)
_AUTOMATIC = re.compile(
    r"\bautomatic(?:ally)?\b|\b(?:year|month)[\s-]+to[\s-]+(?:year|month)\b"
    r"|\bshall\s+(?:be\s+)?renew(?:ed)?\b(?!.{0,80}\bif\s+agreed)",
    re.I | re.S,
)
_RENEWED = re.compile(
    r"\b(?:agreement|contract|term|lease|licen[cs]e|franchise|period|attachment|subscription)\b",
    re.I,
)
_NOT_RENEWED = re.compile(r"\bnot\s+(?:being\s+|been\s+)?renew", re.I)
_REPEATED = re.compile(r"\b(?:successive|additional|further|annually)\b", re.I)
_OPTION = re.compile(r"\b(?:may|right|option)\b", re.I)


def read_renewal(source: Source, found: Found) -> None:
    """Fill in whether the term is renewed, how, and the notice that prevents it."""
    best: tuple[int, int] | None = None
    for start, end in source.spans:
        sentence = source.text[start:end]
        hit = _RENEW.search(sentence)
        score = _renewal_score(sentence) if hit else 0
        if hit and score >= 2 and (best is None or score > best[0]):
            best = (score, start + hit.start())
    if best is None:
        return
    start, end = source.sentence(best[1])
    sentence = source.text[start:end]
    found.renewal = "automatic" if _AUTOMATIC.search(sentence) else "by agreement"
    found.renewal_notice = notice_period(sentence) if found.renewal == "automatic" else None
    found.add(source.quote("renewal", best[1], best[1] + 1))


def _renewal_score(sentence: str) -> int:
    automatic = _AUTOMATIC.search(sentence)
    if not automatic and (_NOT_RENEWED.search(sentence) or not _RENEWED.search(sentence)):
        return 0
    score = 4 * bool(automatic) + 2 * bool(find_durations(sentence))
    return score + bool(_REPEATED.search(sentence)) + bool(_OPTION.search(sentence))
