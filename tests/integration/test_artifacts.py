import asyncio
import hashlib
import os
import time
from pathlib import Path
from typing import Any

import pytest

from surefoot.checkpointing.artifacts import SMALL_BYTES, ArtifactsUnavailable, ObjectArtifacts
from surefoot.graph.errors import PermanentError, UsageError
from surefoot.graph.values import ArtifactRef


@pytest.fixture
def store(tmp_path: Path) -> ObjectArtifacts:
    return ObjectArtifacts((tmp_path / "a store").as_uri())


def blob(store: ObjectArtifacts, sha256: str) -> Path:
    assert store.root is not None
    return store.root / "sha256" / sha256[:2] / sha256


def ref(name: str, content: bytes) -> ArtifactRef:
    sha256 = hashlib.sha256(content).hexdigest()
    return {"name": name, "sha256": sha256, "size": len(content), "media_type": "text/plain"}


@pytest.mark.parametrize("content", [b"", b"x", b"\0\xff" * 1000, os.urandom(3 * 1024 * 1024)])
async def test_bytes_come_back_under_their_hash(store: ObjectArtifacts, content: bytes) -> None:
    sha256 = await store.put_bytes(content)
    assert sha256 == hashlib.sha256(content).hexdigest()
    assert await store.put_bytes(content) == sha256
    assert await store.get_bytes(sha256) == content
    assert await store.exists(sha256)


async def test_files_small_and_large_come_back(store: ObjectArtifacts, tmp_path: Path) -> None:
    for size in (0, 10, SMALL_BYTES, SMALL_BYTES + 1, 3 * SMALL_BYTES + 7):
        content = os.urandom(size)
        file = tmp_path / "file"
        file.write_bytes(content)
        for _ in range(2):
            assert await store.put_file(file) == (hashlib.sha256(content).hexdigest(), size)
        assert await store.get_bytes(hashlib.sha256(content).hexdigest()) == content
    assert store.root is not None
    assert list((store.root / "tmp").iterdir()) == []


async def test_many_writers_of_one_blob_agree(store: ObjectArtifacts) -> None:
    content = os.urandom(100_000)
    hashes = await asyncio.gather(*(store.put_bytes(content) for _ in range(20)))
    assert len(set(hashes)) == 1
    assert await store.get_bytes(hashes[0]) == content


async def test_a_missing_and_a_damaged_blob_are_permanent_errors(store: ObjectArtifacts) -> None:
    with pytest.raises(PermanentError, match="missing"):
        await store.get_bytes("0" * 64)
    assert not await store.exists("0" * 64)
    sha256 = await store.put_bytes(b"good")
    blob(store, sha256).write_bytes(b"evil")
    with pytest.raises(PermanentError, match="does not match"):
        await store.get_bytes(sha256)
    assert not await store.intact(sha256)


async def test_putting_a_damaged_blob_again_heals_it(
    store: ObjectArtifacts, tmp_path: Path
) -> None:
    large = tmp_path / "large"
    large.write_bytes(os.urandom(SMALL_BYTES + 5))
    for sha256, again in (
        (await store.put_bytes(b"good"), lambda: store.put_bytes(b"good")),
        ((await store.put_file(large))[0], lambda: store.put_file(large)),
    ):
        blob(store, sha256).write_bytes(b"ev")
        await again()
        assert await store.intact(sha256)


async def test_a_materialised_copy_is_read_only_and_made_once(
    store: ObjectArtifacts, tmp_path: Path
) -> None:
    await store.put_bytes(b"content")
    folder = tmp_path / "copies" / "s1"
    path = await store.materialise(ref("a.txt", b"content"), folder)
    assert path == folder / "a.txt"
    assert path.read_bytes() == b"content"
    assert path.stat().st_mode & 0o222 == 0
    made = path.stat()
    assert await store.materialise(ref("a.txt", b"content"), folder) == path
    assert path.stat().st_ino == made.st_ino
    assert [p.name for p in folder.iterdir()] == ["a.txt"]


async def test_a_changed_or_outdated_copy_is_made_again(
    store: ObjectArtifacts, tmp_path: Path
) -> None:
    for content in (b"one", b"two!"):
        await store.put_bytes(content)
    path = await store.materialise(ref("a.txt", b"one"), tmp_path)
    path.unlink()
    path.write_bytes(b"xxx")
    assert (await store.materialise(ref("a.txt", b"one"), tmp_path)).read_bytes() == b"one"
    assert (await store.materialise(ref("a.txt", b"two!"), tmp_path)).read_bytes() == b"two!"
    path.unlink()
    path.symlink_to("/etc/hostname")
    assert (await store.materialise(ref("a.txt", b"one"), tmp_path)).read_bytes() == b"one"


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "a\0b"])
async def test_a_name_cannot_leave_its_folder(
    store: ObjectArtifacts, tmp_path: Path, name: str
) -> None:
    await store.put_bytes(b"x")
    with pytest.raises(PermanentError):
        await store.materialise(ref(name, b"x"), tmp_path)


async def test_old_litter_of_killed_processes_is_swept(store: ObjectArtifacts) -> None:
    assert store.root is not None
    sha256 = await store.put_bytes(b"kept")
    old = [store.root / "tmp" / "x", blob(store, sha256).with_name(f"{sha256}#1")]
    young = [store.root / "tmp" / "y", blob(store, sha256).with_name(f"{sha256}#2")]
    (store.root / "tmp").mkdir()
    for file in old + young:
        file.write_bytes(b"")
    for file in [*old, blob(store, sha256)]:
        os.utime(file, (time.time() - 90_000, time.time() - 90_000))
    assert await store.sweep() == 2
    assert all(file.exists() for file in young)
    assert await store.intact(sha256)


@pytest.mark.parametrize("url", ["nonsense", "ftp://x/y", "s3://", "file:///dev/null/x"])
def test_an_unusable_url_is_named(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        ObjectArtifacts(url)
    assert caught.value.code == "artifacts_url"
    assert "\n" not in str(caught.value)


async def test_a_store_that_cannot_be_written_is_a_transient_error(tmp_path: Path) -> None:
    store = ObjectArtifacts(tmp_path.as_uri())
    (tmp_path / "sha256").write_bytes(b"in the way")
    with pytest.raises(ArtifactsUnavailable):
        await store.put_bytes(b"x")


def test_the_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        ObjectArtifacts("ftp://user:secret@host/x")
    assert "secret" not in str(caught.value)


def test_a_stand_in_for_s3_is_reached_over_plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    store: Any = ObjectArtifacts("s3://bucket/prefix")
    assert store.root is None
