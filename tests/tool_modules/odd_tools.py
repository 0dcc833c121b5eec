"""Tools that do odd things, for the tests of the tool host."""

import asyncio
import ctypes
import math
import os
import subprocess
import sys
import time
from typing import Any

from langchain_core.tools import tool

from surefoot.tools import NotDone, ToolContext, effect


@effect("read")
@tool
def odd(which: str) -> Any:
    """Return something odd."""
    cycle: list[Any] = []
    cycle.append(cycle)
    return {
        "nul": {"a\x00": "b\x00c"},
        "half": "\ud83d",
        "bytes": b"caf\xe9".decode(errors="surrogateescape"),
        "nan": {"x": [math.nan, math.inf]},
        "big": 10**40,
        "set": {1},
        "cycle": cycle,
    }[which]


@effect("read")
@tool
def huge() -> list[str]:
    """More than fits."""
    return ["x" * (65 * 1024 * 1024)]


@effect("read")
@tool
def large() -> str:
    """Just fits."""
    return "x" * (5 * 1024 * 1024)


@effect("read")
@tool
def echo(value: Any) -> Any:
    """Give back."""
    return value


def key_of(args: dict[str, Any]) -> str:
    return f"{args['a']}-{args['b']}"


def probed(args: dict[str, Any], _context: ToolContext) -> dict[str, Any]:
    return {"p": args}


@effect("idempotent", key=key_of, probe=probed)
@tool
def keyed(a: int, b: int = 7) -> int:
    """Has a key."""
    return a + b


async def undo(args: dict[str, Any], result: Any, context: ToolContext) -> str:
    await asyncio.sleep(0)
    context.log(f"undo {args} {result} {context.subtask_id}")
    return "ignored"


def no_text(_args: dict[str, Any]) -> int:
    return 3


def broken_probe(_args: dict[str, Any], _context: ToolContext) -> float:
    return 1 / 0


@effect("reversible", compensate=undo, key=no_text, probe=broken_probe)
@tool
async def slow_add(a: int, context: ToolContext) -> dict[str, Any]:
    """Async."""
    await asyncio.sleep(0.01)
    return {
        "a": a,
        "key": context.idempotency_key,
        "failed": context.failed_attempts,
        "attempt": context.attempt,
        "task": context.task_id,
        "cancelled": context.cancelled,
    }


def _die(how: str) -> None:
    if how == "exit":
        sys.exit(3)
    if how == "_exit":
        os._exit(5)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "closed":
        os.closerange(3, 100)
        time.sleep(100)


@effect("read", retry_on=OSError)
@tool
def fail(how: str) -> None:
    """Fail."""
    if how == "not_done":
        raise NotDone("surely not")
    if how == "os":
        raise TimeoutError("slow")
    _die(how)
    raise ValueError(how * 10000)


@effect("read")
@tool
def chatter(context: ToolContext) -> None:
    """Print."""
    print("by print\nodd \udce9 \ud83d")  # noqa: T201 - this is the test
    subprocess.run(["sh", "-c", "echo by child; printf unfinished >&2"], check=True)
    context.log("by log")
    sys.stdout.write("no end")


@effect("read")
@tool
def flood(lines: int) -> int:
    """Print a lot."""
    for _ in range(lines):
        print("x" * 1000)  # noqa: T201 - this is the test
    return lines


@effect("idempotent")
@tool
def keep(name: str, context: ToolContext) -> str:
    """Put and get."""
    context.heartbeat()
    context.artifacts.put(name, b"first")
    context.artifacts.put(name, "second \x00", media_type="text/x-own")
    own, seen = context.artifacts.get(name), context.artifacts.get("other/seen.txt")
    return own.decode() + seen.decode()


@effect("read")
@tool
def see(name: str, context: ToolContext) -> str:
    """Get."""
    return context.artifacts.get(name).decode()


@effect("read")
@tool
def bad_put(context: ToolContext) -> None:
    """Put under a bad name."""
    context.artifacts.put("a/b", "x")


@effect("read")
@tool
def where() -> list[Any]:
    """Where it runs."""
    return [os.getpid(), os.getcwd(), sys.stdin.read(), os.getpgid(0), os.getppid()]


@effect("read", in_process=True)
@tool
def here() -> int:
    """Runs in the main process."""
    return os.getpid()


TOOLS = [
    *(odd, huge, large, echo, keyed, slow_add, fail, chatter, flood),
    *(keep, see, bad_put, where, here),
]
