"""Agents whose worker dies: the thread goes on, or the go is undone and a new one begins."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, Said, Seen, calls, finish
from scenes import Scene, lines, task, until

from surefoot.graph.settings import Settings

TOOLS = '''
import time
from pathlib import Path

from langchain_core.tools import tool

from surefoot.tools import effect


def say(file, word):
    with Path(file).open("a") as out:
        out.write(word + "\\n")


def unbook(args, result, context):
    say(args["file"], f"un{args['word']}")


@effect("reversible", compensate=unbook)
@tool
def book(file: str, word: str) -> str:
    """Book."""
    say(file, word)
    return word


@effect("idempotent")
@tool
def waits(file: str) -> str:
    """Wait, the first time."""
    first = "waits" not in Path(file).read_text().split()
    say(file, "waits")
    if first:
        time.sleep(600)
    return "waited"


TOOLS = [book, waits]
'''


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Any:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def answer_of(file: Path) -> Any:
    """Book twice, wait, finish: by how far the history has come."""

    def answer(seen: Seen) -> Said:
        replies = sum(message["role"] == "assistant" for message in seen.messages)
        if replies == 0:
            words = [("book", {"file": str(file), "word": word}) for word in ("one", "two")]
            return calls(words)
        return calls([("waits", {"file": str(file)})]) if replies == 1 else finish("done")

    return answer


@pytest.mark.parametrize(
    ("resumable", "strategy", "said"),
    [
        (True, "resume at the step", "one two waits waits"),
        (False, "rerun the subtask", "one two waits untwo unone one two waits"),
    ],
)
async def test_a_killed_agent_goes_on_or_is_undone_and_starts_from_scratch(
    settings: Settings,
    tmp_path: Path,
    models: ModelServer,
    resumable: bool,
    strategy: str,
    said: str,
) -> None:
    scene, world = Scene(settings, tmp_path / "files"), tmp_path / "world"
    models.always("agent", answer_of(world))
    agent = {
        "id": "a",
        "kind": "agent",
        "instructions": "Book.",
        "tools": ["book", "waits"],
        "resumable": resumable,
        "success": [{"type": "result", "equals": "done"}],
    }
    tools = [scene.write("agent_tools.py", TOOLS)]
    file = scene.file(task([agent], tools=tools, model="m"))
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: "waits" in lines(world) or process.poll() is not None)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
    done = scene.process("resume", "t", "--json")
    assert done.code == 0, done.out
    assert " ".join(lines(world)) == said
    history = scene.process("history", "t", "--json").document
    named = {entry["type"]: entry["strategy"] for entry in history if entry["subtask"] == "a"}
    assert named["AttemptCut"] == named["AttemptRecovered"] == strategy
    threads = scene.rows("select distinct thread_id from checkpoints where thread_id like 't/%%'")
    assert len(threads) == (1 if resumable else 2)
