"""Long texts in requests: shown cut, with a visible note, and readable in parts.

A text over 16 KiB never goes into a request whole. What is cut says so and how to read on.
"""

from collections.abc import Mapping

from surefoot.graph.plain import clean_text
from surefoot.graph.values import ARTIFACT_BYTES, Json, JsonObject

READ_MORE = "read_more"
MAX_PART_CHARS = 8_000
"""Characters that one call of `read_more` returns at most."""

READ_MORE_SCHEMA: JsonObject = {
    "type": "function",
    "function": {
        "name": READ_MORE,
        "description": "Read on in a text that was shown cut, by its name.",
        "parameters": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "As in the note on the cut."},
                "offset": {"type": "integer", "minimum": 0, "description": "In characters."},
                "length": {"type": "integer", "minimum": 1, "maximum": MAX_PART_CHARS},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
    },
}
"""The function schema of the tool; offered where something was cut."""


def cut_text(name: str, text: str, *, limit_bytes: int = ARTIFACT_BYTES) -> tuple[str, bool]:
    """The text, or its beginning with a note on what was left out.

    Args:
        name: under which `read_more` knows it.
        text: any text.
        limit_bytes: bytes in UTF-8 that are shown at most; characters stay whole.

    Returns:
        The shown text, and whether it was cut.
    """
    clean = clean_text(text)
    if len(clean) <= limit_bytes and len(clean.encode()) <= limit_bytes:
        return clean, False
    shown = clean[:limit_bytes].encode()[:limit_bytes].decode(errors="ignore")
    note = (
        f"[cut: {len(shown)} of {len(clean)} characters are shown; "
        f"{READ_MORE}(name={name!r}, offset={len(shown)}) reads on]"
    )
    return f"{shown}\n{note}", True


def read_more(sources: Mapping[str, str], args: JsonObject) -> JsonObject:
    """Answer the tool: a part of a long text. Pure.

    Args:
        sources: the long texts by the names that their notes gave.
        args: as the model sent them.

    Returns:
        `{name, text, offset, total, next}` (characters; `next` null at the end), or `{error}`.
    """
    name = str(args.get("name") or "")
    if name not in sources:
        known = ", ".join(sorted(sources)[:20]) or "none"
        return {"error": f"there is no text {name!r} to read on in; known: {known}"}
    text = clean_text(sources[name])
    offset = min(_number(args.get("offset"), 0), len(text))
    length = max(1, min(_number(args.get("length"), MAX_PART_CHARS), MAX_PART_CHARS))
    end = min(len(text), offset + length)
    following = end if end < len(text) else None
    part = text[offset:end]
    return {"name": name, "text": part, "offset": offset, "total": len(text), "next": following}


def _number(value: Json, default: int) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return int(value) if is_number else default
