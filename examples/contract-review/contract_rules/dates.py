"""Dates and durations in English and Chinese contracts, normalised.

A full date becomes `2024-03-15`; a year alone stays `2000`, a day without a year `--04-30`
(both as ISO 8601 writes them). `03/04/2024` is read month first and marked as ambiguous.
"""

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

_MONTHS = {name.lower(): n for n, name in enumerate(calendar.month_name) if name}
_MONTH = (
    r"(?P<m>January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan\.?|Feb\.?|Mar\.?|Apr\.?|Jun\.?|Jul\.?|Aug\.?|Sept?\.?|Oct\.?|Nov\.?|Dec\.?)"
)
_ONES = "first second third fourth fifth sixth seventh eighth ninth".split()
_ORDINALS = {
    word: n
    for n, word in enumerate(
        [
            *_ONES,
            *"tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth".split(),
            *"eighteenth nineteenth twentieth".split(),
            *(f"twenty-{one}" for one in _ONES),
            "thirtieth",
            "thirty-first",
        ],
        start=1,
    )
}
_WORD = "|".join(sorted(_ORDINALS, key=len, reverse=True))
_BLANK = r"(?:(?<!_)_{1,60}|\[[^\]\n]{0,6}\])"
_YEAR = r"(?P<y>(?:19|20)\d\d)"
_CJK_DIGITS = {c: n for n, c in enumerate("〇一二三四五六七八九")} | {
    "零": 0,
    "○": 0,
    "Ｏ": 0,
    "O": 0,
}

_ENGLISH = [
    re.compile(
        rf"\b{_MONTH}\s+(?P<d>\d{{1,2}})(?:\s?(?:st|nd|rd|th))?\s{{0,3}},?\s{{1,5}}{_YEAR}\b", re.I
    ),
    re.compile(
        rf"\b(?P<d>\d{{1,2}})\s?(?:st|nd|rd|t\s?h)?\s{{1,3}}(?:day\s{{1,3}}of\s{{1,3}})?"
        rf"{_MONTH}(?:\s{{0,3}},?\s{{0,3}}{_YEAR})?\b",
        re.I,
    ),
    re.compile(rf"\b(?P<w>{_WORD})\s+day\s+of\s+{_MONTH}(?:\s{{0,3}},?\s{{1,3}}{_YEAR})?\b", re.I),
    re.compile(
        rf"\b(?P<last>last)\s+day\s+of\s+{_MONTH}(?:\s{{0,3}},?\s{{1,3}}(?:in\s+the\s+year\s+)?{_YEAR})\b",
        re.I,
    ),
    re.compile(rf"\b{_YEAR}-(?P<m>\d{{2}})-(?P<d>\d{{2}})\b"),
    re.compile(r"(?<![\d/])(?P<a>\d{1,2})/(?P<b>\d{1,2})/(?P<y>(?:19|20)\d\d|\d\d)(?![\d/])"),
    re.compile(
        rf"{_BLANK}\s{{0,3}}(?:st|nd|rd|th)?\s{{0,3}}day\s{{1,3}}of\s{{1,3}}{_BLANK}\s{{0,3}},?\s{{0,3}}{_YEAR}"
    ),
    re.compile(rf"{_BLANK}\s{{0,3}},\s{{0,3}}{_YEAR}"),
]
_CHINESE = [
    re.compile(rf"{_YEAR}\s?年\s?(?P<m>\d{{1,2}})\s?月\s?(?P<d>\d{{1,2}})\s?日"),
    re.compile(
        r"(?P<y>[〇零○一二三四五六七八九]{4})年(?P<m>[一二三四五六七八九十]{1,3})月(?P<d>[一二三四五六七八九十]{1,3})日"
    ),
    re.compile(rf"{_YEAR}[-./](?P<m>\d{{1,2}})[-./](?P<d>\d{{1,2}})"),
]

_NUMBER_WORDS = {
    word: n
    for n, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen twenty".split(),
        start=1,
    )
} | {
    "a": 1,
    "an": 1,
    "thirty": 30,
    "forty-five": 45,
    "sixty": 60,
    "ninety": 90,
    "one hundred eighty": 180,
}
_NUMBER = "|".join(sorted(_NUMBER_WORDS, key=len, reverse=True))
DURATION = re.compile(
    rf"\b(?:(?P<word>{_NUMBER})\b[\s-]{{0,3}}(?:\(\s?(?P<paren>\d{{1,3}})\s?\))?|(?P<digits>\d{{1,3}}))"
    r"[\s_-]{0,5}\)?(?:\s?(?:full|consecutive|calendar|business|working))?\s{0,3}"
    r"(?P<unit>day|week|month|year)s?\b",
    re.I,
)
BLANK_DURATION = re.compile(
    r"\(_{0,20}(?P<digits>\d{1,3})_{0,20}\)\s{0,3}(?P<unit>day|month|year)s?\b", re.I
)
CHINESE_DURATION = re.compile(
    r"(?P<digits>\d{1,3}|[一二两三四五六七八九十]{1,3})(?:（\d{1,3}）)?\s?个?(?P<unit>工作日|日|天|周|个月|月|年)(?!\d)"
)
_BEFORE = re.compile(r"\bbefore\s+the\s+(?:end|expir)", re.I)
_WITHIN = re.compile(r"\bwithin\s+(?:a\s+)?\(?$", re.I)
_NOTICE = re.compile(r"\bnotice|\bnotif\w+|\bprior\b|通知", re.I)


@dataclass(frozen=True, slots=True)
class FoundDate:
    """A date as it stands at `start:end`; `ambiguous` when day and month could be swapped."""

    iso: str
    start: int
    end: int
    ambiguous: bool = False


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time: `amount` of `unit` (day, week, month, year)."""

    amount: int
    unit: str

    def __str__(self) -> str:
        return f"{self.amount} {self.unit}{'' if self.amount == 1 else 's'}"

    @property
    def months(self) -> int | None:
        return {"year": 12 * self.amount, "month": self.amount}.get(self.unit)

    @property
    def days(self) -> int:
        """About how many days; good enough to compare notice periods."""
        return self.amount * {"day": 1, "week": 7, "month": 30, "year": 365}[self.unit]


def find_dates(text: str, start: int = 0, end: int | None = None) -> list[FoundDate]:
    """All dates of a stretch of text, in order; where two readings overlap the first wins."""
    end = len(text) if end is None else end
    found: list[FoundDate] = []
    for pattern in (*_ENGLISH, *_CHINESE):
        for match in pattern.finditer(text, start, end):
            if not any(f.start < match.end() and match.start() < f.end for f in found):
                found.extend(_read(match))
    return sorted(found, key=lambda f: f.start)


def find_durations(text: str) -> list[tuple[Duration, int]]:
    """All durations of a sentence with their offsets: `sixty (60) days`, `30 days`, `三年`."""
    found = [
        (_duration(m), m.start())
        for pattern in (DURATION, BLANK_DURATION, CHINESE_DURATION)
        for m in pattern.finditer(text)
    ]
    return sorted(found, key=lambda pair: pair[1])


def notice_period(sentence: str) -> str | None:
    """The duration nearest to the word `notice` (`prior`, `before the end`); None without one."""
    word = _NOTICE.search(sentence) or _BEFORE.search(sentence)
    found = find_durations(sentence) if word else []
    near = [(abs(at - word.start()), n) for n, (_, at) in enumerate(found) if word]
    return str(found[min(near)[1]][0]) if near else None


def cure_period(sentence: str) -> str | None:
    """How long a breach may last: the duration after `within`, else the first one."""
    found = find_durations(sentence)
    within = [d for d, at in found if _WITHIN.search(sentence[max(0, at - 14) : at])]
    first = (within or [d for d, _ in found])[:1]
    return str(first[0]) if first else None


def add_months(iso: str, months: int) -> str | None:
    """The day `months` later (`2024-01-31` + 1: `2024-02-29`); None unless `iso` is a full date."""
    try:
        day = date.fromisoformat(iso)
    except ValueError:
        return None
    years, month = divmod(day.month - 1 + months, 12)
    year = day.year + years
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last)).isoformat()


def chinese_number(text: str) -> int:
    """`十二` is 12, `三十` is 30, `两` is 2; digits stay what they are."""
    if text.isdigit():
        return int(text)
    tens, ten, ones = text.partition("十")
    if not ten:
        return {"两": 2}.get(text) or _CJK_DIGITS[text[-1]]
    return (_CJK_DIGITS[tens] if tens else 1) * 10 + (_CJK_DIGITS[ones] if ones else 0)


def _read(match: re.Match[str]) -> Iterator[FoundDate]:
    groups = match.groupdict()
    ambiguous = False
    if "a" in groups:
        first, second = int(groups["a"]), int(groups["b"])
        month, day = (second, first) if first > 12 else (first, second)
        ambiguous = first <= 12 and second <= 12 and first != second
    else:
        month, day = _month(groups.get("m")), _day(groups)
    year = _year(groups.get("y"))
    if groups.get("last") and year is not None and month is not None:
        day = calendar.monthrange(year, month)[1]
    iso = _iso(year, month, day)
    if iso is not None:
        yield FoundDate(iso, match.start(), match.end(), ambiguous)


def _year(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdigit() or not text.isascii():
        return int("".join(str(_CJK_DIGITS[c]) for c in text))
    if len(text) == 2:
        return int(text) + (1900 if int(text) >= 70 else 2000)
    return int(text)


def _month(text: str | None) -> int | None:
    if text is None:
        return None
    if text[0].isdigit() or text[0] in "一二三四五六七八九十":
        return chinese_number(text)
    prefix = text.rstrip(".").lower()[:3]
    return next(n for name, n in _MONTHS.items() if name.startswith(prefix))


def _day(groups: dict[str, str | None]) -> int | None:
    word, digits = groups.get("w"), groups.get("d")
    if word:
        return _ORDINALS[word.lower()]
    return chinese_number(digits) if digits else None


def _iso(year: int | None, month: int | None, day: int | None) -> str | None:
    if month is None or day is None:
        return None if year is None else f"{year:04d}"
    try:
        whole = date(2000 if year is None else year, month, day)
    except ValueError:
        return None
    return whole.isoformat() if year is not None else f"--{month:02d}-{day:02d}"


def _duration(match: re.Match[str]) -> Duration:
    groups = match.groupdict()
    unit = {
        "日": "day",
        "天": "day",
        "工作日": "day",
        "周": "week",
        "个月": "month",
        "月": "month",
        "年": "year",
    }
    digits = groups.get("paren") or groups.get("digits")
    word = groups.get("word")
    amount = chinese_number(digits) if digits else _NUMBER_WORDS[(word or "one").lower()]
    return Duration(amount, unit.get(match["unit"], match["unit"].lower()))
