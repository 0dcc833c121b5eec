"""Keeping a result: inline where it is small, else as a blob; a long one is an artifact as well.

The value is cleaned JSON already (`surefoot.graph.plain`). Reading back is in `bindings`.
"""

import asyncio
import time
from dataclasses import dataclass
from functools import partial

from surefoot.graph.errors import TransientError
from surefoot.graph.ports import ArtifactStore
from surefoot.graph.stored_values import stored_value
from surefoot.graph.values import (
    ARTIFACT_BYTES,
    MAX_RESULT_BYTES,
    ArtifactRef,
    Failure,
    Json,
    StoredValue,
)
from surefoot.tools.context import RESULT_ARTIFACT

PATIENCE_S = 300.0
"""How long a store that does not answer is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResult:
    """A stored result: where it is, the artifacts put with it, notes on its cleaning."""

    stored: StoredValue
    artifacts: tuple[ArtifactRef, ...] = ()
    marks: tuple[str, ...] = ()

    def all_artifacts(self) -> list[ArtifactRef]:
        """The artifacts put, and the result itself where it is long enough to be one."""
        own = result_artifact(self.stored)
        return [*self.artifacts] if own is None else [*self.artifacts, own]


async def keep_value(store: ArtifactStore, value: Json) -> StoredValue:
    """Store a cleaned JSON value; durable when this returns. Raises as `keep_text`."""
    return await stored_value(value, partial(_put, store))


async def keep_text(store: ArtifactStore, content: bytes) -> StoredValue:
    """Store the compact JSON text of a value as a blob.

    A store that is away is waited for: behind a result stands an effect that cannot be repeated.

    Raises:
        TransientError: it stayed away for `PATIENCE_S`.
    """
    return {"sha256": await _put(store, content), "size": len(content)}


async def _put(store: ArtifactStore, content: bytes) -> str:
    delay, until = 0.5, time.monotonic() + PATIENCE_S
    while True:
        try:
            return await store.put_bytes(content)
        except TransientError:
            if time.monotonic() + delay > until:
                raise
        await asyncio.sleep(delay)
        delay = min(10.0, delay * 2)


def result_artifact(stored: StoredValue) -> ArtifactRef | None:
    """A result above `ARTIFACT_BYTES` as the artifact `_result.json`; it is the same blob."""
    sha256, size = stored.get("sha256"), stored.get("size", 0)
    if sha256 is None or size <= ARTIFACT_BYTES:
        return None
    return {
        "name": RESULT_ARTIFACT,
        "sha256": sha256,
        "size": size,
        "media_type": "application/json",
    }


def too_large(size: int) -> Failure | None:
    """The failure of a result of `size` bytes that is too large to keep, or None."""
    if size <= MAX_RESULT_BYTES:
        return None
    message = f"the result has {size} bytes of JSON; at most {MAX_RESULT_BYTES} are kept"
    return {"kind": "result_too_large", "message": message, "retryable": False}
