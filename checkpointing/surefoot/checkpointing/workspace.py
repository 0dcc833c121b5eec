"""Snapshots of the folder that tools work in (`ports.Workspace`).

A manifest names what lies there (see `manifests`), or what of it has changed since a stored one.
The contents are blobs of the artifact store, durable before the manifest is, and the manifest
before the row that points to it. What an attempt found before it began is a row of `snapshots`,
written behind the lease's fence.
"""

import asyncio
import functools
import hashlib
import json
import os
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CoroutineType
from typing import Any, ParamSpec, TypeVar

from surefoot.checkpointing.file_contents import FileContents
from surefoot.checkpointing.file_scan import WorkspaceUnavailable, scan
from surefoot.checkpointing.file_writing import FileWriter
from surefoot.checkpointing.manifest_bases import ManifestBases
from surefoot.checkpointing.manifest_layers import layered
from surefoot.checkpointing.manifests import Listing, base_of, dump, parse, to_text
from surefoot.checkpointing.outbox import Fence, Outbox
from surefoot.checkpointing.queries import queries
from surefoot.checkpointing.restoring import Changes, Restoring
from surefoot.graph.errors import PermanentError
from surefoot.graph.path_globs import literal
from surefoot.graph.ports import ArtifactStore, Clock, Manifest, Restored
from surefoot.graph.values import INLINE_BYTES, Json, JsonObject, StoredValue

SEEDS = 10
"""Newest manifests of single subtasks that a new process takes up, besides the whole's newest."""


Said = ParamSpec("Said")
T = TypeVar("T")


def _told(
    look: "Callable[Said, CoroutineType[Any, Any, T]]",
) -> "Callable[Said, CoroutineType[Any, Any, T]]":
    """What the file system refuses is told as such, and never passes for an error of ours."""

    @functools.wraps(look)
    async def looks(*args: Said.args, **named: Said.kwargs) -> T:
        try:
            return await look(*args, **named)
        except OSError as exc:
            where = f"{exc.filename!r}: " if exc.filename is not None else ""
            raise WorkspaceUnavailable(
                f"the workspace cannot be used: {where}{exc.strerror or exc}"
            ) from exc

    return looks


class WorkspaceUnreadable(PermanentError):
    """What an attempt may change cannot be read, so it could not be put back: it must not begin."""


@dataclass(frozen=True, slots=True)
class _Memory:
    """What lay under an attempt's `writes` when it began."""

    manifest: Manifest
    attempt: int
    """Whose it was: the attempt itself, or the last one before it that was cut."""
    over: bool
    """It has failed, and putting back has begun."""


class WorkspaceSnapshots:
    """The snapshots of one task's workspace. Use it in one loop.

    Args:
        root: the workspace.
        store: where contents and manifests lie.
        fence: writes the rows; its lease names the task.
        skip: folders that are never part of it where they lie in it: our own home, say.
        clock: POSIX seconds, for the rows.
    """

    def __init__(
        self,
        root: Path,
        *,
        store: ArtifactStore,
        fence: Fence,
        skip: Sequence[Path] = (),
        clock: Clock = time.time,
    ) -> None:
        self._root = os.path.realpath(root)
        self._skip = _inside(self._root, skip)
        self._store, self._fence, self._clock = store, fence, clock
        self._contents = FileContents(self._root, store, clock)
        self._bases = ManifestBases()
        task = hashlib.sha256(fence.lease.task_id.encode()).hexdigest()[:8]
        mark = f".surefoot-{task}-"
        self._restoring = Restoring(
            self._root,
            store=store,
            contents=self._contents,
            writer=FileWriter(self._root, f"{mark}{uuid.uuid4().hex[:8]}-"),
            skip=self._skip,
            task_mark=mark,
        )
        self._preparing = asyncio.Lock()
        self._seeded = False

    @_told
    async def before(
        self, subtask: str, attempt: int, writes: Sequence[str], *, goes_on: bool = False
    ) -> bool:
        """Remember what lies under `writes`; the first memory of an attempt stands.

        Args:
            subtask: its full id.
            attempt: its number.
            writes: globs.
            goes_on: the attempt before was cut: what it remembered is this one's memory.

        Returns:
            Whether that one had failed and was being put back when its worker stopped.

        Raises:
            WorkspaceUnreadable: something there cannot be read; nothing is remembered.
            WorkspaceUnavailable, ArtifactsUnavailable: it cannot be read or stored now.
            LeaseLost, DatabaseUnavailable: see `Fence.write`.
        """
        memory = await self._memory(subtask, attempt)
        if memory is not None and memory.attempt == attempt:
            return memory.over
        if memory is not None and goes_on:
            await self._write(subtask, attempt, memory.manifest)
            return memory.over
        listing = await self._take(writes)
        _refuse_unreadable(subtask, listing)
        taken = await self._stored(listing)
        await self._write(subtask, attempt, taken)
        return False

    @_told
    async def put_back(self, subtask: str, attempt: int, *, over: bool = False) -> Restored | None:
        """Make what lies under the attempt's `writes` what it was before; None: not remembered.

        Args:
            subtask: its full id.
            attempt: its number.
            over: the attempt has failed: that is written first, for then it must not go on.

        Raises:
            PermanentError: a stored content is missing or damaged.
            WorkspaceUnavailable, ArtifactsUnavailable: doing it again goes on from there.
            DatabaseUnavailable: nothing was changed.
        """
        memory = await self._memory(subtask, attempt)
        if memory is None:
            return None
        if over and not (memory.over and memory.attempt == attempt):
            if memory.attempt != attempt:
                await self._write(subtask, attempt, memory.manifest)
            await self._write(subtask, attempt, memory.manifest)
        return await self.restore(memory.manifest.stored)

    @_told
    async def take(self, writes: Sequence[str] | None = None) -> Manifest:
        """What lies there now; what cannot be read is named as such, never as absent or whole.

        Raises:
            WorkspaceUnavailable, ArtifactsUnavailable: it cannot be read or stored now.
        """
        return await self._stored(await self._take(writes))

    @_told
    async def restore(self, manifest: StoredValue, writes: Sequence[str] | None = None) -> Restored:
        """Make the workspace what a manifest says, as far as it (and the globs) mean it.

        What could not be read when the manifest was taken is left alone. Raises as `put_back`.
        """
        want = await self._listing(manifest)
        done = await self._restoring.restore(want, writes)
        if not done.changed and not done.removed:
            return Restored()
        kept = await self._kept(done) if done.kept else None
        return Restored(changed=tuple(done.changed), removed=tuple(done.removed), kept=kept)

    @_told
    async def differences(
        self, manifest: StoredValue, writes: Sequence[str] | None = None
    ) -> list[str]:
        """What is not as a manifest says, one line each.

        Raises:
            PermanentError: the manifest is missing or damaged.
            WorkspaceUnavailable: the workspace cannot be looked through.
        """
        want = await self._listing(manifest)
        return [str(one) for one in await self._restoring.differences(want, writes)]

    async def layered(self, manifests: Sequence[StoredValue]) -> StoredValue:
        """One manifest of several, from the oldest to the newest; it is not stored.

        Raises:
            PermanentError: one of them is missing or damaged.
        """
        listings = [await self._listing(manifest) for manifest in manifests]
        content = await asyncio.to_thread(lambda: dump(layered(listings)))
        return StoredValue(value=json.loads(content))

    # --- taking ------------------------------------------------------------------------------

    async def _take(self, writes: Sequence[str] | None) -> Listing:
        await self._prepare()
        known = self._contents.stamps
        seen = await asyncio.to_thread(scan, self._root, writes, skip=self._skip, known=known)
        if "" in seen.unreadable:
            raise WorkspaceUnavailable(f"the workspace cannot be read: {seen.unreadable['']}")
        entries = await self._contents.describe(seen)
        return Listing(entries=entries, writes=None if writes is None else tuple(writes))

    async def _stored(self, listing: Listing) -> Manifest:
        base = self._bases.of(listing.writes)
        if base is not None and await self._store.refresh([base]):
            self._bases.forget(listing.writes)
        content, is_whole = await asyncio.to_thread(self._bases.dumped, listing)
        files, size = await asyncio.to_thread(listing.totals)
        if len(content) <= INLINE_BYTES:
            stored = StoredValue(value=json.loads(content))
        else:
            sha256 = await self._store.put_bytes(content)
            stored = StoredValue(sha256=sha256, size=len(content))
            if is_whole:
                self._bases.remember(sha256, listing)
        return Manifest(stored=stored, files=files, bytes=size)

    async def _kept(self, done: Changes) -> StoredValue:
        globs = [literal(p) for p, entry in done.kept.items() if entry.get("kind") != "dir"]
        return (await self._stored(Listing(entries=done.kept, writes=tuple(globs)))).stored

    async def _prepare(self) -> None:
        """Take up what earlier processes stored; what this one has stored stays in the store."""
        async with self._preparing:
            await self._contents.renew()
            if self._seeded:
                return
            asked = {"task_id": self._fence.lease.task_id, "most": SEEDS}
            async with self._fence.database.borrowed() as connection:
                cursor = await connection.execute(queries("snapshots")["newest"], asked)
                rows = await cursor.fetchall()
            for row in rows:
                await self._take_up(row["manifest"])
            self._seeded = True

    async def _take_up(self, manifest: StoredValue) -> None:
        """Its metadata says which files are unchanged, and later manifests may build on it."""
        try:
            listing = await self._listing(manifest)
        except PermanentError:
            return  # a pruned or damaged one only costs reading the files again
        await asyncio.to_thread(self._contents.remember, listing)

    # --- what is stored ----------------------------------------------------------------------

    async def _write(self, subtask: str, attempt: int, memory: Manifest) -> None:
        row: JsonObject = {
            "tier": "before",
            "subtask": subtask,
            "attempt": attempt,
            "manifest": memory.stored,
            "files": memory.files,
            "bytes": memory.bytes,
            "at": self._clock(),
        }
        await self._fence.write(Outbox(snapshots=[row]), notify=False)

    async def _memory(self, subtask: str, attempt: int) -> _Memory | None:
        asked = {
            "task_id": self._fence.lease.task_id,
            "subtask": subtask,
            "attempt": attempt,
        }
        async with self._fence.database.borrowed() as connection:
            cursor = await connection.execute(queries("snapshots")["before"], asked)
            row = await cursor.fetchone()
        if row is None:
            return None
        memory = Manifest(stored=row["manifest"], files=row["files"], bytes=row["bytes"])
        return _Memory(memory, attempt=row["attempt"], over=row["over"])

    async def _listing(self, manifest: StoredValue) -> Listing:
        document: Json = manifest.get("value")
        sha256 = manifest.get("sha256")
        if sha256 is not None:
            document = await self._read(sha256)
        base = base_of(document)
        if base is None:
            return self._known_as(sha256, await asyncio.to_thread(parse, document))
        whole = self._known_as(base, await asyncio.to_thread(parse, await self._read(base)))
        return await asyncio.to_thread(parse, document, whole)

    def _known_as(self, sha256: str | None, whole: Listing) -> Listing:
        """A whole manifest that is stored: while this process knows no other, it builds on that."""
        if sha256 is not None and self._bases.of(whole.writes) is None:
            self._bases.remember(sha256, whole)
        return whole

    async def _read(self, sha256: str) -> Json:
        return await asyncio.to_thread(json.loads, await self._store.get_bytes(sha256))


def _inside(root: str, folders: Sequence[Path]) -> frozenset[str]:
    """Those folders that lie below the root, relative to it."""
    found: set[str] = set()
    for folder in folders:
        real = os.path.realpath(folder)
        if real.startswith(root.rstrip("/") + "/"):
            found.add(os.path.relpath(real, root))
    return frozenset(found)


def _refuse_unreadable(subtask: str, listing: Listing) -> None:
    closed = [to_text(path) for path, entry in listing.entries.items() if entry.get("unreadable")]
    if closed:
        more = f" and {len(closed) - 3} more" if len(closed) > 3 else ""
        raise WorkspaceUnreadable(
            f"{', '.join(closed[:3])}{more} cannot be read, so what {subtask} may write there "
            "could not be put back: make it readable, or state narrower `writes`"
        )
