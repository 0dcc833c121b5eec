"""A real PostgreSQL of our own under the home folder, shared by every process that needs it.

Nothing is believed but what the server answers: pid files go stale, and processes die without a
word. Users are counted by a shared `flock`, which the kernel drops on any death; the last one out
stops the server. Finding binaries and running them as another user is in `postgres_binaries`.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping

from surefoot.checkpointing.postgres_binaries import Binaries, ServerUser, find_binaries
from surefoot.checkpointing.server_folders import ServerFolders
from surefoot.graph.errors import UsageError
from surefoot.graph.processes import process_started

if sys.platform != "win32":
    import fcntl

PORT = 5432
"""Only names the socket file: there is no TCP."""

START_SECONDS = 60.0
"""How long a start (crash recovery included) may take."""

STOP_SECONDS = 30.0

SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "fsync": "on",
    "synchronous_commit": "on",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
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
        self._prepared: _Server | None = None

    def acquire(self) -> str:
        """Make sure the server runs and keep it running until `release`; returns its URL."""
        server = self._server()
        with _exclusive(server.folders.start_lock):
            if self._lock_file is None:
                self._lock_file = os.open(server.folders.users_lock, os.O_RDWR | os.O_CREAT, 0o600)
                fcntl.flock(self._lock_file, fcntl.LOCK_SH)
            try:
                server.ensure_running()
            except BaseException:
                self._drop_lock()
                raise
        sockets = quote(str(server.folders.sockets), safe="")
        return f"postgresql://postgres@/postgres?host={sockets}"

    def ensure_running(self) -> None:
        """Start the server again when it died. Any number of processes may call this at once.

        Does nothing without a share: after `release` a late caller must not start it again.
        """
        server = self._server()
        if not self._has_share() or server.answers():
            return
        with _exclusive(server.folders.start_lock):
            if self._has_share():  # not released while we waited
                server.ensure_running()

    def release(self) -> None:
        """Give up this share; the last one stops the server."""
        if self._lock_file is None:
            return
        server = self._server()
        with _exclusive(server.folders.start_lock):
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass  # somebody else still uses it
            else:
                server.stop()
            finally:
                self._drop_lock()

    def _has_share(self) -> bool:
        return self._lock_file is not None

    def _drop_lock(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _server(self) -> "_Server":
        if sys.platform == "win32":
            raise UsageError(
                "no_embedded_database",
                "the embedded PostgreSQL needs Linux or macOS: set SUREFOOT_DATABASE_URL to a "
                "PostgreSQL server",
            )
        if self._prepared is None:
            user = ServerUser.choose()
            self._prepared = _Server(user, ServerFolders.make(self.home, user))
        return self._prepared


class _Server:
    """The server process itself. All but `answers` only while holding the start lock."""

    def __init__(self, user: ServerUser, folders: ServerFolders) -> None:
        self.user = user
        self.folders = folders
        self._binaries: Binaries | None = None

    def answers(self) -> bool:
        """What `pg_isready` asks, without starting a program."""
        asked = make_conninfo(host=str(self.folders.sockets), port=PORT, connect_timeout=3)
        return PGconn.ping(asked.encode()) == Ping.OK

    def ensure_running(self) -> None:
        if self.answers():
            return
        self.folders.check_reach(self.user)
        self._initialise()
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self._postmaster() is None:
                self.folders.pid_file.unlink(missing_ok=True)
                # After a kill -9 of the postmaster its children hold the shared memory for a
                # moment, and a start fails until they have noticed: hence the loop.
                done = self._start()
                if done.returncode != 0 and time.monotonic() > deadline - START_SECONDS + 15:
                    raise self._failure(done)
            if time.monotonic() > deadline:
                raise self._failure(None)
            time.sleep(0.05)

    def stop(self) -> None:
        """A fast shutdown; one that hangs is cut short (the next start then recovers)."""
        for sign, seconds in ((signal.SIGINT, STOP_SECONDS), (signal.SIGQUIT, 5.0)):
            deadline = time.monotonic() + seconds
            pid = self._postmaster()
            if pid is None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sign)
            while self._postmaster() == pid and time.monotonic() < deadline:
                time.sleep(0.01)

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
        sockets = '"' + str(self.folders.sockets) + '"'  # else a comma would part it
        settings = SETTINGS | {"unix_socket_directories": sockets}
        flags = " ".join(f"-c {k}={_quoted(v)}" for k, v in settings.items())
        data, log = str(self.folders.data), str(self.folders.log)
        return self._run(
            "pg_ctl", "start", "-D", data, "-l", log, "-w", "-t", str(int(START_SECONDS)), "-s",
            "-o", flags,
        )  # fmt: skip

    def _postmaster(self) -> int | None:
        """The pid in the pid file, if that process is this cluster's postmaster."""
        try:
            pid = int(self.folders.pid_file.read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return None
        if process_started(pid) is None:
            return None
        if not Path("/proc/self/cwd").exists():
            ask = ["ps", "-o", "comm=", "-p", str(pid)]
            said = subprocess.run(ask, capture_output=True, text=True, check=False).stdout
            return pid if "postgres" in said else None
        try:
            # The postmaster works in its data folder; a pid reused by anything else does not.
            works_there = Path(f"/proc/{pid}/cwd").resolve() == self.folders.data.resolve()
        except OSError:
            return None
        return pid if works_there else None

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        if self._binaries is None:
            found = find_binaries(self.folders.data_version())
            self._binaries = found.within_reach(self.user, self.folders.cluster)
        command = [str(self._binaries.folder / program), *arguments]
        return self.user.run(command, folder=self.folders.cluster)

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
