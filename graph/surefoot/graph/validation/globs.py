"""Workspace globs: whether two of them can name the same path, and what lies below what.

`*` and `?` stay within a path segment, `**` as a whole segment spans any number of them (none
too); a path also claims everything below it, since a folder written as a whole holds its files.
"""

import posixpath
from functools import lru_cache

WILD = "*?["

Segments = tuple[str, ...]


@lru_cache(maxsize=65536)
def segments(pattern: str) -> Segments:
    """The pattern's segments without `.` and empty ones; `..` is folded where it can be."""
    normal = posixpath.normpath(pattern.strip() or ".")
    return tuple(part for part in normal.split("/") if part not in ("", "."))


def literal_head(parts: Segments) -> Segments:
    """The leading segments without wildcards."""
    for n, part in enumerate(parts):
        if any(char in part for char in WILD):
            return parts[:n]
    return parts


def overlap(one: Segments, other: Segments) -> bool:
    """Whether some path matches both patterns, or lies below what one of them names.

    A name with an ending (`a.txt`) is taken for a file: it has something below it only for a
    pattern that spells it out as a folder.
    """
    reached = {(0, 0)}
    stack = [(0, 0)]
    while stack:
        i, j = stack.pop()
        if i == len(one) and j == len(other):
            return True
        if _claims(one, i) or _claims(other, j):
            return True
        for step in _steps(one, other, i, j):
            if step not in reached:
                reached.add(step)
                stack.append(step)
    return False


def _claims(parts: Segments, at: int) -> bool:
    """Whether the pattern is at its end, and what it names holds all that is below."""
    return at == len(parts) and not (parts and _is_file(parts[-1]))


def _is_file(segment: str) -> bool:
    return "." in segment.strip(".")


def _steps(one: Segments, other: Segments, i: int, j: int) -> list[tuple[int, int]]:
    a = one[i] if i < len(one) else None
    b = other[j] if j < len(other) else None
    steps: list[tuple[int, int]] = []
    if a == "**":
        steps += [(i + 1, j)] + ([(i, j + 1)] if b is not None else [])
    if b == "**":
        steps += [(i, j + 1)] + ([(i + 1, j)] if a is not None else [])
    if a is None and i and j and b is not None and one[i - 1] == other[j - 1]:
        steps.append((i, len(other)))  # spelled out as a folder
    if b is None and i and j and a is not None and one[i - 1] == other[j - 1]:
        steps.append((len(one), j))
    if a not in (None, "**") and b not in (None, "**") and segments_overlap(a or "", b or ""):
        steps.append((i + 1, j + 1))
    return steps


@lru_cache(maxsize=65536)
def segments_overlap(a: str, b: str) -> bool:
    """Whether two segments with `*`, `?` and `[...]` (taken as any one character) share a name."""
    if not any(c in a for c in WILD) and not any(c in b for c in WILD):
        return a == b
    left, right = _tokens(a), _tokens(b)
    reached = {(0, 0)}
    stack = [(0, 0)]
    while stack:
        i, j = stack.pop()
        if i == len(left) and j == len(right):
            return True
        for step in _token_steps(left, right, i, j):
            if step not in reached:
                reached.add(step)
                stack.append(step)
    return False


def _tokens(segment: str) -> list[str]:
    """Characters, with `[...]` as one `?` and runs of `*` as one."""
    tokens: list[str] = []
    n = 0
    while n < len(segment):
        close = segment.find("]", n + 2) if segment[n] == "[" else -1
        if close != -1:
            tokens.append("?")
            n = close + 1
            continue
        if segment[n] != "*" or tokens[-1:] != ["*"]:
            tokens.append(segment[n])
        n += 1
    return tokens


def _token_steps(left: list[str], right: list[str], i: int, j: int) -> list[tuple[int, int]]:
    a = left[i] if i < len(left) else None
    b = right[j] if j < len(right) else None
    steps: list[tuple[int, int]] = []
    if a == "*":
        steps.append((i + 1, j))
        if b is not None:
            steps.append((i, j + 1))
    if b == "*":
        steps.append((i, j + 1))
        if a is not None:
            steps.append((i + 1, j))
    if a not in (None, "*") and b not in (None, "*") and (a == b or "?" in (a, b)):
        steps.append((i + 1, j + 1))
    return steps
