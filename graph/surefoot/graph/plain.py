"""Cleaning of foreign values: whatever a tool or a model hands over becomes plain JSON, once.

Text is kept visible and storable (PostgreSQL refuses NUL, UTF-8 refuses lone surrogates), numbers
stay exact, and what is not JSON is named with its place. Nothing here touches disk or network.
"""

import dataclasses
import hashlib
import json
import math
import re
from typing import Any, cast

from pydantic import BaseModel

from surefoot.graph.values import INLINE_BYTES, MAX_RESULT_BYTES, Json

MAX_DEPTH = 200
"""Containers may be nested this deep."""

MAX_INT_DIGITS = 4300
"""Python neither writes nor reads longer integers as text; they are refused, not rounded."""

MAX_MARKS = 20
"""Marks beyond this many are counted, not listed."""

_ODD_TEXT = re.compile("\x00|[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
_LONG_NUMBER = re.compile(r"\d{19}")
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*")


class NotJson(ValueError):
    """A value that JSON cannot hold; the message names its place (`$.a[3]`) and its type."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"{path}: {why}")


class TooLarge(ValueError):
    """A value that cannot fit into the largest allowed result, however it is written."""

    def __init__(self, limit_bytes: int = MAX_RESULT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        super().__init__(f"the value is larger than {limit_bytes} bytes of JSON")


def clean_text(text: str) -> str:
    r"""The text with nothing in it that a database, a file or a model refuses.

    NUL becomes the six visible characters `\u0000`, a lone surrogate its `\udXXX`; the two halves
    of a legal pair become the one character they mean. Cleaning twice changes nothing.
    """
    if text.isascii():
        return text.replace("\x00", r"\u0000") if "\x00" in text else str.__str__(text)
    if "\x00" not in text:
        try:
            text.encode()
        except UnicodeEncodeError:
            return _ODD_TEXT.sub(_visible, text)
        return str.__str__(text)
    return _ODD_TEXT.sub(_visible, text)


def clean_json(value: object, *, limit_bytes: int = MAX_RESULT_BYTES) -> tuple[Json, list[str]]:
    """The value as plain JSON, and marks on what had to be changed.

    Accepts dict, list, tuple, str, int, float, bool and None (with subclasses), pydantic models
    and dataclass instances. Other keys than text are written as `json.dumps` writes them.
    Integers stay exact; text is cleaned as by `clean_text`.

    Args:
        value: what came from outside.
        limit_bytes: a value that surely has more bytes as JSON is given up early (`TooLarge`);
            one that is cleaned may still have more, the caller measures its text.

    Returns:
        A new value made of plain dict, list, str, int, float, bool, None, and one mark per NaN or
        infinity (`NaN at $.x became null`), at most `MAX_MARKS` and a count of the rest.

    Raises:
        NotJson: something else is in it, two keys become one, it is nested deeper than
            `MAX_DEPTH` or contains itself.
        TooLarge: it holds more values than `limit_bytes` have room for.
    """
    cleaner = _Cleaner(limit_bytes)
    try:
        plain = cleaner.clean(value, 0)
    except RecursionError:
        raise NotJson(cleaner.place(), "nested too deeply") from None
    return plain, cleaner.all_marks()


def compact_json(value: Json) -> str:
    """The JSON text of a cleaned value: no spaces, keys in their own order, not ASCII-escaped."""
    return _encode(value)


def canonical_json(value: object) -> str:
    """The one JSON text of a value, the same for every order of keys; for idempotency keys.

    Raises:
        NotJson: the value is not JSON (see `clean_json`, which is applied first).
    """
    plain, _ = clean_json(value)
    return json.dumps(
        plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False, sort_keys=True
    )


def digest(value: object) -> str:
    """sha256 (hex) of the value's canonical JSON in UTF-8."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def fits_inline(value: Json, text: str) -> bool:
    """True where a cleaned value may lie in its record instead of the store.

    Args:
        value: the cleaned value.
        text: its compact JSON.

    Returns:
        Whether `text` has at most `INLINE_BYTES` bytes and `value` no integer beyond 64 bits
        (the checkpoint's serializer cannot hold one).
    """
    if len(text) > INLINE_BYTES or (not text.isascii() and len(text.encode()) > INLINE_BYTES):
        return False
    return _LONG_NUMBER.search(text) is None or not _has_huge_int(value)


def _visible(match: re.Match[str]) -> str:
    odd = match[0]
    if len(odd) == 2:
        return odd.encode("utf-16", "surrogatepass").decode("utf-16")
    return f"\\u{ord(odd):04x}"


def _has_huge_int(value: Json) -> bool:
    open_values: list[Any] = [value]
    while open_values:
        one = open_values.pop()
        if isinstance(one, int) and not -(2**63) <= one < 2**63:
            return True
        if isinstance(one, dict):
            open_values.extend(cast("dict[str, Any]", one).values())
        elif isinstance(one, list):
            open_values.extend(cast("list[Any]", one))
    return False


class _Cleaner:
    """One pass over one value; `path` is where it is at the moment."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.path: list[str | int] = []
        self.marks: list[str] = []
        self.marked = 0
        self.seen = 0

    def clean(self, value: object, depth: int) -> Json:
        if isinstance(value, str):
            return clean_text(value)
        if value is None or value is True or value is False:
            return value
        if isinstance(value, int):
            return self._int(value)
        if isinstance(value, float):
            return self._float(value)
        return self._container(value, depth + 1)

    def place(self) -> str:
        """The present path as text: `$.a[3]["a key"]`, shortened in the middle when very long."""
        parts = [_path_part(p) for p in self.path]
        if len(parts) > 12:
            parts = [*parts[:6], "...", *parts[-5:]]
        return "$" + "".join(parts)

    def all_marks(self) -> list[str]:
        if self.marked > len(self.marks):
            return [*self.marks, f"and {self.marked - len(self.marks)} more became null"]
        return self.marks

    def _int(self, value: int) -> int:
        if value.bit_length() > 3 * MAX_INT_DIGITS and abs(value) >= 10**MAX_INT_DIGITS:
            raise NotJson(self.place(), f"an integer of more than {MAX_INT_DIGITS} digits")
        return int(value)

    def _float(self, value: float) -> float | None:
        if math.isfinite(value):
            return float(value)
        self.marked += 1
        if len(self.marks) < MAX_MARKS:
            name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            self.marks.append(f"{name} at {self.place()} became null")
        return None

    def _container(self, value: object, depth: int) -> Json:
        if depth > MAX_DEPTH:
            raise NotJson(self.place(), f"nested deeper than {MAX_DEPTH}, or containing itself")
        if isinstance(value, dict):
            return self._dict(cast("dict[object, object]", value), depth)
        if isinstance(value, list | tuple):
            return self._list(cast("list[object]", value), depth)
        if isinstance(value, BaseModel):
            return self.clean(self._dump(value), depth - 1)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return self._dict({name: getattr(value, name) for name in names}, depth)
        raise NotJson(self.place(), f"{_type_name(value)} is not JSON")

    def _dict(self, value: dict[object, object], depth: int) -> dict[str, Json]:
        self._count(len(value))
        plain: dict[str, Json] = {}
        path = self.path
        path.append("")
        for key, item in value.items():
            name = clean_text(key) if isinstance(key, str) else self._key_name(key)
            path[-1] = name
            if name in plain:
                raise NotJson(self.place(), "two keys become this one")
            plain[name] = self.clean(item, depth)
        path.pop()
        return plain

    def _list(self, value: list[object] | tuple[object, ...], depth: int) -> list[Json]:
        self._count(len(value))
        plain: list[Json] = []
        path = self.path
        path.append(0)
        for index, item in enumerate(value):
            path[-1] = index
            plain.append(self.clean(item, depth))
        path.pop()
        return plain

    def _count(self, more: int) -> None:
        # A small value that holds itself many times over would otherwise grow without end.
        self.seen += more
        if 2 * self.seen > self.limit_bytes:
            raise TooLarge(self.limit_bytes)

    def _key_name(self, key: object) -> str:
        self.path.pop()
        if key is None or isinstance(key, bool | int | float):
            if isinstance(key, int):
                self._int(key)
            name = next(iter(json.loads(json.dumps({key: 0}))))
            self.path.append("")
            return cast("str", name)
        raise NotJson(self.place(), f"a key of type {_type_name(key)} is not JSON")

    def _dump(self, model: BaseModel) -> Json:
        try:
            return model.model_dump(mode="json")
        except RecursionError:
            raise
        except Exception as exc:  # foreign serializers may raise anything
            why = f"{_type_name(model)} cannot be dumped: {clean_text(str(exc))[:300]}"
            raise NotJson(self.place(), why) from exc


def _path_part(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if _PLAIN_KEY.fullmatch(part):
        return f".{part[:60]}"
    return f"[{json.dumps(part[:60], ensure_ascii=False)}]"


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
