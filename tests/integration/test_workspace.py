"""Snapshots taken and put back: real folders, a real store, rows in PostgreSQL."""

import contextlib
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Sql
from snapshot_world import CountingStore, open_again, put, tree

from surefoot.checkpointing.artifacts import key_of
from surefoot.checkpointing.database import Database
from surefoot.checkpointing.file_contents import RENEW_S
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.outbox import Fence
from surefoot.checkpointing.workspace import WorkspaceSnapshots
from surefoot.graph.errors import LeaseLost, PermanentError
from surefoot.graph.ports import Manifest

LONG_AGO_NS = 1_600_000_000_000_000_000


@pytest.fixture
def root(home: Path) -> Path:
    folder = home / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def store(home: Path) -> CountingStore:
    return CountingStore((home / "artifacts").as_uri())


@pytest.fixture
def lease(sql: Sql) -> Lease:
    return sql.make_task("t1")


@pytest.fixture
def workspace(
    root: Path, home: Path, store: CountingStore, database: Database, lease: Lease
) -> WorkspaceSnapshots:
    return open_again(root, store, database, lease)


# --- before and back -----------------------------------------------------------------------------


async def test_what_an_attempt_changed_made_and_deleted_is_put_back(
    workspace: WorkspaceSnapshots, root: Path
) -> None:
    put(root, {"out/a.txt": "a", "out/gone.txt": "g", "out/deep/x": "x", "other.txt": "o"})
    (root / "out/a.txt").chmod(0o640)
    (root / "out/link").symlink_to("a.txt")
    (root / "out/empty").mkdir(mode=0o711)
    was = tree(root)
    await workspace.before("s", 1, ["out/**"])
    put(root, {"out/a.txt": "changed", "out/new/n.txt": "n", "other.txt": "not ours"})
    (root / "out/a.txt").chmod(0o600)
    (root / "out/gone.txt").unlink()
    (root / "out/link").unlink()
    (root / "out/link").symlink_to("/etc")
    (root / "out/empty").rmdir()
    (root / "out/deep/x").unlink()
    (root / "out/deep").rmdir()
    (root / "out/deep").write_text("a file now")
    restored = await workspace.put_back("s", 1)
    assert restored is not None
    assert set(restored.changed) == {
        *("out/a.txt", "out/deep", "out/deep/x", "out/empty", "out/gone.txt", "out/link"),
    }
    assert set(restored.removed) == {"out/new", "out/new/n.txt"}
    now = tree(root)
    assert now.pop(b"other.txt")[1] == b"not ours"
    was.pop(b"other.txt")
    assert now == was


async def test_what_is_put_back_was_kept_before(workspace: WorkspaceSnapshots, root: Path) -> None:
    put(root, {"a.txt": "old"})
    await workspace.before("s", 1, ["*.txt"])
    put(root, {"a.txt": "somebody's work", "b.txt": "more of it"})
    restored = await workspace.put_back("s", 1)
    assert restored is not None
    assert restored.kept is not None
    await workspace.restore(restored.kept)
    assert (root / "a.txt").read_text() == "somebody's work"
    assert (root / "b.txt").read_text() == "more of it"


async def test_the_first_memory_of_an_attempt_stands(
    workspace: WorkspaceSnapshots,
    root: Path,
    store: CountingStore,
    database: Database,
    lease: Lease,
    sql: Sql,
) -> None:
    put(root, {"a.txt": "first"})
    await workspace.before("s", 1, ["a.txt"])
    put(root, {"a.txt": "half"})
    again = open_again(root, store, database, lease)
    await again.before("s", 1, ["a.txt"])
    await again.before("s", 2, ["a.txt"])
    assert sql.value("select count(*) from surefoot.snapshots") == 2
    assert await again.put_back("s", 1) is not None
    assert (root / "a.txt").read_text() == "first"
    assert await again.put_back("s", 2) is not None
    assert (root / "a.txt").read_text() == "half"
    assert await again.put_back("other", 1) is None


async def test_an_attempt_that_goes_on_has_the_memory_of_the_one_that_was_cut(
    workspace: WorkspaceSnapshots, root: Path, sql: Sql
) -> None:
    put(root, {"a.txt": "first"})
    await workspace.before("s", 1, ["a.txt"])
    put(root, {"a.txt": "half"})
    # 2 was cut before it could remember anything.
    assert not await workspace.before("s", 3, ["a.txt"], goes_on=True)
    put(root, {"a.txt": "half again"})
    await workspace.put_back("s", 3)
    assert (root / "a.txt").read_text() == "first"
    put(root, {"a.txt": "a person's"})
    assert not await workspace.before("s", 4, ["a.txt"])
    put(root, {"a.txt": "x"})
    await workspace.put_back("s", 4)
    assert (root / "a.txt").read_text() == "a person's"


async def test_one_that_was_cut_before_it_remembered_is_put_back_by_the_one_before(
    workspace: WorkspaceSnapshots, root: Path, sql: Sql
) -> None:
    put(root, {"a.txt": "first"})
    await workspace.before("s", 1, ["a.txt"])
    put(root, {"a.txt": "half"})
    assert await workspace.put_back("s", 2) is not None
    assert (root / "a.txt").read_text() == "first"
    sql.rows(
        "insert into surefoot.snapshots"
        " (task_id, tier, subtask, attempt, manifest, files, bytes, at)"
        " values ('t1', 'full', 's', 1, '{}', 0, 0, now())"
    )
    assert await workspace.put_back("s", 2) is None


async def test_a_failed_attempt_that_was_being_put_back_does_not_go_on(
    workspace: WorkspaceSnapshots, root: Path
) -> None:
    put(root, {"a.txt": "first"})
    await workspace.before("s", 1, ["a.txt"])
    put(root, {"a.txt": "half"})
    await workspace.put_back("s", 1, over=True)
    put(root, {"a.txt": "as if it had not been put back"})
    assert await workspace.before("s", 2, ["a.txt"], goes_on=True)
    await workspace.put_back("s", 2, over=True)
    assert (root / "a.txt").read_text() == "first"
    assert not await workspace.before("s", 3, ["a.txt"])


async def test_nothing_differs_and_nothing_is_touched(
    workspace: WorkspaceSnapshots, root: Path
) -> None:
    put(root, {"out/a.txt": "a"})
    await workspace.before("s", 1, ["out/**"])
    seen = (root / "out/a.txt").stat()
    restored = await workspace.put_back("s", 1)
    assert restored is not None
    assert restored.paths == ()
    assert (root / "out/a.txt").stat().st_ctime_ns == seen.st_ctime_ns


async def test_folders_that_an_attempt_made_on_the_way_are_gone(
    workspace: WorkspaceSnapshots, root: Path
) -> None:
    (root / "kept").mkdir()
    await workspace.before("s", 1, ["deep/er/a.txt", "kept/a.txt", "mixed/a.txt"])
    put(root, {"deep/er/a.txt": "a", "kept/a.txt": "a", "mixed/a.txt": "a", "mixed/b.txt": "ours"})
    restored = await workspace.put_back("s", 1)
    assert restored is not None
    assert set(restored.removed) == {
        *("deep/er/a.txt", "deep/er", "deep", "kept/a.txt", "mixed/a.txt"),
    }
    assert set(tree(root)) == {b"kept", b"mixed", b"mixed/b.txt"}


async def test_a_lost_lease_remembers_nothing(
    workspace: WorkspaceSnapshots, root: Path, sql: Sql
) -> None:
    put(root, {"a.txt": "a"})
    sql.steal("t1")
    with pytest.raises(LeaseLost):
        await workspace.before("s", 1, ["a.txt"])
    assert sql.value("select count(*) from surefoot.snapshots") == 0


async def test_a_workspace_that_is_not_there_yet_holds_nothing(
    workspace: WorkspaceSnapshots, root: Path
) -> None:
    os.rmdir(root)
    assert (await workspace.take()).files == 0
    await workspace.before("s", 1, ["a.txt"])


# --- unchanged files -----------------------------------------------------------------------------


def store_path(store: CountingStore, sha256: str) -> Path:
    """Where a content lies."""
    assert store.root is not None
    return store.root / key_of(sha256)


def blob(store: CountingStore, taken: Manifest) -> Path:
    """Where a large manifest lies."""
    return store_path(store, taken.stored.get("sha256", ""))


def age(root: Path) -> int:
    """The time a minute ahead: for a snapshot taken then all files here are old."""
    return max(p.lstat().st_ctime_ns for p in root.rglob("*")) + 60_000_000_000


async def test_unchanged_files_are_neither_read_nor_stored_again(
    workspace: WorkspaceSnapshots,
    root: Path,
    store: CountingStore,
    database: Database,
    lease: Lease,
    sql: Sql,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(root, {f"d{n % 7}/f{n}.txt": f"content {n}" for n in range(100)})
    monkeypatch.setattr("surefoot.checkpointing.file_scan.time.time_ns", lambda: age(root))
    first = await workspace.take()
    whole = first.stored.get("sha256")
    store.puts.clear()
    second = await workspace.take()
    assert store.puts == []
    assert second.stored.get("value", {})["base"] == whole
    assert (second.files, second.bytes) == (first.files, first.bytes)
    put(root, {"d0/f0.txt": "another", "d1/new.txt": "new"})
    third = await workspace.take()
    assert sorted(store.puts) == [3, 7]
    assert set(third.stored.get("value", {})["entries"]) == {"d0/f0.txt", "d1/new.txt"}
    await workspace.before("s", 1, ["**"])
    store.puts.clear()
    other = open_again(root, store, database, lease)
    await other.before("t", 1, ["**"])
    assert store.puts == []
    first_row, second_row = sql.rows("select manifest from surefoot.snapshots order by id")
    assert second_row["manifest"]["value"]["base"] == first_row["manifest"]["sha256"]


async def test_what_only_says_what_has_changed_is_put_back_like_a_whole_one(
    workspace: WorkspaceSnapshots,
    root: Path,
    store: CountingStore,
    database: Database,
    lease: Lease,
    sql: Sql,
) -> None:
    put(root, {f"d{n % 7}/f{n}.txt": f"content {n}" for n in range(100)})
    await workspace.before("s", 1, ["**"])
    (root / "d0/f0.txt").unlink()
    put(root, {"d1/f1.txt": "another", "d1/new.txt": "new"})
    was = tree(root)
    other = open_again(root, store, database, lease)
    await other.before("s", 2, ["**"])
    bases = "select manifest -> 'value' ? 'base' as has from surefoot.snapshots order by id"
    assert [row["has"] for row in sql.rows(bases)] == [None, True]
    put(root, {"d0/f0.txt": "back", "d1/f1.txt": "x", "d2/f2.txt": "x"})
    (root / "d1/new.txt").unlink()
    await open_again(root, store, database, lease).put_back("s", 2)
    assert tree(root) == was


async def test_where_the_whole_one_is_gone_another_is_written(
    workspace: WorkspaceSnapshots, root: Path, store: CountingStore
) -> None:
    put(root, {f"f{n}.txt": f"content {n}" for n in range(20)})
    first = await workspace.take()
    blob(store, first).unlink()
    second = await workspace.take()
    assert second.stored.get("sha256") is not None
    put(root, {"f0.txt": "another"})
    await workspace.restore(second.stored)
    assert (root / "f0.txt").read_text() == "content 0"


async def test_what_no_row_names_yet_stays_young_for_as_long_as_it_is_relied_on(
    root: Path,
    home: Path,
    store: CountingStore,
    database: Database,
    lease: Lease,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = time.time()
    fence = Fence(database, lease)
    workspace = WorkspaceSnapshots(root, store=store, fence=fence, clock=lambda: now)
    put(root, {"a.txt": "a", "swept.txt": "swept"})
    monkeypatch.setattr("surefoot.checkpointing.file_scan.time.time_ns", lambda: age(root))
    await workspace.take()
    long_ago = now - 3000.0
    kept, swept = (store_path(store, hashlib.sha256(text).hexdigest()) for text in (b"a", b"swept"))
    os.utime(kept, (long_ago, long_ago))
    swept.unlink()
    now += RENEW_S + 1
    taken = await workspace.take()
    assert kept.stat().st_mtime > long_ago
    put(root, {"a.txt": "x", "swept.txt": "x"})
    await workspace.restore(taken.stored)
    assert (root / "swept.txt").read_text() == "swept"


async def test_a_file_written_at_the_moment_of_the_snapshot_is_read_again(
    workspace: WorkspaceSnapshots, root: Path
) -> None:
    put(root, {"a.txt": "one"})
    found = (root / "a.txt").stat()
    await workspace.take()
    (root / "a.txt").write_text("two")
    os.utime(root / "a.txt", ns=(found.st_atime_ns, found.st_mtime_ns))
    taken = await workspace.take()
    (root / "a.txt").unlink()
    await workspace.restore(taken.stored)
    assert (root / "a.txt").read_text() == "two"


async def test_a_change_that_hides_behind_an_old_time_is_found(
    workspace: WorkspaceSnapshots, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, {"a.txt": "one"})
    os.utime(root / "a.txt", ns=(LONG_AGO_NS, LONG_AGO_NS))
    monkeypatch.setattr("surefoot.checkpointing.file_scan.time.time_ns", lambda: age(root))
    first = await workspace.take()
    (root / "a.txt").write_text("two")
    os.utime(root / "a.txt", ns=(LONG_AGO_NS, LONG_AGO_NS))
    assert await workspace.differences(first.stored) == ["a.txt has changed"]


# --- the whole, and parts of it ------------------------------------------------------------------


async def test_the_whole_workspace_is_restored_and_parts_of_it(
    workspace: WorkspaceSnapshots, root: Path
) -> None:
    put(root, {"a.txt": "a", "out/b.txt": "b", "out/c.txt": "c"})
    (root / "out/hollow").mkdir()
    whole = await workspace.take()
    part = await workspace.take(["out/**"])
    was = tree(root)
    put(root, {"a.txt": "x", "out/b.txt": "x", "new.txt": "x", "out/new.txt": "x"})
    assert await workspace.differences(whole.stored) == [
        "a.txt has changed",
        "new.txt was not there",
        "out/b.txt has changed",
        "out/new.txt was not there",
    ]
    assert await workspace.differences(whole.stored, ["out/b.txt"]) == ["out/b.txt has changed"]
    await workspace.restore(whole.stored, ["out/b.txt"])
    assert (root / "out/b.txt").read_text() == "b"
    assert (root / "out/hollow").is_dir()
    assert (root / "out/new.txt").exists()
    await workspace.restore(part.stored)
    assert not (root / "out/new.txt").exists()
    assert (root / "new.txt").exists()
    await workspace.restore(whole.stored)
    assert tree(root) == was


async def test_without_its_contents_nothing_is_changed(
    workspace: WorkspaceSnapshots, root: Path, store: CountingStore
) -> None:
    put(root, {"a.txt": "a", "b.txt": "b"})
    taken = await workspace.take()
    assert store.root is not None
    for blob in (store.root / "sha256").rglob("*"):
        if blob.is_file() and blob.read_bytes() == b"b":
            blob.unlink()
    put(root, {"a.txt": "x", "b.txt": "x"})
    with pytest.raises(PermanentError, match=r"b\.txt cannot be put back"):
        await workspace.restore(taken.stored)
    assert (root / "a.txt").read_text() == "x"


async def test_what_a_killed_restore_had_half_written_is_no_part_and_is_swept(
    workspace: WorkspaceSnapshots, root: Path
) -> None:
    ours, theirs = (hashlib.sha256(task).hexdigest()[:8] for task in (b"t1", b"t2"))
    put(root, {"out/a.txt": "a"})
    await workspace.before("s", 1, ["out/**"])
    put(root, {f"out/.surefoot-{ours}-0123abcd-7": "half", f"out/.surefoot-{ours}-0-x": "theirs"})
    put(root, {f"out/.surefoot-{ours}-0123abcd-8/content": "half of a large one"})
    put(root, {f"out/.surefoot-{theirs}-0123abcd-7": "of another task that lives"})
    assert (await workspace.take()).files == 2
    restored = await workspace.put_back("s", 1)
    assert restored is not None
    assert restored.removed == (f"out/.surefoot-{ours}-0-x",)
    assert sorted(os.listdir(root / "out")) == [f".surefoot-{theirs}-0123abcd-7", "a.txt"]


@pytest.mark.parametrize("kill_at", range(12))
async def test_a_restore_that_was_cut_anywhere_goes_on_from_there(
    root: Path,
    store: CountingStore,
    database: Database,
    lease: Lease,
    monkeypatch: pytest.MonkeyPatch,
    kill_at: int,
) -> None:
    put(root, {f"out/{n}/f.txt": f"content {n}" for n in range(4)})
    was = tree(root)
    workspace = open_again(root, store, database, lease)
    await workspace.before("s", 1, ["out/**"])
    put(root, {"out/0/f.txt": "half", "out/9/new.txt": "new"})
    for n in (1, 2):
        (root / f"out/{n}/f.txt").unlink()
        (root / f"out/{n}").rmdir()
    steps = iter(range(10_000))

    class Killed(BaseException):
        """As if the process had ended here."""

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if next(steps) == kill_at:
                raise Killed
            return real(*given, **named)

        return call

    with monkeypatch.context() as patched:
        for name in ("replace", "fsync", "mkdir", "unlink", "rmdir"):
            patched.setattr(os, name, dying(getattr(os, name)))
        with contextlib.suppress(Killed):
            await workspace.put_back("s", 1)
    again = open_again(root, store, database, lease)
    await again.put_back("s", 1)
    assert tree(root) == was
