"""A cancelled task keeps what is done; of what was under way nothing is left."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from scenes import Scene, subtask, task, until

from surefoot.graph.settings import Settings

TOOLS = '''
import time
from pathlib import Path
from langchain_core.tools import tool
from surefoot.tools import ToolContext, effect

def _note(file, line):
    with open(file, "a") as lines:
        lines.write(line + "\\n")

def _give_back(args, result, context):
    _note(args["file"], f"back {args['word']}")

@effect("reversible", compensate=_give_back)
@tool
def take(file: str, word: str, forever: bool = False) -> str:
    """Take something, and go on for ever."""
    _note(file, f"take {word}")
    while forever:
        time.sleep(1)
    return word

@effect("idempotent")
@tool
def write(file: str, word: str, context: ToolContext) -> str:
    """Write half of a file, and go on for ever."""
    (context.workspace / "out").mkdir(exist_ok=True)
    (context.workspace / "out" / word).write_text("half")
    _note(file, f"write {word}")
    while True:
        time.sleep(1)

@effect("idempotent")
@tool
def clear(file: str, word: str) -> str:
    """Clear up."""
    _note(file, f"clear {word}")
    return word

TOOLS = [take, write, clear]
'''
LEFT = ["back child", "back held", "back inner", "clear w"]


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def told(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def given(scene: Scene, log: Path) -> Path:
    """One that is done; beside it a call, a child, a call in a group and a file under way."""
    tools = scene.write("tools.py", TOOLS)

    def act(id: str, tool: str, *needs: str, **args: Any) -> Any:
        return subtask(id, tool, {"file": str(log), "word": id, **args}, depends_on=list(needs))

    each = act("child", "take", forever=True)
    del each["id"], each["depends_on"]
    inner = act("inner", "take", forever=True)
    held = act("held", "take", "done", forever=True)
    undo = {"tool": "clear", "args": {"file": str(log), "word": "w"}}
    plan = [
        act("done", "take"),
        held,
        {"id": "f", "kind": "foreach", "for_each": [1], "each": each, "depends_on": ["done"]},
        {"id": "g", "kind": "group", "plan": {"subtasks": [inner]}, "depends_on": ["done"]},
        {**act("w", "write", "done"), "writes": ["out/**"], "undo": undo},
    ]
    return scene.file(task(plan, tools=[tools], concurrency=8))


def begun(log: Path) -> bool:
    return {"take held", "take child", "take inner", "write w"} <= {*told(log)}


@pytest.mark.parametrize("killed", [False, True], ids=["running", "after a kill"])
async def test_what_was_under_way_is_taken_back_and_what_is_done_stays(
    scene: Scene, log: Path, tmp_path: Path, killed: bool
) -> None:
    workspace = tmp_path / "work"
    with scene.started("run", given(scene, log), "--id", "t", "--workspace", workspace) as process:
        await until(lambda: begun(log) or process.poll() is not None)
        if killed:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(30)
        status = await asyncio.to_thread(scene.process, "cancel", "t", "--json")
        assert (status.code, status.document["status"]) == (0, "cancelled")
        assert process.wait(30) == (-9 if killed else 4)
    assert sorted(told(log))[: len(LEFT)] == LEFT
    assert "back done" not in told(log)
    assert not (workspace / "out").exists()
    rows = scene.rows("select subtask, state from surefoot.effects where effect = 'reversible'")
    states = {row["subtask"]: row["state"] for row in rows}
    assert states["done"] == "done"
    assert states["held"] == states["f/0"] == states["g/inner"] == "compensated"
    (ended,) = scene.rows("select facts from surefoot.events where type = 'TaskCancelled'")
    assert ended["facts"]["by"] == "person"


async def test_what_cannot_be_taken_back_is_told_and_nobody_is_asked(
    scene: Scene, log: Path
) -> None:
    file = given(scene, log)
    broken = TOOLS.replace('_note(args["file"], f"back', 'raise OSError("shut")  # ')
    scene.write("tools.py", broken)
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: begun(log) or process.poll() is not None)
        status = await asyncio.to_thread(scene.process, "cancel", "t", "--json")
        assert (status.code, status.document["status"]) == (0, "cancelled")
        assert status.document["questions"] == []
        assert process.wait(30) == 4
    (row,) = scene.rows("select facts from surefoot.events where type = 'NotTakenBack'")
    assert "shut" in row["facts"]["reason"]


@pytest.mark.parametrize("killed", [False, True], ids=["running", "after a kill"])
async def test_of_a_group_that_is_skipped_nothing_is_left_unfinished(
    scene: Scene, log: Path, killed: bool
) -> None:
    with scene.started("run", given(scene, log), "--id", "t") as process:
        await until(lambda: begun(log) or process.poll() is not None)
        if killed:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(30)
        skipped = await asyncio.to_thread(scene.process, "skip", "t", "g", "--json")
        assert skipped.code == 0
        assert [line for line in told(log) if line.startswith("back")] == ["back inner"]
    rows = scene.rows("select subtask, state from surefoot.effects where effect = 'reversible'")
    assert {row["subtask"]: row["state"] for row in rows}["g/inner"] == "compensated"
