"""Tools that do not want to end, with children that do not either."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from langchain_core.tools import tool

from surefoot.tools import ToolContext, effect

FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:  # a grandchild in the same group
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:  # a daemon: no parent, no group, no session of ours
            os._exit(0)
with open(sys.argv[1], "a") as f:
    f.write(f"{os.getpid()}\\n")
time.sleep(1000)
"""


@effect("read")
@tool
def sleeps(seconds: float) -> str:
    """Sleep."""
    time.sleep(seconds)
    return "slept"


@effect("read")
@tool
async def sleeps_async(seconds: float) -> str:
    """Sleep."""
    await asyncio.sleep(seconds)
    return "slept"


@effect("read")
@tool
def computes() -> int:
    """Compute without end."""
    n = 0
    while True:
        n += 1


@effect("idempotent")
@tool
def family(pids: str, context: ToolContext) -> int:
    """Start children that ignore SIGTERM, leave the group, become daemons; wait for them."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(pids).write_text(f"{os.getpid()}\n")
    context.artifacts.put("started.txt", "x")
    return subprocess.call([sys.executable, "-c", FAMILY, pids])


@effect("idempotent")
@tool
def leaves_behind(pids: str) -> int:
    """Start a daemon and return."""
    return subprocess.call(
        ["sh", "-c", f"setsid sh -c 'echo $$ >> {pids}; exec sleep 1000' >/dev/null 2>&1 &"]
    )


@effect("read")
@tool
def forks() -> str:
    """Fork, and let the child return, too."""
    return "parent" if os.fork() else "child"


TOOLS = [sleeps, sleeps_async, computes, family, leaves_behind, forks]
