"""Tools that leave lines outside, and can take some back: done, undone, done again."""

import fcntl
import os
import time
from pathlib import Path
from typing import Any

from langchain_core.tools import tool

from surefoot.tools import ToolContext, effect


def note(file: str, line: str) -> None:
    """Append a line; whole, and durable before it is told of."""
    with Path(file).open("a") as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)
        lines.write(line + "\n")
        lines.flush()
        os.fsync(lines.fileno())


def release(args: dict[str, Any], result: Any, context: ToolContext) -> None:
    """Take a booking back; not while a file `blocked` (or `blocked WORD`) lies beside the log.

    While there is a file `slow WORD` it waits.
    """
    del result, context
    slow = Path(args["file"]).with_name(f"slow {args['word']}")
    while slow.exists():
        slow.with_name("waits").touch()
        time.sleep(0.05)
    blocked = ("blocked", f"blocked {args['word']}")
    if any(Path(args["file"]).with_name(name).exists() for name in blocked):
        raise RuntimeError("the counter is closed")
    note(args["file"], f"release {args['word']}")


@effect("reversible", compensate=release)
@tool
def book(file: str, word: str) -> str:
    """Book something; it can be released."""
    note(file, f"book {word}")
    return word


@effect("irreversible")
@tool
def send(file: str, word: str) -> str:
    """Send something; nobody can take it back."""
    note(file, f"send {word}")
    return f"sent {word} {len(Path(file).read_text().splitlines())}"


@effect("idempotent")
@tool
def mark(file: str, word: str, value: Any = None) -> int:
    """Leave a line; returns how many there are."""
    del value
    note(file, word)
    return len(Path(file).read_text().splitlines())


@effect("idempotent")
@tool
def clear(file: str, word: str) -> None:
    """Clear what was left outside."""
    note(file, f"clear {word}")


@effect("idempotent")
@tool
def make(file: str, word: str, name: str, context: ToolContext) -> int:
    """Put an artifact that says how many lines there are."""
    note(file, word)
    lines = len(Path(file).read_text().splitlines())
    context.artifacts.put(name, f"{word} {lines}")
    return lines


@effect("idempotent")
@tool
def scribble(file: str, word: str, path: str, context: ToolContext) -> int:
    """Append a word to a file of the workspace."""
    note(file, word)
    place = Path(context.workspace) / path
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("a") as lines:
        lines.write(word + "\n")
    return 1


@effect("read")
@tool
def listed(count: int) -> list[int]:
    """So many numbers."""
    return list(range(count))


@effect("idempotent")
@tool
def gate(file: str, word: str, open: str) -> str:
    """Leave a line, then wait until a file is there."""
    note(file, word)
    while not Path(open).exists():
        time.sleep(0.02)
    return word


@effect("idempotent")
@tool
def once_open(file: str, word: str, open: str) -> str:
    """Leave a line; fail as long as a file is not there."""
    note(file, word)
    if not Path(open).exists():
        raise RuntimeError("not open")
    return word


@effect("idempotent")
@tool
def after(file: str, word: str, line: str) -> str:
    """Begin, and leave a line once another one is there."""
    note(file, f"{word} begins")
    while line not in (Path(file).read_text().splitlines() if Path(file).exists() else ()):
        time.sleep(0.01)
    note(file, word)
    return word


TOOLS = [book, send, mark, clear, make, scribble, listed, gate, once_open, after]
