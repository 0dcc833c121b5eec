"""Snapshots of real folders, their contents in a real store, their rows in PostgreSQL."""

import asyncio
import contextlib
import hashlib
import os
import socket
import stat
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from conftest import Sql

from surefoot.checkpointing import file_contents, file_reading
from surefoot.checkpointing.artifacts import ObjectArtifacts
from surefoot.checkpointing.database import Database
from surefoot.checkpointing.file_reading import BLOCK_BYTES
from surefoot.checkpointing.file_scan import WorkspaceUnavailable
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.outbox import Fence
from surefoot.checkpointing.workspace import WorkspaceSnapshots, WorkspaceUnreadable
from surefoot.graph.errors import LeaseLost, PermanentError
from surefoot.graph.values import StoredValue

NOBODY = 65534
LONG_AGO_NS = 1_600_000_000_000_000_000


class CountingStore(ObjectArtifacts):
    """Counts what is put."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.puts: list[int] = []

    async def put_bytes(self, content: bytes) -> str:
        self.puts.append(len(content))
        return await super().put_bytes(content)

    async def put_file(self, path: Path) -> tuple[str, int]:
        sha256, size = await super().put_file(path)
        self.puts.append(size)
        return sha256, size


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


def open_again(
    root: Path, store: CountingStore, database: Database, lease: Lease, *skip: Path
) -> WorkspaceSnapshots:
    """As another process would have it: nothing is remembered but what is stored."""
    return WorkspaceSnapshots(root, store=store, fence=Fence(database, lease), skip=skip)


def tree(root: Path) -> dict[bytes, Any]:
    """All that lies in a folder: (mode, content or target)."""
    found: dict[bytes, Any] = {}
    for place, folders, names in os.walk(os.fsencode(root)):
        for name in folders + names:
            path = os.path.join(place, name)
            mode = os.lstat(path).st_mode
            content: Any = None
            if stat.S_ISLNK(mode):
                content = os.readlink(path)
            elif stat.S_ISREG(mode):
                content = Path(os.fsdecode(path)).read_bytes()
            found[os.path.relpath(path, os.fsencode(root))] = (mode, content)
    return found


def put(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


# --- before and back -------------------------------------------------------------------------


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


# --- odd folders -----------------------------------------------------------------------------


async def test_names_of_any_bytes_come_back(workspace: WorkspaceSnapshots, root: Path) -> None:
    names = [b"\xff\xfe", b"caf\xe9/\x80", "übel 中".encode(), b"a\nb", rb"\xff", b'q"', b"*[x]?"]
    for name in names:
        path = os.path.join(os.fsencode(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:  # noqa: ASYNC230
            file.write(name)
    os.symlink(b"\xf0\x28", os.path.join(os.fsencode(root), b"link\xff"))
    was = tree(root)
    await workspace.before("s", 1, ["**"])
    for name in was:
        path = Path(os.fsdecode(os.path.join(os.fsencode(root), name)))
        if path.is_symlink() or not path.is_dir():
            path.unlink()
    await workspace.put_back("s", 1)
    assert tree(root) == was


async def test_a_link_is_stored_as_a_link_and_never_followed(
    workspace: WorkspaceSnapshots, root: Path, tmp_path: Path, store: CountingStore
) -> None:
    outside = tmp_path / "outside"
    put(tmp_path, {"outside/secret.txt": "secret"})
    (root / "to-folder").symlink_to(outside)
    (root / "to-file").symlink_to(outside / "secret.txt")
    (root / "to-nothing").symlink_to("nowhere")
    (root / "round").symlink_to(".")
    was = tree(root)
    taken = await workspace.take()
    assert taken.files == 4
    assert len(b"secret") not in store.puts
    for name in ("to-folder", "to-file", "to-nothing", "round"):
        (root / name).unlink()
    await workspace.restore(taken.stored)
    assert tree(root) == was
    assert tree(outside) == {b"secret.txt": (0o100644, b"secret")}


async def test_nothing_is_written_through_a_link_that_has_taken_a_folders_place(
    workspace: WorkspaceSnapshots, root: Path, tmp_path: Path
) -> None:
    put(root, {"out/a.txt": "mine"})
    put(tmp_path, {"outside/a.txt": "theirs"})
    await workspace.before("s", 1, ["out/**"])
    (root / "out/a.txt").unlink()
    (root / "out").rmdir()
    (root / "out").symlink_to(tmp_path / "outside")
    restored = await workspace.put_back("s", 1)
    assert restored is not None
    assert "out" in restored.changed
    assert (tmp_path / "outside/a.txt").read_text() == "theirs"
    assert not (root / "out").is_symlink()
    assert (root / "out/a.txt").read_text() == "mine"


async def test_a_sparse_file_is_stored_by_its_data_and_comes_back_sparse(
    workspace: WorkspaceSnapshots, root: Path, store: CountingStore
) -> None:
    place = root / "sparse"
    size = 400 * BLOCK_BYTES
    with place.open("wb") as file:
        file.truncate(size)
        file.seek(3 * BLOCK_BYTES + 5)
        file.write(b"island")
        file.seek(size - 4)
        file.write(b"last")
    await workspace.before("s", 1, ["sparse"])
    assert sum(n for n in store.puts if n > 1024) == 2 * BLOCK_BYTES
    place.write_bytes(b"short")
    await workspace.put_back("s", 1)
    found = place.stat()
    assert found.st_size == size
    assert found.st_blocks * 512 <= 3 * BLOCK_BYTES
    with place.open("rb") as file:
        file.seek(3 * BLOCK_BYTES + 5)
        assert file.read(6) == b"island"
        file.seek(size - 4)
        assert file.read() == b"last"


async def test_a_file_larger_than_a_block_comes_back(
    workspace: WorkspaceSnapshots, root: Path
) -> None:
    content = os.urandom(BLOCK_BYTES + 5)
    (root / "large").write_bytes(content)
    (root / "large").chmod(0o751)
    await workspace.before("s", 1, ["large"])
    (root / "large").write_bytes(b"x" * (BLOCK_BYTES + 5))
    await workspace.put_back("s", 1)
    assert (root / "large").read_bytes() == content
    assert (root / "large").stat().st_mode & 0o7777 == 0o751
    assert os.listdir(root) == ["large"]


async def test_pipes_and_sockets_are_passed_over(workspace: WorkspaceSnapshots, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
    await workspace.before("s", 1, ["**"])
    taken = await workspace.take()
    assert taken.files == 0
    (root / "pipe").unlink()
    assert await workspace.differences(taken.stored) == []
    os.mkfifo(root / "new")
    restored = await workspace.put_back("s", 1)
    assert restored is not None
    assert restored.removed == ("new",)
    assert (root / "socket").exists()


async def test_our_own_folders_inside_the_workspace_are_no_part_of_it(
    root: Path, database: Database, lease: Lease
) -> None:
    store = CountingStore((root / "sub/home/artifacts").as_uri())
    put(root, {"a.txt": "a", "sub/home/tasks/x": "ours"})
    workspace = open_again(root, store, database, lease, root / "sub/home")
    taken = await workspace.take()
    assert taken.files == 1
    blobs = tree(root / "sub")
    await workspace.before("s", 1, ["**"])
    put(root, {"b.txt": "b"})
    await workspace.put_back("s", 1)
    await workspace.restore(taken.stored)
    assert blobs.items() <= tree(root / "sub").items()
    assert not (root / "b.txt").exists()


async def test_a_folder_that_came_to_hold_ours_is_left_where_it_is(
    root: Path, store: CountingStore, database: Database, lease: Lease
) -> None:
    workspace = open_again(root, store, database, lease, root / "sub/home")
    await workspace.before("s", 1, ["**"])
    put(root, {"sub/home/tasks/x": "ours", "sub/theirs": "new"})
    restored = await workspace.put_back("s", 1)
    assert restored is not None
    assert restored.removed == ("sub/theirs",)
    assert (root / "sub/home/tasks/x").exists()


# --- files that cannot be read ---------------------------------------------------------------


@contextlib.contextmanager
def as_nobody() -> Generator[None]:
    """Without root's right to read everything; for others nothing changes."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def anybodys(root: Path, home: Path) -> Path:
    """A workspace and a store that nobody in particular may write."""
    home.chmod(0o777)
    root.chmod(0o777)
    for folder in (home / "artifacts", home / "artifacts/sha256"):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
    return root


async def test_a_file_that_cannot_be_read_is_named_and_left_alone(
    workspace: WorkspaceSnapshots, anybodys: Path
) -> None:
    put(anybodys, {"closed.txt": "closed", "open.txt": "open"})
    (anybodys / "shut").mkdir()
    put(anybodys, {"shut/in.txt": "in"})
    (anybodys / "closed.txt").chmod(0)
    (anybodys / "shut").chmod(0)
    with as_nobody():
        taken = await workspace.take()
        assert await workspace.differences(taken.stored) == []
    (anybodys / "closed.txt").write_text("other")
    (anybodys / "shut").chmod(0o755)
    (anybodys / "open.txt").write_text("other")
    assert "closed.txt has changed" in await workspace.differences(taken.stored)
    await workspace.restore(taken.stored)
    assert (anybodys / "open.txt").read_text() == "open"
    assert (anybodys / "closed.txt").read_text() == "other"
    assert (anybodys / "shut/in.txt").read_text() == "in"


async def test_an_attempt_does_not_begin_where_it_could_not_be_put_back(
    workspace: WorkspaceSnapshots, anybodys: Path, sql: Sql
) -> None:
    put(anybodys, {"closed.txt": "closed"})
    (anybodys / "closed.txt").chmod(0)
    with as_nobody(), pytest.raises(WorkspaceUnreadable, match=r"closed\.txt cannot be read"):
        await workspace.before("s", 1, ["*.txt"])
    assert sql.value("select count(*) from surefoot.snapshots") == 0
    with as_nobody():
        await workspace.before("s", 1, ["open/**"])


async def test_what_an_attempt_closed_is_opened_to_put_it_back(
    workspace: WorkspaceSnapshots, anybodys: Path
) -> None:
    with as_nobody():
        put(anybodys, {"out/a.txt": "a", "out/in/b.txt": "b"})
        was = tree(anybodys)
        await workspace.before("s", 1, ["out/**"])
        put(anybodys, {"out/a.txt": "changed"})
        (anybodys / "out/a.txt").chmod(0)
        (anybodys / "out/in").chmod(0)
        restored = await workspace.put_back("s", 1)
        assert restored is not None
        assert tree(anybodys) == was


# --- files that others change ----------------------------------------------------------------


class Interfering:
    """Does something to a file right after it was read, so many times."""

    def __init__(self, act: Callable[[], None], times: int) -> None:
        self.act, self.times = act, times

    def __call__(self, file: int, size: int) -> bytes:
        content = file_reading.read_all(file, size)
        if self.times:
            self.times -= 1
            self.act()
        return content


async def test_a_file_that_changes_while_it_is_read_is_read_again(
    workspace: WorkspaceSnapshots, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, {"a.txt": "one"})
    act = Interfering(lambda: put(root, {"a.txt": "quite another"}), times=1)
    monkeypatch.setattr(file_contents, "read_all", act)
    taken = await workspace.take()
    (root / "a.txt").unlink()
    await workspace.restore(taken.stored)
    assert (root / "a.txt").read_text() == "quite another"


async def test_a_file_that_vanishes_while_it_is_read_was_not_there(
    workspace: WorkspaceSnapshots, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, {"a.txt": "one"})
    steps = iter(range(100))

    def replace_then_remove() -> None:
        if next(steps) == 0:
            put(root, {"a.txt": "other text"})
        (root / "a.txt").unlink()

    monkeypatch.setattr(file_contents, "read_all", Interfering(replace_then_remove, times=9))
    assert (await workspace.take()).files == 0


async def test_a_file_that_never_holds_still_is_an_error_that_says_so(
    workspace: WorkspaceSnapshots, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, {"a.txt": ""})

    def append() -> None:
        with (root / "a.txt").open("a") as file:
            file.write("x")

    monkeypatch.setattr(file_contents, "read_all", Interfering(append, times=1000))
    with pytest.raises(WorkspaceUnavailable, match=r"a\.txt keeps changing"):
        await workspace.before("s", 1, ["a.txt"])


async def test_a_pipe_that_takes_a_files_place_holds_nobody_up(
    workspace: WorkspaceSnapshots, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, {"a.txt": "one"})

    def replace() -> None:
        (root / "a.txt").unlink()
        os.mkfifo(root / "a.txt")

    monkeypatch.setattr(file_contents, "read_all", Interfering(replace, times=1))
    async with asyncio.timeout(10):
        # What was read from the open file is the old file whole; the next look finds the pipe.
        taken = await workspace.take()
        assert taken.files in (0, 1)
        assert (await workspace.take()).files == 0


async def test_snapshots_while_others_write_are_whole(
    workspace: WorkspaceSnapshots, root: Path
) -> None:
    stop = threading.Event()

    def scribble() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            place = root / f"f{n % 50}"
            place.write_text(f"{n}\n" * 200)
            with contextlib.suppress(FileNotFoundError):
                (root / f"f{(n * 7) % 50}").unlink()

    writer = threading.Thread(target=scribble)
    writer.start()
    try:
        taken: list[StoredValue] = []
        while len(taken) < 5:
            with contextlib.suppress(WorkspaceUnavailable):
                taken.append((await workspace.take()).stored)
    finally:
        stop.set()
        writer.join()
    for stored in taken:
        await workspace.restore(stored)
        assert await workspace.differences(stored) == []


# --- unchanged files -------------------------------------------------------------------------


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
    store.puts.clear()
    second = await workspace.take()
    assert store.puts == [second.stored.get("size")]
    assert second.stored == first.stored
    put(root, {"d0/f0.txt": "another", "d1/new.txt": "new"})
    store.puts.clear()
    third = await workspace.take()
    assert sorted(store.puts) == [3, 7, third.stored.get("size")]
    await workspace.before("s", 1, ["**"])
    other = open_again(root, store, database, lease)
    store.puts.clear()
    await other.take()
    assert store.puts == [third.stored.get("size")]


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


# --- the whole, and parts of it --------------------------------------------------------------


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
