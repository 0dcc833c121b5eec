"""Sentences and quotes: where in a text something stands. Offsets count characters.

Every rule works on the text exactly as it was read and answers with `Quote`s, so that a
quote is always `text[quote.start:quote.end]`, word for word. All patterns here and in the
other rule files bound their repetitions: a filing of 300 kB takes well under a second.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

QUOTE_LIMIT = 700
"""A longer sentence is quoted as a window of about this many characters around the finding."""

SENTENCE_LIMIT = 4_000
"""A longer sentence is read in pieces: this bounds what one rule looks at."""

_STOP = re.compile(
    r"""[.!?]["”’')\]]{0,3}(?=\s|$)     # a full stop, perhaps with closing quotes
      | [。！？；]["”’』」]?                # CJK stops need no space after them
      | \n[ \t\r]{0,200}\n              # an empty line
      | \n(?=[ \t]{0,4}(?:\#{1,6}[ ]|[-*][ ]|\(?\d{1,2}[.)、]|第[一二三四五六七八九十]{1,3}条))
    """,
    re.VERBOSE,
)
_NO_STOP = re.compile(
    r"(?:\b(?:Inc|Ltd|Co|Corp|No|Nos|Sec|Art|Dr|Mr|Mrs|Ms|St|vs|Jan|Feb|Mar|Apr|Aug|Sept?|Oct|Nov"
    r"|Dec|[A-Za-z](?:\.[A-Za-z]){0,4})|(?:^|\s)\(?\d{1,3}(?:\.\d{1,3}){0,3})$"
)
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Quote:
    """A piece of the text, word for word: `text == source[start:end]`."""

    clause: str
    text: str
    start: int
    end: int

    def as_json(self) -> dict[str, str | int]:
        return {"clause": self.clause, "text": self.text, "start": self.start, "end": self.end}


@dataclass(slots=True)
class Source:
    """A text with its sentences, split once."""

    text: str
    spans: list[tuple[int, int]] = field(init=False)
    _starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.spans = list(_sentences(self.text))
        self._starts = [start for start, _ in self.spans]

    def sentence(self, position: int) -> tuple[int, int]:
        """The sentence around a position (an empty span there if it lies between two)."""
        at = bisect_right(self._starts, position) - 1
        if at >= 0 and position < self.spans[at][1]:
            return self.spans[at]
        return (position, position)

    def quote(self, clause: str, start: int, end: int) -> Quote:
        """The sentence around `start`, cut to a window at white space where it is too long."""
        first, last = self.sentence(start)
        last = max(last, end)
        if last - first > QUOTE_LIMIT:
            first = _forward(self.text, max(first, start - QUOTE_LIMIT // 3), start)
            last = _backward(self.text, min(last, max(end, first + QUOTE_LIMIT)), end)
        return Quote(clause, self.text[first:last], first, last)


def fold(text: str) -> str:
    """White space runs become one space: for values and comparisons, never for quotes."""
    return _SPACE.sub(" ", text).strip()


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for stop in _STOP.finditer(text):
        if text[stop.start()] == "." and _NO_STOP.search(
            text[max(0, stop.start() - 12) : stop.start()]
        ):
            continue
        yield from _pieces(text, start, stop.end())
        start = stop.end()
    yield from _pieces(text, start, len(text))


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A sentence; one that never ends, as in tables and lists, in pieces of `SENTENCE_LIMIT`."""
    while end - start > SENTENCE_LIMIT:
        cut = _backward(text, start + SENTENCE_LIMIT, start + SENTENCE_LIMIT // 2)
        yield from _trimmed(text, start, cut)
        start = cut
    yield from _trimmed(text, start, end)


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    piece = text[start:end]
    lead = len(piece) - len(piece.lstrip())
    body = piece.strip()
    if body:
        yield (start + lead, start + lead + len(body))


def _forward(text: str, at: int, limit: int) -> int:
    """The next start of a word, not beyond `limit`."""
    while 0 < at < limit and not text[at - 1].isspace():
        at += 1
    return at


def _backward(text: str, at: int, limit: int) -> int:
    """The end of a word before `at`, not before `limit`."""
    while limit < at < len(text) and not text[at].isspace():
        at -= 1
    return at
