"""Odd names, links, sparse files, pipes, what cannot be read, and what others change meanwhile."""

import asyncio
import contextlib
import errno
import os
import shutil
import socket
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from conftest import Sql
from snapshot_world import CountingStore, open_again, put, tree

from surefoot.checkpointing import file_contents, file_reading, restoring
from surefoot.checkpointing.database import Database
from surefoot.checkpointing.file_reading import BLOCK_BYTES
from surefoot.checkpointing.file_scan import WorkspaceUnavailable
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.workspace import WorkspaceSnapshots, WorkspaceUnreadable
from surefoot.graph.values import StoredValue

NOBODY = 65534


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


# --- odd folders ---------------------------------------------------------------------------------


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


@pytest.mark.parametrize("target", ["d", "../theirs"], ids=["in a circle", "elsewhere"])
async def test_what_lies_behind_a_link_in_a_folders_place_is_none_of_ours(
    workspace: WorkspaceSnapshots, root: Path, store: CountingStore, target: str
) -> None:
    put(root, {"w/d/x/f": "mine", "theirs/x": "theirs"})
    await workspace.before("s", 1, ["w"])
    was = tree(root)
    shutil.rmtree(root / "w/d")
    (root / "w/d").symlink_to(target)
    store.puts.clear()
    restored = await workspace.put_back("s", 1)
    assert restored is not None and tree(root) == was
    assert set(restored.changed) == {"w/d", "w/d/x", "w/d/x/f"}
    assert len("theirs") not in store.puts, "it was not even read"


@pytest.mark.parametrize("was", ["file", "link", "link in a circle"])
async def test_a_folder_with_folders_in_it_gives_its_place_back(
    workspace: WorkspaceSnapshots, root: Path, was: str
) -> None:
    put(root, {"w/other": "x"})
    if was == "file":
        put(root, {"w/x": "mine"})
    else:
        (root / "w/x").symlink_to("other" if was == "link" else "x")
    await workspace.before("s", 1, ["w"])
    before = tree(root)
    (root / "w/x").unlink()
    put(root, {"w/x/b/c/f": "new"})
    assert await workspace.put_back("s", 1) is not None
    assert tree(root) == before


@pytest.mark.parametrize("glob", ["out", "out/", "out/**"])
async def test_the_permissions_of_the_folder_itself_are_put_back(
    workspace: WorkspaceSnapshots, root: Path, glob: str
) -> None:
    put(root, {"out/a": "x", "deep/in/b": "y"})
    (root / "out").chmod(0o750)
    await workspace.before("s", 1, [glob, "deep/in/**"])
    was = tree(root)
    (root / "out").chmod(0o700)
    (root / "deep/in").chmod(0o700)
    await workspace.put_back("s", 1)
    assert tree(root) == was
    await workspace.before("t", 1, ["new/**"])
    put(root, {"new/a": "x"})
    await workspace.put_back("t", 1)
    assert tree(root) == was


async def test_what_the_file_system_refuses_is_said_and_is_no_error_of_ours(
    workspace: WorkspaceSnapshots, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, {"w/d/f": "mine"})
    await workspace.before("s", 1, ["w"])
    shutil.rmtree(root / "w/d")

    def refuse(*_: object) -> Generator[str]:
        raise OSError(errno.EIO, "the disk is broken", f"{root}/w/d")

    monkeypatch.setattr(restoring, "_above", refuse)
    with pytest.raises(WorkspaceUnavailable, match="the disk is broken"):
        await workspace.put_back("s", 1)


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


@pytest.mark.parametrize("copied", [False, True], ids=["put back", "copied without its hole"])
async def test_whether_a_file_has_holes_says_nothing_of_its_content(
    workspace: WorkspaceSnapshots, root: Path, copied: bool
) -> None:
    place, size = root / "sparse", BLOCK_BYTES + 4096
    place.write_bytes(b"data")
    os.truncate(place, size)
    taken = await workspace.take()
    place.unlink()
    if copied:
        place.write_bytes(b"data".ljust(size, b"\0"))
    else:
        assert (await workspace.restore(taken.stored)).changed == ("sparse",)
    assert await workspace.differences(taken.stored) == []
    assert (await workspace.restore(taken.stored)).changed == ()
    place.write_bytes(b"data".ljust(size - 1, b"\0") + b"x")
    assert await workspace.differences(taken.stored) == ["sparse has changed"]


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


# --- files that cannot be read -------------------------------------------------------------------


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


# --- files that others change --------------------------------------------------------------------


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
