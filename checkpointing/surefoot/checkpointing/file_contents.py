"""The contents of a workspace's files, put into the store or only hashed; unchanged ones neither.

What was stored is remembered by path and metadata. As git does, a file that was written about when
it was read is not trusted by its metadata: it is read again the next time.
"""

import asyncio
import hashlib
import os
import stat
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
    line,
    to_text,
    way_entry,
)
from surefoot.graph.ports import ArtifactStore

RACY_NS = 2_000_000_000
"""Clocks of file systems are this coarse, or this far from ours, at most."""

AT_ONCE = 8
"""Files that are read at a time; each is held in memory up to a block."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """A regular file as it was while it was open; the content of a small one."""

    found: os.stat_result
    content: bytes | None = None
    is_sparse: bool = False


class FileContents:
    """What is known of the files below one root. Use it in one loop."""

    def __init__(self, root: str, store: ArtifactStore) -> None:
        self._root = root
        self._store = store
        self.stamps: dict[str, Stamp] = {}
        """Of the files whose content lies in the store and whose metadata is trusted."""
        self._known: dict[str, tuple[Entry, str]] = {}
        """Their entries and lines."""
        self._places = asyncio.Semaphore(AT_ONCE)
        self._large = asyncio.Lock()

    def remember(self, listing: Listing) -> None:
        """Take up what an earlier snapshot stored; of a process before this one, say."""
        for path, entry in listing.entries.items():
            if "inode" in entry and path not in self._known:
                self._know(path, _stamp_of(entry), entry)

    async def describe(self, seen: Scan) -> tuple[dict[str, Entry], dict[str, str]]:
        """Entries and lines of what a walk that knew our `stamps` found; the contents are stored.

        What vanished meanwhile is left out; what cannot be read is marked `unreadable`.

        Raises:
            WorkspaceUnavailable: a file keeps changing, or cannot be read.
            ArtifactsUnavailable: from the store.
        """
        entries, lines, unknown = await asyncio.to_thread(self._describe_known, seen)
        for start in range(0, len(unknown), 1000):
            part = unknown[start : start + 1000]
            kept = await asyncio.gather(*(self.keep(path, seen.started_ns) for path in part))
            for path, entry in zip(part, kept, strict=True):
                if entry is not None:
                    entries[path], lines[path] = entry, self._line(path, entry)
        return entries, lines

    def _describe_known(self, seen: Scan) -> tuple[dict[str, Entry], dict[str, str], list[str]]:
        entries: dict[str, Entry] = {}
        lines: dict[str, str] = {}
        unknown: list[str] = []
        for path in seen.same:
            kept = self._known.get(path)
            if kept is None:
                unknown.append(path)  # forgotten since the walk
            else:
                entries[path], lines[path] = kept
        for path, found in seen.found.items():
            entry = self.without_content(path, found)
            if entry is None or entry.get("kind") == "file":
                unknown.append(path)
                continue
            if path in seen.unreadable:
                entry["unreadable"] = True
            entries[path], lines[path] = entry, line(path, entry)
        for path, found in seen.way.items():
            entry = way_entry(found)
            entries[path], lines[path] = entry, line(path, entry)
        return entries, lines, unknown

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
        if max(found.st_mtime_ns, found.st_ctime_ns) < started_ns - RACY_NS:
            entry["ctime_ns"], entry["inode"] = found.st_ctime_ns, found.st_ino
            self._know(path, stamp(found), entry)
        return entry

    def _know(self, path: str, as_it_is: Stamp, entry: Entry) -> None:
        self._known[path] = entry, line(path, entry)
        self.stamps[path] = as_it_is

    def _line(self, path: str, entry: Entry) -> str:
        kept = self._known.get(path)
        return kept[1] if kept is not None and kept[0] is entry else line(path, entry)

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

    def measure(self, path: str) -> Entry | None:
        """The entry of a file by reading it, without storing anything; None: no file is there.

        Raises:
            WorkspaceUnavailable: see `describe`.
        """
        try:
            return steadily(path, lambda: _measured(self.place(path)))
        except FileNotFoundError:
            return None
        except PermissionError:
            return Entry(kind="file", unreadable=True)


def _measured(place: str) -> Entry:
    with opened(place) as (file, found):
        entry = bare_entry(found)
        if found.st_size > BLOCK_BYTES and is_sparse(file, found):
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
