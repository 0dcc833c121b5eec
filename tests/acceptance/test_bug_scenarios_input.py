"""Bad input at the command line: one line, exit code 2, nothing changed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from scenes import Done, Scene, subtask, task

from surefoot.graph.settings import Settings

GOOD = task([subtask("a", "echo", {"value": 1})])


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


def assert_refused(scene: Scene, done: Done, *, words: str = "") -> None:
    """One line on stderr that says what is wrong, code 2, no task."""
    assert done.code == 2, done
    assert done.err.count("\n") == 1 and done.err.startswith("surefoot: "), done
    assert "Traceback" not in done.err and "--debug" not in done.err, done
    assert words in done.err, done
    assert scene.tasks() == []


def assert_one_document(done: Done) -> dict[str, str]:
    """Exactly one JSON document with the error; the code is a name, the message one line."""
    error = done.error
    assert done.code == 2 and not done.err, done
    assert error["code"].islower() and error["message"] and "\n" not in error["message"]
    return error


LAUGHS = [b"x", *(b", ".join([b"*a%d" % n] * 10) for n in range(9))]
"""Every list is ten of the one before."""

DEEP = (
    b'{"name": "d", "goal": {"objective": "x", "inputs": {"x": %s}}, "plan": {"subtasks": []}}'
    % (b"[" * 900 + b"]" * 900)
)
"""Not too deep for a reader of JSON, and for whoever walks through it."""

BAD_FILES: dict[str, tuple[str, bytes, str]] = {
    "no YAML": ("t.yaml", b"goal: [1, 2\nplan: }", "line 2"),
    "tabs": ("t.yaml", b"goal:\n\tobjective: x", "line 2"),
    "no JSON": ("t.json", b'{"goal": ', "line 1"),
    "empty": ("t.yaml", b"", "goal"),
    "a list": ("t.yaml", b"- 1\n- 2\n", "list"),
    "a text": ("t.yaml", b"hello", "text"),
    "a key twice": ("t.yaml", b"goal: {objective: x}\ngoal: {objective: y}\n", "twice"),
    "binary": ("t.yaml", bytes(range(256)), "line"),
    "latin-1": ("t.yaml", "goal: {objective: über}".encode("latin-1"), "UTF-8"),
    "a foreign tag": ("t.yaml", b"goal: !!python/object:os.system {}", "tag"),
    "aliases without end": (
        "t.yaml",
        b"".join(b"a%d: &a%d [%s]\n" % (n, n, LAUGHS[n]) for n in range(10)),
        "aliases",
    ),
    "deep": ("t.yaml", b"a: " + b"[" * 5000, "nest"),
    "deep JSON": ("t.json", b"[" * 100_000, "nested"),
    "a deep input": ("t.json", DEEP, "nested too deeply"),
    "not a number": ("t.json", b'{"goal": {"objective": "x", "inputs": {"x": NaN}}}', "NaN"),
}


@pytest.mark.parametrize(("name", "content", "words"), BAD_FILES.values(), ids=list(BAD_FILES))
def test_a_file_that_cannot_be_read_is_refused_in_one_line(
    scene: Scene, name: str, content: bytes, words: str
) -> None:
    file = scene.write(name, content)
    assert_refused(scene, scene.command("run", file), words=words)
    assert assert_one_document(scene.command("run", file, "--json"))["code"] in (
        "schema",
        "unreadable_file",
    )
    validated = scene.command("validate", file, "--json")
    assert validated.code == 2 and validated.document["valid"] is False


WRONG_TYPES: dict[str, dict[str, Any]] = {
    "no goal": {"name": "x", "plan": {"subtasks": []}},
    "goal is a text": {**GOOD, "goal": "do it"},
    "a subtask is a text": {**GOOD, "plan": {"subtasks": ["a"]}},
    "weight is a text": {**GOOD, "plan": {"subtasks": [subtask("a", "echo", weight="1")]}},
    "id with a slash": {**GOOD, "plan": {"subtasks": [subtask("a/b", "echo")]}},
    "concurrency 0": {**GOOD, "concurrency": 0},
    "tools is a text": {**GOOD, "tools": "./x.py"},
    "budget is a list": {**GOOD, "budget": [1]},
    "an unknown key": {**GOOD, "pln": {}},
    "an unknown kind": {**GOOD, "plan": {"subtasks": [{**subtask("a", "echo"), "kind": "x"}]}},
}


@pytest.mark.parametrize("content", WRONG_TYPES.values(), ids=list(WRONG_TYPES))
def test_wrong_types_are_refused_by_name(scene: Scene, content: dict[str, Any]) -> None:
    found = scene.command("run", scene.file(content), "--json")
    codes = {fault["code"] for fault in found.document["faults"]}
    # Without its list of tools a file's tools are unknown as well.
    assert found.code == 2 and "schema" in codes <= {"schema", "unknown_tool"}, found
    assert assert_one_document(found)["code"] == "schema" and scene.tasks() == []


def test_missing_files_folders_and_what_is_no_file_are_refused(scene: Scene) -> None:
    (scene.folder / "folder").mkdir()
    os.mkfifo(scene.folder / "pipe")
    for name, words in [("nowhere.yaml", "no such file"), ("folder", "folder"), ("pipe", "not a")]:
        assert_refused(scene, scene.command("run", name), words=words)
        assert_one_document(scene.command("run", name, "--json"))
    for name in ("x" * 300, "a\udcffb"):
        assert_refused(scene, scene.command("run", name))


def test_a_huge_file_is_refused_and_not_read_whole(scene: Scene) -> None:
    huge = scene.folder / "huge.yaml"
    with huge.open("wb") as file:
        file.truncate(10**12)  # a hole: no bytes on the disk
    assert_refused(scene, scene.command("run", huge), words="64 MiB")


def test_inputs_that_are_missing_or_unreadable_are_faults(scene: Scene) -> None:
    plan = [subtask("a", "list_files", {"path": "${inputs.folder}"})]
    for path in ("./nowhere", "/proc/1/mem/x"):
        spec = task(plan, goal={"inputs": {"folder": path}})
        done = scene.command("run", scene.file(spec), "--json")
        faults = {fault["code"] for fault in done.document["faults"]}
        assert done.code == 2 and faults <= {"missing_resource", "missing_permission"}, done
        assert faults and scene.tasks() == []


BAD_WORDS: dict[str, list[str]] = {
    "no command": ["rn"],
    "no file": ["run"],
    "an unknown flag": ["run", "task.json", "--fast"],
    "--set without =": ["run", "task.json", "--set", "x"],
    "--set without a key": ["run", "task.json", "--set", "=1"],
    "--set through a text": ["run", "task.json", "--set", "name.x=1"],
    "--set an item that is not there": ["run", "task.json", "--set", "plan.subtasks.7.id=1"],
    "--set a wrong type": ["run", "task.json", "--set", "budget.max_steps=many"],
    "--concurrency 0": ["run", "task.json", "--concurrency", "0"],
    "--concurrency x": ["run", "task.json", "--concurrency", "x"],
    "a bad id": ["run", "task.json", "--id", "../x"],
    "an empty id": ["run", "task.json", "--id", ""],
    "a long id": ["run", "task.json", "--id", "x" * 201],
    "a model's task": ["run", "--goal", "do it"],
    "a goal and a file": ["run", "task.json", "--goal", "do it"],
    "a missing tools file": ["run", "task.json", "--tools", "nowhere.py"],
    "a limit that is no number": ["resume", "t", "--max-steps", "x"],
    "a negative limit": ["resume", "t", "--max-steps", "-1"],
    "a limit that is no limit": ["resume", "t", "--max-seconds", "nan"],
    "an endless limit": ["resume", "t", "--max-cost-usd", "inf"],
    "an unknown schema": ["schema", "nothing"],
    "version 0": ["plan", "t", "--version", "0"],
    "two ids": ["status", "a", "b"],
}


@pytest.mark.parametrize("words", BAD_WORDS.values(), ids=list(BAD_WORDS))
def test_wrong_words_are_refused_in_one_line_or_one_document(
    scene: Scene, words: list[str]
) -> None:
    scene.file(GOOD)
    assert_refused(scene, scene.command(*words))
    assert_one_document(scene.command(*words, "--json"))
    assert scene.tasks() == []


UNKNOWN_TASK: list[list[str]] = [
    *([word, "nobody"] for word in ("resume", "status", "plan", "history", "events", "logs")),
    *([word, "nobody"] for word in ("result", "artifacts", "cancel")),
    *(["resume", "nobody", "--max-steps", "5"], ["status", "a\udcffb"], ["result", "nobody", "a"]),
    *(["artifacts", "nobody", "x"], ["logs", "nobody", "a"]),
    *(["events", "nobody", "--follow"], ["status", "nobody", "--watch"], ["status"]),
]


def test_every_command_refuses_a_task_that_is_not_there(scene: Scene) -> None:
    for words in UNKNOWN_TASK:
        error = assert_one_document(scene.command(*words, "--json"))
        assert error["code"] == "unknown_task", (words, error)
        assert_refused(scene, scene.command(*words))


def test_what_a_task_does_not_have_is_refused_by_name(scene: Scene) -> None:
    assert scene.command("run", scene.file(GOOD), "--id", "t", "--quiet").code == 0
    before = scene.rows("select * from surefoot.tasks")
    for words, code in [
        (["result", "t", "b"], "unknown_subtask"),
        (["result", "t", "a/0"], "unknown_subtask"),
        (["logs", "t", "b"], "unknown_subtask"),
        (["artifacts", "t", "x"], "unknown_artifact"),
        (["artifacts", "t", "a/x", "--version", "3"], "unknown_artifact"),
        (["plan", "t", "--version", "9"], "unknown_version"),
        (["plan", "t", "--version", "9" * 30], "unknown_version"),
        (["result", "t", "a\udcff"], "unknown_subtask"),
        (["artifacts", "t", "a\udcff/x"], "unknown_artifact"),
        (["cancel", "t"], "wrong_state"),
    ]:
        error = assert_one_document(scene.command(*words, "--json"))
        assert error["code"] == code, (words, error)
    for words in (["artifacts", "t", "x", "-o", "/proc/x"], ["plan", "t", "--export", "/proc/x"]):
        assert scene.command(*words).code == 2
    assert scene.rows("select * from surefoot.tasks") == before


def test_the_same_id_goes_on_with_the_same_file_and_is_refused_with_another(scene: Scene) -> None:
    file = scene.file(GOOD)
    assert scene.command("run", file, "--id", "t", "--quiet").code == 0
    before = scene.rows("select * from surefoot.tasks")
    again = scene.command("run", file, "--id", "t", "--json")
    assert (again.code, again.document["attempts"]) == (0, 1)
    other = json.loads(json.dumps(GOOD))
    other["plan"]["subtasks"][0]["args"]["value"] = 2
    refused = scene.command("run", scene.file(other, "other.json"), "--id", "t")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert scene.command("run", file, "--id", "t", "--set", "x=1", "--json").code_and_error == (
        2,
        "id_taken",
    )
    assert scene.rows("select * from surefoot.tasks") == before
