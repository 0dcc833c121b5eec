"""Digests of what a task depends on: its declared inputs and its tool modules.

Taken when the task is created and again at every go; the consistency report compares them.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from surefoot.graph.ports import ToolSpec
from surefoot.graph.values import Json, JsonObject

WHOLE_BYTES = 256 * 1024 * 1024
"""Inputs up to this size are hashed whole; of what goes beyond, size and time are taken."""


def declared_inputs(inputs: Mapping[str, Json]) -> dict[str, Path]:
    """The inputs that are paths (absolute after reading the file), by name."""
    return {
        name: Path(value)
        for name, value in inputs.items()
        if isinstance(value, str) and os.path.isabs(value)
    }


def input_digests(inputs: Mapping[str, Json]) -> dict[str, str]:
    """One digest per declared input that exists, by its path. Blocking: call it in a thread."""
    found: dict[str, str] = {}
    for path in declared_inputs(inputs).values():
        if path.exists():
            found[str(path)] = _digest(path)
    return found


def tool_digests(specs: Mapping[str, ToolSpec]) -> dict[str, str]:
    """The digest of every module that tools came from (built-in ones and objects left out)."""
    return {
        spec.module: spec.digest
        for spec in specs.values()
        if spec.digest and spec.module not in ("builtin", "object")
    }


def manifest(inputs: Mapping[str, Json], specs: Mapping[str, ToolSpec]) -> JsonObject:
    """Both, as they are stored with the task and compared by the consistency report."""
    return {"input": input_digests(inputs), "tools module": tool_digests(specs)}


def _digest(path: Path) -> str:
    total = hashlib.sha256()
    left = WHOLE_BYTES
    for file in _files(path):
        total.update(os.fsencode(os.path.relpath(file, path)) + b"\0")
        try:
            size = file.stat().st_size
            left -= size
            total.update(_content(file) if left >= 0 else _identity(file))
        except OSError as exc:
            total.update(f"unreadable {exc.errno}".encode())
    return total.hexdigest()


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            yield Path(folder) / name


def _content(file: Path) -> bytes:
    if not file.is_file():
        return b"not a file"
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def _identity(file: Path) -> bytes:
    stat = file.stat()
    return f"{stat.st_size} {stat.st_mtime_ns}".encode()
