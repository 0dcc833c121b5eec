"""Whether the children of a foreach may run side by side, or write the same paths."""

import json
from bisect import bisect_left

from surefoot.graph.plan import Each
from surefoot.graph.ports import ArtifactStore
from surefoot.graph.references import Reference, dig, find_references, resolve
from surefoot.graph.values import Json, StoredValue


async def writes_overlap(each: Each, items: StoredValue, n: int, store: ArtifactStore) -> bool:
    """Whether two children of a foreach may change one path.

    The paths differ only where `writes` names the item or its index; a pattern with a wildcard
    that does not is taken to overlap. Coarse on purpose: a false yes costs speed, never data.
    """
    if not each.writes or n < 2:
        return False
    heads = {reference.head for reference in find_references(each.writes)}
    if not heads & {"item", "index"}:
        return True
    values = await load(items, store)
    paths: set[str] = set()
    for index in range(n):
        for path in _paths(each.writes, values[index], index):
            if path in paths:
                return True
            paths.add(path)
    return _nested(paths)


def _paths(writes: list[str], item: Json, index: int) -> set[str]:
    def lookup(reference: Reference) -> Json:
        if reference.head == "item":
            return dig(item, reference.path)
        return index if reference.head == "index" else ""

    return {str(resolve(path, lookup)) for path in writes}


def _nested(paths: set[str]) -> bool:
    """Whether a path lies below another, or a wildcard could make it so."""
    ordered = sorted(paths)
    for path in ordered:
        fixed = path.split("*", 1)[0].split("?", 1)[0]
        prefix = fixed if fixed != path else path.rstrip("/") + "/"
        first = bisect_left(ordered, prefix)
        below = (other for other in ordered[first : first + 2] if other.startswith(prefix))
        if any(other != path for other in below):
            return True
    return False


async def load(value: StoredValue, store: ArtifactStore) -> Json:
    """The JSON value itself, from the record or from its blob."""
    if "sha256" in value:
        return json.loads(await store.get_bytes(value["sha256"]))
    return value.get("value")
