"""What `surefoot edit` was given, read from the command line and from files."""

import json
from collections.abc import Sequence
from pathlib import Path

from surefoot.graph.errors import UsageError
from surefoot.graph.shapes import is_object
from surefoot.graph.values import Json, JsonObject

MAX_FILE_BYTES = 256 * 1024 * 1024
"""A longer file is refused: it is read whole, into memory."""


def given_result(file: Path) -> Json:
    """The JSON value in a file; the text of one that is not called `.json` and is no JSON.

    Raises:
        UsageError: it cannot be read, or is called `.json` and is none.
    """
    content = _read(file)
    try:
        return _parsed(content)
    except ValueError as wrong:
        if file.suffix.lower() == ".json":
            raise UsageError("not_json", f"{file} is no JSON: {wrong}") from None
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise UsageError(
            "not_json", f"{file} is neither JSON nor text: give it with --artifact NAME={file}"
        ) from None


def given_args(text: str) -> JsonObject:
    """Arguments as JSON.

    Raises:
        UsageError: it is no JSON mapping.
    """
    try:
        value = _parsed(text)
    except ValueError as wrong:
        raise UsageError("not_json", f"--args is no JSON: {wrong}") from None
    if not is_object(value):
        raise UsageError("not_json", '--args must be a JSON mapping, as {"path": "a.txt"}')
    return value


def given_artifacts(texts: Sequence[str]) -> dict[str, bytes]:
    """Contents by name from `NAME=FILE`.

    Raises:
        UsageError: a text is none, a name comes twice, or a file cannot be read.
    """
    found: dict[str, bytes] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not name or not file:
            raise UsageError("usage", f"--artifact takes NAME=FILE, not {text!r}")
        if name in found:
            raise UsageError("usage", f"--artifact {name} is given twice")
        found[name] = _read(Path(file))
    return found


def _parsed(text: str | bytes) -> Json:
    """Raises ValueError: it is no JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _read(file: Path) -> bytes:
    try:
        if file.exists() and not file.is_file():
            raise UsageError("unreadable_file", f"{file} is not a regular file")
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(
            "unreadable_file", f"{file} cannot be read: {error.strerror or error}"
        ) from None
    if len(content) > MAX_FILE_BYTES:
        limit = MAX_FILE_BYTES // 1024**2
        raise UsageError("unreadable_file", f"{file} is longer than {limit} MiB")
    return content
