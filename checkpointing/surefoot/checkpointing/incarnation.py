"""Who holds a lease: one process on one boot of one machine, told apart from any later one."""

import asyncio
import functools
import os
import platform
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.graph.processes import end_family, process_started, same_process
from surefoot.graph.values import JsonObject


@functools.cache
def host() -> str:
    """Names the set of processes this one can see: the machine and the pid namespace."""
    try:
        namespace = os.readlink("/proc/self/ns/pid").removeprefix("pid:")
    except OSError:
        namespace = ""
    return platform.node() + namespace


@functools.cache
def boot() -> str:
    """Changes when the machine starts anew: pids and start times are counted from there."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What a lease row says of its holder (`tasks.worker`)."""

    host: str
    boot: str
    pid: int
    started: float
    children: tuple[tuple[int, float], ...] = ()

    @classmethod
    def this_process(cls) -> "Worker":
        """The present process, without children."""
        pid = os.getpid()
        return cls(host=host(), boot=boot(), pid=pid, started=process_started(pid) or 0.0)

    @classmethod
    def parse(cls, row: JsonObject) -> "Worker":
        """From the lease row's JSON."""
        children: list[list[Any]] = row.get("children") or []
        return cls(
            host=row["host"],
            boot=row["boot"],
            pid=row["pid"],
            started=row["started"],
            children=tuple((int(pid), float(started)) for pid, started in children),
        )

    def as_json(self) -> JsonObject:
        """As it is stored."""
        return {
            "host": self.host,
            "boot": self.boot,
            "pid": self.pid,
            "started": self.started,
            "children": [list(child) for child in self.children],
        }

    def describe(self) -> str:
        """For people: which process, and where."""
        return f"process {self.pid} on {self.host.partition('[')[0]}"

    def new_id(self) -> str:
        """A worker id no other lease keeper ever had."""
        return f"{self.host}:{self.boot}:{self.pid}:{self.started}:{uuid.uuid4().hex}"

    def on_this_machine(self) -> bool:
        """True where the present process can tell whether that one lives."""
        return self.host == host() and self.boot == boot()

    def gone(self) -> bool:
        """True where it surely runs no longer: it was here, or this machine has started anew."""
        if self.host == host() and self.boot != boot() != "":
            return True
        return self.on_this_machine() and not same_process(self.pid, self.started)


async def end_children(
    children: Iterable[tuple[int, float]], *, grace_s: float, seconds: float
) -> list[int]:
    """See to it that these roots of tool processes end, with all they started.

    Args:
        children: (pid, start time) of each.
        grace_s: how long they may take to end by themselves before they are killed.
        seconds: how long the killed ones may take.

    Returns:
        The pids of those that still live then.
    """
    deadline = time.monotonic() + grace_s
    while left := [child for child in children if same_process(*child)]:
        if time.monotonic() >= deadline:
            break
        await asyncio.sleep(0.02)
    if not left:
        return []
    ended = [asyncio.to_thread(end_family, *child, seconds=seconds) for child in left]
    return [pid for some in await asyncio.gather(*ended) for pid in some]
