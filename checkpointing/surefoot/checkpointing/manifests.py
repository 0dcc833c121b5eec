"""Manifests: what lay in a workspace, as a JSON document whose contents are blobs of the store.

    {"format": 1, "writes": null | [glob ...], "entries": {path: entry ...}}
    {"format": 2, "base": sha256, "gone": [path ...], "writes": ..., "entries": {path: entry ...}}

The second says only what differs from the stored first one that it names. Everything is sorted, so
what has not changed gives the same bytes and is stored once. Times and inode of a file are there so
that a later snapshot knows unchanged files without reading them.
"""

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, cast

from surefoot.graph.errors import PermanentError
from surefoot.graph.path_globs import leads_to, matches_any
from surefoot.graph.values import Json, JsonObject

WHOLE, DELTA = 1, 2

Kind = Literal["file", "dir", "symlink", "other"]
"""`other`: a socket, a pipe or a device; it is named and has no content."""


class Entry(TypedDict, total=False):
    """What lay at one path. Of a file either `sha256`, `blocks` or `unreadable` is set."""

    kind: Kind
    mode: int
    """Permission bits."""
    size: int
    sha256: str
    blocks: list[tuple[int, str]]
    """A sparse file: (number, sha256) of its blocks of `sparse.BLOCK_BYTES` that hold data."""
    target: str
    """Of a link, as `to_text` writes it."""
    unreadable: bool
    """A file or folder that could not be read: nobody knows what it held."""
    way: bool
    """A folder on the way to what `writes` means, not meant itself."""
    mtime_ns: int
    ctime_ns: int
    """With `inode` only where the file was surely left alone since it was read."""
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A manifest as it is worked with; `entries` by path, undecodable bytes as surrogates."""

    entries: Mapping[str, Entry]
    writes: tuple[str, ...] | None = None
    """The globs it is about; None = the whole workspace."""

    def totals(self) -> tuple[int, int]:
        """How many files and links, and their bytes together, as far as they are known."""
        files = sum(1 for e in self.entries.values() if e.get("kind") in ("file", "symlink"))
        return files, sum(entry.get("size", 0) for entry in self.entries.values())

    def below(self, writes: Sequence[str] | None) -> "Listing":
        """The part of it that further globs mean, with the folders on the way to it."""
        if writes is None:
            return self
        kept: dict[str, Entry] = {}
        for path, entry in self.entries.items():
            if matches_any(writes, path):
                kept[path] = entry
            elif entry.get("kind") == "dir" and leads_to(writes, path):
                kept[path] = entry.copy()
                kept[path]["way"] = True
        return Listing(entries=kept, writes=tuple(writes))


def to_text(name: str) -> str:
    r"""A file's name as JSON can hold it: a byte that is no text as `\xHH`, `\` as `\\`."""
    if "\\" not in name and name.isascii():
        return name
    return _ODD.sub(_written, name)


def from_text(text: str) -> str:
    """The name that `to_text` wrote."""
    return text if "\\" not in text else _WRITTEN.sub(_read, text)


_ODD = re.compile("[\\\\\ud800-\udfff]")
_WRITTEN = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|(\\))")


def _written(match: re.Match[str]) -> str:
    char = match[0]
    if char == "\\":
        return "\\\\"
    code = ord(char)
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def _read(match: re.Match[str]) -> str:
    if match[1]:
        return chr(0xDC00 + int(match[1], 16))
    return chr(int(match[2], 16)) if match[2] else "\\"


def dump(listing: Listing) -> bytes:
    """The document of a whole listing."""
    return _dumped({"format": WHOLE}, listing.entries, listing.writes)


def dump_delta(
    base: str, changed: Mapping[str, Entry], gone: Iterable[str], writes: Sequence[str] | None
) -> bytes:
    """The document of what differs from the whole one that is stored under a sha256."""
    lead: JsonObject = {"format": DELTA, "base": base, "gone": sorted(map(to_text, gone))}
    return _dumped(lead, changed, writes)


def _dumped(lead: JsonObject, entries: Mapping[str, Entry], writes: Sequence[str] | None) -> bytes:
    document = {
        **lead,
        "writes": None if writes is None else [to_text(glob) for glob in writes],
        "entries": {to_text(path): entry for path, entry in entries.items()},
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def base_of(document: Json) -> str | None:
    """The sha256 of the whole manifest that a document builds on; None = it is whole itself."""
    if isinstance(document, dict) and cast("JsonObject", document).get("format") == DELTA:
        return str(cast("JsonObject", document)["base"])
    return None


def parse(document: Json, base: Listing | None = None) -> Listing:
    """A manifest as it was dumped.

    Args:
        document: the document.
        base: the listing of its `base_of`, where it has one.

    Raises:
        PermanentError: it is none, or of a later format, or its base is not given.
    """
    known = cast("JsonObject", document) if isinstance(document, dict) else JsonObject()
    if known.get("format") != (WHOLE if base is None else DELTA):
        raise PermanentError("a stored manifest of the workspace cannot be read by this version")
    writes = known["writes"]
    entries = {from_text(path): entry for path, entry in known["entries"].items()}
    if base is not None:
        entries = {**base.entries, **entries}
        for path in known["gone"]:
            entries.pop(from_text(path), None)
    return Listing(
        entries=entries,
        writes=None if writes is None else tuple(from_text(glob) for glob in writes),
    )


def contents_of(entry: Entry) -> list[str]:
    """The blobs of one file; none of anything else."""
    if "sha256" in entry:
        return [entry["sha256"]]
    return [sha256 for _, sha256 in entry.get("blocks", ())]


def kind_of(mode: int) -> Kind:
    """What a `st_mode` says that it is."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "dir"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def bare_entry(found: os.stat_result) -> Entry:
    """What metadata alone says."""
    entry = Entry(kind=kind_of(found.st_mode), mode=stat.S_IMODE(found.st_mode))
    if entry.get("kind") == "file":
        entry["size"] = found.st_size
        entry["mtime_ns"] = found.st_mtime_ns
    return entry


def way_entry(found: os.stat_result) -> Entry:
    """A folder on the way to what is meant."""
    entry = bare_entry(found)
    entry["way"] = True
    return entry


def closed_entry(found: os.stat_result) -> Entry:
    """What could not be read."""
    entry = bare_entry(found)
    entry["unreadable"] = True
    return entry


def is_untouched(entry: Entry, found: os.stat_result) -> bool:
    """Whether a file is surely the one that was read for the entry, by its metadata."""
    return (
        entry.get("inode") == found.st_ino
        and entry.get("ctime_ns") == found.st_ctime_ns
        and entry.get("mtime_ns") == found.st_mtime_ns
        and entry.get("size") == found.st_size
        and entry.get("kind") == kind_of(found.st_mode)
    )


def same_content(one: Entry, other: Entry) -> bool:
    """Whether two entries of files stand for the same bytes; what is unknown is not the same."""
    if one.get("size") != other.get("size") or one.get("unreadable") or other.get("unreadable"):
        return False
    if "sha256" in one or "sha256" in other:
        return one.get("sha256") == other.get("sha256")
    mine, yours = one.get("blocks"), other.get("blocks")
    return mine is not None and yours is not None and [*map(tuple, mine)] == [*map(tuple, yours)]
