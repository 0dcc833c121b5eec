"""Tools for workers that stand still: they leave lines in a file outside and take their time."""

import asyncio
import time
from pathlib import Path
from typing import Any

from langchain_core.tools import tool

from surefoot.tools import ToolContext, effect


def leave(file: str, line: str) -> None:
    with Path(file).open("a") as lines:
        lines.write(line + "\n")


def wait_for(file: str) -> None:
    """Block whoever calls this, the event loop too: that is the fault which is looked at."""
    while not Path(file).exists():
        time.sleep(0.02)


def was_sent(args: dict[str, Any], context: ToolContext) -> str | None:
    file = Path(args["file"])
    return "sent" if file.exists() and "sent" in file.read_text().split() else None


@effect("irreversible", probe=was_sent)
@tool
def send(file: str, open: str) -> str:
    """Begin, wait until a file is there, then send: once for all time."""
    leave(file, "begun")
    wait_for(open)
    leave(file, "sent")
    return "sent"


def was_written(args: dict[str, Any], context: ToolContext) -> int | None:
    file = Path(args["file"])
    written = file.read_text().split() if file.exists() else []
    return written.index(args["word"]) if args["word"] in written else None


@effect("irreversible", probe=was_written)
@tool
def write_once(file: str, word: str, value: str = "") -> int:
    """Leave a word that must not stand there twice; returns how many there were."""
    number = len(Path(file).read_text().split()) if Path(file).exists() else 0
    leave(file, word)
    return number


@effect("irreversible", probe=was_sent, in_process=True)
@tool
def send_on_thread(file: str, open: str) -> str:
    """Block a thread of the worker until a file is there."""
    wait_for(open)
    leave(file, "sent")
    return "sent"


@effect("irreversible", probe=was_sent, in_process=True)
@tool
async def send_on_loop(file: str, open: str) -> str:
    """Block the worker's event loop until a file is there."""
    wait_for(open)
    await asyncio.sleep(0)
    leave(file, "sent")
    return "sent"


TOOLS = [send, write_once, send_on_thread, send_on_loop]
