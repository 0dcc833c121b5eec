"""Sweeping a real store beside those who put: what is wanted again stays, whatever its age."""

import os
from pathlib import Path
from time import time
from typing import Any

import pytest

from surefoot.checkpointing.artifacts import SMALL_BYTES, ObjectArtifacts
from surefoot.checkpointing.database import Database
from surefoot.checkpointing.stored_blobs import StoredBlobs
from surefoot.checkpointing.sweeping import sweep

DAY_S = 86400.0


@pytest.fixture
def store(tmp_path: Path) -> ObjectArtifacts:
    return ObjectArtifacts((tmp_path / "store").as_uri())


def age(store: ObjectArtifacts, sha256: str) -> Path:
    """Make a content two days old."""
    assert store.root is not None
    file = store.root / "sha256" / sha256[:2] / sha256
    then = time() - 2 * DAY_S
    os.utime(file, (then, then))
    return file


async def put(store: ObjectArtifacts, content: bytes, folder: Path) -> str:
    """As bytes or, where it is large, as a file."""
    if len(content) <= SMALL_BYTES:
        return await store.put_bytes(content)
    file = folder / "large"
    file.write_bytes(content)
    return (await store.put_file(file))[0]


@pytest.mark.parametrize("content", [b"small", b"x" * (SMALL_BYTES + 1)], ids=["small", "large"])
async def test_what_is_put_again_is_young_again(
    store: ObjectArtifacts, tmp_path: Path, content: bytes
) -> None:
    sha256 = await put(store, content, tmp_path)
    file = age(store, sha256)
    (seen,) = await StoredBlobs(store).all()
    await put(store, content, tmp_path)
    assert await StoredBlobs(store).drop([seen], before=time() - DAY_S) == []
    assert file.read_bytes() == content


async def test_what_was_swept_a_moment_ago_can_be_put_again(store: ObjectArtifacts) -> None:
    sha256 = await store.put_bytes(b"x")
    age(store, sha256)
    (seen,) = await StoredBlobs(store).all()
    assert await StoredBlobs(store).drop([seen], before=time() - DAY_S) == [seen]
    assert await store.put_bytes(b"x") == sha256
    assert await store.get_bytes(sha256) == b"x"


async def test_names_are_followed_through_manifests_to_the_end(
    store: ObjectArtifacts, database: Database, sql: Any
) -> None:
    content = await store.put_bytes(b"a file of the workspace")
    inner = await store.put_bytes(f'{{"entries":{{"f":{{"sha256":"{content}"}}}}}}'.encode())
    outer = await store.put_bytes(f'{{"groups":{{"g":{{"sha256":"{inner}"}}}}}}'.encode())
    earlier = await store.put_bytes(b'{"records":{}}')
    point = await store.put_bytes(
        f'{{"plan_at":{{"sha256":"{outer}"}},"milestones":{{"m":{{"sha256":"{earlier}"}}}}}}'.encode()
    )
    forgotten = await store.put_bytes(b"nobody names this")
    for sha256 in (content, inner, outer, earlier, point, forgotten):
        age(store, sha256)
    sql.make_task("t")
    sql.rows(
        "insert into surefoot.snapshots (task_id, tier, milestone, manifest, state, files, bytes,"
        " at) values ('t', 'complete', 'm2', '{}', jsonb_build_object('sha256', %s::text), 0, 0,"
        " now())",
        point,
    )
    swept = await sweep(database, store, before=time() - DAY_S, dry_run=False)
    # What a document says of milestones before it is kept by their own rows.
    assert swept.blobs == 2
    left = {blob.sha256 for blob in await StoredBlobs(store).all()}
    assert left == {content, inner, outer, point}
