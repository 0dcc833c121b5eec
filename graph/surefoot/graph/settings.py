"""What the environment says: where the database, the home folder and the artifacts are.

Read once at the door (`Settings.from_environment`) and passed on; nothing else reads `os.environ`
for these. It lies on the ground floor because the roof opens a database by it when it is embedded
in another app.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from surefoot.graph.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where things are. `database_url` None means an embedded PostgreSQL under `home`."""

    home: Path
    database_url: str | None
    artifacts_url: str
    model: str | None = None
    pool_size: int = 8

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        """Read the SUREFOOT_* variables (contract §4).

        Raises:
            UsageError: `SUREFOOT_POOL_SIZE` is not a whole number of at least 2.
        """
        env = os.environ if environ is None else environ
        home = Path(env.get("SUREFOOT_HOME") or default_home(env)).expanduser().absolute()
        return cls(
            home=home,
            database_url=env.get("SUREFOOT_DATABASE_URL") or None,
            artifacts_url=env.get("SUREFOOT_ARTIFACTS_URL") or (home / "artifacts").as_uri(),
            model=env.get("SUREFOOT_MODEL") or None,
            pool_size=_pool_size(env.get("SUREFOOT_POOL_SIZE") or "8"),
        )

    def workspace(self, task_id: str) -> Path:
        """The default workspace of a task."""
        return self.home / "workspaces" / task_id

    def keeps_itself_in(self, folder: Path) -> bool:
        """Whether a folder is no place for a workspace: a snapshot put back would undo our own.

        The home itself and what we keep in it, or a local artifact store. Other folders in the
        home may be anybody's; `workspaces` is one for each task.
        """
        place = folder.resolve()
        home, store = self.home.resolve(), self.local_artifacts
        rooms = [home / room for room in _ROOMS]
        rooms += [store.resolve()] if store is not None else []
        return place in (home, home / "workspaces") or any(
            place.is_relative_to(room) for room in rooms
        )

    @property
    def local_artifacts(self) -> Path | None:
        """The folder of the artifact store; None where it is no local one."""
        parts = urlsplit(self.artifacts_url)
        return Path(unquote(parts.path)) if parts.scheme == "file" else None

    def task_folder(self, task_id: str) -> Path:
        """Where materialised artifacts of a task lie: read-only copies, made when needed."""
        return self.home / "tasks" / task_id


_ROOMS = ("artifacts", "pg", "run", "tasks")


def default_home(environ: Mapping[str, str]) -> Path:
    """The platform's user data folder; `/var/lib/surefoot` for root."""
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "surefoot"
    if os.geteuid() == 0:
        return Path("/var/lib/surefoot")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "surefoot"
    return Path(environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "surefoot"


def _pool_size(text: str) -> int:
    if not text.isdigit() or int(text) < 2:
        raise UsageError(
            "bad_setting", f"SUREFOOT_POOL_SIZE is {text!r}: give a whole number of at least 2"
        )
    return int(text)
