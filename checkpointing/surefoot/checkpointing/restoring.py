"""Making what lies in a folder what a manifest says, from wherever it stands.

Look, compare, keep what is there, change it, and look again until nothing differs: a kill at any
moment leaves a folder from which the same way leads to the same end.
"""

import asyncio
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from surefoot.checkpointing.file_contents import AT_ONCE, FileContents
from surefoot.checkpointing.file_differences import Difference, compare
from surefoot.checkpointing.file_reading import BLOCK_BYTES
from surefoot.checkpointing.file_scan import Scan, WorkspaceUnavailable, scan
from surefoot.checkpointing.file_writing import OWNER, FileWriter, try_to_open
from surefoot.checkpointing.manifests import (
    Entry,
    Kind,
    Listing,
    contents_of,
    is_untouched,
    to_text,
    way_entry,
)
from surefoot.graph.errors import PermanentError
from surefoot.graph.path_globs import matches_any
from surefoot.graph.ports import ArtifactStore
from surefoot.graph.values import ArtifactRef

PASSES = 4
"""So often a folder is made right that others change meanwhile; the last pass only looks."""


@dataclass(slots=True)
class Changes:
    """What was done: paths as texts, and entries of what was there before."""

    changed: dict[str, None] = field(default_factory=dict[str, None])
    removed: dict[str, None] = field(default_factory=dict[str, None])
    kept: dict[str, Entry] = field(default_factory=dict[str, Entry])


class Restoring:
    """Compares and restores below one root."""

    def __init__(
        self,
        root: str,
        *,
        store: ArtifactStore,
        contents: FileContents,
        writer: FileWriter,
        skip: frozenset[str],
        task_mark: str,
    ) -> None:
        self._root, self._skip = root, skip
        self._store, self._contents, self._writer = store, contents, writer
        self._task_mark = task_mark

    async def differences(self, want: Listing, writes: Sequence[str] | None) -> list[Difference]:
        """What is not as the listing says (and the globs mean); nothing is changed or stored.

        Raises:
            WorkspaceUnavailable: the folder cannot be looked through.
        """
        _, have = await self._look(want, writes)
        return compare(want.below(writes).entries, have)

    async def restore(self, want: Listing, writes: Sequence[str] | None) -> Changes:
        """Make it so.

        Raises:
            PermanentError: a content is missing from the store; nothing was changed.
            WorkspaceUnavailable: something cannot be kept, written or removed; doing it again goes
                on from there.
        """
        entries = want.below(writes).entries
        done = Changes()
        todo: list[Difference] = []
        for turn in range(PASSES):
            seen, have = await self._look(want, writes)
            if seen.unreadable and await asyncio.to_thread(self._open_up, seen, entries):
                seen, have = await self._look(want, writes)
            todo = [one for one in compare(entries, have) if _is_mendable(one, seen)]
            await asyncio.to_thread(self._writer.sweep, seen.drafts, self._task_mark)
            await asyncio.to_thread(self._leave_empty, entries, have, done)
            if not todo:
                return done
            if turn < PASSES - 1:
                await self._check(todo)
                await self._change(todo, seen, done)
        shown = "; ".join(str(one) for one in todo[:5])
        raise WorkspaceUnavailable(f"the workspace keeps changing while it is put back: {shown}")

    # --- looking -----------------------------------------------------------------------------

    async def _look(
        self, want: Listing, writes: Sequence[str] | None
    ) -> tuple[Scan, dict[str, Entry]]:
        globs = want.writes if writes is None else writes
        seen = await asyncio.to_thread(scan, self._root, globs, skip=self._skip)
        if "" in seen.unreadable:
            raise WorkspaceUnavailable(f"the workspace cannot be read: {seen.unreadable['']}")
        if writes is not None and want.writes is not None:
            seen.found = {p: f for p, f in seen.found.items() if matches_any(want.writes, p)}
        return seen, await asyncio.to_thread(self._described, seen, want)

    def _described(self, seen: Scan, want: Listing) -> dict[str, Entry]:
        have: dict[str, Entry] = {}
        for path, found in seen.found.items():
            entry = self._as_it_is(path, found, want.entries.get(path))
            if entry is not None:
                have[path] = entry
        for path, found in seen.way.items():
            have[path] = way_entry(found)
        for path in seen.unreadable.keys() & have.keys():
            have[path]["unreadable"] = True
        return have

    def _as_it_is(self, path: str, found: os.stat_result, want: Entry | None) -> Entry | None:
        """The entry of what is there; a file is read only where it may be the wanted one."""
        entry = self._contents.without_content(path, found)
        if want is None or entry is None or entry.get("kind") != "file":
            return entry
        if want.get("size") != found.st_size or want.get("unreadable"):
            return entry
        if not is_untouched(want, found):
            return self._contents.measure(path, want)
        return want

    def _open_up(self, seen: Scan, entries: Mapping[str, Entry]) -> bool:
        """Let us into folders that were closed since; those closed from the start stay so."""
        closed = [p for p in seen.unreadable if not entries.get(p, Entry()).get("unreadable")]
        opened = [try_to_open(self._contents.place(path), OWNER) for path in closed]
        return any(opened)

    # --- changing ----------------------------------------------------------------------------

    async def _check(self, todo: Iterable[Difference]) -> None:
        """All contents that are needed are there."""
        for one in todo:
            for sha256 in contents_of(one.want or Entry()) if one.change != "mode" else ():
                if not await self._store.exists(sha256):
                    raise PermanentError(
                        f"{to_text(one.path)} cannot be put back: its content {sha256} is missing "
                        "from the artifact store; nothing was changed"
                    )

    async def _change(self, todo: list[Difference], seen: Scan, done: Changes) -> None:
        obstacles = await asyncio.to_thread(self._obstacles, todo)
        await self._keep(todo, obstacles, seen, done)
        await asyncio.to_thread(self._clear, todo, obstacles, done)
        files = [one for one in todo if _is_kind(one, "file") and one.change != "mode"]
        places = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(self._write(one, places) for one in files))
        await asyncio.to_thread(self._finish, todo, done)

    def _obstacles(self, todo: Iterable[Difference]) -> list[str]:
        """What has taken the place of folders on the way to what must be written.

        From above, and no further: what seems to lie below a link lies elsewhere.
        """
        found: dict[str, None] = {}
        folders: set[str] = set()
        for one in todo:
            for folder in _above(one.path) if one.want is not None else ():
                if folder in folders:
                    continue
                try:
                    mode = os.lstat(self._contents.place(folder)).st_mode
                except FileNotFoundError:
                    break
                if not stat.S_ISDIR(mode):
                    found[folder] = None
                    break
                folders.add(folder)
        return [*found]

    async def _keep(
        self, todo: Iterable[Difference], obstacles: Iterable[str], seen: Scan, done: Changes
    ) -> None:
        """Store what will be changed or removed: nothing that anybody wrote is lost."""
        for one in todo:
            if one.have is None:
                continue
            kept = one.have
            if kept.get("kind") == "file" and one.change != "mode":
                kept = await self._kept_file(one.path, seen)
            if kept is not None:
                done.kept.setdefault(one.path, kept)
        for path in obstacles:
            kept = await self._kept_file(path, seen)
            if kept is not None:
                done.kept.setdefault(path, kept)

    async def _kept_file(self, path: str, seen: Scan) -> Entry | None:
        entry = await self._contents.keep(path, seen.started_ns)
        if entry is not None and entry.get("unreadable"):
            place = self._contents.place(path)
            await asyncio.to_thread(try_to_open, place, stat.S_IRUSR)
            entry = await self._contents.keep(path, seen.started_ns)
        if entry is not None and entry.get("unreadable"):
            raise WorkspaceUnavailable(
                f"{to_text(path)} cannot be read, so it would be lost where it is put back"
            )
        return entry

    def _clear(self, todo: Iterable[Difference], obstacles: Iterable[str], done: Changes) -> None:
        """Take away what is new or in the way, then make the folders, from above."""
        for one in todo:
            if _is_kind(one, "dir") and one.change == "mode":
                self._writer.set_mode(one.path, (one.want or Entry()).get("mode", OWNER) | OWNER)
        for path in obstacles:
            self._writer.remove(path)
            done.changed[to_text(path)] = None
        for one in sorted(todo, key=lambda one: one.path, reverse=True):
            if one.change == "new":
                self._writer.remove(one.path)
                done.removed[to_text(one.path)] = None
            elif one.have is not None and _turns_folder(one.want, one.have):
                self._writer.remove(one.path)
        for one in todo:
            if _is_kind(one, "dir") and one.change != "mode":
                self._writer.make_folder(one.path)

    async def _write(self, one: Difference, places: asyncio.Semaphore) -> None:
        entry = one.want or Entry()
        async with places:
            if "blocks" in entry:
                await self._write_blocks(one.path, entry)
            elif entry.get("size", 0) <= BLOCK_BYTES:
                content = await self._store.get_bytes(entry.get("sha256", ""))
                await asyncio.to_thread(self._writer.write, one.path, entry, content)
            else:
                await self._write_large(one.path, entry)

    async def _write_blocks(self, path: str, entry: Entry) -> None:
        writer = self._writer
        draft = await asyncio.to_thread(writer.begin, path, entry.get("size", 0))
        try:
            for number, sha256 in entry.get("blocks", ()):
                content = await self._store.get_bytes(sha256)
                at = number * BLOCK_BYTES
                await asyncio.to_thread(writer.write_at, draft, path, at, content)
            await asyncio.to_thread(writer.put, draft, path, entry)
        finally:
            await asyncio.to_thread(writer.drop, draft)

    async def _write_large(self, path: str, entry: Entry) -> None:
        """By way of a copy that the store streams into a folder beside it."""
        folder = self._writer.draft(path)
        ref = ArtifactRef(
            name="content",
            sha256=entry.get("sha256", ""),
            size=entry.get("size", 0),
            media_type="application/octet-stream",
        )
        try:
            copy = await self._store.materialise(ref, Path(folder))
            await asyncio.to_thread(self._writer.put, str(copy), path, entry)
        except OSError as exc:
            why = exc.strerror or exc
            raise WorkspaceUnavailable(f"{to_text(path)} cannot be put back: {why}") from exc
        finally:
            await asyncio.to_thread(self._writer.drop, folder)

    def _finish(self, todo: Sequence[Difference], done: Changes) -> None:
        """Links, permissions (from below, or we would lock ourselves out), and what is durable."""
        for one in todo:
            if one.want is None:
                continue
            if _is_kind(one, "symlink"):
                self._writer.link(one.path, one.want.get("target", ""))
            done.changed[to_text(one.path)] = None
        for one in reversed(todo):
            if _is_kind(one, "dir") or (_is_kind(one, "file") and one.change == "mode"):
                self._writer.set_mode(one.path, (one.want or Entry()).get("mode", OWNER))
        self._writer.flush()

    def _leave_empty(
        self, entries: Mapping[str, Entry], have: Mapping[str, Entry], done: Changes
    ) -> None:
        """Remove folders that came on the way to what is meant, and hold nothing any more."""
        for path in sorted(have.keys() - entries.keys(), reverse=True):
            if have[path].get("way") and self._writer.remove(path):
                done.removed[to_text(path)] = None


def _above(path: str) -> Iterator[str]:
    """The folders that lead to a path, from above."""
    at = path.find("/")
    while at > 0:
        yield path[:at]
        at = path.find("/", at + 1)


def _is_kind(one: Difference, kind: Kind) -> bool:
    return one.want is not None and one.want.get("kind") == kind


def _turns_folder(want: Entry | None, have: Entry) -> bool:
    """Whether a folder must give way to something else, or something to a folder."""
    kinds = (want or Entry()).get("kind"), have.get("kind")
    return kinds[0] != kinds[1] and "dir" in kinds


def _is_mendable(one: Difference, seen: Scan) -> bool:
    """Whether it is in our power, and ours to change."""
    if one.want is None:
        return one.path not in seen.occupied
    return not one.want.get("unreadable") and one.want.get("kind") != "other"
