"""YAML text to JSON-plain values, by the parser's events and without recursion.

The core rules of YAML 1.2 hold: only `true` and `false` are truth values, dates and `on` stay
text, keys are always text. Duplicate keys, foreign tags, cyclic or exploding aliases and
numbers that JSON does not know are refused with line and column. Merge keys (`<<`) work.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.values import Json, JsonObject

MAX_DEPTH = 200
"""Deeper nesting is refused: nobody writes it, and later readers recurse."""

MAX_EXPANDED = 1_000_000
"""Values that aliases may multiply a file to, at more than ten times what is written."""

_TAG = "tag:yaml.org,2002:"
_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = ("true", "True", "TRUE")
_FALSE = ("false", "False", "FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class YamlFault(Exception):
    """The text is not what a reader of plain values accepts; `line` and `column` count from 1."""

    def __init__(self, why: str, mark: Any = None) -> None:
        self.why = why
        self.line = None if mark is None else int(mark.line) + 1
        self.column = None if mark is None else int(mark.column) + 1
        super().__init__(why)


@dataclass(slots=True)
class _Open:
    """A mapping or list under construction."""

    value: JsonObject | list[Json]
    mark: Any
    key: str | None = None
    anchor: str | None = None
    merged: list[JsonObject] = field(default_factory=list[JsonObject])
    size: int = 1


class _Builder:
    """Puts values together as events arrive; `stack` holds the open containers."""

    def __init__(self) -> None:
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Json, int]] = {}
        self.documents: list[Json] = []
        self.written = 0
        self.expanded = 0

    def open(self, value: JsonObject | list[Json], event: Any) -> None:
        if event.tag not in (None, "!", _TAG + "map", _TAG + "seq"):
            raise YamlFault(f"the tag {event.tag!r} is not allowed", event.start_mark)
        if self.stack and is_object(self.stack[-1].value) and self.stack[-1].key is None:
            raise YamlFault("a key must be a text", event.start_mark)
        if len(self.stack) >= MAX_DEPTH:
            raise YamlFault(f"nested deeper than {MAX_DEPTH} levels", event.start_mark)
        self.written += 1
        self.stack.append(_Open(value, event.start_mark, anchor=event.anchor))

    def close(self) -> None:
        done = self.stack.pop()
        if is_object(done.value):
            for parent in done.merged:
                for key, value in parent.items():
                    done.value.setdefault(key, value)
        self._anchor(done.anchor, done.value, done.size)
        self._put(done.value, done.size, done.mark)

    def scalar(self, event: Any) -> None:
        self.written += 1
        top = self.stack[-1] if self.stack else None
        if top is not None and is_object(top.value) and top.key is None:
            self._anchor(event.anchor, event.value, 1)
            self._key(top, str(event.value), event)
            return
        value = _scalar(event)
        self._anchor(event.anchor, value, 1)
        self._put(value, 1, event.start_mark)

    def alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            why = f"the alias *{event.anchor} stands before or inside its own anchor, or has none"
            raise YamlFault(why, event.start_mark)
        value, size = self.anchors[event.anchor]
        self.expanded += size
        if self.expanded > MAX_EXPANDED and self.expanded > 10 * self.written:
            raise YamlFault("aliases multiply the file beyond all measure", event.start_mark)
        top = self.stack[-1] if self.stack else None
        if top is not None and is_object(top.value) and top.key is None:
            if not isinstance(value, str):
                raise YamlFault("a key must be a text", event.start_mark)
            self._key(top, value, event)
            return
        self._put(value, size, event.start_mark)

    def _anchor(self, name: str | None, value: Json, size: int) -> None:
        if name is not None:
            self.anchors[name] = (value, size)

    def _key(self, top: _Open, key: str, event: Any) -> None:
        if key in top.value:
            raise YamlFault(f"the key {key!r} is there twice", event.start_mark)
        top.key = key

    def _put(self, value: Json, size: int, mark: Any) -> None:
        if not self.stack:
            self.documents.append(value)
            return
        top = self.stack[-1]
        top.size += size
        if is_object(top.value):
            if top.key == "<<":
                top.merged += _merge_parents(value, mark)
            else:
                top.value[cast("str", top.key)] = value
            top.key = None
        elif is_array(top.value):
            top.value.append(value)


def read_yaml(text: str) -> Json:
    """The one document of a YAML text as a JSON-plain value; None for an empty text.

    Raises:
        YamlFault: anything the module's description refuses, or a syntax error.
    """
    builder = _Builder()
    for event in _events(text):
        if isinstance(event, yaml.ScalarEvent):
            builder.scalar(event)
        elif isinstance(event, yaml.MappingStartEvent):
            builder.open({}, event)
        elif isinstance(event, yaml.SequenceStartEvent):
            builder.open([], event)
        elif isinstance(event, yaml.CollectionEndEvent):
            builder.close()
        elif isinstance(event, yaml.AliasEvent):
            builder.alias(event)
        elif isinstance(event, yaml.DocumentStartEvent) and builder.documents:
            raise YamlFault("a second document begins; only one is read", event.start_mark)
    return builder.documents[0] if builder.documents else None


def _events(text: str) -> Iterator[yaml.Event]:
    parse = cast("Callable[..., Iterator[yaml.Event]]", getattr(yaml, "parse"))  # noqa: B009
    try:
        yield from parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as exc:
        parts = (exc.context, exc.problem)
        raise YamlFault(
            ", ".join(part for part in parts if part) or "not YAML",
            exc.problem_mark or exc.context_mark,
        ) from exc
    except yaml.YAMLError as exc:
        raise YamlFault(" ".join(str(exc).split()) or "not YAML") from exc


def _merge_parents(value: Json, mark: Any) -> list[JsonObject]:
    parents = value if is_array(value) else [value]
    if not all(is_object(parent) for parent in parents):
        raise YamlFault("'<<' merges mappings only", mark)
    return cast("list[JsonObject]", parents)


def _scalar(event: Any) -> Json:
    text = str(event.value)
    tag = event.tag
    if tag in ("!", _TAG + "str") or (tag is None and not event.implicit[0]):
        return text
    if tag is not None and tag not in [_TAG + t for t in ("int", "float", "bool", "null")]:
        raise YamlFault(f"the tag {tag!r} is not allowed", event.start_mark)
    return _plain_scalar(text, event.start_mark)


def _plain_scalar(text: str, mark: Any) -> Json:
    if _NULL.fullmatch(text):
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if not text[0].isdigit() and text[0] not in "+-.":
        return text
    if _NOT_JSON.fullmatch(text):
        raise YamlFault(f"{text} is no number in JSON; quote it to mean the text", mark)
    try:
        if _INT.fullmatch(text):
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        number = float(text) if _FLOAT.fullmatch(text) else None
    except ValueError as exc:
        raise YamlFault(f"the number {text[:20]}... has too many digits", mark) from exc
    if number is not None and not math.isfinite(number):
        raise YamlFault(f"{text[:40]} is too large a number; quote it to mean the text", mark)
    return text if number is None else number
