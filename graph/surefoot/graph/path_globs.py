"""What the globs of `writes` mean: one meaning for file tools, prohibitions and snapshots.

`*` and `?` stay within one name, `**` crosses folders, and a glob that names a folder means all
below it: `out`, `out/` and `out/**` all mean `out/a/b.txt`. Paths are relative to the workspace,
with `/`. Whether two globs can meet is asked in `validation.globs`.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from surefoot.graph.shapes import is_array
from surefoot.graph.values import Json

Parts = tuple[str, ...]
"""What is left of a glob below some folder, name by name; () means all that is there."""


def matches_any(globs: Sequence[str], relative: str) -> bool:
    """Whether a path is meant by one of the globs."""
    return any(_compiled(glob).fullmatch(relative) is not None for glob in globs)


def begin(globs: Iterable[str]) -> frozenset[Parts]:
    """What the globs ask for in the workspace itself: where a walk begins."""
    return frozenset(_parts(glob) for glob in globs)


def enter(wanted: frozenset[Parts], name: str) -> tuple[bool, frozenset[Parts]]:
    """Take one name on a walk: (whether it is meant, with all below it; what is wanted below it).

    Where it is not meant and nothing is wanted below it, a walk need not go there.
    """
    below: set[Parts] = set()
    waiting = list(wanted)
    while waiting:
        parts = waiting.pop()
        if not parts or parts == ("**",):
            return True, frozenset()
        head, rest = parts[0], parts[1:]
        if head == "**":
            below.add(parts)
            waiting.append(rest)  # it may also stand for no folder at all
        elif _name(head).fullmatch(name) is not None:
            if not rest:
                return True, frozenset()
            below.add(rest)
    return False, frozenset(below)


def leads_to(globs: Sequence[str], folder: str) -> bool:
    """Whether something below a folder may be meant, though the folder itself is not."""
    wanted = begin(globs)
    for name in folder.split("/"):
        meant, wanted = enter(wanted, name)
        if meant or not wanted:
            return False
    return True


def only_names(wanted: frozenset[Parts]) -> set[str] | None:
    """The names that can be meant here, where they are all spelled out; None: any may be."""
    if any(not parts or any(char in parts[0] for char in "*?[") for parts in wanted):
        return None
    return {parts[0] for parts in wanted}


def literal(path: str) -> str:
    """The glob that means this path alone, with what is below it."""
    return re.sub(r"[*?\[]", r"[\g<0>]", path)


def as_names(value: Json) -> Json:
    """A value as globs that mean just what it says: texts, also in lists, as `literal`."""
    if isinstance(value, str):
        return literal(value)
    return [as_names(one) for one in value] if is_array(value) else value


def _parts(glob: str) -> Parts:
    return tuple(part for part in glob.split("/") if part not in ("", "."))


@lru_cache(maxsize=512)
def _compiled(glob: str) -> re.Pattern[str]:
    parts = _parts(glob)
    if not parts:
        return re.compile(".*", re.DOTALL)
    pattern = ""
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        if part == "**":
            pattern += ".*" if last else "(?:[^/]+/)*"
        else:
            pattern += _one_name(part) + ("" if last else "/")
    return re.compile(pattern + "(?:/.*)?", re.DOTALL)


@lru_cache(maxsize=512)
def _name(part: str) -> re.Pattern[str]:
    return re.compile(_one_name(part), re.DOTALL)


def _one_name(part: str) -> str:
    pieces = re.split(r"(\*+|\?|\[!?[^\]]+\])", part)
    return "".join(_piece(piece) for piece in pieces)


def _piece(piece: str) -> str:
    if piece.startswith("*"):
        return "[^/]*"
    if piece == "?":
        return "[^/]"
    if piece.startswith("[") and piece.endswith("]") and len(piece) > 2:
        return _one_of(piece)
    return re.escape(piece)


def _one_of(piece: str) -> str:
    inner = piece[1:-1].replace("\\", r"\\").replace("[", r"\[")
    pattern = f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
    try:
        re.compile(pattern)
    except re.error:  # `[z-a]` names nothing but itself
        return re.escape(piece)
    return pattern
