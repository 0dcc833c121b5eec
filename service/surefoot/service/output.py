"""What a command writes: one JSON document or lines for a person on stdout, all else on stderr."""

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from surefoot.graph.errors import AgentError, UsageError
from surefoot.graph.values import Json, JsonObject
from surefoot.service.exits import StoppedBySignal
from surefoot.service.words import fault_lines, next_step, one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How this command speaks. `json`: stdout is exactly one JSON document."""

    json: bool = False
    quiet: bool = False
    debug: bool = False

    def document(self, value: Json) -> None:
        """Write the one JSON document."""
        write(dumps(value, indent=2) + "\n")

    def line(self, text: str) -> None:
        """Write a line for a person (nothing in JSON mode)."""
        if not self.json:
            write(text + "\n")

    def next_step(self, status: Mapping[str, Any]) -> None:
        """Say what a person can do now about a task that nobody runs."""
        step = None if status["worker"]["alive"] else next_step(status)
        if step:
            self.line(step)

    def note(self, text: str) -> None:
        """Say something beside the output, on stderr; nothing when quiet or nobody reads."""
        if not self.quiet:
            _whisper(text)

    def rows(self, entries: Sequence[JsonObject], columns: Sequence[str], *, none: str) -> None:
        """Write a list: JSON, or a table of some columns; `none` is said where it is empty."""
        if self.json:
            self.document(list(entries))
        elif entries:
            write("\n".join(table(entries, columns)) + "\n")
        else:
            self.note(none)

    def error(self, error: Exception) -> None:
        """Write an error: `{"error": {code, message}}` in JSON mode, else one line on stderr."""
        code, message = _named(error)
        if self.json:
            self.document({"error": {"code": code, "message": message}})
        else:
            _whisper(f"surefoot: {one_line(message, most=2000)}")

    def invalid(self, error: Exception, found: JsonObject) -> None:
        """Write that a file is not valid: the validator's document, or its lines and one error."""
        if self.json:
            code = error.code if isinstance(error, UsageError) else "schema"
            self.document({**found, "error": {"code": code, "message": str(error)}})
            return
        if len(found["faults"]) > 1:
            for line in fault_lines(found):
                self.line(line)
        self.error(error)


def _whisper(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def _named(error: Exception) -> tuple[str, str]:
    """The code and the one line of an error; what nobody foresaw says how to see more."""
    text, kind = " ".join(str(error).split()), type(error).__name__
    if isinstance(error, UsageError):
        return error.code, text
    if isinstance(error, AgentError | StoppedBySignal):
        return snake(kind), text or kind
    return "unexpected", f"unexpected {kind}: {text}; --debug shows the traceback"


def write(text: str) -> None:
    """Write text to stdout at once; what the terminal's encoding cannot show is escaped.

    Raises:
        OSError: nobody reads stdout any more. Further writes then go nowhere, silently.
    """
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except OSError:
        abandon_stdout()
        raise


def abandon_stdout() -> None:
    """Point stdout to nowhere, so that nothing (the interpreter's last flush too) fails on it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def dumps(value: Json, *, indent: int | None = None) -> str:
    """JSON text: readable characters as they are, lone surrogates escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def table(entries: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """Lines of aligned columns with a heading; the last column is not padded."""
    cells = [[_cell(entry.get(column)) for column in columns] for entry in entries]
    heading = [column.replace("_", " ").upper() for column in columns]
    widths = [max(len(row[i]) for row in [heading, *cells]) for i in range(len(columns) - 1)]
    return [
        "  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in [heading, *cells]
    ]


def snake(name: str) -> str:
    """`LeaseHeld` -> `lease_held`."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ",".join(str(item) for item in cast("list[object]", value)) or "-"
    return one_line(value, most=120)
