"""What failed and cut attempts wrote is put back: the real command, real files, real kills."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, call_tool, finish
from scenes import Scene, lines, subtask, task, until

from surefoot.graph.settings import Settings

TOOLS = '''
import os, time
from pathlib import Path
from langchain_core.tools import tool
from surefoot.tools import ToolContext, effect

def _listing(folder):
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found.append(f"{path.relative_to(folder)}->{os.readlink(path)}")
        elif path.is_file():
            found.append(f"{path.relative_to(folder)}={path.read_text()}")
        else:
            found.append(f"{path.relative_to(folder)}/")
    return "|".join(found)

def _scribble(folder, word):
    """Change, make, delete: files, folders, links, permissions."""
    (folder / "out").mkdir(exist_ok=True)
    (folder / "out/kept.txt").write_text(word)
    (folder / "out/kept.txt").chmod(0o600)
    (folder / "out/gone.txt").unlink()
    (folder / "out/link").unlink()
    (folder / "out/link").symlink_to("/etc")
    (folder / f"out/{word}/deep").mkdir(parents=True)
    (folder / f"out/{word}/deep/new.txt").write_text(word)

@effect("idempotent")
@tool
def scribble(log: str, context: ToolContext, until: str = "", fails: int = 0) -> str:
    """Say what is there, scribble, and wait, fail or succeed."""
    with Path(log).open("a") as file:
        file.write(_listing(context.workspace) + "\\n")
    _scribble(context.workspace, f"attempt{context.attempt}")
    with Path(log).open("a") as file:
        file.write("scribbled\\n")
    while until and not Path(until).exists():
        time.sleep(0.02)
    if context.attempt <= fails:
        raise RuntimeError("it went wrong")
    return "good"

TOOLS = [scribble]
'''

WRITES = ["out/**"]


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace with something in it."""
    folder = tmp_path / "place"
    (folder / "out").mkdir(parents=True)
    (folder / "out/kept.txt").write_text("old")
    (folder / "out/kept.txt").chmod(0o664)
    (folder / "out/gone.txt").write_text("here")
    (folder / "out/link").symlink_to("kept.txt")
    (folder / "ours.txt").write_text("ours")
    return folder


WAS = "ours.txt=ours|out/|out/gone.txt=here|out/kept.txt=old|out/link->kept.txt"


def listing(folder: Path) -> str:
    found: list[str] = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_symlink():
            found.append(f"{name}->{os.readlink(path)}")
        else:
            found.append(f"{name}={path.read_text()}" if path.is_file() else f"{name}/")
    return "|".join(found)


def file_of(scene: Scene, *subtasks: Any, **more: Any) -> Path:
    return scene.file(task(subtasks, tools=[scene.write("own_tools.py", TOOLS)], **more))


def scribbles(log: Path, **more: Any) -> dict[str, Any]:
    args: dict[str, Any] = {"log": str(log), **more.pop("args", {})}
    retries = {"max_attempts": 2, "backoff_seconds": 0}
    given: dict[str, Any] = {"writes": WRITES, "retries": retries}
    return subtask("s", "scribble", args, **{**given, **more})


def strategies(scene: Scene, id: str) -> list[tuple[str, str]]:
    told = scene.process("history", id, "--json").document
    return [(one["strategy"], one["reason"]) for one in told if one["type"] == "AttemptRecovered"]


def kill(process: "subprocess.Popen[bytes]") -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait(30)


def test_a_failed_attempt_leaves_the_workspace_as_it_was(scene: Scene, place: Path) -> None:
    log = scene.folder / "log"
    file = file_of(scene, scribbles(log, args={"fails": 9}))
    done = scene.process("run", file, "--id", "t", "--workspace", place, "--json")
    assert done.code == 1, done.err
    assert lines(log) == [WAS, "scribbled", WAS, "scribbled"]
    assert listing(place) == WAS
    assert (place / "out/kept.txt").stat().st_mode & 0o777 == 0o664
    told = scene.process("events", "t", "--json").document
    (first, second) = [one for one in told if one["type"] == "WorkspacePutBack"]
    assert (first["attempt"], second["attempt"]) == (1, 2)
    rows = scene.rows("select tier, subtask, attempt from surefoot.snapshots where tier = 'full'")
    assert rows == []


def test_what_the_good_attempt_wrote_stays_and_is_snapshotted(scene: Scene, place: Path) -> None:
    log = scene.folder / "log"
    file = file_of(scene, scribbles(log, args={"fails": 1}))
    done = scene.process("run", file, "--id", "t", "--workspace", place, "--json")
    assert done.code == 0, done.err
    assert listing(place) == (
        "ours.txt=ours|out/|out/attempt2/|out/attempt2/deep/|out/attempt2/deep/new.txt=attempt2"
        "|out/kept.txt=attempt2|out/link->/etc"
    )
    (row,) = scene.rows("select * from surefoot.snapshots where tier = 'full'")
    assert (row["subtask"], row["attempt"], row["files"], row["bytes"]) == ("s", 2, 3, 16)


def test_a_check_that_does_not_hold_puts_the_files_back(scene: Scene, place: Path) -> None:
    log = scene.folder / "log"
    check = {"type": "file", "path": "out/never.txt", "exists": True}
    file = file_of(scene, scribbles(log, success=[check]))
    done = scene.process("run", file, "--id", "t", "--workspace", place, "--json")
    assert done.code == 1, done.err
    assert listing(place) == WAS


async def test_a_killed_attempt_is_put_back_before_its_call_is_made_again(
    scene: Scene, place: Path
) -> None:
    log, opening = scene.folder / "log", scene.folder / "open"
    file = file_of(scene, scribbles(log, args={"until": str(opening)}))
    with scene.started("run", file, "--id", "t", "--workspace", place) as process:
        await until(lambda: "scribbled" in lines(log))
        kill(process)
    opening.touch()
    done = scene.process("resume", "t", "--json")
    assert done.code == 0, done.err
    assert lines(log) == [WAS, "scribbled", WAS, "scribbled"]
    assert done.document["attempts"] == 1
    ((strategy, reason),) = strategies(scene, "t")
    assert strategy == "roll back to the stable point"
    assert "out/kept.txt" in reason
    assert (place / "out/kept.txt").read_text() == "attempt2"


async def test_a_killed_attempt_that_wrote_nothing_is_just_run_again(
    scene: Scene, place: Path, tmp_path: Path
) -> None:
    marks, opening = tmp_path / "marks", tmp_path / "open"
    gate = subtask("g", "gate", {"file": str(marks), "open": str(opening)}, writes=WRITES)
    with scene.started(
        "run", scene.file(task([gate])), "--id", "t", "--workspace", place
    ) as process:
        await until(lambda: lines(marks))
        kill(process)
    opening.touch()
    assert scene.process("resume", "t", "--json").code == 0
    assert [strategy for strategy, _ in strategies(scene, "t")] == ["rerun the subtask"]
    assert listing(place) == WAS


async def test_killed_children_of_a_foreach_put_back_their_own_files_only(
    scene: Scene, place: Path
) -> None:
    tool = '''
import time
from pathlib import Path
from langchain_core.tools import tool
from surefoot.tools import ToolContext, effect

@effect("idempotent")
@tool
def fill(name: str, log: str, context: ToolContext, until: str = "") -> bool:
    """Write into a folder of its own, unless there is something."""
    folder = context.workspace / name
    clean = not folder.exists()
    folder.mkdir(exist_ok=True)
    (folder / "x.txt").write_text(name)
    with Path(log).open("a") as file:
        file.write(f"{name}\\n")
    while until and not Path(until).exists():
        time.sleep(0.02)
    return clean

TOOLS = [fill]
'''
    log, opening = scene.folder / "log", scene.folder / "open"
    args = {"name": "${item}", "log": str(log), "until": str(opening)}
    each: dict[str, Any] = {"kind": "tool", "tool": "fill", "args": args, "writes": ["${item}/**"]}
    each["success"] = [{"type": "result"}]
    check = {"type": "result", "equals": [True, True, True]}
    fan = {"id": "f", "kind": "foreach", "for_each": ["a", "b", "c"], "each": each}
    inner = {"id": "g", "kind": "group", "plan": {"subtasks": [{**fan, "success": [check]}]}}
    file = scene.file(task([inner], tools=[scene.write("fill_tools.py", tool)], concurrency=3))
    with scene.started("run", file, "--id", "t", "--workspace", place) as process:
        await until(lambda: len(lines(log)) == 3)
        kill(process)
    opening.touch()
    done = scene.process("resume", "t", "--json")
    assert done.code == 0, (done.out, done.err)
    assert [strategy for strategy, _ in strategies(scene, "t")] == [
        "roll back to the stable point"
    ] * 3
    full = scene.rows("select subtask from surefoot.snapshots where tier = 'full' order by subtask")
    assert [row["subtask"] for row in full] == ["g/f/0", "g/f/1", "g/f/2"]


async def test_a_pause_takes_nothing_back_until_the_work_begins_again(
    scene: Scene, place: Path
) -> None:
    log, opening = scene.folder / "log", scene.folder / "open"
    file = file_of(scene, scribbles(log, args={"until": str(opening)}))
    with scene.started("run", file, "--id", "t", "--workspace", place) as process:
        await until(lambda: "scribbled" in lines(log))
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert (place / "out/kept.txt").read_text() == "attempt1"
    opening.touch()
    assert scene.process("resume", "t", "--json").code == 0
    assert lines(log)[2] == WAS


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_an_attempt_does_not_begin_where_it_could_not_be_put_back(
    scene: Scene, place: Path
) -> None:
    (place / "out/gone.txt").chmod(0)
    log = scene.folder / "log"
    done = scene.process("run", file_of(scene, scribbles(log)), "--workspace", place, "--json")
    assert done.code == 1
    assert "out/gone.txt cannot be read" in json.dumps(done.document)
    assert lines(log) == []


# --- agents ----------------------------------------------------------------------------------


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Any:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def writes(path: str, text: str) -> Any:
    return call_tool("write_text", {"path": path, "text": text})


def agent(**more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "id": "a",
        "kind": "agent",
        "instructions": "Write.",
        "tools": ["write_text"],
        "writes": WRITES,
        "retries": {"max_attempts": 2, "backoff_seconds": 0},
        "success": [{"type": "file", "path": "out/good.txt", "exists": True}],
    }
    return {**given, **more}


def test_an_agents_failed_go_is_put_back_whole(
    scene: Scene, place: Path, models: ModelServer
) -> None:
    models.on(
        "agent",
        writes("out/kept.txt", "first go"),
        writes("out/more.txt", "first go"),
        finish("done"),
        writes("out/good.txt", "second go"),
        finish("done"),
    )
    file = scene.file(task([agent()], model="m"))
    done = scene.process("run", file, "--id", "t", "--workspace", place, "--json")
    assert done.code == 0, (done.out, done.err)
    assert listing(place) == (
        "ours.txt=ours|out/|out/gone.txt=here|out/good.txt=second go|out/kept.txt=old"
        "|out/link->kept.txt"
    )


async def test_an_agent_that_goes_on_keeps_what_it_wrote(
    scene: Scene, place: Path, models: ModelServer, tmp_path: Path
) -> None:
    marks, opening = tmp_path / "marks", tmp_path / "open"
    models.on(
        "agent",
        writes("out/good.txt", "before the kill"),
        call_tool("gate", {"file": str(marks), "open": str(opening)}),
    )
    file = scene.file(task([agent(tools=["write_text", "gate"])], model="m"))
    with scene.started("run", file, "--id", "t", "--workspace", place) as process:
        await until(lambda: lines(marks))
        kill(process)
    opening.touch()
    models.on("agent", finish("done"))
    done = scene.process("resume", "t", "--json")
    assert done.code == 0, (done.out, done.err)
    assert (place / "out/good.txt").read_text() == "before the kill"
    assert [strategy for strategy, _ in strategies(scene, "t")] == ["resume at the step"]


async def test_an_agent_that_may_not_go_on_finds_the_workspace_as_it_was(
    scene: Scene, place: Path, models: ModelServer, tmp_path: Path
) -> None:
    marks, opening = tmp_path / "marks", tmp_path / "open"
    models.on(
        "agent",
        writes("out/kept.txt", "before the kill"),
        call_tool("gate", {"file": str(marks), "open": str(opening)}),
    )
    given = agent(tools=["write_text", "gate"], resumable=False)
    file = scene.file(task([given], model="m"))
    with scene.started("run", file, "--id", "t", "--workspace", place) as process:
        await until(lambda: lines(marks))
        kill(process)
    models.on("agent", writes("out/good.txt", "anew"), finish("done"))
    done = scene.process("resume", "t", "--json")
    assert done.code == 0, (done.out, done.err)
    assert (place / "out/kept.txt").read_text() == "old"
    assert (place / "out/good.txt").read_text() == "anew"
    assert strategies(scene, "t")[0][0] == "roll back to the stable point"


def test_a_name_from_data_is_no_pattern(scene: Scene, place: Path) -> None:
    (place / "out/a.txt").write_text("beside")
    names = ["[a].txt", "b[1].txt", "*.txt", "?.txt"]
    each = {
        **{"kind": "tool", "tool": "write_text", "writes": ["out/${item}"]},
        **{"args": {"path": "out/${item}", "text": "new"}},
        "success": [{"type": "file", "path": "out/${item}"}, {"type": "result", "equals": "no"}],
        **{"retries": {"max_attempts": 1}, "on_failure": ["skip"], "skippable": True},
    }
    both = [{"id": "f", "kind": "foreach", "for_each": names, "each": each}]
    both += [
        {
            "id": "g",
            "kind": "foreach",
            "for_each": names,
            "each": {**each, "success": [{"type": "result"}]},
        }
    ]
    both[1]["depends_on"] = ["f"]
    done = scene.process("run", file_of(scene, *both), "--id", "t", "--workspace", place, "--json")
    assert done.code == 0, done.out + done.err
    told = scene.process("events", "t", "--json").document
    put_back = [one["subtask"] for one in told if one["type"] == "WorkspacePutBack"]
    assert sorted(put_back) == [f"f/{n}" for n in range(4)]
    assert {name: (place / "out" / name).read_text() for name in names} == dict.fromkeys(
        names, "new"
    )
    assert (place / "out/a.txt").read_text() == "beside"
    assert scene.process("doctor", "t", "--json").document["consistent"] is True
