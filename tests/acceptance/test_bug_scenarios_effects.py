"""D06 through the command: effects that fail, time out or are unknown, and the view of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from scenes import Scene, subtask, task

from surefoot.graph.settings import Settings

TOOLS = '''
import time
from pathlib import Path

from langchain_core.tools import tool

from surefoot.tools import ToolContext, effect


def say(file, text):
    with Path(file).open("a") as out:
        out.write(text + "\\n")


def unbook(args, result, context):
    if args["how"] == "locked":
        raise OSError("locked")
    say(args["file"], "unbook")


def later(how, context):
    if context.failed_attempts == 0 and how == "raise":
        raise OSError("connection lost")
    if context.attempt == 1 and how == "raise once":
        raise OSError("connection lost")
    if context.failed_attempts == 0 and how == "hang":
        time.sleep(600)
    return context.attempt - 1


@effect("reversible", compensate=unbook)
@tool
def book(file: str, how: str, context: ToolContext) -> int:
    """Book."""
    say(file, "book")
    return later(how, context)


@tool
def send(file: str, how: str, context: ToolContext) -> int:
    """Send."""
    say(file, "send")
    return later(how, context)


@effect("idempotent")
@tool
def clear(file: str) -> None:
    """Clear."""
    say(file, "clear")


TOOLS = [book, send, clear]
'''


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


def run(scene: Scene, tool: str, how: str, **fields: Any) -> tuple[int, list[str]]:
    """Run a task of one call that is good enough from the second attempt on."""
    world = scene.folder / "world"
    one = subtask("only", tool, {"file": str(world), "how": how})
    one |= {"success": [{"type": "result", "json_schema": {"minimum": 1}}]}
    one |= {"retries": {"max_attempts": 2, "backoff_seconds": 0}, **fields}
    written = task([one], tools=[scene.write("effect_tools.py", TOOLS)])
    done = scene.command("run", scene.file(written), "--id", "t", "--quiet")
    return done.code, world.read_text().split()


def effects(scene: Scene) -> list[dict[str, Any]]:
    done = scene.command("effects", "t", "--json")
    assert (done.code, done.err) == (0, ""), done
    assert not any(
        isinstance(value, dict | list) for row in done.document for value in row.values()
    )
    return done.document


@pytest.mark.parametrize("how", ["fine", "raise", "hang"])
def test_a_reversible_effect_is_done_undone_and_done(scene: Scene, how: str) -> None:
    assert run(scene, "book", how, timeout_seconds=1) == (0, ["book", "unbook", "book"])
    (row,) = effects(scene)
    assert (row["subtask"], row["tool"], row["effect"]) == ("only", "book", "reversible")
    assert (row["attempt"], row["state"], row["rolled_back"]) == (2, "done", False)
    assert f'"how":"{how}"' in row["args"]
    shown = scene.command("effects", "t")
    assert shown.code == 0
    assert "reversible" in shown.out


@pytest.mark.parametrize("how", ["fine", "raise", "hang"])
def test_an_undo_clears_what_a_failed_attempt_left(scene: Scene, how: str) -> None:
    undo = {"tool": "clear", "args": {"file": str(scene.folder / "world")}}
    code, said = run(scene, "send", how, timeout_seconds=1, undo=undo)
    assert (code, said) == (0, ["send", "clear", "send"])
    assert {(row["tool"], row["state"], row["undo"]) for row in effects(scene)} == {
        ("send", "done", False),
        ("clear", "done", True),
    }


@pytest.mark.parametrize("how", ["raise", "hang"])
def test_what_nobody_knows_waits_for_a_person_and_is_not_repeated(scene: Scene, how: str) -> None:
    code, said = run(scene, "send", how, timeout_seconds=1)
    assert (code, said) == (3, ["send"])
    assert scene.command("resume", "t", "--quiet").code == 3
    assert (scene.folder / "world").read_text().split() == ["send"]
    (row,) = effects(scene)
    assert row["state"] == "intent"


def question_of(scene: Scene, kind: str) -> str:
    """The id of the one open question."""
    (asked,) = scene.command("questions", "t", "--json").document
    assert asked["kind"] == kind, asked
    return asked["id"]


def goes_on(scene: Scene, kind: str, answer: str) -> tuple[int, list[str]]:
    """Answer the one open question and let the task go on."""
    done = scene.command("answer", "t", question_of(scene, kind), answer, "--json")
    assert done.code == 0, done
    code = scene.command("resume", "t", "--quiet").code
    return code, (scene.folder / "world").read_text().split()


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ('{"done": true, "result": 7}', 0, ["send"]),
        ("not_done", 0, ["send", "send"]),
        ("fail", 1, ["send"]),
    ],
)
def test_a_person_settles_what_nobody_knows(
    scene: Scene, answer: str, code: int, said: list[str]
) -> None:
    assert run(scene, "send", "raise once", timeout_seconds=1) == (3, ["send"])
    assert goes_on(scene, "unknown_effect", answer) == (code, said)


@pytest.mark.parametrize(
    ("answer", "said", "result"),
    [('{"done": true, "result": 7}', ["send"], 7), ("not_done", ["send", "send"], 1)],
)
def test_what_a_person_found_out_is_known_after_a_rollback_too(
    scene: Scene, answer: str, said: list[str], result: int
) -> None:
    assert run(scene, "send", "raise once", timeout_seconds=1) == (3, ["send"])
    question = question_of(scene, "unknown_effect")
    assert scene.command("answer", "t", question, answer).code == 0
    (row,) = effects(scene)
    assert row["state"] == ("done" if result == 7 else "failed")
    assert scene.command("rollback", "t", "start").code == 0
    assert scene.command("resume", "t", "--quiet").code == 0
    assert (scene.folder / "world").read_text().split() == said
    assert scene.command("result", "t", "only").document == result


@pytest.mark.parametrize(
    ("answer", "code", "said"), [("true", 0, ["book"]), ("no: not today", 1, [])]
)
def test_a_person_approves_a_call(scene: Scene, answer: str, code: int, said: list[str]) -> None:
    good: Any = {"success": [{"type": "result"}], "retries": None}
    (scene.folder / "world").touch()
    assert run(scene, "book", "fine", approve="always", **good) == (3, [])
    assert goes_on(scene, "approve", answer) == (code, said)


def test_what_did_not_happen_is_allowed_anew_after_a_rollback(scene: Scene) -> None:
    fields: Any = {"approve": "always", "timeout_seconds": 1}
    (scene.folder / "world").touch()
    assert run(scene, "send", "raise", **fields) == (3, [])
    assert goes_on(scene, "approve", "yes") == (3, ["send"])
    question = question_of(scene, "unknown_effect")
    assert scene.command("answer", "t", question, "not_done").code == 0
    assert scene.command("rollback", "t", "start").code == 0
    assert scene.command("resume", "t", "--quiet").code == 3
    assert (scene.folder / "world").read_text().split() == ["send"]
    assert goes_on(scene, "approve", "yes") == (3, ["send", "send"])


def test_a_person_undoes_what_could_not_be_undone(scene: Scene) -> None:
    assert run(scene, "book", "locked") == (3, ["book"])
    assert goes_on(scene, "undo_failed", "retry") == (3, ["book"])
    assert goes_on(scene, "undo_failed", "undone") == (0, ["book", "book"])
    document = scene.command("status", "t", "--json").document
    assert document["attempts"] == 2, "the attempt that was undone by hand has failed once"


@pytest.mark.parametrize(("answer", "said"), [("reuse", ["send"]), ("do", ["send", "send"])])
def test_after_a_rollback_another_meaning_is_put_to_a_person_and_the_same_is_answered(
    scene: Scene, answer: str, said: list[str]
) -> None:
    good: Any = {"success": [{"type": "result"}], "retries": None}
    assert run(scene, "send", "fine", **good) == (0, ["send"])
    assert scene.command("rollback", "t", "start", "--json").code == 0
    assert scene.command("resume", "t", "--quiet").code == 0
    assert (scene.folder / "world").read_text().split() == ["send"], "the same is answered"
    assert scene.command("rollback", "t", "start", "--json").code == 0
    other = json.dumps({"file": str(scene.folder / "world"), "how": "other"})
    assert scene.command("edit", "t", "only", "--args", other, "--json").code == 0
    assert scene.command("resume", "t", "--quiet").code == 3
    assert goes_on(scene, "other_effect", answer) == (0, said)


def test_an_irreversible_effect_is_never_made_twice_by_retries(scene: Scene) -> None:
    retries = {"max_attempts": 3, "backoff_seconds": 0}
    code, said = run(scene, "send", "fine", retries=retries)
    assert (code, said) == (1, ["send"])


def test_effects_of_an_unknown_task_are_refused(scene: Scene) -> None:
    done = scene.command("effects", "none", "--json")
    assert done.code_and_error == (2, "unknown_task")
