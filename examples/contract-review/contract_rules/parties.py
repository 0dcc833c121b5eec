"""Who signs an English contract: names and roles from its opening words.

The opening is found by `between` or `among`; in it, every defined term in parentheses
(`("Supplier")`) closes one party. Contracts without defined terms are read by company
suffixes (`Ltd`, `GmbH` ...) instead.
"""

import re
from dataclasses import dataclass

from contract_rules.spans import Quote, Source, fold

OPENING_CHARS = 12_000
_SEGMENT_CHARS = 2_600

_SUFFIX = (
    r"(?:Inc|Incorporated|Corp|Corporation|Company|Co|LLC|L\.L\.C|LLP|L\.P|LP|Ltd|Limited|PLC|plc|GmbH|AG|KG|S\.A|SA|"
    r"S\.r\.l|S\.p\.A|B\.V|BV|N\.V|N\.A|AB|Oy|ApS|A/S|Pty|PTE|Bhd|DAC|SARL|SAS)"
)
_HAS_SUFFIX = re.compile(rf"^.{{0,150}}?[\s,]{_SUFFIX}\b\.?(?!\s*[&'’-])", re.I | re.S)
_BETWEEN = re.compile(r"\b(?:by\s+and\s+)?(?:between|among(?:st)?)\b\s*:?|\bBETWEEN\s*:", re.I)
_CLOSED = re.compile(
    r"\bWHEREAS\b|\bW\s?I\s?T\s?N\s?E\s?S\s?S\s?E\s?T\s?H\b|\bRE?CE?ITALS?\b|\bNOW,?\s+THEREFORE\b|\bBACKGROUND\b"
    r"|\bagrees?\s+(?:as\s+follows|that|to)\b|\bTable\s+of\s+Contents\b|\bIT\s+IS\s+AGREED\b|\bDEFINITIONS\b"
)
_QUOTES = "[\"“”'‘’]"
_ALIAS = re.compile(
    rf"\((?P<before>[^()\"“”]{{0,160}}?){_QUOTES}\s?(?P<alias>[^()\"“”\n]{{1,60}}?)[,.]?{_QUOTES}(?P<after>[^()]{{0,240}})[)}}]"
    r"|(?<=[\w.)])\s[\"“](?P<bare>[Tt]he\s[A-Z]\w{2,20})[\"”]"
)
_COLLECTIVE = re.compile(
    r"^(?:the\s+|this\s+|a\s+)?(?:part(?:y|ies)|.{0,40}agreement|contract|effective\s+date|term|amendment|companies|lease)$",
    re.I,
)
_GROUPED = re.compile(r"\b(?:collectively|each|either|both|together)\b", re.I)
_LEAD = re.compile(
    r"^(?:[\s,;:.\-–—*#>]|\(?\d{1,2}[.)]|\([a-z]\)|\band\b|\bbetween\b|\bby\b"
    r"|\bof\s+the\s+(?:one|other|first|second)\s+part\b)+",
    re.I,
)
_TAIL = re.compile(
    r"[,;:(]|\n[ \t]{0,80}\n|\s+(?:an?|the)\s+[A-Za-z]|\s--|\s+\d+(?:st|nd|rd|th)?\s+[A-Z]|\s{3,}"
    r"|\s+(?:having|whose|with|acting|residing|located|organi[sz]ed|incorporated|existing|registered"
    r"|established|together|of\s+\d|as\s+(?:the\s+)?[A-Z])\b"
)
_SUFFIX_AFTER_COMMA = re.compile(rf",\s{{0,3}}{_SUFFIX}\b\.?", re.I)
_COMPANY = re.compile(
    rf"\b(?:[a-z]{{2,12}}\s(?=\d))?"
    rf"(?:[A-Z0-9][\w'’.&-]{{0,30}}(?:\s(?:&|and|of|de|la)\s|,?\s{{1,3}})){{1,6}}{_SUFFIX}\b\.?"
)
_PARTICLES = {
    "of",
    "and",
    "the",
    "de",
    "la",
    "van",
    "von",
    "der",
    "den",
    "for",
    "in",
    "on",
    "plc",
    "di",
    "da",
}
_SENTENCE = re.compile(
    r"[a-zA-Z]{3,}\.\s+(?!(?:of|and|&)\b)[A-Z][a-z]+\s+[a-z]|[A-Z]{3,}\.\s+[A-Z][a-z]+"
)
_NOT_A_NAME = re.compile(
    r"\b(?:agreement|agree|exhibit|section|article|hereby|dated|whereas)\b", re.I
)


@dataclass(frozen=True, slots=True)
class Party:
    """One side of a contract and what the contract calls it (None where it says nothing)."""

    name: str
    role: str | None


def find_parties(source: Source) -> tuple[list[Party], list[Quote]]:
    """The parties, in order, each once, with the words they were read from."""
    text = source.text
    start, end = _opening(text)
    parties = _defined(text[start:end])
    if len(parties) < 2:
        parties = _merged(parties, _undefined(text[start:end]) if start else [])
    if len(parties) < 2:
        start, end = 0, min(len(text), 3_000)
        parties = _merged(parties, _companies(text[start:end]))
    if not parties:
        return [], []
    return parties, _quotes(source, parties, start, end)


def _opening(text: str) -> tuple[int, int]:
    """The stretch that names the parties: the first `between` followed by two defined terms."""
    best = (0, 0)
    best_terms = -1
    for match in _BETWEEN.finditer(text, 0, OPENING_CHARS):
        limit = min(len(text), match.end() + _SEGMENT_CHARS)
        closed = _CLOSED.search(text, match.end() + 10, limit)
        again = _BETWEEN.search(text, match.end() + 10, limit)
        end = min(m.start() for m in (closed, again, re.compile(r"\Z").search(text, 0, limit)) if m)
        terms = min(2, len(list(_aliases(text[match.end() : end]))))
        if terms > best_terms:
            best, best_terms = (match.end(), end), terms
        if terms == 2:
            break
    return best


def _aliases(segment: str):
    for match in _ALIAS.finditer(segment):
        alias = fold(match["alias"] or match["bare"] or "")
        grouped = _GROUPED.search(match["before"] or "") and re.search(
            r"\bpart(?:y|ies)\b", match.group(), re.I
        )
        if not _COLLECTIVE.match(alias) and not grouped:
            yield match.start(), match.end(), re.sub(r"^the\s+", "", alias, flags=re.I)


def _defined(segment: str) -> list[Party]:
    """Parties that each end in a defined term; between two terms stand one or more names."""
    parties: list[Party] = []
    before = 0
    for start, end, alias in _aliases(segment):
        names = _names(segment[before:start])
        parties.extend(Party(name, None) for name in names[:-1])
        parties.extend(Party(name, alias) for name in names[-1:])
        before = end
        if len(parties) >= 12:
            break
    if len(parties) == 1 and before:
        parties.extend(Party(name, None) for name in _names(segment[before : before + 300])[:1])
    return _merged([], parties)


def _undefined(segment: str) -> list[Party]:
    """Parties without defined terms: `X Ltd and Y`, up to the end of the first line or sentence."""
    stretch = re.split(r"\n[ \t]*\n(?=\S.{60})|\bdated\b|\beffective\b", segment[:600])[0]
    pieces = re.split(r"\s+(?:and|AND)\s+", stretch)
    return [Party(name, None) for piece in pieces[:4] for name in _names(piece)[:1]]


def _companies(opening: str) -> list[Party]:
    """Names by their suffix; `a Delaware corporation` describes one and is none."""
    found = [
        match.group()
        for match in _COMPANY.finditer(opening)
        if not re.search(r"\ban?\s+$", opening[max(0, match.start() - 4) : match.start()])
    ]
    return [Party(fold(name), None) for name in found[:4]]


def _names(chunk: str) -> list[str]:
    """Names in the text before one defined term: usually one, `A Inc. and B` are two."""
    chunk = _LEAD.sub("", chunk)
    if chunk[:1].islower() and not re.match(r"[a-z]{1,3}[A-Z0-9]|\w+\s\d", chunk):
        later = re.search(r",?\s+(?:and|authorizes|appoints)\s+(?=[A-Z0-9])", chunk)
        chunk = chunk[later.end() :] if later else ""
    name = _name(chunk)
    if name is None:
        return []
    pair = re.match(rf"(.{{3,120}}?\s{_SUFFIX}\.?)\s+and\s+([A-Z0-9].*)$", name, re.S)
    return [fold(pair[1]), fold(pair[2])] if pair else [fold(name)]


def _name(chunk: str) -> str | None:
    tail = _TAIL.search(chunk)
    cut = tail.start() if tail else len(chunk)
    while True:
        suffix = _SUFFIX_AFTER_COMMA.match(chunk, cut)
        if suffix is None:
            break
        cut = suffix.end()
    name = chunk[:cut].strip(" \t\r\n,;:*_")
    suffixed = _HAS_SUFFIX.match(name)
    if suffixed and not re.match(
        r"\s+(?:of|and|&)\b|,?\s*" + _SUFFIX, name[suffixed.end() :], re.I
    ):
        name = name[: suffixed.end()]
    return name if _is_name(name) else None


def _is_name(name: str) -> bool:
    """A name is short, holds no sentence, and is not mostly ordinary lower-case words."""
    words = re.findall(r"\b[a-z]{2,}\b", name)
    plain = [w for w in words if w not in _PARTICLES]
    bounds = 1 < len(name) <= 120 and any(c.isalpha() for c in name)
    return (
        bounds and len(plain) <= 1 and not _NOT_A_NAME.search(name) and not _SENTENCE.search(name)
    )


def _merged(first: list[Party], second: list[Party]) -> list[Party]:
    """Both lists, each name once (case, dots and spaces aside); the longer spelling stays."""
    merged: list[Party] = []
    for party in [*first, *second]:
        key = _key(party.name)
        if key and not any(key in _key(m.name) or _key(m.name) in key for m in merged):
            merged.append(party)
    return merged


def _key(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


def _quotes(source: Source, parties: list[Party], start: int, end: int) -> list[Quote]:
    """The sentences in which the names stand, each once."""
    quotes: list[Quote] = []
    for party in parties:
        pattern = r"\s+".join(map(re.escape, party.name.split()))
        match = re.compile(pattern).search(source.text, start, end)
        if match and not any(q.start <= match.start() < q.end for q in quotes):
            quotes.append(source.quote("parties", match.start(), match.end()))
    return quotes
