"""`${...}`: look-ups in values, found, judged and resolved (contract §1, Values).

Only text and look-ups: what a head *means* (a subtask, an input, an item) is the caller's
business, given as `lookup`. Nothing here runs code or touches a file.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from surefoot.graph.errors import ReferenceMissing
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.values import Json

RESERVED_HEADS = ("item", "index", "inputs")
"""Heads that never name a subtask; so no subtask may be called so."""

_TOKEN = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_HEAD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_INDEX = re.compile(r"[0-9]{1,18}")
_SHOWN_KEYS = 8


@dataclass(frozen=True, slots=True)
class Reference:
    """One well-formed `${...}`.

    Attributes:
        text: what stands between the braces, without outer spaces.
        head: a subtask id, or `item`, `index`, `inputs`.
        path: dotted keys below the head; a leading `result` (= the whole) is taken off.
        artifact: the artifact's name in `${subtask.artifact.NAME}`, then `path` is empty.
    """

    text: str
    head: str
    path: tuple[str, ...] = ()
    artifact: str | None = None


def find_references(value: Json) -> list[Reference]:
    """All well-formed references of a value, in order of appearance; mapping keys are not read."""
    return [reference for text in _texts(value) for reference in _references_of(text)]


def reference_faults(value: Json) -> list[str]:
    """What is malformed in the references of a value, one sentence each; empty if nothing is."""
    faults: list[str] = []
    for text in _texts(value):
        for token in _TOKEN.finditer(text):
            why = None if token[0] == "$${" else _fault_of(token[1])
            if why is not None:
                shown = token[0] if token[1] is not None else text[token.start() :][:40]
                faults.append(f"{shown!r}: {why}; a literal '${{' is written '$${{'")
    return faults


def sole_reference(value: Json) -> Reference | None:
    """The reference that a string consists of alone (it then keeps its JSON type), else None."""
    if not isinstance(value, str):
        return None
    token = _TOKEN.fullmatch(value)
    return None if token is None or token[1] is None else _parse(token[1])


def resolve(value: Json, lookup: Callable[[Reference], Json]) -> Json:
    """The value with every reference replaced by what `lookup` answers for it.

    A string that is exactly one reference becomes the JSON value looked up; inside text the
    string form stands (see `as_text`). `$${` becomes `${`. Mapping keys are left alone.

    Raises:
        ReferenceMissing: a reference is malformed, or `lookup` raised it.
    """
    if isinstance(value, str):
        return _resolve_text(value, lookup) if "${" in value else value
    if is_object(value):
        resolved: dict[str, Json] = {}
        for key, inner in value.items():  # loops, not comprehensions: one frame a level
            resolved[key] = resolve(inner, lookup)
        return resolved
    if is_array(value):
        items: list[Json] = []
        for inner in value:
            items.append(resolve(inner, lookup))  # noqa: PERF401 - as above
        return items
    return value


def dig(value: Json, path: Sequence[str], *, reference: str | None = None) -> Json:
    """Follow dotted keys in mappings and whole numbers in lists (from 0).

    Args:
        value: where to start.
        path: the keys; empty gives the value itself.
        reference: the text to name in an error; default the path.

    Raises:
        ReferenceMissing: a key, index or level is not there; the message says what is.
    """
    for depth, key in enumerate(path):
        why = _missing(value, key)
        if why is not None:
            where = ".".join(path[:depth]) or "the value"
            raise ReferenceMissing(
                ".".join(path) if reference is None else reference, f"{where} {why}"
            )
        value = value[int(key)] if is_array(value) else value[key]
    return value


def split_path(path: str | None) -> tuple[str, ...]:
    """The keys of a dotted path as checks state it; None or '' is the whole value."""
    return tuple(path.split(".")) if path else ()


def as_text(value: Json) -> str:
    """A value inside text: strings as they are, '' for null, else compact JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _texts(value: Json) -> list[str]:
    """The strings of a value that may hold references, in order, without recursion."""
    found: list[str] = []
    stack: list[Json] = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            if "${" in top:
                found.append(top)
        elif is_object(top):
            stack.extend(reversed(list(top.values())))
        elif is_array(top):
            stack.extend(reversed(top))
    return found


def _references_of(text: str) -> list[Reference]:
    bodies = [token[1] for token in _TOKEN.finditer(text) if token[1] is not None]
    return [ref for ref in map(_parse, bodies) if ref is not None]


def _resolve_text(text: str, lookup: Callable[[Reference], Json]) -> Json:
    alone = sole_reference(text)
    if alone is not None:
        return lookup(alone)

    def replaced(token: re.Match[str]) -> str:
        if token[0] == "$${":
            return "${"
        reference = None if token[1] is None else _parse(token[1])
        if reference is None:
            raise ReferenceMissing(token[1] or "", _fault_of(token[1]) or "is malformed")
        return as_text(lookup(reference))

    return _TOKEN.sub(replaced, text)


def _parse(body: str) -> Reference | None:
    if _fault_of(body) is not None:
        return None
    text = body.strip()
    head, *keys = text.split(".")
    if head in RESERVED_HEADS:
        return Reference(text, head, tuple(keys))
    if keys[:1] == ["artifact"] and len(keys) > 1:
        return Reference(text, head, artifact=".".join(keys[1:]))
    return Reference(text, head, tuple(keys[1:] if keys[:1] == ["result"] else keys))


def _fault_of(body: str | None) -> str | None:
    """Why the text between braces is no reference; None for the body means never closed."""
    if body is None:
        return "the brace is never closed"
    text = body.strip()
    if not text:
        return "it is empty; name a subtask's key, an input, item or index"
    head, *keys = text.split(".")
    if "/" in head:
        return f"children such as {head!r} cannot be named; name the container"
    if not _HEAD.fullmatch(head):
        return f"{head!r} is neither a subtask id nor item, index or inputs"
    if "" in keys:
        return "there is an empty key between dots"
    if keys[:1] == ["artifact"] and "/" in text and head not in RESERVED_HEADS:
        return "an artifact's name has no '/'"
    return None


def _missing(value: Json, key: str) -> str | None:
    """Why one step of a path cannot be taken, or None if it can."""
    if is_object(value):
        if key in value:
            return None
        keys = ", ".join(map(repr, list(value)[:_SHOWN_KEYS])) or "none"
        more = ", ..." if len(value) > _SHOWN_KEYS else ""
        return f"has no key {key!r} (its keys: {keys}{more})"
    if is_array(value):
        if not _INDEX.fullmatch(key):
            return f"is a list; {key!r} is not a whole number"
        return None if int(key) < len(value) else f"has {len(value)} items, so no item {key}"
    kind = "null" if value is None else type(value).__name__
    return f"is {kind}, so it has no key {key!r}"
