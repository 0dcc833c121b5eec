"""Small words for messages: lists that stay readable, near misses, short values."""

import difflib
import json
from collections.abc import Collection, Sequence

from surefoot.graph.values import Json

SHOWN = 8
_MAX_CANDIDATES = 2000
"""Above this many names only exact spellings but for case and separators are looked for."""


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
    plain = _plain(name)
    for candidate in known:
        if _plain(candidate) == plain and candidate != name:
            return candidate
    if len(known) > _MAX_CANDIDATES:
        return None
    found = difflib.get_close_matches(name[:200], known, n=1, cutoff=0.6)
    return found[0] if found else None


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
