"""What lies in a folder, by metadata alone: one walk with `os.scandir`, nothing is opened.

Links are never followed, a folder behind a link is not entered. What comes or goes during the walk
is found or not; who reads a file afterwards notices that it has changed.
"""

import errno
import os
import re
import stat
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from surefoot.graph.errors import TransientError
from surefoot.graph.path_globs import Parts, begin, enter, only_names

MAX_ENTRIES = 500_000
"""More files and folders than this are refused: a snapshot of them would not fit into memory."""

DRAFT = re.compile(r"\.surefoot-[0-9a-f]{8}-[0-9a-f]{8}-\d+")
"""Files half written by a restore: `.surefoot-TASK-PROCESS-NUMBER`; they are never part of it."""

Stamp = tuple[int, ...]
NOTHING: Mapping[str, Stamp] = {}

ALL_BELOW: Parts = ("**",)
EVERYTHING: frozenset[Parts] = frozenset({()})


class WorkspaceUnavailable(TransientError):
    """The workspace cannot be read or written now; the message says where and why."""


@dataclass(slots=True)
class Scan:
    """The metadata of what is meant, by path relative to the root."""

    found: dict[str, os.stat_result] = field(default_factory=dict[str, os.stat_result])
    same: list[str] = field(default_factory=list[str])
    """Files that are as they were known; they are not in `found`."""
    way: dict[str, os.stat_result] = field(default_factory=dict[str, os.stat_result])
    """Folders that are not meant themselves, but something below them may be."""
    unreadable: dict[str, str] = field(default_factory=dict[str, str])
    """Folders that could not be listed, and why."""
    occupied: set[str] = field(default_factory=set[str])
    """Folders that hold something which is none of ours: they cannot be removed."""
    drafts: list[str] = field(default_factory=list[str])
    started_ns: int = 0
    """When the walk began, by the clock that files are stamped with."""


def stamp(found: os.stat_result) -> Stamp:
    """What changes whenever a file is written, replaced, or given other permissions or times."""
    return found.st_ctime_ns, found.st_ino, found.st_size, found.st_mode


def scan(
    root: str,
    writes: Sequence[str] | None,
    *,
    skip: frozenset[str] = frozenset(),
    known: Mapping[str, Stamp] = NOTHING,
) -> Scan:
    """Walk through the root, or through what the globs mean below it.

    Args:
        root: the folder; a missing one holds nothing.
        writes: globs; None = everything.
        skip: relative paths that are left out with all below them.
        known: stamps of files, by path.

    Raises:
        WorkspaceUnavailable: a folder cannot be read for another reason than its permissions, or
            there is more than `MAX_ENTRIES`.
    """
    seen = Scan(started_ns=time.time_ns())
    wanted = EVERYTHING if writes is None else begin(writes)
    folders: list[tuple[str, frozenset[Parts]]] = [("", wanted)] if wanted else []
    while folders:
        folder, here = folders.pop()
        place = f"{root}/{folder}" if folder else root
        prefix = f"{folder}/" if folder else ""
        with _told(folder, seen):
            if here == EVERYTHING:
                folders += [(one, EVERYTHING) for one in _all_in(place, prefix, skip, known, seen)]
            else:
                folders += _meant_in(place, prefix, here, skip, known, seen)
        if len(seen.found) + len(seen.same) + len(seen.way) > MAX_ENTRIES:
            raise WorkspaceUnavailable(
                f"there are more than {MAX_ENTRIES} files in the workspace: state narrower `writes`"
            )
    return seen


def _all_in(
    place: str, prefix: str, skip: frozenset[str], known: Mapping[str, Stamp], seen: Scan
) -> list[str]:
    """Take everything in a folder; returns the folders in it. Short, for it is nearly all we do."""
    found, same, folders = seen.found, seen.same, list[str]()
    with os.scandir(place) as entries:
        for entry in entries:
            name = entry.name
            path = prefix + name
            if path in skip or name.startswith(".surefoot-"):
                if _is_left_out(path, name, skip, seen):
                    continue
            try:
                now = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            # As `stamp`, without its call: for unchanged files this is most of a snapshot's work.
            if known.get(path) == (now.st_ctime_ns, now.st_ino, now.st_size, now.st_mode):
                same.append(path)
                continue
            found[path] = now
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
    return folders


def _meant_in(
    place: str,
    prefix: str,
    wanted: frozenset[Parts],
    skip: frozenset[str],
    known: Mapping[str, Stamp],
    seen: Scan,
) -> list[tuple[str, frozenset[Parts]]]:
    """Take what is meant in a folder; returns the folders that lead on, with what they lead to."""
    names = only_names(wanted)
    folders: list[tuple[str, frozenset[Parts]]] = []
    for name, found in _listed(place) if names is None else _named(place, sorted(names)):
        path = prefix + name
        if _is_left_out(path, name, skip, seen):
            continue
        meant, below = enter(wanted, name)
        is_folder = stat.S_ISDIR(found.st_mode)
        # Of whom all below is meant, the folder itself is nobody else's: its permissions too.
        meant = meant or (is_folder and ALL_BELOW in below)
        if meant and known.get(path) == stamp(found):
            seen.same.append(path)
        elif meant:
            seen.found[path] = found
            below = EVERYTHING
        elif below and is_folder:
            seen.way[path] = found
        if is_folder and below:
            folders.append((path, below))
    return folders


def _is_left_out(path: str, name: str, skip: frozenset[str], seen: Scan) -> bool:
    if path in skip:
        seen.occupied.update(around(path))
        return True
    if DRAFT.fullmatch(name) is None:
        return False
    seen.drafts.append(path)
    return True


@contextmanager
def _told(folder: str, seen: Scan) -> Generator[None]:
    """Note what cannot be listed; what went while we walked is not there."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError as exc:
        seen.unreadable[folder] = exc.strerror or str(exc)
    except OSError as exc:
        raise WorkspaceUnavailable(
            f"{folder or 'the workspace'} cannot be read: {exc.strerror or exc}"
        ) from exc


def _listed(place: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(place) as entries:
        for entry in entries:
            found = _look_up(entry.path)
            if found is not None:
                yield entry.name, found


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


def around(path: str) -> Iterator[str]:
    """The folders that a path lies in, the nearest first."""
    folder = path.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
