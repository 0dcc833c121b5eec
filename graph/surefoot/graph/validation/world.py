"""What the validator may ask of the world outside: questions without side effects.

`LocalWorld` answers for this machine; tests give a stub.
"""

import ast
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

    def defines(self, module: str, name: str) -> bool:
        """Whether a module that is there may have this name; False only where it surely has not."""
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
        if self._own_source(name) is not None or self.task_dir.joinpath(top, *rest).is_dir():
            return True
        try:
            return importlib.util.find_spec(top) is not None
        except (ImportError, ValueError, AttributeError):
            return False

    def defines(self, module: str, name: str) -> bool:
        """See `World`; only the source of modules in the task's folder is read, never imported."""
        source = self._own_source(module)
        if source is None:
            return True
        try:
            return may_define(source.read_text(encoding="utf-8"), name)
        except (OSError, ValueError, SyntaxError, RecursionError):
            return True

    def _own_source(self, module: str) -> Path | None:
        """The file of a module in the task's folder."""
        if self.task_dir is None:
            return None
        place = self.task_dir.joinpath(*module.split("."))
        found = (place.with_suffix(".py"), place / "__init__.py")
        return next((path for path in found if path.is_file()), None)


def may_define(source: str, name: str) -> bool:
    """Whether a module's source may give it a top-level name.

    Args:
        source: Python.
        name: what is looked for, in any statement outside functions and classes.

    Raises:
        SyntaxError: it is no Python.
    """
    stack: list[ast.AST] = [ast.parse(source)]
    while stack:
        node = stack.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if node.name in (name, "__getattr__"):
                    return True
                continue
            case ast.ImportFrom() | ast.Import():
                bound = {alias.asname or alias.name.split(".")[0] for alias in node.names}
                if name in bound or "*" in bound:
                    return True
            case ast.Name(id=id, ctx=ast.Store()) if id == name:
                return True
            case ast.Call(func=ast.Name(id="globals" | "setattr" | "exec")):
                return True
            case _:
                pass
        stack.extend(ast.iter_child_nodes(node))
    return False


def _command_path() -> str:
    """Where commands are looked for: our interpreter's folder first, as when they run."""
    own = os.path.dirname(sys.executable)
    return os.pathsep.join([own, os.environ.get("PATH", os.defpath)])
