"""Cut attempts at a milestone or a lost state: what they had written is put back all the same."""

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

@effect("idempotent")
@tool
def note(path: str, context: ToolContext, until: str = "") -> str:
    """Add a line to a file, and wait; only what puts the file back first may do it again."""
    with (context.workspace / path).open("a") as lines:
        lines.write("line\\n")
    while until and not Path(until).exists():
        time.sleep(0.02)
    return "good"

@effect("read")
@tool
def look() -> str:
    """Nothing."""
    return "seen"

TOOLS = [note, look]
'''


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    made = Scene(settings, tmp_path / "files")
    made.write("tools.py", TOOLS)
    return made


def waiting(scene: Scene) -> Any:
    args = {"path": "x.txt", "until": str(scene.folder / "open")}
    return subtask("slow", "note", args, writes=["x.txt"])


def plan(scene: Scene, *, inside: bool) -> dict[str, Any]:
    """A milestone after something quick, while something slow has begun, perhaps in a group."""
    slow = waiting(scene)
    if inside:
        slow = {"id": "g", "kind": "group", "plan": {"subtasks": [slow]}}
    subtasks = [subtask("quick", "look", phase="one"), {**slow, "phase": "two"}]
    given = task(subtasks, tools=["./tools.py"])
    given["plan"]["phases"] = [{"id": "one"}, {"id": "two"}]
    given["plan"]["milestones"] = [{"id": "m", "after": "one", "checks": []}]
    return given


@pytest.mark.parametrize("inside", [False, True], ids=["itself", "in a group"])
@pytest.mark.parametrize("swept", [False, True], ids=["", "swept"])
async def test_what_a_cut_attempt_had_written_is_put_back_with_a_rollback_to_then(
    scene: Scene, inside: bool, swept: bool
) -> None:
    file = scene.settings.home / "workspaces/t1/x.txt"
    with scene.started("run", scene.file(plan(scene, inside=inside)), "--id", "t1") as process:
        await until(lambda: file.exists() and file.read_text())
        await until(lambda: _is(scene, "quick", "completed"))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    scene.write("open", "")
    assert scene.process("resume", "t1").code == 0
    assert file.read_text() == "line\n"
    if swept:
        done = scene.process("gc", "--keep-finished", "--older-than", "0", "--json")
        assert done.code == 0, done.err
    assert scene.process("rollback", "t1", "m").code == 0
    assert not file.exists()
    assert scene.process("resume", "t1").code == 0
    assert file.read_text() == "line\n"


async def test_what_a_paused_attempt_had_written_is_put_back_though_the_state_is_lost(
    scene: Scene,
) -> None:
    file = scene.settings.home / "workspaces/t1/x.txt"
    given = task([waiting(scene)], tools=["./tools.py"])
    with scene.started("run", scene.file(given), "--id", "t1") as process:
        await until(lambda: file.exists() and file.read_text())
        await until(lambda: _is(scene, "slow", "running"))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert scene.process("pause", "t1").code == 0
    scene.rows("delete from checkpoint_writes")
    scene.rows("delete from checkpoints")
    scene.write("open", "")
    assert scene.process("resume", "t1").code == 0
    assert file.read_text() == "line\n"


def _is(scene: Scene, id: str, state: str) -> bool:
    rows = scene.rows("select state from surefoot.subtasks where id = %s", id)
    return bool(rows) and rows[0]["state"] == state
