"""Where the embedded server's files lie, and whether its user may reach them."""

import hashlib
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from surefoot.checkpointing.postgres_binaries import ServerUser
from surefoot.graph.errors import UsageError

SOCKET_PATH_LIMIT = 107
"""Bytes of a unix socket's path (Linux; macOS allows 103)."""

LOG_BYTES = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFolders:
    """`HOME/pg` (cluster, log), `HOME/run` (locks) and the folder of the socket."""

    cluster: Path
    sockets: Path
    start_lock: Path
    users_lock: Path

    @property
    def data(self) -> Path:
        """The data directory; it exists only when `initdb` came to its end."""
        return self.cluster / "data"

    @property
    def pid_file(self) -> Path:
        """What the postmaster leaves behind."""
        return self.data / "postmaster.pid"

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.cluster / "server.log"

    @classmethod
    def make(cls, home: Path, user: ServerUser) -> "ServerFolders":
        """Make what is missing.

        Raises:
            UsageError: `home_not_writable`, `home_name`.
        """
        run = home / "run"
        if set(str(home)) & set('"$`\\\n'):
            raise UsageError(
                "home_name",
                f"the embedded PostgreSQL cannot live in {str(home)!r}: its name has a quote, "
                "dollar, backslash or line break; choose another SUREFOOT_HOME",
            )
        try:
            make_home(home)
            cluster = _own_folder(home / "pg", user)
            return cls(
                cluster=cluster,
                sockets=_socket_folder(run, user),
                start_lock=run / "server-start.lock",
                users_lock=run / "server-users.lock",
            )
        except OSError as exc:
            raise _unusable(home, exc) from exc

    def check_reach(self, user: ServerUser) -> None:
        """See that the server's user can pass through every folder above its own.

        Raises:
            UsageError: `home_not_reachable`. Nothing is opened for it by itself.
        """
        if not user.can_enter(self.cluster, self.sockets):
            raise UsageError(
                "home_not_reachable",
                f"PostgreSQL does not run as root, and its user {user.name!r} cannot enter "
                f"{self.cluster.parent}: allow that (chmod o+x on it and the folders above), "
                "choose another SUREFOOT_HOME (/var/lib/surefoot), or set SUREFOOT_DATABASE_URL",
            )

    def data_version(self) -> int | None:
        """The major version that wrote the data, None before the first start."""
        try:
            return int((self.data / "PG_VERSION").read_text().strip().split(".")[0])
        except (OSError, ValueError):
            return None

    def trim_log(self) -> None:
        """Keep one older log when it has grown large (only while the server is down)."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_name("server.log.1"))


def make_home(home: Path) -> None:
    """Make the home and its `run` folder, and see that they can be written.

    Raises:
        UsageError: `home_not_writable`.
    """
    run = home / "run"
    try:
        _make(home)
        _make(run)
        tempfile.TemporaryFile(dir=run).close()
    except OSError as exc:
        raise _unusable(home, exc) from exc


def _unusable(home: Path, exc: OSError) -> UsageError:
    return UsageError(
        "home_not_writable",
        f"the home folder {home} cannot be written ({exc.strerror or exc}): "
        "set SUREFOOT_HOME to a folder of your own",
    )


def _make(folder: Path) -> None:
    if folder.is_dir():
        return
    folder.mkdir(parents=True)
    # Whatever the umask: the server's user must be able to pass through a folder made by root.
    folder.chmod(0o711 if sys.platform != "win32" and os.geteuid() == 0 else 0o700)


def _own_folder(folder: Path, user: ServerUser) -> Path:
    folder.mkdir(exist_ok=True, mode=0o700)
    user.give(folder)
    return folder


def _socket_folder(run: Path, user: ServerUser) -> Path:
    folder = run / "socket"
    # A client reads a comma as the end of one host's name.
    too_long = len(os.fsencode(folder / ".s.PGSQL.5432.lock")) > SOCKET_PATH_LIMIT
    if too_long or "," in str(folder):
        name = hashlib.sha256(os.fsencode(run)).hexdigest()[:12]
        folder = Path("/tmp") / f"surefoot-{os.geteuid()}-{name}"
    _own_folder(folder, user)
    # In /tmp anybody could have made it before us.
    if folder.is_symlink() or folder.stat().st_uid != user.uid:
        raise UsageError(
            "socket_folder", f"the socket folder {folder} belongs to somebody else: remove it"
        )
    folder.chmod(0o711 if user.other else 0o700)
    return folder
