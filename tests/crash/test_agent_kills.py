"""Agents whose worker is killed again and again: effects once, replies paid once, one history."""

import os
import random
import signal
import threading
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

from surefoot.tools import ToolContext, effect


def sent(args, context):
    file = Path(args["file"])
    return "sent" if file.exists() and args["word"] in file.read_text().split() else None


@effect("irreversible", probe=sent)
@tool
def send(file: str, word: str, context: ToolContext) -> str:
    """Send a word, once."""
    time.sleep(0.03)
    with Path(file).open("a") as out:
        out.write(word + "\\n")
    time.sleep(0.03)
    return "sent"


TOOLS = [send]
'''
AGENTS, ROUNDS = 4, 6


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Any:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def answer_of(file: Path, asked: list[tuple[str, int]]) -> Any:
    """Two sends a reply, until there were enough; each request is noted."""

    def answer(seen: Seen) -> Said:
        id = next(f"a{n}" for n in range(AGENTS) if seen.says(f"[a{n}]"))
        replies = sum(message["role"] == "assistant" for message in seen.messages)
        answers = sum(message["role"] == "tool" for message in seen.messages)
        assert answers == 2 * replies, "a call without its answer"
        asked.append((id, replies))
        if replies == ROUNDS:
            return finish("done")
        words = [f"{id}-{replies}-{half}" for half in "xy"]
        return calls([("send", {"file": str(file), "word": word}) for word in words])

    return answer


async def test_effects_happen_once_and_saved_replies_are_never_paid_again(
    settings: Settings, tmp_path: Path, models: ModelServer
) -> None:
    scene, world = Scene(settings, tmp_path / "files"), tmp_path / "world"
    asked: list[tuple[str, int]] = []
    models.always("agent", answer_of(world, asked))
    tools = scene.write("send_tools.py", TOOLS)
    agents = [
        {
            "id": f"a{n}",
            "kind": "agent",
            "instructions": f"Send, as [a{n}].",
            "tools": ["send"],
            "success": [{"type": "result", "equals": "done"}],
        }
        for n in range(AGENTS)
    ]
    file = scene.file(task(agents, tools=[tools], model="m", concurrency=AGENTS))
    draw = random.Random(3)
    command: tuple[Any, ...] = ("run", file, "--id", "t")
    for _ in range(5):
        goal = len(lines(world)) + draw.randint(1, 8)
        with scene.started(*command) as process:
            await until(lambda: len(lines(world)) >= goal or process.poll() is not None)  # noqa: B023
            os.kill(process.pid, signal.SIGKILL)
            process.wait(30)
        command = ("resume", "t")
    done = scene.process("resume", "t", "--json")
    assert done.code == 0, done.out
    expected = {f"a{n}-{r}-{half}" for n in range(AGENTS) for r in range(ROUNDS) for half in "xy"}
    assert sorted(lines(world)) == sorted(expected)
    assert set(asked) == {(f"a{n}", r) for n in range(AGENTS) for r in range(ROUNDS + 1)}
    # What was in flight at a kill may have been asked once more, for each agent.
    assert len(asked) - len(set(asked)) <= 5 * AGENTS
    histories = scene.rows(
        "select thread_id from checkpoints where thread_id like 't/%%' group by thread_id"
    )
    assert {row["thread_id"] for row in histories} == {f"t/a{n}/1" for n in range(AGENTS)}


@pytest.mark.parametrize("votes", [None, {"ahead_by": 1, "max_samples": 3}], ids=["one", "votes"])
async def test_a_kill_in_the_very_first_model_call_has_lost_nothing_and_says_so(
    settings: Settings, tmp_path: Path, models: ModelServer, votes: Any
) -> None:
    scene = Scene(settings, tmp_path / "files")
    asked: list[Seen] = []
    killed = threading.Event()

    def answer(seen: Seen) -> Said:
        asked.append(seen)
        killed.wait(60)
        return finish("done")

    models.always("agent", answer)
    agent: dict[str, Any] = {
        "id": "a",
        "kind": "agent",
        "instructions": "Say done.",
        "success": [{"type": "result", "equals": "done"}],
        **({"votes": votes} if votes else {}),
    }
    file = scene.file(task([agent], model="m"))
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: asked)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
    killed.set()
    done = scene.process("resume", "t", "--json")
    assert done.code == 0, done.out
    told = {event["type"] for event in scene.process("events", "t", "--json").document}
    assert "AttemptRecovered" in told and "AgentThreadLost" not in told
