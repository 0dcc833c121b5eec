import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import psycopg
import pytest

from surefoot.checkpointing.embedded import EmbeddedServer
from surefoot.checkpointing.postgres_binaries import ServerUser, find_binaries
from surefoot.checkpointing.server_folders import ServerFolders
from surefoot.graph.errors import UsageError
from surefoot.graph.processes import process_started

USER = """
import sys
from pathlib import Path
from surefoot.checkpointing.embedded import EmbeddedServer

server = EmbeddedServer(Path(sys.argv[1]))
print(server.acquire(), flush=True)
sys.stdin.readline()
server.release()
"""

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")


@pytest.fixture
def server(home: Path) -> Generator[EmbeddedServer]:
    server = EmbeddedServer(home)
    yield server
    server.release()


@pytest.fixture
def start_user(home: Path) -> Generator[Callable[[], "subprocess.Popen[str]"]]:
    """Starts real processes that use the server until they are told to stop."""
    users: list[subprocess.Popen[str]] = []

    def begin() -> "subprocess.Popen[str]":
        user = subprocess.Popen(
            [sys.executable, "-c", USER, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        users.append(user)
        return user

    yield begin
    for user in users:
        user.kill()
        user.communicate()


def postmaster(home: Path) -> int:
    return int((home / "pg/data/postmaster.pid").read_text().split()[0])


def ask(url: str, query: str = "select 1") -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_server_starts_on_a_socket_only_and_stops_with_its_last_user(
    home: Path, server: EmbeddedServer
) -> None:
    url = server.acquire()
    assert ask(url) == 1
    assert ask(url, "show listen_addresses") == ""
    assert ask(url, "show fsync") == "on"
    assert ask(url, "show timezone") == "UTC"
    pid = postmaster(home)
    other = EmbeddedServer(home)
    assert other.acquire() == url
    server.release()
    assert ask(url) == 1
    other.release()
    until(lambda: process_started(pid) is None)
    assert not (home / "pg/data/postmaster.pid").exists()


def test_the_data_is_there_again_after_a_stop(server: EmbeddedServer) -> None:
    ask(server.acquire(), "create table kept as select 7 as n")
    server.release()
    assert ask(server.acquire(), "select n from kept") == 7


def test_a_killed_postmaster_is_started_again_by_whoever_notices(
    home: Path, server: EmbeddedServer
) -> None:
    url = server.acquire()
    ask(url, "create table kept as select 7 as n")
    os.kill(postmaster(home), signal.SIGKILL)
    threads = [threading.Thread(target=server.ensure_running) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ask(url, "select n from kept") == 7


def test_a_server_whose_users_were_killed_is_used_and_stopped_by_the_next(
    home: Path, server: EmbeddedServer, start_user: Callable[[], "subprocess.Popen[str]"]
) -> None:
    user = start_user()
    assert user.stdout is not None
    url = user.stdout.readline().strip()
    pid = postmaster(home)
    user.kill()
    user.wait()
    assert ask(url) == 1
    assert server.acquire() == url
    assert postmaster(home) == pid
    server.release()
    until(lambda: process_started(pid) is None)


def test_several_processes_may_start_it_at_once(
    home: Path, start_user: Callable[[], "subprocess.Popen[str]"]
) -> None:
    users = [start_user() for _ in range(3)]
    urls = [user.stdout.readline().strip() for user in users if user.stdout is not None]
    assert len(set(urls)) == 1
    pid = postmaster(home)
    for user in users:
        assert ask(urls[0]) == 1
        user.communicate("stop\n")
        assert user.returncode == 0
    until(lambda: process_started(pid) is None)


def test_a_stale_pid_file_of_another_process_is_no_obstacle(
    home: Path, server: EmbeddedServer
) -> None:
    server.acquire()
    server.release()
    pid_file = home / "pg/data/postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n{home}/pg/data\n")
    user = ServerUser.choose()
    os.chown(pid_file, user.uid, user.gid)
    assert ask(server.acquire()) == 1


def test_a_half_made_cluster_is_made_anew(home: Path, server: EmbeddedServer) -> None:
    folders = ServerFolders.make(home, ServerUser.choose())
    half = folders.cluster / "data.new-killed"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    assert ask(server.acquire()) == 1
    assert not half.exists()


def test_ensure_running_without_a_share_starts_nothing(home: Path, server: EmbeddedServer) -> None:
    server.acquire()
    server.release()
    server.ensure_running()
    assert not (home / "pg/data/postmaster.pid").exists()


def test_data_of_another_major_version_says_dump_and_restore(
    home: Path, server: EmbeddedServer
) -> None:
    server.acquire()
    server.release()
    (home / "pg/data/PG_VERSION").write_text("9\n")
    with pytest.raises(UsageError, match=r"PostgreSQL 9.*dump") as caught:
        EmbeddedServer(home).acquire()
    assert caught.value.code == "postgres_version"


def test_a_long_home_gets_a_short_socket_folder(home: Path) -> None:
    deep = home / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    for folder in (deep, deep.parent):
        folder.chmod(0o711)
    server = EmbeddedServer(deep)
    url = server.acquire()
    try:
        assert ask(url) == 1
        sockets = ServerFolders.make(deep, ServerUser.choose()).sockets
        assert sockets.is_relative_to("/tmp")
    finally:
        server.release()
    sockets.rmdir()


@AS_ROOT
def test_as_root_a_closed_home_is_a_clear_error_and_stays_closed(home: Path) -> None:
    home.chmod(0o700)
    with pytest.raises(UsageError, match="chmod o\\+x") as caught:
        EmbeddedServer(home).acquire()
    assert caught.value.code == "home_not_reachable"
    assert home.stat().st_mode & 0o777 == 0o700


@AS_ROOT
def test_as_root_nobody_else_may_use_the_server(home: Path, server: EmbeddedServer) -> None:
    server.acquire()
    assert (home / "pg").stat().st_mode & 0o077 == 0
    socket = home / "run/socket/.s.PGSQL.5432"
    assert socket.stat().st_mode & 0o077 == 0


@AS_ROOT
def test_as_root_programs_out_of_reach_are_copied_once(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find_binaries(None)
    closed = home / "closed"
    closed.mkdir(mode=0o700)
    package = found.folder.parent.parent
    shutil.copytree(found.folder.parent, closed / package.name / found.folder.parent.name)
    for libraries in package.parent.glob(f"{package.name}.libs"):
        shutil.copytree(libraries, closed / libraries.name)
    binaries = closed / package.name / found.folder.parent.name / "bin"
    monkeypatch.setenv("SUREFOOT_POSTGRES_BIN", str(binaries))
    for _ in range(2):
        server = EmbeddedServer(home)
        assert ask(server.acquire()) == 1
        server.release()
    copies = list((home / "pg").glob("binaries-*"))
    assert [c.name for c in copies] == [f"binaries-{found.version}"]


def test_without_programs_the_error_says_where_to_get_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUREFOOT_POSTGRES_BIN", str(home))
    with pytest.raises(UsageError, match="SUREFOOT_DATABASE_URL") as caught:
        EmbeddedServer(home).acquire()
    assert caught.value.code == "no_postgres"


def test_a_home_below_a_file_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        EmbeddedServer(Path("/dev/null/home")).acquire()
    assert caught.value.code == "home_not_writable"


def test_on_windows_the_error_asks_for_a_url(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(UsageError, match="SUREFOOT_DATABASE_URL") as caught:
        EmbeddedServer(home).acquire()
    assert caught.value.code == "no_embedded_database"


async def test_the_server_does_not_die_with_the_signals_of_our_terminal(
    home: Path, server: EmbeddedServer
) -> None:
    await asyncio.to_thread(server.acquire)
    assert os.getsid(postmaster(home)) != os.getsid(0)
    assert os.getpgid(postmaster(home)) != os.getpgid(0)


def test_a_home_with_odd_letters_works_or_says_why_not(home: Path) -> None:
    odd = home / "it's a, home \u00e9"
    odd.mkdir(mode=0o711)
    server = EmbeddedServer(odd)
    url = server.acquire()
    sockets = ServerFolders.make(odd, ServerUser.choose()).sockets
    try:
        assert ask(url) == 1
    finally:
        server.release()
    sockets.rmdir()
    with pytest.raises(UsageError, match="dollar") as caught:
        EmbeddedServer(home / "a$HOME").acquire()
    assert caught.value.code == "home_name"
