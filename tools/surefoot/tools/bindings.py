"""What `${...}` means inside one order: values of other subtasks, inputs, the item, artifacts.

Blobs are read and artifacts laid out as files *before* a value is resolved, so that the look-ups
themselves stay pure. Nothing here decides what a missing or null value leads to.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from surefoot.graph.errors import ReferenceMissing
from surefoot.graph.path_globs import as_names
from surefoot.graph.ports import ArtifactStore, Binding
from surefoot.graph.references import (
    RESERVED_HEADS,
    Reference,
    dig,
    find_references,
    resolve,
    sole_reference,
)
from surefoot.graph.shapes import is_array
from surefoot.graph.values import ArtifactRef, Json, JsonObject, StoredValue

CACHE_BYTES = 64 * 1024 * 1024
THREAD_BYTES = 1024 * 1024
"""JSON longer than this is parsed on a thread: the loop has others to serve."""

MATERIALISED_AT_ONCE = 16


class ValueCache:
    """Reads stored values; parsed blobs are kept by hash, so treat what it returns as read-only."""

    def __init__(self, store: ArtifactStore, *, max_bytes: int = CACHE_BYTES) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, tuple[int, Json]] = OrderedDict()
        self._bytes = 0

    async def load(self, stored: StoredValue) -> Json:
        """The JSON value.

        Raises:
            PermanentError: its blob is missing or damaged.
        """
        sha256 = stored.get("sha256")
        if sha256 is None:
            return stored.get("value")
        if sha256 in self._kept:
            self._kept.move_to_end(sha256)
            return self._kept[sha256][1]
        content = await self._store.get_bytes(sha256)
        large = len(content) > THREAD_BYTES
        value = await asyncio.to_thread(json.loads, content) if large else json.loads(content)
        self._keep(sha256, len(content), value)
        return value

    def _keep(self, sha256: str, size: int, value: Json) -> None:
        if sha256 not in self._kept:
            self._kept[sha256] = (size, value)
            self._bytes += size
        while self._bytes > self._max_bytes and len(self._kept) > 1:
            _, (dropped, _value) = self._kept.popitem(last=False)
            self._bytes -= dropped


class Scope:
    """The look-ups of one order.

    After `resolve`, `nulled` holds the references that were null because a subtask was skipped;
    `inputs` is what `${inputs...}` means: the goal's, or (`goals_inputs` False) a group's.
    """

    def __init__(
        self,
        *,
        values: ValueCache,
        store: ArtifactStore,
        artifacts_folder: Path,
        inputs: JsonObject,
        bindings: Mapping[str, Binding],
        item: tuple[StoredValue, int] | None = None,
        goals_inputs: bool = True,
    ) -> None:
        self._goals_inputs = goals_inputs
        self.nulled: set[str] = set()
        self._values = values
        self._store = store
        self._folder = artifacts_folder
        self.inputs = inputs
        self._bindings = bindings
        self._item = item
        self._loaded: dict[str, Json] = {}
        self._paths: dict[str, Json] = {}

    async def resolve(self, value: Json) -> Json:
        """The value with every reference looked up; an artifact is the path of a read-only copy.

        Raises:
            ReferenceMissing: a reference is malformed, or what it names is not there.
            PermanentError: a stored value or artifact is missing or damaged.
        """
        references = find_references(value)
        for reference in references:
            await self._prepare(reference)
        return resolve(value, self._lookup)

    def meaning(self, value: Json, resolved: Json) -> Json:
        """`resolved` (what `resolve` made of `value`) with artifacts by name instead of by path.

        What a call *means* does not depend on where this machine keeps its copies.
        """
        return resolve(value, self._lookup_meaning) if self._paths else resolved

    async def resolve_globs(self, globs: Sequence[str]) -> Json:
        """Globs with every reference looked up: what data says is a name there, and no pattern.

        An input of the goal that stands alone may hold globs, for the plan's author wrote it; those
        of a group come from items and results. Raises as `resolve`.
        """
        for reference in find_references([*globs]):
            await self._prepare(reference)
        found: list[Json] = []
        for glob in globs:
            alone = sole_reference(glob)
            given = alone is not None and alone.head == "inputs" and self._goals_inputs
            found.append(resolve(glob, self._lookup if given else self._lookup_name))
        return found

    def _lookup_name(self, reference: Reference) -> Json:
        return as_names(self._lookup(reference))

    async def _prepare(self, reference: Reference) -> None:
        head = reference.head
        if head == "item" and self._item is not None and head not in self._loaded:
            self._loaded[head] = await self._item_value(self._item, reference)
        binding = self._bindings.get(head)
        if binding is None or binding.result is None:
            return
        if reference.artifact is None:
            if head not in self._loaded:
                self._loaded[head] = await self._values.load(binding.result)
        elif reference.text not in self._paths:
            self._paths[reference.text] = await self._lay_out(reference, binding)

    async def _item_value(self, item: tuple[StoredValue, int], reference: Reference) -> Json:
        items, index = item
        value = await self._values.load(items)
        if not is_array(value) or index >= len(value):
            raise ReferenceMissing(reference.text, f"the list has no item {index}")
        return value[index]

    async def _lay_out(self, reference: Reference, binding: Binding) -> Json:
        """The path of an artifact's copy; of a foreach the list of paths, null where skipped."""
        found = located(binding, reference)
        if not isinstance(found, list):
            return await self._copy(found)
        paths: list[Json] = []
        for start in range(0, len(found), MATERIALISED_AT_ONCE):
            batch = found[start : start + MATERIALISED_AT_ONCE]
            paths += await asyncio.gather(*(self._copy(one) for one in batch))
        return paths

    async def _copy(self, one: "Located | None") -> str | None:
        if one is None:
            return None
        return str(await self._store.materialise(one.ref, self._folder / one.producer))

    def _lookup(self, reference: Reference) -> Json:
        if reference.head in RESERVED_HEADS:
            return self._lookup_reserved(reference)
        binding = self._bindings.get(reference.head)
        if binding is None:
            raise ReferenceMissing(reference.text, f"{reference.head!r} has no result here")
        if binding.result is None or any(child.result is None for child in binding.children):
            self.nulled.add(reference.text)
        if binding.result is None:
            return None
        if reference.artifact is not None:
            return self._paths[reference.text]
        return dig(self._loaded[reference.head], reference.path, reference=reference.text)

    def _lookup_reserved(self, reference: Reference) -> Json:
        if reference.head == "inputs":
            found = dig(self.inputs, reference.path, reference=reference.text)
            if found is None:  # skipped where a group stands: it is null inside it as well
                self.nulled.add(reference.text)
            return found
        if self._item is None:
            raise ReferenceMissing(reference.text, "there is no item outside a foreach")
        if reference.head == "index":
            return dig(self._item[1], reference.path, reference=reference.text)
        if self._loaded["item"] is None and not reference.path:
            self.nulled.add(reference.text)
        return dig(self._loaded["item"], reference.path, reference=reference.text)

    def _lookup_meaning(self, reference: Reference) -> Json:
        binding = self._bindings.get(reference.head)
        if reference.artifact is None or binding is None or binding.result is None:
            return self._lookup(reference)
        found = located(binding, reference)
        return [_label(one) for one in found] if isinstance(found, list) else _label(found)


@dataclass(frozen=True, slots=True)
class Located:
    """An artifact version and the subtask that made it."""

    producer: str
    ref: ArtifactRef


def located(binding: Binding, reference: Reference) -> Located | list[Located | None]:
    """The artifact a reference names: one, or for a foreach one per child, None where skipped.

    Raises:
        ReferenceMissing: the subtask, or one of its children, has no such artifact.
    """
    name = reference.artifact or ""
    producer = binding.producer or reference.head
    ref = newest(binding.artifacts, name)
    if ref is not None:
        return Located(producer, ref)
    if binding.children:
        children = enumerate(binding.children)
        return [_of_child(child, reference, f"{producer}/{n}") for n, child in children]
    if binding.result is not None and binding.result.get("value") == []:
        return []  # a foreach over an empty list
    names = ", ".join(sorted(repr(one["name"]) for one in binding.artifacts)) or "none"
    raise ReferenceMissing(reference.text, f"{producer} has no artifact {name!r} (it has: {names})")


def visible_artifacts(bindings: Mapping[str, Binding]) -> dict[str, ArtifactRef]:
    """`SUBTASK/NAME` of everything bound, children included, with the newest version of each."""
    found: dict[str, ArtifactRef] = {}
    for id, binding in bindings.items():
        producer = binding.producer or id
        found |= {f"{producer}/{ref['name']}": ref for ref in binding.artifacts}
        if binding.children:
            below = {f"{producer}/{n}": child for n, child in enumerate(binding.children)}
            found |= visible_artifacts(below)
    return found


def newest(artifacts: Sequence[ArtifactRef], name: str) -> ArtifactRef | None:
    """The last of the versions that have this name."""
    return next((ref for ref in reversed(artifacts) if ref["name"] == name), None)


def _of_child(child: Binding, reference: Reference, id: str) -> Located | None:
    if child.result is None:
        return None
    own = child.producer or id
    ref = newest(child.artifacts, reference.artifact or "")
    if ref is None:
        raise ReferenceMissing(reference.text, f"{own} has no artifact {reference.artifact!r}")
    return Located(own, ref)


def _label(one: Located | None) -> str | None:
    return None if one is None else f"artifact:{one.producer}/{one.ref['name']}"
