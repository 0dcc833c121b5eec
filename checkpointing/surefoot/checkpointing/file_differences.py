"""What is not as a manifest says: pure comparison of two sets of entries, and its words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from surefoot.checkpointing.manifests import Entry, same_content, to_text

Change = Literal["missing", "new", "changed", "mode", "unreadable"]

WORDS: Mapping[Change, str] = {
    "missing": "is missing",
    "new": "was not there",
    "changed": "has changed",
    "mode": "has other permissions",
    "unreadable": "cannot be read",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One path that is not as it was."""

    path: str
    change: Change
    want: Entry | None
    have: Entry | None

    def __str__(self) -> str:
        return f"{to_text(self.path)} {WORDS[self.change]}"


def compare(want: Mapping[str, Entry], have: Mapping[str, Entry]) -> list[Difference]:
    """The differences by path.

    Sockets, pipes and devices cannot be made again and are missed by nobody. What could not be
    read when it was listed is compared by what is known of it. A folder on the way to what is
    meant is missed, and harms nobody where it is new. Below a folder that cannot be listed, now or
    then, nothing is known.
    """
    shut = tuple(f"{path}/" for path in (*_shut(want), *_shut(have)))
    found: list[Difference] = []
    for path in sorted(want.keys() | have.keys()):
        wanted, there = want.get(path), have.get(path)
        change = _change(wanted, there)
        if change is not None and not (shut and path.startswith(shut)):
            found.append(Difference(path, change, wanted, there))
    return found


def _shut(entries: Mapping[str, Entry]) -> list[str]:
    return [
        path
        for path, entry in entries.items()
        if entry.get("unreadable") and entry.get("kind") == "dir"
    ]


def _change(want: Entry | None, have: Entry | None) -> Change | None:
    if want is None or have is None:
        if want is None:
            return None if have is None or have.get("way") else "new"
        return None if want.get("kind") == "other" else "missing"
    kind = want.get("kind")
    if kind != have.get("kind"):
        return "changed"
    if have.get("unreadable") and not want.get("unreadable"):
        return "unreadable"
    if kind == "symlink":
        return None if want.get("target") == have.get("target") else "changed"
    if kind == "file" and not _is_same_file(want, have):
        return "changed"
    if kind == "other" or want.get("way") or want.get("mode") == have.get("mode"):
        return None
    return "mode"


def _is_same_file(want: Entry, have: Entry) -> bool:
    if want.get("unreadable"):
        known = ("size", "mtime_ns")
        return all(want.get(name) == have.get(name) for name in known)
    return same_content(want, have)
