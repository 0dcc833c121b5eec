"""How the command line answers wrong words, and the commands that check."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from scenes import Scene, subtask, task

from surefoot.graph.settings import Settings
from surefoot.service.cli import main

COMMANDS = (
    *("run", "resume", "status", "list", "plan", "history", "events", "logs"),
    *("result", "artifacts", "effects", "cancel", "pause", "skip", "retry", "edit", "replan"),
    *("rollback", "questions", "answer", "validate", "schema", "doctor", "gc"),
)


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


def test_help_lists_every_command(scene: Scene) -> None:
    for words in ([], ["--help"]):
        done = scene.command(*words)
        assert (done.code, done.err) == (0, "")
        assert all(command in done.out for command in COMMANDS)


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["run"],
        ["run", "x.yaml", "--nonsense"],
        ["run", "x.yaml", "--concurrency", "0"],
        ["run", "x.yaml", "--concurrency", "many"],
        ["run", "x.yaml", "--set", "novalue"],
        ["run", "x.yaml", "--goal", "both"],
        ["run", "--goal", "one", "--workspace", ""],
        ["resume"],
        ["resume", "t", "--max-steps", "-1"],
        ["schema", "nonsense"],
        ["plan", "t", "--version", "0"],
        ["result"],
        ["validate"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_clear_line_and_exit_two(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = door(words, capsys)
    assert out == ""
    assert err.startswith("surefoot: ") and err.count("\n") == 1
    out, err = door([*words, "--json"], capsys)
    assert set(json.loads(out)["error"]) == {"code", "message"}
    assert err == ""


def door(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Go through the command line's door in this process; it must leave with 2."""
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    return capsys.readouterr()


def test_the_door_is_the_same_for_a_process(scene: Scene) -> None:
    done = scene.process("nonsense")
    assert (done.code, done.out) == (2, "")
    assert done.err == "surefoot: No such command 'nonsense'; `surefoot --help` shows the usage\n"


def test_schemas_are_valid_and_fit_what_they_describe(scene: Scene) -> None:
    written = task([subtask("a", "echo")])
    described: dict[str, Any] = {"task": written, "plan": written["plan"]}
    done = scene.command("run", scene.file(written), "--id", "t", "--json")
    described["status"] = done.document
    for what, document in described.items():
        printed = scene.command("schema", what)
        assert printed.code == 0
        validator: Any = Draft202012Validator(printed.document)
        validator.check_schema(printed.document)
        assert list(validator.iter_errors(document)) == [], what


def test_validate_needs_no_database_and_no_home(scene: Scene) -> None:
    nowhere = Settings(
        home=Path("/proc/no"),
        database_url="postgresql://127.0.0.1:1/x",
        artifacts_url="file:///proc/no",
    )
    scene.settings = nowhere
    done = scene.command("validate", scene.file(task([subtask("a", "echo")])), "--json")
    assert (done.code, done.document["valid"]) == (0, True), done
    missing = scene.command("validate", "none.yaml", "--json")
    assert missing.code == 2
    assert missing.document["faults"][0]["code"] == "missing_resource"


def test_doctor_finds_everything_well_or_says_what_is_not(scene: Scene) -> None:
    well = scene.command("doctor", "--json")
    assert well.code == 0
    assert {c["check"] for c in well.document} >= {"installation", "home", "database", "artifacts"}
    ill = scene.command("doctor", "--json", SUREFOOT_DATABASE_URL="postgresql://127.0.0.1:1/x")
    assert ill.code == 2
    assert [c["check"] for c in ill.document if c["needed"] and not c["ok"]] == ["database"]
    assert scene.command("doctor").out.count("\n") == len(well.document)


def test_a_traceback_is_shown_with_debug_only(scene: Scene) -> None:
    plain = scene.process("run", "none.yaml")
    debug = scene.process("run", "none.yaml", "--debug")
    assert "Traceback" not in plain.err
    assert "Traceback" in debug.err
    assert plain.code == debug.code == 2
