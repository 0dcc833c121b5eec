"""What the validator may ask of the world outside: questions without side effects.

`LocalWorld` answers for this machine; tests give a stub.
"""

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class World(Protocol):
    """The machine a task would run on."""

    @property
    def workspace(self) -> Path | None:
        """The workspace's folder; None while it is not known."""
        ...

    def exists(self, path: str) -> bool:
        """Whether anything is at this path."""
        ...

    def readable(self, path: str) -> bool:
        """Whether what is at this path may be read (a folder: listed too)."""
        ...

    def writable(self, folder: Path) -> bool:
        """Whether this folder, or the nearest one above it that exists, may be written into."""
        ...

    def executable(self, name: str) -> bool:
        """Whether a command of this name or path can be started; `python` always can."""
        ...

    def module(self, name: str) -> bool:
        """Whether a Python module can be found, in the task's folder or installed."""
        ...


@dataclass(frozen=True, slots=True)
class LocalWorld:
    """This machine.

    Attributes:
        workspace: where the task would work; None = not known, then it is not judged.
        task_dir: the task file's folder, where `python` checks find their modules; None = not
            known, then they are not judged.
    """

    workspace: Path | None = None
    task_dir: Path | None = None

    def exists(self, path: str) -> bool:
        """See `World`."""
        try:
            return os.path.exists(path)
        except (OSError, ValueError):
            return False

    def readable(self, path: str) -> bool:
        """See `World`."""
        try:
            mode = os.R_OK | (os.X_OK if os.path.isdir(path) else 0)
            return os.access(path, mode)
        except (OSError, ValueError):
            return False

    def writable(self, folder: Path) -> bool:
        """See `World`."""
        place = folder.absolute()
        while not place.exists() and place != place.parent:
            place = place.parent
        return place.is_dir() and os.access(place, os.W_OK | os.X_OK)

    def executable(self, name: str) -> bool:
        """See `World`."""
        try:
            return name == "python" or shutil.which(name, path=_command_path()) is not None
        except (OSError, ValueError):
            return False

    def module(self, name: str) -> bool:
        """See `World`; only the top package is looked for, since finding more would import it."""
        top, *rest = name.split(".")
        if self.task_dir is None:
            return True
        if not all(part.isidentifier() for part in (top, *rest)):
            return False
        place = self.task_dir.joinpath(top, *rest)
        if place.with_suffix(".py").is_file() or place.is_dir():
            return True
        try:
            return importlib.util.find_spec(top) is not None
        except (ImportError, ValueError, AttributeError):
            return False


def _command_path() -> str:
    """Where commands are looked for: our interpreter's folder first, as when they run."""
    own = os.path.dirname(sys.executable)
    return os.pathsep.join([own, os.environ.get("PATH", os.defpath)])
