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
    """Whether some path matches both patterns, or lies below what one of them names."""
    reached = {(0, 0)}
    stack = [(0, 0)]
    while stack:
        i, j = stack.pop()
        if i == len(one) or j == len(other):
            return True  # one claims this path, the other this path or something below it
        for step in _steps(one[i], other[j], i, j):
            if step not in reached:
                reached.add(step)
                stack.append(step)
    return False


def _steps(a: str, b: str, i: int, j: int) -> list[tuple[int, int]]:
    if a == "**" and b == "**":
        return [(i + 1, j), (i, j + 1)]
    if a == "**":
        return [(i + 1, j), (i, j + 1)]
    if b == "**":
        return [(i, j + 1), (i + 1, j)]
    return [(i + 1, j + 1)] if segments_overlap(a, b) else []


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
