"""The object store as who keeps house sees it: everything that is stored, whose it is, removing."""

import asyncio
import contextlib
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import obstore
from obstore.exceptions import AlreadyExistsError

from surefoot.checkpointing.artifacts import ObjectArtifacts, key_of, translated

_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One stored content; `at` is when it was put last, in POSIX seconds."""

    sha256: str
    size: int
    at: float


class StoredBlobs:
    """All contents of a store. Methods raise ArtifactsUnavailable."""

    def __init__(self, store: ObjectArtifacts) -> None:
        self._objects, self._root = store.objects, store.root

    async def all(self) -> list[Blob]:
        """Everything that is stored."""
        return await asyncio.to_thread(self._all)

    async def drop(self, blobs: Sequence[Blob], *, before: float) -> list[Blob]:
        """Remove contents, unless they were put again since `before` (POSIX seconds)."""
        return await asyncio.to_thread(lambda: [b for b in blobs if self._drop(b, before)])

    async def claim(self, owner: str) -> None:
        """Say that a database keeps contents here."""
        await asyncio.to_thread(self._claim, owner)

    async def owners(self) -> list[str]:
        """The databases that keep contents here."""
        return await asyncio.to_thread(
            lambda: [one["path"].rpartition("/")[2] for one in self._listed("owners")]
        )

    def _all(self) -> list[Blob]:
        return [
            Blob(sha256=name, size=int(one["size"]), at=one["last_modified"].timestamp())
            for one in self._listed("sha256")
            if _HEX.fullmatch(name := one["path"].rpartition("/")[2])
        ]

    def _drop(self, blob: Blob, before: float) -> bool:
        """Remove one content. Here it is moved aside first: a put at this moment is noticed."""
        key = key_of(blob.sha256)
        if self._root is None:
            with translated():
                if obstore.head(self._objects, key)["last_modified"].timestamp() >= before:
                    return False
                obstore.delete(self._objects, key)
            return True
        file, aside = self._root / key, self._root / "tmp" / f"gone-{uuid.uuid4().hex}"
        aside.parent.mkdir(exist_ok=True)
        try:
            file.rename(aside)
            if aside.stat().st_mtime >= before:
                aside.rename(file)
                return False
            aside.unlink()
        except FileNotFoundError:
            return False
        return True

    def _claim(self, owner: str) -> None:
        with translated(), contextlib.suppress(AlreadyExistsError):
            obstore.put(self._objects, f"owners/{owner}", b"", mode="create")

    def _listed(self, prefix: str) -> Iterator[dict[str, Any]]:
        with translated():
            for page in cast("Any", obstore).list(self._objects, prefix=prefix):
                yield from page
