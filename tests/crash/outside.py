"""The world outside, as the crash tests' tools see it: a file that only grows, and a way to die.

One line a fact, written by one `write` to a file opened with O_APPEND, so that it survives every
kill. The tools write it, the tests read it; nothing of Surefoot is used.
"""

import json
import os
import secrets
import signal
import time
from pathlib import Path
from typing import Any

WORLD, POINT, COUNT, FUSES, VICTIM, MARK = (
    "CRASH_WORLD",
    "CRASH_POINT",
    "CRASH_COUNT",
    "CRASH_FUSES",
    "CRASH_VICTIM",
    "CRASH_MARK",
)
"""Environment: the file; where to die, at the how many-th time; a folder to count in; who dies;
a text that all processes of a test carry."""


def record(fact: str, effect: str, **more: Any) -> dict[str, Any]:
    """Let a fact be true from now on; returns it."""
    line = {
        "fact": fact,
        "effect": effect,
        "nonce": secrets.token_hex(8),
        "pid": os.getpid(),
        "started": started(os.getpid()),
        "at": time.time(),
        **more,
    }
    file = os.open(os.environ[WORLD], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)
    return line


def facts(world: Path | None = None) -> list[dict[str, Any]]:
    """All facts, in order."""
    path = world or Path(os.environ[WORLD])
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def started(pid: int) -> str | None:
    """When a process began, None when it is gone (or a zombie, which runs nothing)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def is_postgres(pid: int) -> bool:
    """Whether it is a database server."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
    except OSError:
        return False


def passes(point: str) -> bool:
    """Kill the victim if this life is to end here, now; then True (the tool's process is left)."""
    if os.environ.get(POINT) != point or _how_often(point) != int(os.environ[COUNT]):
        return False
    os.kill(int(os.environ[VICTIM]), signal.SIGKILL)
    return True


def die(point: str) -> None:
    """The same, and do nothing more in this process either."""
    if passes(point):
        while True:
            signal.pause()


def _how_often(point: str) -> int:
    """Count a pass, over all processes of this life: a file that can be made only once."""
    n = 1
    while True:
        try:
            os.close(os.open(f"{os.environ[FUSES]}/{point}-{n}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            n += 1
        else:
            return n
