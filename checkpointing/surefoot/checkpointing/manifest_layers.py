"""Several manifests as one: what was the whole, and what single subtasks have left since. Pure."""

from collections.abc import Mapping, Sequence

from surefoot.checkpointing.file_scan import around
from surefoot.checkpointing.manifests import Entry, Listing
from surefoot.graph.path_globs import leads_to, matches_any


def layered(listings: Sequence[Listing]) -> Listing:
    """The listing that later ones make of earlier ones.

    Of what a later one is about (its globs) the earlier ones say nothing any more; nor of folders
    on the way to it that are gone, and lead to nothing else. It is about everything if one is.

    Args:
        listings: from the oldest to the newest, at least one.
    """
    entries: dict[str, Entry] = {}
    globs: list[str] | None = []
    for listing in listings:
        if listing.writes is None:
            entries, globs = dict(listing.entries), None
            continue
        about = listing.writes
        kept = {path: e for path, e in entries.items() if not matches_any(about, path)}
        for path in _gone(kept, listing):
            del kept[path]
        # A folder on the way that lies there for others as well is meant itself by them.
        news = {p: e for p, e in listing.entries.items() if not e.get("way") or p not in kept}
        entries = {**kept, **news}
        if globs is not None:
            globs += [glob for glob in about if glob not in globs]
    return Listing(entries=entries, writes=None if globs is None else tuple(globs))


def _gone(kept: Mapping[str, Entry], later: Listing) -> list[str]:
    """Folders that a later listing would have met on its way, and did not."""
    about = later.writes or ()
    folders = [
        path
        for path, entry in kept.items()
        if entry.get("kind") == "dir" and path not in later.entries and leads_to(about, path)
    ]
    if not folders:
        return []
    used = {above for path in kept.keys() - {*folders} for above in around(path)}
    return [path for path in folders if path not in used]
