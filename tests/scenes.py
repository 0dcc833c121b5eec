"""The stage of the bug scenarios: a folder for task files, the command, the client, the tables."""

import asyncio
import io
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import (
    asynccontextmanager,
    chdir,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any
from unittest import mock

import psycopg
from psycopg.rows import dict_row

from surefoot.graph.settings import Settings
from surefoot.service.cli import main
from surefoot.service.client import Status, Surefoot

SUREFOOT = Path(sys.executable).with_name("surefoot")
SCENE_TOOLS = Path(__file__).parent / "tool_modules" / "scene_tools.py"
PATIENCE_S = 150.0


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout; anything beside it is an error here."""
        return json.loads(self.out)

    @property
    def code_and_error(self) -> tuple[int, str]:
        """The exit code and the error's name, in JSON mode."""
        return self.code, self.error["code"]

    @property
    def error(self) -> dict[str, str]:
        """What is wrong, in JSON mode."""
        return self.document["error"]


class Scene:
    """One home, one database, one folder with task files."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def environment(self, **changed: str) -> dict[str, str]:
        """The environment in which a process sees this scene."""
        assert self.settings.database_url is not None
        here = {
            "SUREFOOT_HOME": str(self.settings.home),
            "SUREFOOT_DATABASE_URL": self.settings.database_url,
            "SUREFOOT_ARTIFACTS_URL": self.settings.artifacts_url,
        }
        return {**os.environ, **here, **changed}

    def command(self, *words: str | Path, **environment: str) -> Done:
        """Carry out a command of `surefoot` here, as the process would: for tests without a loop.

        What a process alone shows (signals, exit, left children) needs `process` or `started`.
        """
        out, err = io.StringIO(), io.StringIO()
        code: Any = 0
        patched = mock.patch.dict(os.environ, self.environment(**environment))
        with patched, redirect_stdout(out), redirect_stderr(err), chdir(self.folder):
            try:
                main([str(word) for word in words])
            except SystemExit as left:
                code = left.code
        return Done(int(code), out.getvalue(), err.getvalue())

    def process(self, *words: str | Path, **environment: str) -> Done:
        """Run `surefoot` as a process to its end."""
        done = subprocess.run(
            [SUREFOOT, *words],
            env=self.environment(**environment),
            cwd=self.folder,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    @contextmanager
    def started(self, *words: str | Path) -> Generator[subprocess.Popen[bytes]]:
        """A command that is running, and is gone afterwards whatever happens."""
        process = subprocess.Popen(
            [SUREFOOT, *words],
            env=self.environment(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def python(self, text: str, *options: str) -> Done:
        """Run a Python program that sees this scene."""
        file = self.write("program.py", text)
        done = subprocess.run(
            [sys.executable, *options, file],
            env=self.environment(),
            cwd=self.folder,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def write(self, name: str, content: str | bytes) -> Path:
        """Put a file beside the task files."""
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def file(self, task: Mapping[str, Any], name: str = "task.json") -> Path:
        """Put a task file."""
        return self.write(name, json.dumps(task))

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Surefoot]:
        async with Surefoot(self.settings) as surefoot:
            yield surefoot

    async def run(self, task: Mapping[str, Any], id: str, **more: Any) -> Status:
        """Run a task in this process."""
        async with self.client() as surefoot:
            return await surefoot.run(task, id=id, **more)

    def rows(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        """Look into the tables, apart from the code under test."""
        assert self.settings.database_url is not None
        with psycopg.connect(self.settings.database_url, autocommit=True) as connection:
            cursor = connection.cursor(row_factory=dict_row).execute(query.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def tasks(self) -> list[str]:
        """The ids of all tasks."""
        return [row["id"] for row in self.rows("select id from surefoot.tasks order by id")]


def subtask(id: str, tool: str, args: Mapping[str, Any] | None = None, **more: Any) -> Any:
    """A `tool` subtask that is verified by having a result."""
    given = {"id": id, "kind": "tool", "tool": tool, "args": dict(args or {})}
    return {**given, "success": [{"type": "result"}], **more}


def task(
    subtasks: Sequence[Any], *, tools: Sequence[str | Path] = (SCENE_TOOLS,), **more: Any
) -> dict[str, Any]:
    """A task file with these subtasks."""
    plan = {"subtasks": list(subtasks)}
    goal = {"objective": "see what comes", **more.pop("goal", {})}
    listed = [str(tool) for tool in tools]
    return {"name": "scene", "goal": goal, "tools": listed, "plan": plan, **more}


async def until(condition: Callable[[], Any], *, seconds: float = PATIENCE_S) -> Any:
    """Wait for something to become true, and return it."""
    deadline = monotonic() + seconds
    while not (found := condition()):
        assert monotonic() < deadline, "it never came"
        await asyncio.sleep(0.02)
    return found


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie runs nothing)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def lines(path: Path) -> list[str]:
    """The lines of a file that tools append to; none while there is no file."""
    return path.read_text().split() if path.exists() else []
