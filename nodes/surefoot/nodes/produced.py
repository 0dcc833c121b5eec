"""What a task has produced so far, in excerpts: the evidence of a drift check.

Taken from records and the store, never from what an agent says of its work. Bounded: many
subtasks are sampled over their whole range, long texts shown at three places.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surefoot.graph.errors import PermanentError
from surefoot.graph.index import PlanIndex, container_of
from surefoot.graph.plain import clean_text, compact_json
from surefoot.graph.ports import ArtifactStore
from surefoot.graph.values import ArtifactRef, Record, StoredValue

SHOWN_SUBTASKS = 48
ALL_CHARS = 24_000
"""All excerpts together; the window of the judge's model may give less."""

EXCERPT_CHARS = 900
LEAST_CHARS = 180
MAX_READ_BYTES = 4 * 1024 * 1024
"""Larger contents are named with their size, not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One thing that was produced: what it is, and an excerpt (foreign text)."""

    name: str
    text: str


def completed(records: Mapping[str, Record], *, since: float = 0.0) -> list[str]:
    """Ids of what was completed at or after a time (POSIX seconds), in order of finishing.

    Containers are left out where their children stand for them.
    """
    done = [
        id
        for id, record in records.items()
        if record.get("state") == "completed"
        and record.get("finished", 0.0) >= since
        and not (record.get("n") and container_of(id) is None)
    ]
    return sorted(done, key=lambda id: records[id].get("finished", 0.0))


def sampled(ids: Sequence[str], most: int = SHOWN_SUBTASKS) -> list[str]:
    """At most `most` ids, the first and the last among them, evenly spread."""
    if len(ids) <= most:
        return list(ids)
    return [ids[round(n * (len(ids) - 1) / (most - 1))] for n in range(most)]


async def pieces_of(
    ids: Sequence[str], records: Mapping[str, Record], index: PlanIndex, store: ArtifactStore
) -> list[Piece]:
    """Results and artifacts of these subtasks, each as an excerpt."""
    found: list[Piece] = []
    count = sum(1 + len(records[id].get("artifacts", ())) for id in ids)
    most = max(LEAST_CHARS, min(EXCERPT_CHARS, ALL_CHARS // max(1, count)))
    for id in ids:
        record = records[id]
        name = index.raw.get(container_of(id) or id, {}).get("name") or ""
        title = f"{id} {name}".strip()
        text = await _result(record.get("result"), store, most)
        if text:
            found.append(Piece(name=f"result of {title}", text=text))
        for ref in record.get("artifacts", ()):
            shown = f"artifact {id}/{ref['name']}, {ref['size']} bytes"
            found.append(Piece(name=shown, text=await _artifact(ref, store, most)))
    return found


def excerpt(text: str, most: int) -> str:
    """A text, or its beginning, a part of its middle and its end, with what is left out."""
    if len(text) <= most:
        return text
    part = most // 3
    middle = (len(text) - part) // 2
    gap = f"\n[... cut: of {len(text)} characters three parts are shown ...]\n"
    return gap.join([text[:part], text[middle : middle + part], text[-part:]])


async def _result(stored: StoredValue | None, store: ArtifactStore, most: int) -> str:
    if not stored:
        return ""
    if "sha256" in stored:
        return await _content(stored["sha256"], stored.get("size", 0), store, most)
    value = stored.get("value")
    return "" if value is None else excerpt(compact_json(value), most)


async def _artifact(ref: ArtifactRef, store: ArtifactStore, most: int) -> str:
    if ref["size"] == 0:
        return "(empty)"
    return await _content(ref["sha256"], ref["size"], store, most)


async def _content(sha256: str, size: int, store: ArtifactStore, most: int) -> str:
    if size > MAX_READ_BYTES:
        return f"({size} bytes, too long to be shown)"
    try:
        content = await store.get_bytes(sha256)
    except PermanentError as lost:  # what the judge must know, and no end of the task
        return f"(cannot be read: {lost})"
    return excerpt(clean_text(content.decode(errors="replace")), most)
