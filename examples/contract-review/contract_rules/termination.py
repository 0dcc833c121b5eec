"""Who may end an English contract, and why: at will, or for cause."""

import re

from contract_rules.dates import cure_period, notice_period
from contract_rules.found import Found
from contract_rules.spans import Source

_TERMINATE = re.compile(
    r"\b(?:terminat(?:e|ed|es|ing|ion)|cancel(?:led|ed|s)?|revoke[sd]?)\b", re.I
)
_RIGHT = re.compile(
    r"\b(?:may|can|right|entitled|wishing|authori[sz]ed|reserves|option|upon|by)\b", re.I
)
_AT_WILL = re.compile(
    r"\bfor\s+(?:its\s+|their\s+)?convenience\b|\bfor\s+any\s+(?:reason|or\s+no)\b|\bfor\s+no\s+reason\b"
    r"|\bwithout\s+(?:supplying\s+|giving\s+)?(?:an?y?\s+)?(?:cause|reason)\b"
    r"|\bat\s+(?:its|their|the)\s+(?:sole\s+)?(?:discretion|option|will)\b|\bat\s+any\s+time\b"
    r"|\bunilateral\s+right\b|\bvoluntarily\b",
    re.I,
)
_SURELY = re.compile(
    r"\bconvenience\b|\bany\s+reason\b|\bwithout\s+(?:\w+\s+){0,2}(?:cause|reason)\b|\bno\s+reason\b"
    r"|\bdiscretion\b|\bunilateral\b",
    re.I,
)
_NOTICE_ONLY = re.compile(
    r"\b(?:either|any|each)\s+party\b.{0,60}\bterminat\w+.{0,160}\b(?:notice|days|months)\b"
    r"|\bterminat\w+\s+(?:upon|on|by\s+giving)\b.{0,120}\bnotice\b",
    re.I | re.S,
)
_MAY_END = re.compile(
    r"\b(?:may|can|right|entitled|option|reserves|authori[sz]ed)\b.{0,140}\b(?:terminat|cancel|revoke)"
    r"|\bfor\s+(?:its\s+)?convenience\b.{0,140}\bnotice\b",
    re.I | re.S,
)
_WHOLE = re.compile(
    r"\b(?:agreement|contract|term|engagement|lease|licen[cs]e|services?|subscription|appointment"
    r"|account|deed|tenancy)\b",
    re.I,
)
_BECAUSE = re.compile(
    r"\b(?:breach(?:es|ed)?|default(?:s|ed)?|fail(?:s|ure|ed)?|insolven\w*|bankrupt\w*|cure[sd]?"
    r"|remed(?:y|ied)|violat\w*|if\s+(?:the\s+other|either|any)|in\s+the\s+event|material\w*"
    r"|upon\s+the\s+occurrence|change\s+of\s+control|death|disab\w+|for\s+cause|because|result\s+of"
    r"|unless|injunction|infring\w*|if\s+\w+\s+(?:does|do|is|are|becomes?))\b",
    re.I,
)
_NO_DEFAULT = re.compile(r"\b(?:no|without)\s+(?:\w+\s+){0,2}(?:default|breach)\b", re.I)
_AFTERWARDS = re.compile(
    r"\b(?:was|were|been|has|had)\s+terminated\b|\bsurviv\w+\b"
    r"|\b(?:after|following|upon)\s+(?:the\s+)?(?:expiration\s+or\s+)?termination\b",
    re.I,
)
_MAY_NOT = re.compile(r"\b(?:not|neither|nor|no\s+party)\b[^.;]{0,40}\bterminat", re.I)
_EITHER = re.compile(
    r"\b(?:either|each|any)\s+(?:party|side)\b|\bboth\s+parties\b|\beither\s+of\s+(?:the\s+)?(?:parties|them)\b",
    re.I,
)
_CAUSE = re.compile(r"\b(?:breach|default|fail)\w*\b", re.I)


def read_termination(source: Source, found: Found) -> None:
    """Fill in termination at will (who, which notice) and for cause (which cure period)."""
    at_will: list[tuple[int, int]] = []
    cause: int | None = None
    for start, end in source.spans:
        sentence = source.text[start:end]
        hit = _TERMINATE.search(sentence)
        if hit is None:
            if re.search(r"\bfor\s+(?:its\s+)?convenience\b", sentence) and "notice" in sentence:
                at_will.append((1, start))
            continue
        score = _will_score(sentence) if _RIGHT.search(sentence) else 0
        if score:
            at_will.append((score, start + hit.start()))
        elif cause is None and _RIGHT.search(sentence) and _CAUSE.search(sentence):
            cause = start + hit.start()
    _fill_at_will(source, found, at_will)
    if cause is not None:
        first, last = source.sentence(cause)
        found.cause, found.cure_period = True, cure_period(source.text[first:last])
        found.add(source.quote("termination_for_cause", cause, cause + 1))


def _fill_at_will(source: Source, found: Found, at_will: list[tuple[int, int]]) -> None:
    if not at_will:
        return
    at_will.sort(key=lambda pair: (-pair[0], pair[1]))
    sentences = [source.text[slice(*source.sentence(at))] for _, at in at_will]
    found.convenience = True
    found.one_sided = len(at_will) == 1 and not _EITHER.search(sentences[0])
    found.convenience_notice = notice_period(sentences[0])
    for _, at in at_will:
        found.add(source.quote("termination_for_convenience", at, at + 1), most=3)


def _will_score(sentence: str) -> int:
    """How surely a sentence lets somebody end the contract without a reason; 0 = it does not."""
    if _MAY_NOT.search(sentence) or not _WHOLE.search(sentence):
        return 0
    may = _AT_WILL.search(sentence) and _MAY_END.search(sentence)
    if may and _SURELY.search(sentence):
        return 3
    if _BECAUSE.search(_NO_DEFAULT.sub("", sentence)) or _AFTERWARDS.search(sentence):
        return 0
    if may:
        return 2
    return int(
        bool(_NOTICE_ONLY.search(sentence) and re.search(r"\bmay\b|\bwishing\b", sentence, re.I))
    )
