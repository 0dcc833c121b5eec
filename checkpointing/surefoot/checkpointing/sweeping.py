"""Mark and sweep over the object store: what no row names, directly or through a manifest, goes.

Safe beside tasks that write: only blobs of a certain age are candidates, they are chosen before the
marks are made, and whoever puts a content that is there already makes it young again.
"""

import asyncio
import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass

from surefoot.checkpointing.artifacts import ObjectArtifacts
from surefoot.checkpointing.database import Database
from surefoot.checkpointing.retention import identity, named
from surefoot.checkpointing.stored_blobs import StoredBlobs
from surefoot.graph.errors import PermanentError
from surefoot.graph.shapes import is_object
from surefoot.graph.values import Json

_SHA256 = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What was removed, or would be. `skipped` says why nothing was."""

    blobs: int = 0
    litter: int = 0
    bytes: int = 0
    skipped: str = ""


async def sweep(
    database: Database, store: ObjectArtifacts, *, before: float, dry_run: bool
) -> Swept:
    """Remove what nothing refers to.

    Args:
        database: whose rows refer.
        store: where the contents are.
        before: what was written, or wanted again, later than that (POSIX seconds) stays.
        dry_run: only count.

    Raises:
        ArtifactsUnavailable, DatabaseUnavailable: what was removed until then was not needed.
    """
    mine, stored = await identity(database), StoredBlobs(store)
    await stored.claim(mine)
    others = set(await stored.owners()) - {mine}
    if others:
        return Swept(skipped=f"{len(others)} other databases keep contents in this store")
    candidates = [blob for blob in await stored.all() if blob.at < before]
    kept = await _marked(database, store) if candidates else set[str]()
    spare = [blob for blob in candidates if blob.sha256 not in kept]
    gone = spare if dry_run else await stored.drop(spare, before=before)
    litter = 0 if dry_run else await store.sweep(time.time() - before)
    return Swept(blobs=len(gone), litter=litter, bytes=sum(blob.size for blob in gone))


async def claim(database: Database, store: ObjectArtifacts) -> None:
    """Say in the store that this database keeps contents there: others then sweep nothing."""
    await StoredBlobs(store).claim(await identity(database))


async def _marked(database: Database, store: ObjectArtifacts) -> set[str]:
    """Every sha256 that is needed, followed through manifests and documents to the end."""
    ends = await named(database, "named_by_people")
    marked = ends | await named(database, "named_by_state")
    # What people read may name a sha256 by chance; what the state names may hold further names.
    waiting = list(marked - ends)
    while waiting:
        found = await _names_in(store, waiting.pop())
        new = set(found) - marked
        marked |= new
        waiting += new
    return marked


async def _names_in(store: ObjectArtifacts, sha256: str) -> Iterable[str]:
    try:
        content = await store.get_bytes(sha256)
    except PermanentError:
        return ()  # named by chance, or gone
    if content[:1] not in (b"{", b"["):
        return ()
    if b'"milestones"' in content:
        content = await asyncio.to_thread(_without_earlier_points, content)
    return {match.decode() for match in _SHA256.findall(content)}


def _without_earlier_points(content: bytes) -> bytes:
    """A snapshot's document without the milestones before it: each is kept by its own row."""
    try:
        document: Json = json.loads(content)
    except ValueError:
        return content
    if is_object(document):
        document.pop("milestones", None)
    return json.dumps(document).encode()
