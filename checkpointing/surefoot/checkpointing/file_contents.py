"""The contents of a workspace's files, put into the store or only hashed; unchanged ones neither.

What was stored is remembered by path and metadata. As git does, a file that was written about when
it was read is not trusted by its metadata: it is read again the next time.

What this process has stored may be in no row yet, and who sweeps the store spares only what is
young. So it is made young again from time to time, for as long as it is relied on.
"""

import asyncio
import hashlib
import os
import stat
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from surefoot.checkpointing.file_reading import (
    BLOCK_BYTES,
    READS,
    Changed,
    blocks,
    is_sparse,
    opened,
    read_all,
    sha256_of,
    steadily,
)
from surefoot.checkpointing.file_scan import MAX_ENTRIES, Scan, Stamp, WorkspaceUnavailable, stamp
from surefoot.checkpointing.manifests import (
    Entry,
    Listing,
    bare_entry,
    closed_entry,
    contents_of,
    to_text,
    way_entry,
)
from surefoot.graph.ports import ArtifactStore, Clock

RACY_NS = 2_000_000_000
"""Clocks of file systems are this coarse, or this far from ours, at most."""

RENEW_S = 900.0
"""Before what is stored is so old, it is made young again; beside a worker an hour is spared."""

AT_ONCE = 8
"""Files that are read at a time; each is held in memory up to a block."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """A regular file as it was while it was open; the content of a small one."""

    found: os.stat_result
    content: bytes | None = None
    is_sparse: bool = False


class FileContents:
    """What is known of the files below one root. Use it in one loop.

    Args:
        root: the folder.
        store: where contents lie.
        clock: POSIX seconds.
    """

    def __init__(self, root: str, store: ArtifactStore, clock: Clock = time.time) -> None:
        self._root = root
        self._store, self._clock = store, clock
        self.stamps: dict[str, Stamp] = {}
        """Of the files whose content lies in the store and whose metadata is trusted."""
        self._known: dict[str, Entry] = {}
        """Their entries."""
        self._put: deque[tuple[float, str]] = deque()
        """When which of them were stored here, or made young again, in that order."""
        self._places = asyncio.Semaphore(AT_ONCE)
        self._large = asyncio.Lock()

    def remember(self, listing: Listing) -> None:
        """Take up what an earlier snapshot stored; of a process before this one, say."""
        for path, entry in listing.entries.items():
            if "inode" in entry and path not in self._known:
                self._know(path, _stamp_of(entry), entry)

    async def renew(self) -> None:
        """Make young again what was stored here some time ago; what is gone is not known any more.

        Raises:
            ArtifactsUnavailable: from the store.
        """
        now, due = self._clock(), dict[str, Entry]()
        while self._put and self._put[0][0] < now - RENEW_S:
            path = self._put.popleft()[1]
            if path in self._known:
                due[path] = self._known[path]
        if not due:
            return
        gone = await self._store.refresh([sha for e in due.values() for sha in contents_of(e)])
        for path, entry in due.items():
            if gone.isdisjoint(contents_of(entry)):
                self._put.append((now, path))
            else:
                del self._known[path], self.stamps[path]

    async def describe(self, seen: Scan) -> dict[str, Entry]:
        """Entries of what a walk that knew our `stamps` found; the contents are stored.

        What vanished meanwhile is left out; what cannot be read is marked `unreadable`.

        Raises:
            WorkspaceUnavailable: a file keeps changing, or cannot be read.
            ArtifactsUnavailable: from the store.
        """
        entries, unknown = await asyncio.to_thread(self._describe_known, seen)
        for start in range(0, len(unknown), 1000):
            part = unknown[start : start + 1000]
            kept = await asyncio.gather(*(self.keep(path, seen.started_ns) for path in part))
            entries |= {p: entry for p, entry in zip(part, kept, strict=True) if entry is not None}
        return entries

    def _describe_known(self, seen: Scan) -> tuple[dict[str, Entry], list[str]]:
        known = self._known
        entries = {path: known[path] for path in seen.same if path in known}
        # What is not there was forgotten since the walk.
        unknown = [path for path in seen.same if path not in entries]
        for path, found in seen.found.items():
            entry = self.without_content(path, found)
            if entry is None or entry.get("kind") == "file":
                unknown.append(path)
                continue
            if path in seen.unreadable:
                entry["unreadable"] = True
            entries[path] = entry
        for path, found in seen.way.items():
            entries[path] = way_entry(found)
        return entries, unknown

    def without_content(self, path: str, found: os.stat_result) -> Entry | None:
        """What can be told without opening anything; None: it is gone, or is no link any more."""
        entry = bare_entry(found)
        if entry.get("kind") == "symlink":
            try:
                entry["target"] = to_text(os.readlink(self.place(path)))
            except OSError:
                return None
        return entry

    def place(self, path: str) -> str:
        """Where a relative path is."""
        return f"{self._root}/{path}"

    async def keep(self, path: str, started_ns: int) -> Entry | None:
        """The entry of what lies at a path now, with its content stored; None: nothing does.

        `started_ns`: when the walk began that found it.

        Raises:
            WorkspaceUnavailable, ArtifactsUnavailable: see `describe`.
        """
        async with self._places:
            for _ in range(READS):
                try:
                    there = await asyncio.to_thread(self._look, path)
                    if not isinstance(there, _Opened):
                        return there
                    entry = await self._store_file(path, there)
                except (FileNotFoundError, Changed):
                    continue
                except OSError as exc:
                    why = exc.strerror or exc
                    raise WorkspaceUnavailable(f"{path} cannot be read: {why}") from exc
                return self._trusted(path, entry, there.found, started_ns)
        raise WorkspaceUnavailable(f"{path} keeps changing while it is read; who else writes it?")

    def _trusted(self, path: str, entry: Entry, found: os.stat_result, started_ns: int) -> Entry:
        """The entry with the marks by which it is known again, unless it is too young for that."""
        if len(self._known) > MAX_ENTRIES:
            self._known, self.stamps = {}, {}
            self._put.clear()
        if max(found.st_mtime_ns, found.st_ctime_ns) < started_ns - RACY_NS:
            entry["ctime_ns"], entry["inode"] = found.st_ctime_ns, found.st_ino
            self._know(path, stamp(found), entry)
            self._put.append((self._clock(), path))
        return entry

    def _know(self, path: str, as_it_is: Stamp, entry: Entry) -> None:
        self._known[path] = entry
        self.stamps[path] = as_it_is

    # --- contents ----------------------------------------------------------------------------

    def _look(self, path: str) -> "_Opened | Entry | None":
        """What is there now: a file with its content, or all there is to say."""
        place = self.place(path)
        try:
            found = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            return None
        entry = self.without_content(path, found)
        if entry is not None and entry.get("kind") != "file":
            return entry
        try:
            with opened(place) as (file, before):
                if before.st_size <= BLOCK_BYTES:
                    return _Opened(before, content=read_all(file, before.st_size))
                return _Opened(before, is_sparse=is_sparse(file, before))
        except PermissionError:
            return closed_entry(found)

    async def _store_file(self, path: str, there: "_Opened") -> Entry:
        """Put a file into the store.

        Raises:
            Changed: it changed meanwhile.
            OSError: it cannot be read.
        """
        place, found = self.place(path), there.found
        entry = bare_entry(found)
        if there.content is not None:
            entry["sha256"] = await self._store.put_bytes(there.content)
            return entry
        if there.is_sparse:
            entry["blocks"] = await self._store_blocks(place, found)
        else:
            async with self._large:  # the store takes much memory for each
                entry["sha256"], _ = await self._store.put_file(Path(place))
        if stamp(await asyncio.to_thread(os.lstat, place)) != stamp(found):
            raise Changed
        return entry

    async def _store_blocks(self, place: str, found: os.stat_result) -> list[tuple[int, str]]:
        stored: list[tuple[int, str]] = []
        file = await asyncio.to_thread(os.open, place, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            reading = blocks(file, found.st_size)
            while (block := await asyncio.to_thread(next, reading, None)) is not None:
                stored.append((block[0], await self._store.put_bytes(block[1])))
        finally:
            os.close(file)
        return stored

    # --- comparing ---------------------------------------------------------------------------

    def measure(self, path: str, like: Entry) -> Entry | None:
        """The entry of a file by reading it, without storing anything; None: no file is there.

        Args:
            path: relative to the root.
            like: read as this one was, in blocks or as a whole: whether a file has holes says
                nothing of its content, and changes when it is copied.

        Raises:
            WorkspaceUnavailable: see `describe`.
        """
        try:
            return steadily(path, lambda: _measured(self.place(path), in_blocks="blocks" in like))
        except FileNotFoundError:
            return None
        except PermissionError:
            return Entry(kind="file", unreadable=True)


def _measured(place: str, *, in_blocks: bool) -> Entry:
    with opened(place) as (file, found):
        entry = bare_entry(found)
        if in_blocks:
            entry["blocks"] = [
                (number, hashlib.sha256(content).hexdigest())
                for number, content in blocks(file, found.st_size)
            ]
        else:
            entry["sha256"] = sha256_of(file)
    return entry


def _stamp_of(entry: Entry) -> Stamp:
    """The `stamp` of a trusted entry's file."""
    return (
        entry.get("ctime_ns", 0),
        entry.get("inode", 0),
        entry.get("size", 0),
        stat.S_IFREG | entry.get("mode", 0),
    )
