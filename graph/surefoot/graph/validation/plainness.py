"""Whether a mapping is JSON-plain at all: the first question, so that nothing later stumbles."""

import math
from collections.abc import Iterable
from typing import cast

from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.wording import short
from surefoot.graph.values import Json, JsonObject

MAX_DEPTH = 150
"""Levels of nesting; later readers (and the models' parsers) recurse."""

MAX_FAULTS = 20


def check_plain(value: Json, findings: Findings) -> bool:
    """Note what is not JSON, too deep, or text that PostgreSQL cannot hold; True if all is well."""
    if _is_plain(value):
        return True
    noted = 0
    stack: list[tuple[Json, str, int]] = [(value, "", 0)]
    while stack and noted < MAX_FAULTS:
        top, where, depth = stack.pop()
        why = "nested too deeply" if depth > MAX_DEPTH else _fault_of(top)
        if why is not None:
            findings.fault("schema", f"{where[:200] or 'the task file'}: {why}")
            noted += 1
        elif is_object(top):
            for key, inner in top.items():
                noted += _note_bad_key(key, where, findings)
                stack.append((inner, f"{where}.{short_key(key)}".lstrip("."), depth + 1))
        elif is_array(top):
            stack += [(inner, f"{where}[{n}]", depth + 1) for n, inner in enumerate(top)]
    return noted == 0


def _is_plain(value: Json) -> bool:
    """The same question without naming anything: level by level, and fast."""
    level: list[Json] = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Json] = []
        for top in level:
            if is_object(top):
                below += top.values()
                if not _are_plain_keys(top):
                    return False
            elif is_array(top):
                below += top
            elif isinstance(top, str):
                if "\0" in top or not (top.isascii() or _text_fault(top) is None):
                    return False
            elif _fault_of(top) is not None:
                return False
        if not below:
            return True
        level = below
    return False


def fits_64_bits(value: Json) -> bool:
    """Whether a checkpoint can hold all whole numbers of a plain value."""
    stack: list[Json] = [value]
    while stack:
        top = stack.pop()
        if is_object(top):
            stack += top.values()
        elif is_array(top):
            stack += top
        elif isinstance(top, int) and not -(2**63) <= top < 2**64:
            return False
    return True


def _are_plain_keys(mapping: JsonObject) -> bool:
    keys = cast("Iterable[Json]", mapping)
    return all(isinstance(key, str) and _fault_of(key) is None for key in keys)


def _note_bad_key(key: Json, where: str, findings: Findings) -> int:
    why = _fault_of(key) if isinstance(key, str) else "it is not a text"
    if why is not None:
        findings.fault("schema", f"{where or 'the task file'}, key {short_key(key)}: {why}")
    return 0 if why is None else 1


def short_key(key: Json) -> str:
    """A key for a place name."""
    return key[:40] if isinstance(key, str) and key.isprintable() else short(key)


def _fault_of(value: Json) -> str | None:
    if isinstance(value, str):
        return None if value.isascii() and "\0" not in value else _text_fault(value)
    if value is None or isinstance(value, (bool, int)) or is_object(value) or is_array(value):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value} is no number in JSON"
    return f"a {type(value).__name__} is not a JSON value"


def _text_fault(text: str) -> str | None:
    if "\0" in text:
        return "the text holds a NUL character; take it out"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "the text holds half a character (a lone surrogate); take it out"
    return None
