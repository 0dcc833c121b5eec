"""Tools of the bug scenarios: odd texts, slow work, big results, marks left in files."""

import math
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from langchain_core.tools import tool

from surefoot.tools import ToolContext, effect

NUL, HALF = "a\x00b", "x\ud83dy"
RAW = b"caf\xe9 \x00 \xff"


@effect("read")
@tool
def odd_text(context: ToolContext) -> Any:
    """Return, log and keep text that a database refuses."""
    context.log(f"log {NUL} {HALF}")
    context.artifacts.put("raw.bin", RAW)
    context.artifacts.put("text.txt", f"{NUL}")
    escaped = RAW.decode("utf-8", errors="surrogateescape")
    return {"nul": {NUL: NUL}, "half": {HALF: [HALF]}, "bytes": escaped, "pair": "\ud83d\ude00"}


@effect("read")
@tool
def odd_error() -> None:
    """Fail with such a text."""
    raise ValueError(f"bad {NUL} {HALF}")


@effect("read")
@tool
def echo(value: Any = None) -> Any:
    """Give back."""
    return value


@effect("read")
@tool
def odd_result(which: str) -> Any:
    """Return something that JSON does not know, or only just."""
    cycle: list[Any] = []
    cycle.append(cycle)
    odd: dict[str, Any] = {
        "set": {1},
        "object": object(),
        "cycle": cycle,
        "nan": {"x": math.nan, "y": [math.inf, -math.inf, 1.5]},
        "big": 10**40,
        "bytes": b"x",
        "none": None,
    }
    return odd[which]


@effect("read")
@tool
def big(size: int, seed: int = 0) -> str:
    """Return a text of so many bytes."""
    return (f"{seed:08d}" * (size // 8 + 1))[:size]


@effect("idempotent")
@tool
def big_effect(size: int) -> str:
    """Do something, and return a text of so many bytes."""
    return "x" * size


@effect("read")
@tool
def length(text: str) -> int:
    """How long a text is."""
    return len(text)


@effect("idempotent")
@tool
def mark(file: str, word: str = "x", value: Any = None) -> int:
    """Append a line to a file outside; returns how many lines there are."""
    with Path(file).open("a") as lines:
        lines.write(word + "\n")
    return len(Path(file).read_text().splitlines())


@effect("idempotent")
@tool
def gate(file: str, open: str, word: str = "x") -> str:
    """Leave a line, then wait until a file is there."""
    with Path(file).open("a") as lines:
        lines.write(word + "\n")
    while not Path(open).exists():
        time.sleep(0.02)
    return word


@effect("read")
@tool
def sleeps(seconds: float) -> str:
    """Sleep."""
    time.sleep(seconds)
    return "slept"


@effect("read")
@tool
def computes() -> None:
    """Compute without end."""
    while True:
        pass


FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    os.fork()
with open(sys.argv[1], "a") as f:
    f.write(f"{os.getpid()}\\n")
time.sleep(1000)
"""


@effect("idempotent")
@tool
def family(pids: str) -> int:
    """Start a child and grandchildren that ignore SIGTERM; wait for them."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return subprocess.call([sys.executable, "-c", FAMILY, pids])


@effect("read")
@tool
def works_once_open(file: str, open: str) -> str:
    """Leave a line; fail as long as a file is not there."""
    with Path(file).open("a") as lines:
        lines.write("x\n")
    if not Path(open).exists():
        raise RuntimeError("not open")
    return "open"


@effect("idempotent")
@tool
def slow_then_late(file: str) -> str:
    """Take too long the first time; what comes then is late."""
    first = not Path(file).exists()
    with Path(file).open("a") as lines:
        lines.write("x\n")
    if first:
        time.sleep(60)
        return "late"
    return "in time"


TOOLS = [
    *(odd_text, odd_error, echo, odd_result, big, big_effect, length, mark, gate),
    *(sleeps, computes, family, works_once_open, slow_then_late),
]
