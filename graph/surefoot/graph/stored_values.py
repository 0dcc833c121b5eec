"""A JSON value where it belongs: in the record that names it, or in a blob of the store."""

from collections.abc import Awaitable, Callable

from surefoot.graph.plain import compact_json, fits_inline
from surefoot.graph.values import Json, StoredValue


async def stored_value(
    value: Json, put: Callable[[bytes], Awaitable[str]], *, text: str | None = None
) -> StoredValue:
    """Keep a cleaned value; durable where `put` is.

    Args:
        value: the value.
        put: stores the bytes of its JSON and returns their sha256 (`ArtifactStore.put_bytes`).
        text: its JSON, where that is not its compact form.
    """
    written = compact_json(value) if text is None else text
    if fits_inline(value, written):
        return StoredValue(value=value)
    content = written.encode()
    return StoredValue(sha256=await put(content), size=len(content))
