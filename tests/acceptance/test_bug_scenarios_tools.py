"""Tools modules that cannot be used, and tools whose results are odd (contract §2)."""

from pathlib import Path
from typing import Any

import pytest
from scenes import SCENE_TOOLS, Scene, subtask, task

from surefoot.graph.settings import Settings


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


BAD_MODULES: dict[str, tuple[str, str]] = {
    "a syntax error": ("def (", "SyntaxError"),
    "a raise at import": ("raise ValueError('as told \\x00 \\udc80')", "as told"),
    "a missing import": ("import nowhere_to_be_found", "nowhere_to_be_found"),
    "no TOOLS": ("x = 1", "TOOLS"),
    "TOOLS is a number": ("TOOLS = 3", "TOOLS"),
    "TOOLS holds numbers": ("TOOLS = [3]", "TOOLS"),
    "exit at import": ("import sys; sys.exit(0)", "exit"),
    "hard exit at import": ("import os; os._exit(0)", "ended"),
    "a kill at import": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended"),
    "a torrent at import": ("print('x' * 10_000_000); raise ValueError('late')", "late"),
    "binary": ("\x00\x01", "null bytes"),
}


def test_modules_that_cannot_be_used_are_all_refused_by_their_names(scene: Scene) -> None:
    listed = {f"./bad_{number}.py": words for number, (_, words) in enumerate(BAD_MODULES.values())}
    for name, (text, _) in zip(listed, BAD_MODULES.values(), strict=True):
        scene.write(name, text)
    (scene.folder / "folder").mkdir()
    listed |= {"./nowhere.py": "nowhere.py", "./folder": "folder", "no.where": "no.where"}
    listed |= {"os": "TOOLS"}
    spec = task([subtask("a", "anything")], tools=[*listed, SCENE_TOOLS])
    done = scene.command("run", scene.file(spec), "--id", "t", "--json")
    assert done.code_and_error == (2, "bad_tools_module") and not done.err, done
    said = [f["message"] for f in done.document["faults"] if f["code"] == "bad_tools_module"]
    assert len(said) == len(listed), said
    for name, words in listed.items():
        short = name.removeprefix("./")
        assert any(short in one and words in one for one in said), (name, words, said)
    assert scene.tasks() == []


def test_one_bad_module_is_one_line(scene: Scene) -> None:
    scene.write("bad.py", BAD_MODULES["a raise at import"][0])
    file = scene.file(task([subtask("a", "echo")], tools=["./bad.py"]))
    done = scene.command("run", file)
    assert (done.code, done.out.count("Traceback"), done.err.count("\n")) == (2, 0, 1), done
    assert "as told" in done.err and scene.tasks() == []


def test_a_module_that_hangs_at_import_is_given_up(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.tools.root_process.IMPORTS_WITHIN_S", 6.0)
    scene.write("bad_tools.py", "import time\ntime.sleep(1000)\nTOOLS = []")
    file = scene.file(task([subtask("a", "anything")], tools=["./bad_tools.py"]))
    done = scene.command("validate", file, "--json")
    codes = {fault["code"] for fault in done.document["faults"]}
    assert done.code == 2 and "bad_tools_module" in codes, done


ODD: dict[str, tuple[str, str]] = {
    "set": ("not_json", "set"),
    "object": ("not_json", "object"),
    "cycle": ("not_json", "itself"),
    "bytes": ("not_json", "bytes"),
}


async def test_results_that_are_not_json_fail_once_and_say_where(scene: Scene) -> None:
    subtasks = [
        subtask(
            which,
            "odd_result",
            {"which": which},
            retries={"max_attempts": 5, "backoff_seconds": 0},
            skippable=True,
            on_failure=["skip"],
        )
        for which in ODD
    ]
    async with scene.client() as surefoot:
        status = await surefoot.run(task(subtasks), id="t")
        assert status.completed, status
        events = [event async for event in surefoot.events("t")]
    failed = [event for event in events if event["type"] == "AttemptFailed"]
    assert sorted(event["subtask"] for event in failed) == sorted(ODD)
    for event in failed:
        _, words = ODD[event["subtask"]]
        assert words in event["reason"] and "$" in event["reason"], event
    assert status["attempts"] == len(ODD)


async def test_numbers_that_json_lacks_become_null_with_a_mark_and_big_ones_stay_exact(
    scene: Scene,
) -> None:
    expected: dict[str, Any] = {
        "nan": {"x": None, "y": [None, None, 1.5]},
        "big": 10**40,
        "none": None,
    }
    subtasks = [subtask(which, "odd_result", {"which": which}, success=[]) for which in expected]
    for one in subtasks:
        one["success"] = [{"type": "python", "call": "scene_checks:yes"}]
    scene.write("scene_checks.py", "def yes(context):\n    return True\n")
    use = subtask("use", "echo", {"value": "${big}"}, depends_on=["big"])
    text = subtask("text", "echo", {"value": "<${big}> <${none}>"}, depends_on=["big", "none"])
    spec = {"task": task([*subtasks, use, text]), "task_dir": str(scene.folder)}
    async with scene.client() as surefoot:
        engine = await surefoot.engine()
        await engine.create(spec, task_id="t")
        status = await surefoot.resume("t")
        assert status.completed, status
        for which, value in expected.items():
            assert await surefoot.result("t", which) == value
        assert await surefoot.result("t", "use") == 10**40
        assert await surefoot.result("t", "text") == f"<{10**40}> <>"
    (row,) = scene.rows("select marks from surefoot.subtasks where id = 'nan'")
    assert len(row["marks"]) == 3 and "NaN at $.x became null" in row["marks"]


def test_a_big_number_is_printed_exactly(scene: Scene) -> None:
    file = scene.file(task([subtask("a", "odd_result", {"which": "big"})]))
    assert scene.command("run", file, "--id", "t", "--quiet").code == 0
    assert scene.command("result", "t", "a").out.strip() == str(10**40)
