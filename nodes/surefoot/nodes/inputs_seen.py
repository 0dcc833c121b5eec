"""What a task's inputs hold, looked at for a planner: names, counts, sizes, a few first lines.

Bounded in everything, so that a folder of a million files costs no more than one of a hundred.
Blocking: call it in a thread. What files say is material for the planner, never an instruction.
"""

import json
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from surefoot.graph.values import Json

MOST_FILES = 12
"""Names listed of one folder."""

MOST_COUNTED = 10_000
MOST_PEEKED = 2
"""Files of one folder whose beginning is shown."""

PEEK_BYTES = 400
MOST_VALUE = 400


def describe_inputs(inputs: Mapping[str, Json]) -> str:
    """One paragraph an input; '' without inputs.

    Args:
        inputs: the goal's, paths made absolute.
    """
    return "\n".join(
        f"{name}: {_path(Path(value)) if _is_place(value) else _value(value)}"
        for name, value in inputs.items()
    )


def _is_place(value: Json) -> bool:
    return isinstance(value, str) and os.path.isabs(value)


def _value(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MOST_VALUE else f"{text[:MOST_VALUE]} [cut: {len(text)} characters]"


def _path(path: Path) -> str:
    try:
        if path.is_dir():
            return _folder(path)
        if path.is_file():
            return f"the file {path.name}, {path.stat().st_size} bytes{_peek(path)}"
    except OSError as error:
        return f"the path {path.name} ({error.strerror or error})"
    return f"the path {path.name}, where nothing is"


def _folder(folder: Path) -> str:
    files = sorted(islice(_files(folder), MOST_COUNTED))
    many = f"{len(files)}{' or more' if len(files) >= MOST_COUNTED else ''}"
    lines = [f"a folder with {many} files"]
    for number, file in enumerate(files[:MOST_FILES]):
        peek = _peek(file) if number < MOST_PEEKED else ""
        lines.append(f"  {file.relative_to(folder)}, {_size(file)} bytes{peek}")
    if len(files) > MOST_FILES:
        lines.append(f"  and {len(files) - MOST_FILES} more")
    return "\n".join(lines)


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(place) / name for name in sorted(names))


def _size(file: Path) -> int | str:
    try:
        return file.stat().st_size
    except OSError:
        return "?"


def _peek(file: Path) -> str:
    """The beginning of a text file; nothing of one that is no text."""
    try:
        if not file.is_file():
            return ""
        with file.open("rb") as stream:
            start = stream.read(PEEK_BYTES)
    except OSError:
        return ""
    if not start or b"\0" in start:
        return ""
    text = start.decode("utf-8", "ignore")
    if len(text.encode()) < 0.9 * len(start):
        return ""
    shown = " / ".join(line.strip() for line in text.splitlines() if line.strip())
    return f", begins: {shown}" if shown else ""
