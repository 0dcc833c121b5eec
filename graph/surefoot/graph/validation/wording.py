"""Small words for messages: lists that stay readable, near misses, short values."""

import difflib
import json
import string
from collections.abc import Collection, Iterator, Sequence

from surefoot.graph.values import Json

SHOWN = 8
_MAX_CANDIDATES = 300
"""Above this many names only single slips are looked for, whose cost does not grow with them."""

_ID_CHARS = "-_" + string.ascii_letters + string.digits


def listed(names: Sequence[str], *, most: int = SHOWN) -> str:
    """Names in a row, `'a', 'b' and 12 more` when there are many."""
    shown = ", ".join(repr(name) for name in names[:most])
    rest = len(names) - most
    return f"{shown} and {rest} more" if rest > 0 else shown


def did_you_mean(name: str, known: Collection[str]) -> str:
    """`; did you mean 'x'?` for the nearest known name, or nothing."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean {near!r}?"


def nearest(name: str, known: Collection[str]) -> str | None:
    """The known name most like `name`, or None if none is near."""
    if len(known) > _MAX_CANDIDATES:
        return next((edit for edit in _edits(name[:60]) if edit in known), None)
    plain = _plain(name)
    for candidate in known:
        if _plain(candidate) == plain and candidate != name:
            return candidate
    found = difflib.get_close_matches(name[:200], known, n=1, cutoff=0.6)
    return found[0] if found else None


def _edits(name: str) -> Iterator[str]:
    """Every text one slip of the finger away (P. Norvig, "How to write a spelling corrector")."""
    for n in range(len(name) + 1):
        head, tail = name[:n], name[n:]
        if tail:
            yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
        for char in _ID_CHARS:
            yield head + char + tail
            if tail:
                yield head + char + tail[1:]


def short(value: Json, *, most: int = 60) -> str:
    """A value as compact JSON, cut when it is long."""
    if isinstance(value, str):
        value = value[: most + 10]
    elif isinstance(value, (dict, list)) and len(value) > most:  # pyright: ignore[reportUnknownArgumentType]
        return "a long list" if isinstance(value, list) else "a large mapping"
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return "a value"
    return text if len(text) <= most else text[: most - 3] + "..."


def chain(ids: Sequence[str], *, most: int = 12) -> str:
    """Ids joined by arrows, the middle left out when there are very many."""
    if len(ids) <= most:
        return " -> ".join(ids)
    head, tail = ids[: most // 2], ids[-(most // 2) :]
    left_out = len(ids) - len(head) - len(tail)
    return " -> ".join([*head, f"... {left_out} more ...", *tail])


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")
