"""Content-addressed blobs in an object store: a local folder, or S3 and its kin by URL.

The key is the sha256, so a blob is written once and can be checked on every read. On a local store
everything is fsynced before its hash is given out, since a database row will point to it.
"""

import asyncio
import contextlib
import hashlib
import os
import re
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore, S3Store, from_url

from surefoot.graph.errors import PermanentError, TransientError, UsageError
from surefoot.graph.values import ArtifactRef

if TYPE_CHECKING:
    from obstore.store import ClientConfig  # exists for type checkers only

SMALL_BYTES = 8 * 1024 * 1024
"""Up to here a blob is put in one piece."""

CHUNK_BYTES = 1024 * 1024
LOOKS_AT_ONCE = 16
"""Requests at once to a store that is not here."""

LITTER_SECONDS = 24 * 3600.0
_LITTER = re.compile(r"#\d+$")


YOUNG_SECONDS = 1800.0
"""Elsewhere a content that is put again is sent anew where it is older than this: so nobody who
sweeps takes it for forgotten. Here it is touched each time."""


class ArtifactsUnavailable(TransientError):
    """The object store does not answer. Check it or SUREFOOT_ARTIFACTS_URL, then resume."""


class ObjectArtifacts:
    """The artifact store (`ports.ArtifactStore`) at a URL: `file:///...`, `s3://bucket/prefix`."""

    def __init__(self, url: str) -> None:
        """Open the store; a local folder is made.

        Raises:
            UsageError: `artifacts_url`: not a URL of a known kind, or the folder cannot be made.
        """
        self.url = url
        self.root: Path | None = None
        """The folder, where the store is one."""
        self._intact: dict[Path, tuple[str, int, int, int]] = {}
        try:
            self._store = self._open(url)
        except (BaseError, ValueError, OSError) as exc:
            # The library's own text repeats the URL, perhaps with a password.
            why = exc.strerror if isinstance(exc, OSError) else "not an address it knows"
            raise UsageError(
                "artifacts_url",
                f"cannot use SUREFOOT_ARTIFACTS_URL {_shown(url)!r} ({why}): "
                "write file:///FOLDER or s3://BUCKET/PREFIX",
            ) from None

    @property
    def objects(self) -> ObjectStore:
        """What lies underneath, for who keeps house."""
        return self._store

    async def put_bytes(self, content: bytes) -> str:
        """Store and return the sha256 (hex)."""
        return await asyncio.to_thread(self._put_bytes, content)

    async def put_file(self, path: Path) -> tuple[str, int]:
        """Store a file's content; returns (sha256, size)."""
        return await asyncio.to_thread(self._put_file, path)

    async def get_bytes(self, sha256: str) -> bytes:
        """The content.

        Raises:
            PermanentError: it is missing, or does not match its hash.
            ArtifactsUnavailable: the store does not answer.
        """
        return await asyncio.to_thread(self._get_bytes, sha256)

    async def exists(self, sha256: str) -> bool:
        """True where a blob of that name is there (its content is checked when it is read)."""
        return await asyncio.to_thread(self._size, sha256) is not None

    async def missing(self, wanted: Sequence[str]) -> set[str]:
        """Those of many blobs that are not there; locally by one look each, in one thread."""
        if self.root is not None:
            return await asyncio.to_thread(self._missing_here, wanted)
        return await _refused(wanted, lambda sha256: self._size(sha256) is not None)

    async def refresh(self, wanted: Sequence[str]) -> set[str]:
        """Make blobs young, as a put does; returns those for which it takes a new put."""
        if self.root is not None:
            return await asyncio.to_thread(
                lambda: {sha256 for sha256 in wanted if not self._is_young_again(sha256)}
            )
        return await _refused(wanted, self._is_young_again)

    async def damaged(
        self, wanted: Sequence[str], *, most_bytes: int | None = None
    ) -> tuple[int, set[str]]:
        """Read blobs in this order (see `ports.ArtifactStore.damaged`)."""
        return await asyncio.to_thread(self._damaged, wanted, most_bytes)

    async def intact(self, sha256: str) -> bool:
        """True where the blob is there and matches its hash (reads all of it)."""
        return await asyncio.to_thread(self._matches, sha256)

    async def materialise(self, ref: ArtifactRef, folder: Path) -> Path:
        """A read-only copy at `folder/NAME`; made once, returned again when it is intact."""
        return await asyncio.to_thread(self._materialise, ref, folder)

    async def sweep(self, older_than_s: float = LITTER_SECONDS) -> int:
        """Remove what killed processes left half-written so long ago; how many files."""
        return await asyncio.to_thread(self._sweep, older_than_s)

    def _open(self, url: str) -> ObjectStore:
        parts = urlsplit(url)
        if parts.scheme == "file":
            self.root = Path(unquote(parts.path))
            self.root.mkdir(parents=True, exist_ok=True)
            return LocalStore(self.root)
        if parts.scheme == "s3" and os.environ.get("AWS_ENDPOINT_URL", "").startswith("http:"):
            # A stand-in on the local network (MinIO): plain HTTP, and no bucket in the host name.
            options: ClientConfig = {"allow_http": True}
            return S3Store.from_url(url, client_options=options, virtual_hosted_style_request=False)
        return from_url(url)

    def _put_bytes(self, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        key = key_of(sha256)
        with translated():
            try:
                obstore.put(self._store, key, content, mode="create")
            except AlreadyExistsError:
                # Perhaps only half of it, from before a power cut: then it is written anew.
                if not self._wanted_again(key) or not self._matches(sha256):
                    obstore.put(self._store, key, content)
            self._make_durable(key)
        return sha256

    def _put_file(self, path: Path) -> tuple[str, int]:
        if path.stat().st_size <= SMALL_BYTES:
            content = path.read_bytes()
            return self._put_bytes(content), len(content)
        if self.root is None:
            return self._put_large_remote(path)
        draft = f"tmp/{uuid.uuid4().hex}"
        digest = hashlib.sha256()
        with path.open("rb") as source, translated():
            obstore.put(self._store, draft, _hashed(source, digest))
            size = int(obstore.head(self._store, draft)["size"])
            sha256 = digest.hexdigest()
            there = self._size(sha256) == size and self._wanted_again(key_of(sha256))
            if there and self._matches(sha256):
                obstore.delete(self._store, draft)
            else:
                self._fsync(self.root / draft)
                obstore.rename(self._store, draft, key_of(sha256))
            self._make_durable(key_of(sha256))
        return sha256, size

    def _put_large_remote(self, path: Path) -> tuple[str, int]:
        with path.open("rb") as source:
            first = hashlib.sha256()
            size = sum(len(chunk) for chunk in _hashed(source, first))
        sha256 = first.hexdigest()
        if self._size(sha256) == size and self._wanted_again(key_of(sha256)):
            return sha256, size
        sent = hashlib.sha256()
        with path.open("rb") as source, translated():
            obstore.put(self._store, key_of(sha256), _hashed(source, sent))
            if sent.digest() != first.digest():
                obstore.delete(self._store, key_of(sha256))
                raise ArtifactsUnavailable(f"{path.name} changed while it was stored")
        return sha256, size

    def _wanted_again(self, key: str) -> bool:
        """Make a stored content young; False where that takes a new put."""
        if self.root is not None:
            try:
                os.utime(self.root / key)
            except FileNotFoundError:  # it was swept at this moment
                return False
            return True
        try:
            put = obstore.head(self._store, key)["last_modified"].timestamp()
        except FileNotFoundError:
            return False
        return time.time() - put < YOUNG_SECONDS

    def _is_young_again(self, sha256: str) -> bool:
        with translated():
            return self._wanted_again(key_of(sha256))

    def _get_bytes(self, sha256: str) -> bytes:
        content = b"".join(self._read(sha256))
        if hashlib.sha256(content).hexdigest() != sha256:
            raise PermanentError(f"the stored blob {sha256} does not match its hash")
        return content

    def _read(self, sha256: str) -> Iterator[bytes]:
        with translated():
            try:
                stream = obstore.get(self._store, key_of(sha256)).stream(CHUNK_BYTES)
            except FileNotFoundError:
                raise PermanentError(f"the stored blob {sha256} is missing") from None
            for chunk in stream:
                yield bytes(chunk)

    def _size(self, sha256: str) -> int | None:
        with translated():
            try:
                return int(obstore.head(self._store, key_of(sha256))["size"])
            except FileNotFoundError:
                return None

    def _missing_here(self, wanted: Sequence[str]) -> set[str]:
        root = str(self.root)
        return {sha256 for sha256 in wanted if not os.path.exists(f"{root}/{key_of(sha256)}")}

    def _damaged(self, wanted: Sequence[str], most_bytes: int | None) -> tuple[int, set[str]]:
        read, sum_bytes, bad = 0, 0, set[str]()
        for sha256 in wanted:
            size = self._size(sha256) or 0
            if most_bytes is not None and read and sum_bytes + size > most_bytes:
                break
            read, sum_bytes = read + 1, sum_bytes + size
            if not self._matches(sha256):
                bad.add(sha256)
        return read, bad

    def _matches(self, sha256: str) -> bool:
        digest = hashlib.sha256()
        try:
            for chunk in self._read(sha256):
                digest.update(chunk)
        except PermanentError:
            return False
        return digest.hexdigest() == sha256

    def _materialise(self, ref: ArtifactRef, folder: Path) -> Path:
        name, sha256 = ref["name"], ref["sha256"]
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise PermanentError(f"{name!r} cannot be a file's name")
        target = folder / name
        if self._is_copy(target, sha256):
            return target
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{uuid.uuid4().hex}"
        digest = hashlib.sha256()
        try:
            with draft.open("xb") as file:
                for chunk in self._read(sha256):
                    digest.update(chunk)
                    file.write(chunk)
            if digest.hexdigest() != sha256:
                raise PermanentError(f"the stored blob {sha256} does not match its hash")
            draft.chmod(0o444)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
        self._intact[target] = _signature(target, sha256)
        return target

    def _is_copy(self, target: Path, sha256: str) -> bool:
        if target.is_symlink() or not target.is_file():
            return False
        signature = _signature(target, sha256)
        if self._intact.get(target) == signature:
            return True
        with target.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                return False
        self._intact[target] = signature
        return True

    def _make_durable(self, key: str) -> None:
        if self.root is None:
            return
        file = self.root / key
        self._fsync(file)
        # The folders too: their entries are what makes the file findable after a power cut.
        for folder in (file.parent, file.parent.parent, self.root):
            self._fsync(folder)

    @staticmethod
    def _fsync(path: Path) -> None:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def _sweep(self, older_than_s: float) -> int:
        if self.root is None:
            return 0
        oldest = time.time() - older_than_s
        removed = 0
        for file in self.root.rglob("*"):
            litter = _LITTER.search(file.name) or file.parent == self.root / "tmp"
            with contextlib.suppress(FileNotFoundError):
                if litter and file.is_file() and file.stat().st_mtime < oldest:
                    file.unlink()
                    removed += 1
        return removed


async def _refused(wanted: Sequence[str], look: Callable[[str], bool]) -> set[str]:
    """Those of many blobs of a store that is elsewhere for which a look says no."""
    turns = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def refused(sha256: str) -> bool:
        async with turns:
            return not await asyncio.to_thread(look, sha256)

    found = await asyncio.gather(*(refused(sha256) for sha256 in wanted))
    return {sha256 for sha256, no in zip(wanted, found, strict=True) if no}


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


def key_of(sha256: str) -> str:
    """Where a content lies in the store."""
    return f"sha256/{sha256[:2]}/{sha256}"


def _hashed(source: BinaryIO, digest: "_Digest") -> Iterator[bytes]:
    while chunk := source.read(CHUNK_BYTES):
        digest.update(chunk)
        yield chunk


def _signature(file: Path, sha256: str) -> tuple[str, int, int, int]:
    seen = file.stat()
    return sha256, seen.st_ino, seen.st_size, seen.st_mtime_ns


@contextlib.contextmanager
def translated() -> Generator[None]:
    """What the store raises, as `ArtifactsUnavailable`."""
    try:
        yield
    except (BaseError, OSError) as exc:
        first = str(exc).strip().splitlines()[0]
        raise ArtifactsUnavailable(f"the artifact store does not answer: {first}") from exc


def _shown(url: str) -> str:
    """The URL without a user and a password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
