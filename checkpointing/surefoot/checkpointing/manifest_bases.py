"""The whole manifests that are stored, for later ones to say only what has changed since.

Each manifest builds on a whole one, never on another that does: to read any takes two looks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surefoot.checkpointing.manifests import Entry, Listing, dump, dump_delta

MOST = 8
"""Whole manifests that are remembered: one for each set of globs, of the newest sets."""

SHARE = 8
"""Where more than one in so many entries has changed, a whole one is written."""


@dataclass(frozen=True, slots=True)
class _Base:
    sha256: str
    entries: Mapping[str, Entry]


class ManifestBases:
    """What later manifests can build on. It is changed in one loop; any thread may read."""

    def __init__(self) -> None:
        self._bases: dict[tuple[str, ...] | None, _Base] = {}

    def remember(self, sha256: str, listing: Listing) -> None:
        """A whole manifest is stored under this name."""
        self._bases.pop(listing.writes, None)
        self._bases[listing.writes] = _Base(sha256, listing.entries)
        if len(self._bases) > MOST:
            del self._bases[next(iter(self._bases))]

    def forget(self, writes: Sequence[str] | None) -> None:
        """What was stored of these globs is not there any more."""
        self._bases.pop(None if writes is None else tuple(writes), None)

    def of(self, writes: Sequence[str] | None) -> str | None:
        """The name of the whole manifest that is known of these globs."""
        base = self._bases.get(None if writes is None else tuple(writes))
        return base.sha256 if base else None

    def dumped(self, listing: Listing) -> tuple[bytes, bool]:
        """The shortest document of a listing, and whether it is whole."""
        base = self._bases.get(listing.writes)
        if base is not None:
            then, now = base.entries, listing.entries
            # Of an unchanged file it is the same object: this is quicker than any comparison.
            changed = {p: e for p, e in now.items() if then.get(p) is not e and then.get(p) != e}
            gone = then.keys() - now.keys()
            if len(changed) + len(gone) <= len(now) // SHARE:
                return dump_delta(base.sha256, changed, gone, listing.writes), False
        return dump(listing), True
