"""Built-in tools for files: list_files, read_text, write_text.

They see the workspace and the declared inputs and write below `writes`, nothing else (`limits`).
"""

import os
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, TypedDict

from langchain_core.tools import BaseTool, tool
from pydantic import Field

from surefoot.graph.path_globs import matches_any
from surefoot.tools.context import ToolContext
from surefoot.tools.effects import Refused, effect
from surefoot.tools.limits import MAX_TEXT_BYTES, Access

MAX_FILES = 100_000
"""A listing longer than this is an error: ask for a narrower one."""

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class FileList(TypedDict):
    """Files found: workspace-relative for the workspace, absolute for declared inputs."""

    files: list[str]
    count: int


class Text(TypedDict):
    """What a file says; `bytes` is its whole size."""

    text: str
    bytes: int
    truncated: bool


class Written(TypedDict):
    """A file that was written, as named in the workspace."""

    path: str
    bytes: int


@effect("read")
@tool
def list_files(
    context: ToolContext,
    path: Annotated[
        str, Field(description="A folder, relative to the workspace or absolute.")
    ] = ".",
    pattern: Annotated[
        str, Field(description="Glob of file names, or of relative paths where it has a `/`.")
    ] = "*",
    recursive: Annotated[bool, Field(description="Look into folders below, too.")] = False,
) -> FileList:
    """List the files in a folder, sorted. Hidden ones only where the pattern begins with a dot."""
    folder = context.access.to_read(path)
    if folder.is_file():
        return {"files": [context.access.shown(folder)], "count": 1}
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {path}")
    deep = recursive or "/" in pattern
    found = [
        _entry(context.access, folder, relative)
        for relative in _files_below(folder, deep=deep, hidden=pattern.startswith("."))
        if _is_meant(relative, pattern)
    ]
    files = sorted(one for one in found if one is not None)
    return {"files": files, "count": len(files)}


@effect("read")
@tool
def read_text(
    context: ToolContext,
    path: Annotated[str, Field(description="A file, relative to the workspace or absolute.")],
    max_bytes: Annotated[
        int, Field(description="Read at most this many bytes.", ge=0, le=MAX_TEXT_BYTES * 4)
    ] = MAX_TEXT_BYTES,
) -> Text:
    """Read a text file (UTF-8, or UTF-16 with its mark). Bytes that are no text stay visible."""
    file = _existing(context, path)
    with file.open("rb") as opened:
        content = opened.read(max_bytes)
        size = os.fstat(opened.fileno()).st_size
    return {"text": decode(content), "bytes": size, "truncated": size > len(content)}


@effect("idempotent")
@tool
def write_text(
    context: ToolContext,
    path: Annotated[str, Field(description="A file in the workspace; folders are made.")],
    text: Annotated[str, Field(description="Its whole new content.")],
) -> Written:
    """Write a text file in the workspace, replacing what was there, all at once."""
    file = context.access.to_write(path)
    if file.is_dir():
        raise Refused("bad_arguments", f"{path} is a folder")
    file.parent.mkdir(parents=True, exist_ok=True)
    size = write_atomically(file, text.encode(errors="surrogateescape"))
    return {"path": context.access.shown(file), "bytes": size}


def decode(content: bytes) -> str:
    """Bytes as text: by their byte order mark, else UTF-8; what is no text stays visible."""
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            errors = "surrogateescape" if encoding == "utf-8" else "replace"
            return content[len(mark) :].decode(encoding, errors)
    return content.decode(errors="surrogateescape")


def write_atomically(file: Path, content: bytes) -> int:
    """Write beside the file, flush to disk and rename; a reader sees the old or the new whole."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name[:40]}.")
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o666 & ~_umask()
        Path(name).chmod(mode)
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return len(content)


def _existing(context: ToolContext, path: str) -> Path:
    file = context.access.to_read(path)
    if file.is_dir():
        raise Refused("bad_arguments", f"{path} is a folder; list_files shows what is in it")
    if not file.exists():
        raise FileNotFoundError(f"there is no file {path}")
    return file


def _files_below(folder: Path, *, deep: bool, hidden: bool) -> Iterator[str]:
    """Paths of files relative to `folder`; links to folders are not followed."""
    count = 0
    for place, folders, names in os.walk(folder):
        if not hidden:
            folders[:] = [name for name in folders if not name.startswith(".")]
        if not deep:
            folders.clear()
        for name in names:
            if hidden or not name.startswith("."):
                count += 1
                if count > MAX_FILES:
                    raise Refused("bad_arguments", f"more than {MAX_FILES} files in {folder}")
                yield os.path.relpath(os.path.join(place, name), folder)


def _is_meant(relative: str, pattern: str) -> bool:
    if "/" in pattern:
        return matches_any((pattern,), relative.replace(os.sep, "/"))
    return fnmatchcase(os.path.basename(relative), pattern)


def _entry(access: Access, folder: Path, relative: str) -> str | None:
    """The name a later call can use; None for what it could not read (a link leading outside)."""
    file = folder / relative
    if file.is_symlink():
        try:
            access.to_read(str(file))
        except Refused:
            return None
    return access.shown(file) if file.is_file() else None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


TOOLS: list[BaseTool] = [list_files, read_text, write_text]
