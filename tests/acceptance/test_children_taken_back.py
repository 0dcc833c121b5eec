"""A foreach that is done again: what its children did is taken back like anybody's work."""

from pathlib import Path
from typing import Any

import pytest
from scenes import Scene, subtask, task

from surefoot.graph.settings import Settings

TOOLS = '''
from pathlib import Path
from langchain_core.tools import tool
from surefoot.tools import ToolContext, effect

@effect("read")
@tool
def names(log: str) -> list:
    """A list."""
    return ["a", "b", "c"]

@effect("idempotent")
@tool
def note(path: str, word: str, context: ToolContext) -> str:
    """Add a line to a file; only what puts the file back first may do it again."""
    file = context.workspace / path
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as lines:
        lines.write(word + "\\n")
    return word

@effect("irreversible", probe=lambda args, context: None)
@tool
def send(log: str, word: str) -> str:
    """Tell the world."""
    with Path(log).open("a") as lines:
        lines.write(f"send {word}\\n")
    return word

@effect("idempotent")
@tool
def unsend(log: str, word: str) -> str:
    """Clear it."""
    with Path(log).open("a") as lines:
        lines.write(f"unsend {word}\\n")
    return word

TOOLS = [names, note, send, unsend]
'''

NOTE = {
    "kind": "tool",
    "tool": "note",
    "args": {"path": "out/${item}.txt", "word": "${item}"},
    "writes": ["out/${item}.txt"],
    "success": [{"type": "result"}],
}


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    made = Scene(settings, tmp_path / "files")
    made.write("tools.py", TOOLS)
    return made


def sends(log: Path) -> dict[str, Any]:
    """A child that has a way back of its own."""
    args = {"log": str(log), "word": "${item}"}
    undo = {"tool": "unsend", "args": args}
    success = [{"type": "result"}]
    return {"kind": "tool", "tool": "send", "args": args, "undo": undo, "success": success}


def over(each: dict[str, Any], log: Path, *, inside: bool = False) -> list[dict[str, Any]]:
    """A list, a foreach over it (in a group of its own), and something that waits for a person."""
    many: dict[str, Any] = {"id": "many", "kind": "foreach", "each": each}
    if inside:
        inner = {**many, "for_each": "${inputs.names}"}
        many = {"id": "many", "kind": "group", "inputs": {"names": "${list}"}}
        many["plan"] = {"subtasks": [inner]}
    else:
        many["for_each"] = "${list}"
    last = subtask("last", "names", {"log": str(log)}, approve="always")
    return [subtask("list", "names", {"log": str(log)}), {**many, "depends_on": ["list"]}, last]


def run(scene: Scene, subtasks: list[dict[str, Any]], code: int) -> None:
    given = task(subtasks, tools=["./tools.py"])
    done = scene.command("run", scene.file(given), "--id", "t1", "--json")
    assert done.code == code, (done.out, done.err)


def shorten(scene: Scene) -> None:
    """Give the list another value, and do what used it again."""
    file = scene.write("names.json", '["a", "b"]')
    done = scene.command("edit", "t1", "list", "--result", file, "--json")
    assert done.document["reopened"] == ["many"], done.out


def written(scene: Scene) -> dict[str, str]:
    folder = scene.settings.home / "workspaces/t1/out"
    return {file.name: file.read_text() for file in folder.glob("*")}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("swept", [False, True])
def test_files_of_children_are_put_back_before_they_are_written_again(
    scene: Scene, tmp_path: Path, inside: bool, swept: bool
) -> None:
    run(scene, over(NOTE, tmp_path / "log", inside=inside), 3)
    assert written(scene) == {"a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n"}
    if swept:
        assert scene.command("gc", "--older-than", "0", "--json").code == 0
    shorten(scene)
    assert written(scene) == {}
    assert scene.command("resume", "t1", "--json").code == 3
    assert written(scene) == {"a.txt": "a\n", "b.txt": "b\n"}


def test_a_person_is_asked_where_nobody_knows_what_was_there(scene: Scene, tmp_path: Path) -> None:
    run(scene, over(NOTE, tmp_path / "log"), 3)
    scene.rows("delete from surefoot.snapshots where tier = 'before' returning id")
    file = scene.write("names.json", '["a", "b"]')
    scene.command("edit", "t1", "list", "--result", file, "--json")
    questions = scene.command("questions", "t1", "--json").document
    asked = next(question for question in questions if question["kind"] == "undo_failed")
    assert "is not known any more" in asked["text"]
    assert scene.command("resume", "t1", "--json").code == 3
    assert written(scene)["a.txt"] == "a\n"


def test_the_undo_of_children_runs_where_they_are_done_again(scene: Scene, tmp_path: Path) -> None:
    log = tmp_path / "log"
    subtasks = over(sends(log), log)[:2]
    run(scene, subtasks, 0)
    done = scene.command("rollback", "t1", "start", "--json")
    assert done.code == 0, done.out
    said = log.read_text().splitlines()
    assert sorted(said[:3]) == ["send a", "send b", "send c"]
    assert sorted(said[3:]) == ["unsend a", "unsend b", "unsend c"]
    assert scene.command("resume", "t1", "--json").code == 0
    assert sorted(log.read_text().splitlines()[6:]) == ["send a", "send b", "send c"]


def test_what_was_inside_a_child_has_no_result_once_it_is_taken_back(
    scene: Scene, tmp_path: Path
) -> None:
    inner = {**NOTE, "id": "leaf", "args": {"path": "x.txt", "word": "x"}, "writes": ["x.txt"]}
    group = {"kind": "group", "plan": {"subtasks": [inner]}}
    run(scene, over(group, tmp_path / "log")[:2], 0)
    assert scene.command("result", "t1", "many/0/leaf").code == 0
    assert scene.command("rollback", "t1", "start", "--json").code == 0
    done = scene.command("result", "t1", "many/0/leaf", "--json")
    assert done.code_and_error == (2, "no_result")
