"""Who cancels, skips, plans anew or goes back leaves nothing of what was under way."""

import asyncio
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from crash.commands import started as short_lived
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
def take(file: str, word: str, forever: bool = False, until: str = "") -> str:
    """Take something, and go on for ever (once a file is there)."""
    _note(file, f"take {word}")
    while forever or (until and Path(until).exists()):
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


def waiting_plan(scene: Scene, log: Path, slow: Path) -> Any:
    """A call without end in a group, whose compensation begins and waits while a file is there."""
    begins = """_note(args["file"], f"begins {args['word']}")
    while Path(SLOW).exists():
        time.sleep(0.1)
    """.replace("SLOW", repr(str(slow)))
    waits = TOOLS.replace('_note(args["file"], f"back', f'{begins}_note(args["file"], f"back')
    args = {"file": str(log), "word": "inner", "forever": True}
    group = {"id": "g", "kind": "group", "plan": {"subtasks": [subtask("inner", "take", args)]}}
    return task([group], tools=[scene.write("tools.py", waits)])


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
        assert (status.document["subtasks"]["running"], status.document["current"]) == (0, [])
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


async def test_of_a_worker_that_stands_still_nothing_is_left_by_a_cancel(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "work"
    words = ("run", given(scene, log), "--id", "t", "--workspace", workspace)
    with short_lived(scene, *words) as run:
        await until(lambda: begun(log) or run.code is not None)
        os.kill(run.pid, signal.SIGSTOP)
        status = await asyncio.to_thread(scene.process, "cancel", "t", "--json")
        assert (status.code, status.document["status"]) == (0, "cancelled"), status.err
        os.kill(run.pid, signal.SIGCONT)
        await asyncio.to_thread(run.process.wait, 60)
    assert sorted(told(log))[: len(LEFT)] == LEFT
    assert not (workspace / "out").exists()


async def test_a_task_that_cannot_be_opened_is_cancelled_and_says_that_nothing_was_taken_back(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "work"
    with scene.started("run", given(scene, log), "--id", "t", "--workspace", workspace) as process:
        await until(lambda: begun(log) or process.poll() is not None)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
    shutil.rmtree(workspace)
    workspace.write_text("a file now")
    status = await asyncio.to_thread(scene.process, "cancel", "t", "--json")
    assert (status.code, status.document["status"]) == (0, "cancelled"), status.err
    (row,) = scene.rows("select facts from surefoot.events where type = 'NotTakenBack'")
    assert "workspace" in row["facts"]["reason"]


async def test_a_worker_that_is_killed_while_it_cancels_leaves_the_rest_to_the_cancel(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    slow = tmp_path / "slow"
    slow.touch()
    file = scene.file(waiting_plan(scene, log, slow))
    with short_lived(scene, "run", file, "--id", "t") as run:
        await until(lambda: told(log) or run.code is not None)
        with scene.started("cancel", "t") as cancel:
            await until(lambda: "begins inner" in told(log) or cancel.poll() is not None)
            os.kill(run.pid, signal.SIGKILL)
            run.process.wait(30)
            slow.unlink()
            assert await asyncio.to_thread(cancel.wait, 60) == 0
    assert told(log)[-1] == "back inner"
    (effect,) = scene.rows("select state from surefoot.effects")
    assert effect["state"] == "compensated"


async def test_what_cannot_be_taken_back_is_told_and_nobody_is_asked(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    file, workspace = given(scene, log), tmp_path / "work"
    broken = TOOLS.replace('_note(args["file"], f"back', 'raise OSError("shut")  # ')
    scene.write("tools.py", broken)
    with scene.started("run", file, "--id", "t", "--workspace", workspace) as process:
        await until(lambda: begun(log) or process.poll() is not None)
        status = await asyncio.to_thread(scene.process, "cancel", "t", "--json")
        assert (status.code, status.document["status"]) == (0, "cancelled")
        assert status.document["questions"] == []
        assert process.wait(30) == 4
    (row,) = scene.rows("select facts from surefoot.events where type = 'NotTakenBack'")
    assert "shut" in row["facts"]["reason"]
    assert "clear w" in told(log), "what is in the way of one is not in the way of others"
    assert not (workspace / "out").exists()


@pytest.mark.parametrize("inside", [False, True], ids=["flat", "in a group"])
async def test_what_takes_longer_than_a_cancel_waits_is_cut_and_told(
    scene: Scene, log: Path, monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    monkeypatch.setattr("surefoot.nodes.undoing.CANCELLED_WITHIN_S", 1.0)
    endless = TOOLS.replace("_note(args", "time.sleep(600)  # ")
    args = {"file": str(log), "word": "x", "forever": True}
    plan = [subtask("x", "take", args)]
    if inside:
        plan = [{"id": "g", "kind": "group", "plan": {"subtasks": plan}}]
    file = scene.file(task(plan, tools=[scene.write("tools.py", endless)]))
    async with scene.client() as holder, scene.client() as other:
        running = asyncio.create_task(holder.run(file, id="t"))
        await until(lambda: told(log))
        assert (await other.cancel("t"))["status"] == "cancelled"
        await running
    (row,) = scene.rows("select facts from surefoot.events where type = 'NotTakenBack'")
    assert row["facts"]["reason"] == "it took too long"
    (effect,) = scene.rows("select state from surefoot.effects")
    assert effect["state"] == "intent"


async def test_a_skip_whose_worker_is_stopped_at_once_skips_nothing_halfway(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    slow = tmp_path / "slow"
    slow.touch()
    file = scene.file(waiting_plan(scene, log, slow))
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: told(log) or process.poll() is not None)
        with scene.started("skip", "t", "g") as skip:
            await until(lambda: "begins inner" in told(log) or skip.poll() is not None)
            process.send_signal(signal.SIGTERM)
            await until(lambda: scene.rows("select 1 from surefoot.tasks where stopping"))
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 60) == 3
            slow.unlink()
            assert await asyncio.to_thread(skip.wait, 60) == 0
    assert (await asyncio.to_thread(scene.process, "resume", "t")).code == 0
    assert [line for line in told(log) if line.startswith("back")] == ["back inner"]
    (effect,) = scene.rows("select state from surefoot.effects")
    assert effect["state"] == "compensated"


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


@pytest.mark.parametrize("command", [("cancel",), ("skip", "g")], ids=lambda words: words[0])
async def test_a_group_that_began_anew_after_a_rollback_leaves_nothing_either(
    scene: Scene, log: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    held_up = tmp_path / "held up"
    args = {"file": str(log), "word": "inner", "until": str(held_up)}
    group = {"id": "g", "kind": "group", "plan": {"subtasks": [subtask("inner", "take", args)]}}
    file = scene.file(task([group], tools=[scene.write("tools.py", TOOLS)]))
    assert (await asyncio.to_thread(scene.process, "run", file, "--id", "t")).code == 0
    assert (await asyncio.to_thread(scene.process, "rollback", "t", "start")).code == 0
    assert told(log) == ["take inner", "back inner"]
    held_up.touch()
    with scene.started("resume", "t") as process:
        await until(lambda: told(log)[2:] == ["take inner"] or process.poll() is not None)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
    name, *words = command
    assert (await asyncio.to_thread(scene.process, name, "t", *words)).code == 0
    assert told(log)[3:] == ["back inner"]
    rows = scene.rows("select state from surefoot.effects")
    assert {row["state"] for row in rows} == {"compensated"}


@pytest.mark.parametrize("killed", [False, True], ids=["running", "after a kill"])
async def test_a_last_full_try_is_taken_back_and_the_simpler_version_stands(
    scene: Scene, log: Path, tmp_path: Path, killed: bool
) -> None:
    tools = scene.write("tools.py", TOOLS)

    def take(word: str, **args: Any) -> Any:
        return {"kind": "tool", "tool": "take", "args": {"file": str(log), "word": word, **args}}

    opened = tmp_path / "opened"
    check = {"type": "command", "run": f"test -f {opened}"}
    rung = {**take("simple"), "success": [{"type": "result"}], "improve_later": True}
    full = {"id": "a", **take("full", until=str(opened)), "success": [check]}
    full |= {"retries": {"max_attempts": 1}, "on_failure": [rung]}
    opens = subtask("b", "clear", {"file": str(opened), "word": "b"}, depends_on=["a"])
    file = scene.file(task([full, opens], tools=[tools]))
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: told(log).count("take full") == 2 or process.poll() is not None)
        if killed:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(30)
        assert (await asyncio.to_thread(scene.process, "cancel", "t")).code == 0
    lines = ["take full", "back full", "take simple", "take full", "back full"]
    assert told(log) == lines
    assert scene.process("result", "t", "a").document == "simple"


async def killed_in_the_middle(scene: Scene, file: Path, log: Path, workspace: Path) -> None:
    with scene.started("run", file, "--id", "t", "--workspace", workspace) as process:
        await until(lambda: begun(log) or process.poll() is not None)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)


async def test_a_new_plan_takes_back_what_was_under_way_and_is_no_part_of_it(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "work"
    await killed_in_the_middle(scene, given(scene, log), log, workspace)
    new = {"subtasks": [subtask("new", "clear", {"file": str(log), "word": "new"})]}
    file = scene.write("new.json", json.dumps(new))
    assert scene.process("replan", "t", "--plan", file).code == 0
    left = ["back held", "back inner", "clear w"]  # a foreach that has begun stands
    assert sorted(told(log))[: len(left)] == left
    assert not (workspace / "out").exists()
    assert scene.process("status", "t", "--json").document["current"] == []
    assert scene.process("skip", "t", "f").code == 0
    assert scene.process("resume", "t").code == 0
    rows = scene.rows("select subtask, state from surefoot.effects where effect = 'reversible'")
    states = {row["subtask"]: row["state"] for row in rows}
    assert states == {"done": "done", **dict.fromkeys(("held", "f/0", "g/inner"), "compensated")}


async def test_a_task_whose_new_plan_left_something_out_can_be_cancelled(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    await killed_in_the_middle(scene, given(scene, log), log, tmp_path / "work")
    new = {"subtasks": [subtask("new", "clear", {"file": str(log), "word": "new"})]}
    file = scene.write("new.json", json.dumps(new))
    assert scene.process("replan", "t", "--plan", file).code == 0
    done = scene.process("cancel", "t", "--json")
    assert (done.code, done.document["status"], done.document["current"]) == (0, "cancelled", [])
    assert "back child" in told(log)


async def test_a_rollback_after_a_kill_runs_the_undo_inside_of_a_group(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    file = given(scene, log)
    plan = json.loads(file.read_text())
    inner = next(one for one in plan["plan"]["subtasks"] if one["id"] == "w")
    plan["plan"]["subtasks"].remove(inner)
    del inner["depends_on"]
    group = next(one for one in plan["plan"]["subtasks"] if one["id"] == "g")
    group["plan"]["subtasks"].append(inner)
    workspace = tmp_path / "work"
    await killed_in_the_middle(scene, scene.file(plan), log, workspace)
    assert scene.process("rollback", "t", "start").code == 0
    assert sorted(told(log))[: len(LEFT) + 1] == sorted([*LEFT, "back done"])
    assert not (workspace / "out").exists()


@pytest.mark.parametrize("command", ["cancel", "skip"])
async def test_a_rung_of_a_group_that_was_cut_is_taken_back_and_what_was_accepted_inside_stays(
    scene: Scene, log: Path, command: str
) -> None:
    tools = scene.write("tools.py", TOOLS)

    def take(word: str, **args: Any) -> Any:
        return {"kind": "tool", "tool": "take", "args": {"file": str(log), "word": word, **args}}

    good = {"id": "good", **take("good"), "success": [{"type": "result"}]}
    never = {"type": "result", "equals": "other"}
    bad = {"id": "bad", **take("bad"), "depends_on": ["good"], "success": [never]}
    rung = {**take("rung", forever=True), "success": [{"type": "result"}]}
    group = {
        "id": "g",
        "kind": "group",
        "plan": {"subtasks": [good, {**bad, "retries": {"max_attempts": 1}}]},
        "on_failure": [rung],
    }
    file = scene.file(task([group], tools=[tools]))
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: "take rung" in told(log) or process.poll() is not None)
        words = ["cancel", "t"] if command == "cancel" else ["skip", "t", "g"]
        done = await asyncio.to_thread(scene.process, *words)
        assert done.code == 0
        await asyncio.to_thread(process.wait, 30)
    assert told(log) == ["take good", "take bad", "back bad", "take rung", "back rung"]
