"""What lies in a folder, by metadata alone: one walk with `os.scandir`, nothing is opened.

Links are never followed, a folder behind a link is not entered. What comes or goes during the walk
is found or not; who reads a file afterwards notices that it has changed.
"""

import errno
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from surefoot.graph.errors import TransientError
from surefoot.graph.path_globs import Parts, begin, enter, only_names

MAX_ENTRIES = 500_000
"""More files and folders than this are refused: a snapshot of them would not fit into memory."""

DRAFT = re.compile(r"\.surefoot-[0-9a-f]{8}-[0-9a-f]{8}-\d+")
"""Files half written by a restore: `.surefoot-TASK-PROCESS-NUMBER`; they are never part of it."""

EVERYTHING: frozenset[Parts] = frozenset({()})


class WorkspaceUnavailable(TransientError):
    """The workspace cannot be read or written now; the message says where and why."""


@dataclass(slots=True)
class Scan:
    """The metadata of what is meant, by path relative to the root."""

    found: dict[str, os.stat_result] = field(default_factory=dict[str, os.stat_result])
    way: dict[str, os.stat_result] = field(default_factory=dict[str, os.stat_result])
    """Folders that are not meant themselves, but something below them may be."""
    unreadable: dict[str, str] = field(default_factory=dict[str, str])
    """Folders that could not be listed, and why."""
    occupied: set[str] = field(default_factory=set[str])
    """Folders that hold something which is none of ours: they cannot be removed."""
    drafts: list[str] = field(default_factory=list[str])
    started_ns: int = 0
    """When the walk began, by the clock that files are stamped with."""


def scan(root: str, writes: Sequence[str] | None, *, skip: frozenset[str] = frozenset()) -> Scan:
    """Walk through the root, or through what the globs mean below it.

    Args:
        root: the folder; a missing one holds nothing.
        writes: globs; None = everything.
        skip: relative paths that are left out with all below them.

    Raises:
        WorkspaceUnavailable: a folder cannot be read for another reason than its permissions, or
            there is more than `MAX_ENTRIES`.
    """
    seen = Scan(started_ns=time.time_ns())
    wanted = EVERYTHING if writes is None else begin(writes)
    folders: list[tuple[str, frozenset[Parts]]] = [("", wanted)] if wanted else []
    while folders:
        folder, here = folders.pop()
        for name, found in _entries(root, folder, here, seen):
            path = f"{folder}/{name}" if folder else name
            if path in skip:
                seen.occupied.update(_around(path))
                continue
            if name.startswith(".surefoot-") and DRAFT.fullmatch(name):
                seen.drafts.append(path)
                continue
            meant, below = (True, EVERYTHING) if here is EVERYTHING else enter(here, name)
            is_folder = stat.S_ISDIR(found.st_mode)
            if meant:
                seen.found[path] = found
                below = EVERYTHING
            elif below and is_folder:
                seen.way[path] = found
            if is_folder and below:
                folders.append((path, below))
        if len(seen.found) + len(seen.way) > MAX_ENTRIES:
            raise WorkspaceUnavailable(
                f"there are more than {MAX_ENTRIES} files in the workspace: state narrower `writes`"
            )
    return seen


def _entries(
    root: str, folder: str, wanted: frozenset[Parts], seen: Scan
) -> Iterator[tuple[str, os.stat_result]]:
    """(name, metadata) of what is in a folder, or of the names alone that can be meant."""
    place = f"{root}/{folder}" if folder else root
    names = None if wanted is EVERYTHING else only_names(wanted)
    try:
        if names is not None:
            yield from _named(place, sorted(names))
            return
        with os.scandir(place) as entries:
            for entry in entries:
                try:
                    yield entry.name, entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
    except (FileNotFoundError, NotADirectoryError):
        return  # it went while we walked
    except PermissionError as exc:
        seen.unreadable[folder] = exc.strerror or str(exc)
    except OSError as exc:
        raise WorkspaceUnavailable(
            f"{folder or 'the workspace'} cannot be read: {exc.strerror or exc}"
        ) from exc


def _named(place: str, names: Sequence[str]) -> Iterator[tuple[str, os.stat_result]]:
    for name in names:
        found = _look_up(f"{place}/{name}") if name not in ("..", ".") else None
        if found is not None:
            yield name, found


def _look_up(path: str) -> os.stat_result | None:
    """The metadata of one path; None where there is nothing, or nothing can be of such a name."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as exc:
        if exc.errno == errno.ENAMETOOLONG:
            return None
        raise


def _around(path: str) -> Iterator[str]:
    folder = path.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
