"""Lives of processes that are killed, the server they share, and the world outside of them."""

import json
import os
import random
import signal
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psycopg
from crash import outside

from benchmarks.chaos_worlds import TESTS
from surefoot.checkpointing.embedded import EmbeddedServer
from surefoot.graph.processes import children_of, process_started, processes_marked

PATIENCE_S = 180.0
"""A life that has not ended by then is stuck."""

LOOK_S = 0.002

Kind = Literal["calm", "place", "random", "tool", "server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """How a life is to end, or what is to die in it."""

    kind: Kind = "calm"
    point: str = ""
    count: int = 1
    """At the how many-th time that anything passes `point`."""
    facts: int = 0
    """Not before so much more is true outside."""
    pause_s: float = 0.0
    """And so much later."""


class Facts:
    """What is true outside, read as it grows."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self.all: list[dict[str, Any]] = []

    def refresh(self) -> int:
        """Read what is new; returns how much there is."""
        if self._file.exists():
            with self._file.open("rb") as file:
                file.seek(self._read)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read += len(whole)
            self.all += map(json.loads, whole.splitlines())
        return len(self.all)


@dataclass
class Ended:
    """What came of a life."""

    code: int
    killed: str = ""
    """What was killed: "" for nothing, else `worker`, `tool` or `server`."""
    restart_s: float | None = None
    """From its start to the first effect that it made."""
    said: str = ""


@dataclass
class Ground:
    """A home, a server and an outside for processes that die.

    Args:
        home: a folder that the server's user can traverse.
        environment: for all processes, beside our own.
    """

    home: Path
    draw: random.Random
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.server = EmbeddedServer(self.home)
        self._server_url = self.server.acquire()
        self.mark = f"{outside.MARK}={uuid.uuid4().hex}"
        self.world = self.home / "world"
        self.facts = Facts(self.world)
        self._lives = 0

    def database(self, name: str) -> str:
        """A new, empty database; its URL."""
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            connection.execute(f"create database {name}".encode())
        return self._server_url.replace("/postgres?", f"/{name}?")

    def close(self) -> None:
        """Stop the server."""
        self.server.release()

    def left(self) -> list[int]:
        """Processes of ours that still run, the server's apart."""
        return [pid for pid in processes_marked(self.mark) if not outside.is_postgres(pid)]

    def live(self, command: Sequence[str], url: str, death: Death) -> Ended:
        """Start a process, let happen what is to happen, and wait for its end.

        Raises:
            TimeoutError: it did not end; it is killed.
        """
        self._lives += 1
        fuses = self.home / f"life-{self._lives}"
        fuses.mkdir()
        before = self.facts.refresh()
        begun = time.time()
        with (fuses / "said").open("wb") as said:
            process = subprocess.Popen(
                command,
                env=self._environment(url, fuses, death),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        born = outside.started(process.pid) or "0"
        try:
            killed = self._happen(process, death, before)
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise TimeoutError((fuses / "said").read_text(errors="replace")[-2000:]) from None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.facts.refresh()
        # A tool of the life before may still have been at it.
        ours = (f for f in self.facts.all[before:] if int(f["started"]) >= int(born))
        first = next((fact["at"] for fact in ours if fact["fact"] == "do"), None)
        return Ended(
            code=code,
            killed="worker" if code == -signal.SIGKILL else killed,
            restart_s=None if first is None else first - begun,
            said=(fuses / "said").read_text(errors="replace")[-2000:],
        )

    def environment_of(self, url: str) -> dict[str, str]:
        """For a command that nothing happens to."""
        return self._environment(url, self.home, Death())

    def _environment(self, url: str, fuses: Path, death: Death) -> dict[str, str]:
        name, _, value = self.mark.partition("=")
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        paths = [str(TESTS), str(TESTS.parent), *filter(None, [kept.get("PYTHONPATH")])]
        return {
            **kept,
            **self.environment,
            "PYTHONPATH": os.pathsep.join(paths),
            "SUREFOOT_HOME": str(self.home),
            "SUREFOOT_DATABASE_URL": url,
            outside.WORLD: str(self.world),
            outside.POINT: death.point,
            outside.COUNT: str(death.count),
            outside.FUSES: str(fuses),
            name: value,
        }

    def _happen(self, process: "subprocess.Popen[bytes]", death: Death, before: int) -> str:
        """Kill what is to be killed, when it is time; returns what that was."""
        if death.kind in ("calm", "place"):
            return ""
        self._wait(
            lambda: process.poll() is not None or self.facts.refresh() >= before + death.facts
        )
        self._wait(lambda: process.poll() is not None, at_most_s=death.pause_s)
        if process.poll() is not None:
            return ""
        match death.kind:
            case "random":
                process.kill()
                return "worker"
            case "tool":
                return "tool" if self._kill_tool(process.pid) else ""
            case _:
                self._kill_server()
                return "server"

    def _kill_tool(self, worker: int) -> bool:
        """SIGKILL to one of the processes that tools run in, or to their root."""
        roots = [child for child in children_of(worker) if self._is_root(child)]
        tools = [tool for root in roots for tool in children_of(root)]
        family = [pid for pid in (*tools, *roots) if process_started(pid) is not None]
        if not family:
            return False
        try:
            os.kill(self.draw.choice(family), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def _is_root(self, pid: int) -> bool:
        try:
            return b"surefoot.tools.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    def _kill_server(self) -> None:
        """SIGKILL to the postmaster; then somebody starts it again."""
        pid = int((self.home / "pg/data/postmaster.pid").read_text().split("\n", 1)[0])
        os.kill(pid, signal.SIGKILL)
        self._wait(lambda: process_started(pid) is None)
        self.server.ensure_running()

    def _wait(self, condition: Callable[[], bool], *, at_most_s: float = PATIENCE_S) -> None:
        limit = time.monotonic() + at_most_s
        while not condition() and time.monotonic() < limit:
            time.sleep(LOOK_S)


@dataclass
class Tally:
    """What came of a storm."""

    kills: Counter[str] = field(default_factory=Counter[str])
    """By what was killed and where."""
    tasks: int = 0
    lives: int = 0
    lost: int = 0
    repeated: int = 0
    stuck: int = 0
    restarts_s: list[float] = field(default_factory=list[float])
    notes: list[str] = field(default_factory=list[str])
    """Of what was stuck: the last words."""
