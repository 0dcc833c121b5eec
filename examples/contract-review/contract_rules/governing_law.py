"""Whose law governs an English contract."""

import re
from itertools import islice

from contract_rules.found import Found
from contract_rules.places import national_law, places_in, unlisted_place
from contract_rules.spans import Source

_MOST_LAWS = 12
_LAW = re.compile(r"\blaws?\b", re.I)
_GOVERNS = re.compile(
    r"\b(?:govern(?:ed|s|ing)?|constru(?:ed|es)|interpret(?:ed|ation)|enforced|subject\s+to"
    r"|appl(?:y|ies))\b",
    re.I,
)
_UNDER_LAWS = re.compile(
    r"\b(?:organi[sz]ed|existing|incorporated|established|corporation|company|registered|formed"
    r"|standing)\b[^.]{0,40}\b(?:under|by)\s+(?:the\s+)?$",
    re.I,
)
_LAW_OF = re.compile(r"^laws?\s+(?:and\s+regulations\s+)?(?:of|in\s+force\s+in|in)\s+", re.I)
_STRONG = re.compile(
    r"\b(?:govern\w*|constru\w*|interpret\w*)\b.{0,160}\blaws?\b|\blaws?\b.{0,90}\b(?:govern|appl)\w*",
    re.I | re.S,
)
_ABOUT = re.compile(r"\b(?:agreement|contract|deed|lease|licen[cs]e|terms)\b", re.I)


def read_governing_law(source: Source, found: Found) -> None:
    """Fill in the place; a sentence about this contract wins over one about something else."""
    best: tuple[int, int, str] | None = None
    for start, end in source.spans:
        sentence = source.text[start:end]
        if not _LAW.search(sentence) or not _GOVERNS.search(sentence):
            continue
        hit = _place_of(sentence)
        if hit is None:
            continue
        place, offset = hit
        doubt = 2 * (_STRONG.search(sentence) is None) + (_ABOUT.search(sentence) is None)
        candidate = (doubt, start + offset, place)
        best = min(best, candidate) if best else candidate
    if best is not None and best[0] < 3:
        found.governing_law = best[2]
        found.add(source.quote("governing_law", best[1], best[1] + 1))


def _place_of(sentence: str) -> tuple[str, int] | None:
    """The place after `law(s) of`, else before `law`; where a company was founded is not one."""
    places: list[tuple[str, int]] = []
    for law in islice(_LAW.finditer(sentence), _MOST_LAWS):
        before = sentence[max(0, law.start() - 80) : law.start()]
        of = _LAW_OF.match(sentence[law.start() : law.start() + 60])
        if of is None or _UNDER_LAWS.search(before):
            continue
        stretch = sentence[law.start() + of.end() : law.start() + of.end() + 90]
        named = places_in(stretch)
        place = named[0] if named else unlisted_place(stretch)
        if place:
            places.append((place, law.start()))
    if not places:
        national = national_law(sentence)
        return (national, 0) if national and _STRONG.search(sentence) else None
    specific = [p for p in places if p[0] != "United States"]
    return (specific or places)[0]
