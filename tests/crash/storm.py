"""Lives of a worker process, one after the other, and the world they leave behind."""

import asyncio
import atexit
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conftest import Sql
from crash import outside

HERE = Path(__file__).parent
PATIENCE_S = 120.0


class Storm:
    """Tasks that are run by processes which die; at first task `a1`.

    Args:
        home: a folder of the test's own.
        url: the database, None = an embedded one under `home`.
        task: the task file that every task runs.
        seed: of everything random here.
    """

    def __init__(
        self,
        home: Path,
        url: str | None,
        task: Mapping[str, Any],
        *,
        seed: int = 0,
    ) -> None:
        self.home = home
        self.ids: list[str] = []
        self.seed = seed
        self.draw = random.Random(seed)
        self.kills = 0
        self.world = home / "world"
        self.mark = f"{outside.MARK}={uuid.uuid4().hex}"
        self._lives = self._tasks = 0
        self._task = task
        self._environment = {
            "SUREFOOT_HOME": str(home),
            "SUREFOOT_DATABASE_URL": url or "",
            outside.WORLD: str(self.world),
            outside.MARK: self.mark.partition("=")[2],
        }
        self.add()

    def add(self) -> None:
        """One more task of the same file."""
        self._tasks += 1
        self.ids.append(f"a{self._tasks}")
        (self.home / f"{self.ids[-1]}.json").write_text(json.dumps(self._task))

    def kill(self, lives: int, die: Callable[[], bool]) -> None:
        """Let so many lives be killed, with a new task whenever all have ended; then run on."""
        while self.kills < lives:
            killed = die()
            self.kills += killed
            if not killed:
                self.add()
            assert len(self.ids) < 10, f"only {self.kills} kills (seed {self.seed})"
        self.finish()

    @contextmanager
    def life(self, point: str = "", count: int = 1) -> Generator["Life"]:
        """A worker process that runs all tasks; it is gone afterwards.

        Args:
            point: where it dies by itself ("" = nowhere).
            count: at the how many-th time that anything passes there.
        """
        self._lives += 1
        fuses = self.home / f"life-{self._lives}"
        fuses.mkdir()
        order = {
            "folder": str(self.home),
            "ids": self.ids,
            "output": str(fuses / "output"),
            "environment": {
                **self._environment,
                outside.POINT: point,
                outside.COUNT: str(count),
                outside.FUSES: str(fuses),
            },
        }
        life = Life(a_nest(), order, self.world)
        try:
            yield life
        finally:
            life.end()

    def die_at(self, point: str, count: int) -> bool:
        """One life that ends at a place; False where it came to its own end before."""
        with self.life(point, count) as life:
            assert life.wait_for_end(), life.said()
            killed = life.was_killed()
            assert killed or life.code == 0, f"seed {self.seed}: {life.said()}"
        return killed

    def die_at_random(self) -> bool:
        """One life that is killed at any moment from its fork to its end."""
        more, pause_s = self.draw.randint(0, 12), self.draw.uniform(0, 0.05)
        with self.life() as life:
            life.wait_for_facts(more)
            life.wait_for_end(pause_s)  # the moment itself is what is drawn
            life.end()
            killed = life.was_killed()
            assert killed or life.code == 0, f"seed {self.seed}: {life.said()}"
        return killed

    def finish(self) -> None:
        """The life that comes to its end."""
        with self.life() as life:
            assert life.wait_for_end(), life.said()
            assert life.code == 0, life.said()

    def facts(self, task: str | None = None) -> list[dict[str, Any]]:
        """What is true outside (of a task)."""
        found = outside.facts(self.world)
        return [f for f in found if task is None or f["effect"].startswith(f"{task}/")]

    def effects(self, task: str) -> Mapping[str, Mapping[str, int]]:
        """By `kind/id`: how often each sort of fact came about."""
        counted: dict[str, Counter[str]] = {}
        for fact in self.facts(task):
            name = fact["effect"].removeprefix(f"{task}/")
            counted.setdefault(name, Counter())[fact["fact"]] += 1
        return counted

    def living(self, *, servers: bool = False) -> list[int]:
        """Processes of this storm that still run: by what they carry, and by what they recorded.

        Args:
            servers: an embedded PostgreSQL too, which may outlive the worker that started it.
        """
        recorded = {(f["pid"], f["started"]) for f in self.facts()}
        known = {pid for pid, started in recorded if outside.started(pid) == started}
        found = known | set(marked(self.mark))
        return sorted(pid for pid in found if servers or not outside.is_postgres(pid))


class Nest:
    """A process that has imported everything and forks workers (`worker.py`), one at a time."""

    def __init__(self) -> None:
        cache = tempfile.TemporaryDirectory(prefix="surefoot-crash-")
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        paths = [str(HERE.parent), *filter(None, [kept.get("PYTHONPATH")])]
        kept = {"PYTHONPYCACHEPREFIX": cache.name, **kept, "PYTHONPATH": os.pathsep.join(paths)}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py")],
            env=kept,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.orders, self.answers = self.process.stdin, self.process.stdout
        self._cache = cache
        self.busy = False

    def answer(self, within_s: float) -> int | None:
        """The next number it says, None when it says none in time."""
        if not select.select([self.answers], [], [], within_s)[0]:
            return None
        # Unbuffered: what is read ahead would be invisible to select.
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(self.answers.fileno(), 1)
        return int(line)

    def close(self) -> None:
        self.orders.close()
        self.process.wait()
        self.answers.close()
        self._cache.cleanup()


NESTS: list[Nest] = []


def a_nest() -> Nest:
    """One that is free; they live as long as the tests."""
    free = next((nest for nest in NESTS if not nest.busy), None)
    if free is None:
        free = Nest()
        NESTS.append(free)
        atexit.register(free.close)
    return free


class Life:
    """One worker process, from its fork to its end."""

    def __init__(self, nest: Nest, order: Mapping[str, Any], world: Path) -> None:
        self._nest = nest
        self._output = Path(order["output"])
        self._world = world
        self._before = len(outside.facts(world))
        nest.busy = True
        nest.orders.write(json.dumps(order).encode() + b"\n")
        nest.orders.flush()
        pid = nest.answer(PATIENCE_S)
        assert pid is not None
        self.pid = pid
        self._code: int | None = None

    @property
    def code(self) -> int | None:
        """Its exit status, None while it lives."""
        self.wait_for_end(0)
        return self._code

    def was_killed(self) -> bool:
        return self.code == -signal.SIGKILL

    def said(self) -> str:
        return self._output.read_text(errors="replace")[-4000:]

    def wait_for_end(self, within_s: float = PATIENCE_S) -> bool:
        """Whether it has ended by then."""
        if self._code is None:
            self._code = self._nest.answer(within_s)
            self._nest.busy = self._code is None
        return self._code is not None

    def end(self) -> None:
        """Kill it if it still lives."""
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            assert self.wait_for_end(), "it does not end"

    def wait_for_facts(self, more: int) -> None:
        """Until so much more is true outside, or the process has ended."""
        wanted = self._before + more
        wait_until(lambda: self.code is not None or len(outside.facts(self._world)) >= wanted)


def wait_until(condition: Callable[[], bool], *, timeout_s: float = PATIENCE_S) -> None:
    limit = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.002)


def marked(mark: str) -> list[int]:
    """Living processes that have `mark` in their environment."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            carries = mark.encode() in (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if carries and outside.started(int(folder.name)) is not None:
            found.append(int(folder.name))
    return found


def saved_state(url: str, task: str) -> dict[str, Any]:
    """The channels of a task's last checkpoint, as the stock saver reads them."""
    return asyncio.run(_saved_state(url, task))


async def _saved_state(url: str, task: str) -> dict[str, Any]:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    from surefoot.graph.build import build_task_graph

    async with AsyncPostgresSaver.from_conn_string(url) as saver:
        graph: Any = build_task_graph().compile(checkpointer=saver)
        state = await graph.aget_state({"configurable": {"thread_id": task}})
    return state.values


def status_of(sql: Sql, task: str) -> str:
    return sql.value("select status from surefoot.tasks where id = %s", task)
