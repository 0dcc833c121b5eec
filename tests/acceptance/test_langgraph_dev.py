"""`langgraph dev` serves the graph of langgraph.json: tasks run through its HTTP API to their end.

Its server refuses calls that block its loop, so this also shows that ours does not.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, call_tool, finish
from scenes import Scene, lines, subtask, task, until

from surefoot.graph.settings import Settings

LANGGRAPH = Path(sys.executable).with_name("langgraph")
CONFIG = Path(__file__).parents[2] / "langgraph.json"


class DevServer:
    """A running `langgraph dev`."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def call(self, method: str, path: str, body: Any = None, *, patience_s: float = 60.0) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=patience_s) as answer:
            return json.loads(answer.read())

    def is_up(self) -> bool:
        try:
            return self.call("GET", "/ok", patience_s=2)["ok"]
        except OSError:
            return False

    def run(self, spec: Any) -> tuple[str, Any]:
        """Run a task in a thread of its own; (the thread, what came of it)."""
        thread = self.call("POST", "/threads", {})["thread_id"]
        asked = {"assistant_id": "surefoot", "input": {"task": spec}}
        return thread, self.call("POST", f"/threads/{thread}/runs/wait", asked)


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def models() -> Generator[ModelServer]:
    with ModelServer() as server:
        yield server


def started(scene: Scene, models: ModelServer, port: int) -> "subprocess.Popen[bytes]":
    words = ["dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", str(port)]
    return subprocess.Popen(
        [LANGGRAPH, *words, "--config", CONFIG],
        env=scene.environment(LANGSMITH_TRACING="false", **models.environment()),
        cwd=scene.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.fixture
async def dev(scene: Scene, models: ModelServer) -> Any:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process, server = started(scene, models, port), DevServer(port)
    try:
        await until(lambda: server.is_up() or process.poll() is not None)
        yield server
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def mixed(marks: Path) -> Any:
    """A list, marks for its items, an agent, and a group with an artifact in it."""
    each = subtask("x", "mark", {"file": str(marks), "word": "${item}"})
    del each["id"]
    put = {"name": "note.txt", "text": "${inputs.said}"}
    inner = subtask("note", "write_artifact", put, outputs=["note.txt"])
    return task(
        [
            subtask("items", "echo", {"value": ["a", "b"]}),
            {
                "id": "each",
                "kind": "foreach",
                "for_each": "${items}",
                "each": each,
                "depends_on": ["items"],
            },
            {
                "id": "says",
                "kind": "agent",
                "instructions": "Say it.",
                "tools": ["echo"],
                "success": [{"type": "result"}],
            },
            {
                "id": "g",
                "kind": "group",
                "plan": {"subtasks": [inner]},
                "inputs": {"said": "${says}"},
                "depends_on": ["says", "each"],
            },
        ],
        model="m",
    )


async def test_tasks_with_everything_in_them_run_under_langgraph_dev(
    dev: DevServer, scene: Scene, models: ModelServer, tmp_path: Path
) -> None:
    _, small = dev.run(task([subtask("a", "echo", {"value": 1})]))
    assert small["status"] == "completed"
    models.on("agent", call_tool("echo", {"value": "hello"}), finish("hello"))
    thread, state = dev.run(mixed(tmp_path / "marks"))
    assert state["status"] == "completed"
    assert sorted(lines(tmp_path / "marks")) == ["a", "b"]
    (run,) = dev.call("GET", f"/threads/{thread}/runs")
    assert run["status"] == "success"
    async with scene.client() as surefoot:
        status = await surefoot.status(thread)
        assert status.completed and status["subtasks"]["completed"] == 5
        assert await surefoot.result(thread, "says") == "hello"
    (row,) = scene.rows("select acquired_by from surefoot.tasks where id = %s", thread)
    assert row["acquired_by"] is None
