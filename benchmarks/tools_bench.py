"""The tools that are measured with. Each answers with the id it was given.

`empty` and `sleep` come as `read` (no ledger row) and as `idempotent` (every durable part on);
`record` leaves a line outside and can tell afterwards whether it did.
"""

import os
import time
from pathlib import Path

from langchain_core.tools import tool

from surefoot.tools import ToolContext, effect


@effect("idempotent")
@tool
def empty(id: str) -> str:
    """Do nothing."""
    return id


@effect("read")
@tool
def empty_read(id: str) -> str:
    """Do nothing."""
    return id


@effect("idempotent")
@tool
def sleep(id: str, seconds: float) -> str:
    """Take some time."""
    time.sleep(seconds)
    return id


@effect("read")
@tool
def sleep_read(id: str, seconds: float) -> str:
    """Take some time."""
    time.sleep(seconds)
    return id


def was_recorded(args: dict[str, str], context: ToolContext) -> str | None:
    """The probe of `record`: its result if the line is there."""
    lines = Path(args["log"]).read_text(encoding="utf-8").splitlines()
    return args["id"] if any(line.split()[0] == args["id"] for line in lines) else None


@effect("irreversible", probe=was_recorded)
@tool
def record(id: str, log: str) -> str:
    """Append `id, POSIX seconds, process` to a file, in one write."""
    line = f"{id} {time.time()} {os.getpid()}\n"
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
    return id


TOOLS = [empty, empty_read, sleep, sleep_read, record]
