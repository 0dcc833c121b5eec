"""Whether the children of a foreach may run side by side, or write the same paths."""

import json
from bisect import bisect_left

from surefoot.graph.plan import Each, Work
from surefoot.graph.ports import ArtifactStore
from surefoot.graph.references import Reference, dig, find_references, resolve
from surefoot.graph.values import Json, JsonObject, StoredValue


async def writes_overlap(each: Each, items: StoredValue, n: int, store: ArtifactStore) -> bool:
    """Whether two children of a foreach may change one path.

    The paths differ only where `writes` names the item or its index; a pattern with a wildcard
    that does not is taken to overlap. Coarse on purpose: a false yes costs speed, never data.
    """
    writes = all_writes(each) if n > 1 else []
    if not writes:
        return False
    heads = {reference.head for reference in find_references(writes)}
    if not heads & {"item", "index"}:
        return True
    values = await load(items, store)
    paths: set[str] = set()
    for index in range(n):
        for path in _paths(writes, values[index], index):
            if path in paths:
                return True
            paths.add(path)
    return _nested(paths)


def all_writes(work: Work) -> list[str]:
    """The patterns that a child may write, those of a group's inner plan included.

    Inside a group only its inputs can tell one child from another: what else a pattern there looks
    up is taken to be the same for all.
    """
    found = list(work.writes or ())
    inner = [*([work.each] if work.each else ()), *(work.plan.subtasks if work.plan else ())]
    for one in inner:
        found += all_writes(one)
    return [_seen_from_outside(path, work.inputs or {}) for path in found] if work.plan else found


def _seen_from_outside(path: str, inputs: JsonObject) -> str:
    def lookup(reference: Reference) -> Json:
        given = inputs.get(reference.path[0]) if len(reference.path) == 1 else None
        return given if reference.head == "inputs" and isinstance(given, str) else ""

    return str(resolve(path, lookup))


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
