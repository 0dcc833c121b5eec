"""A real PostgreSQL of our own under the home folder, shared by every process that needs it.

Nothing is believed but what the server answers: pid files go stale, and processes die without a
word. Users are counted by a shared `flock`, which the kernel drops on any death; the last one out
stops the server. Finding binaries and running them as another user is in `postgres_binaries`.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from surefoot.checkpointing.postgres_binaries import Binaries, ServerUser, find_binaries
from surefoot.checkpointing.server_folders import ServerFolders
from surefoot.graph.errors import UsageError

if sys.platform != "win32":
    import fcntl

PORT = 5432
"""Only names the socket file: there is no TCP."""

START_SECONDS = 60.0
"""How long a start (crash recovery included) may take."""

SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "fsync": "on",
    "synchronous_commit": "on",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "512MB",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}


class EmbeddedServer:
    """One process's share in the server of one home folder. Its methods block: use a thread.

    Raises (all methods): UsageError where the server cannot be had at all, with what to do.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._lock_file: int | None = None
        self._ready: tuple[Binaries, ServerUser, ServerFolders] | None = None

    def acquire(self) -> str:
        """Make sure the server runs and keep it running until `release`; returns its URL."""
        binaries, user, folders = self._prepare()
        with _exclusive(folders.start_lock):
            if self._lock_file is None:
                self._lock_file = os.open(folders.users_lock, os.O_RDWR | os.O_CREAT, 0o600)
                fcntl.flock(self._lock_file, fcntl.LOCK_SH)
            try:
                _Server(binaries, user, folders).ensure_running()
            except BaseException:
                self._drop_lock()
                raise
        return f"postgresql://postgres@/postgres?host={quote(str(folders.sockets), safe='')}"

    def ensure_running(self) -> None:
        """Start the server again when it died. Any number of processes may call this at once.

        Does nothing without a share: after `release` a late caller must not start it again.
        """
        if self._lock_file is None:
            return
        binaries, user, folders = self._prepare()
        server = _Server(binaries, user, folders)
        if server.answers():
            return
        with _exclusive(folders.start_lock):
            server.ensure_running()

    def release(self) -> None:
        """Give up this share; the last one stops the server."""
        if self._lock_file is None or self._ready is None:
            return
        binaries, user, folders = self._ready
        with _exclusive(folders.start_lock):
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass  # somebody else still uses it
            else:
                _Server(binaries, user, folders).stop()
            finally:
                self._drop_lock()

    def _drop_lock(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _prepare(self) -> tuple[Binaries, ServerUser, ServerFolders]:
        if sys.platform == "win32":
            raise UsageError(
                "no_embedded_database",
                "the embedded PostgreSQL needs Linux or macOS: set SUREFOOT_DATABASE_URL to a "
                "PostgreSQL server",
            )
        if self._ready is None:
            user = ServerUser.choose()
            folders = ServerFolders.make(self.home, user)
            found = find_binaries(folders.data_version())
            with _exclusive(folders.start_lock):
                binaries = found.within_reach(user, folders.cluster)
            self._ready = binaries, user, folders
        return self._ready


class _Server:
    """The server process itself. All but `answers` only while holding the start lock."""

    def __init__(self, binaries: Binaries, user: ServerUser, folders: ServerFolders) -> None:
        self.binaries = binaries
        self.user = user
        self.folders = folders

    def answers(self) -> bool:
        arguments = ("-q", "-h", str(self.folders.sockets), "-p", str(PORT), "-t", "3")
        return self._run("pg_isready", *arguments).returncode == 0

    def ensure_running(self) -> None:
        if self.answers():
            return
        self._initialise()
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if not self._postmaster_lives():
                self.folders.pid_file.unlink(missing_ok=True)
                # After a kill -9 of the postmaster its children hold the shared memory for a
                # moment, and a start fails until they have noticed: hence the loop.
                done = self._start()
                if done.returncode != 0 and time.monotonic() > deadline - START_SECONDS + 15:
                    raise self._failure(done)
            if time.monotonic() > deadline:
                raise self._failure(None)
            time.sleep(0.02 if self.answers() else 0.2)

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "-D", str(self.folders.data), "-m", "fast", "-w", "-s")

    def _initialise(self) -> None:
        data = self.folders.data
        if data.exists():
            return
        for abandoned in data.parent.glob("data.new-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        # A name of its own: an initdb whose parent was killed may still be writing to the other.
        unfinished = data.with_name(f"data.new-{uuid.uuid4().hex}")
        options = ("-A", "trust", "-E", "UTF8", "--no-locale", "-U", "postgres")
        done = self._run("initdb", "-D", str(unfinished), *options)
        if done.returncode != 0:
            raise self._failure(done)
        unfinished.rename(data)
        _fsync_folder(data.parent)

    def _start(self) -> subprocess.CompletedProcess[str]:
        self.folders.trim_log()
        settings = SETTINGS | {"unix_socket_directories": str(self.folders.sockets)}
        flags = " ".join(f"-c {k}={_quoted(v)}" for k, v in settings.items())
        data, log = str(self.folders.data), str(self.folders.log)
        return self._run(
            "pg_ctl", "start", "-D", data, "-l", log, "-w", "-t", str(int(START_SECONDS)), "-s",
            "-o", flags,
        )  # fmt: skip

    def _postmaster_lives(self) -> bool:
        """True where the pid file names a process that is this cluster's postmaster."""
        try:
            pid = int(self.folders.pid_file.read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return False
        proc = Path("/proc") / str(pid)
        if not proc.parent.joinpath("self").exists():
            done = subprocess.run(
                ["ps", "-o", "comm=", "-p", str(pid)], capture_output=True, text=True, check=False
            )
            return "postgres" in done.stdout
        try:
            # The postmaster works in its data folder; a pid reused by anything else does not.
            return (proc / "cwd").resolve() == self.folders.data.resolve() and (
                (proc / "comm").read_text().strip() in ("postgres", "postmaster")
            )
        except OSError:
            return False

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.user.run(
            [str(self.binaries.folder / program), *arguments], folder=self.folders.cluster
        )

    def _failure(self, done: subprocess.CompletedProcess[str] | None) -> UsageError:
        said = (done.stderr or done.stdout).strip().splitlines() if done else []
        why = said[-1].strip() if said else "it does not answer"
        return UsageError(
            "embedded_database",
            f"the embedded PostgreSQL does not start ({why}): see {self.folders.log}, or set "
            "SUREFOOT_DATABASE_URL",
        )


@contextmanager
def _exclusive(path: Path) -> Generator[None]:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _quoted(value: str) -> str:
    # pg_ctl hands the options to a shell.
    return "'" + value.replace("'", "'\\''") + "'"


def _fsync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    with contextlib.suppress(OSError):
        os.fsync(file)
    os.close(file)
