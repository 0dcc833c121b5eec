"""Writing a plan or an artifact to where a person wants it."""

import json
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
    import yaml

    document = {"plan": {key: value for key, value in plan.items() if key != "version"}}
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
