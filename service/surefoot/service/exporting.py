"""Writing a plan or an artifact to where a person wants it."""

import json
import re
import sys
from pathlib import Path

from surefoot.graph.errors import UsageError
from surefoot.graph.values import JsonObject
from surefoot.service.output import Output, abandon_stdout
from surefoot.service.words import size


def export_plan(plan: JsonObject, path: Path) -> None:
    """Write `plan:` as it could stand in a task file: JSON where the name says so, else YAML.

    Raises:
        UsageError: `unwritable_file`.
    """
    _write_document({"plan": {k: v for k, v in plan.items() if k != "version"}}, path)


def export_task(task: JsonObject, path: Path) -> None:
    """Write a whole task file, as it can be run from any folder: its paths are absolute.

    Raises:
        UsageError: `unwritable_file`.
    """
    _write_document(task, path)


def free_name(name: str) -> Path:
    """A file name in the current folder that nothing has yet, from a task's name."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:40] or "task"
    path, n = Path(f"{slug}.yaml"), 2
    while path.exists():
        path, n = Path(f"{slug}-{n}.yaml"), n + 1
    return path


def _write_document(document: JsonObject, path: Path) -> None:
    import yaml

    if path.suffix.lower() == ".json":
        text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    else:
        text = yaml.safe_dump(document, allow_unicode=True, sort_keys=False)
    write_file(path, text.encode())


def deliver_artifact(entry: JsonObject, content: bytes, to: Path | None, out: Output) -> None:
    """Write an artifact's bytes to a file or to stdout; in JSON mode stdout tells of it.

    Raises:
        UsageError: `unwritable_file`.
    """
    if to is not None:
        write_file(to, content)
    if out.json:
        out.document(entry | {"file": str(to.absolute()) if to else None})
    elif to is not None:
        out.line(f"wrote {to} ({size(len(content))}): {entry['name']} version {entry['version']}")
    else:
        try:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        except OSError:
            abandon_stdout()
            raise


def write_file(path: Path, content: bytes) -> None:
    """Write a file. Raises UsageError: `unwritable_file`."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(
            "unwritable_file", f"{path} cannot be written: {error.strerror or error}"
        ) from error
