"""A full version that succeeds after a simpler one stood in for it: one effect is left."""

from pathlib import Path
from typing import Any

import pytest
from scenes import Scene, subtask, task

from surefoot.graph.settings import Settings

TOOLS = Path(__file__).parent.parent / "tool_modules" / "way_back_tools.py"


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


def told(log: Path) -> list[str]:
    return log.read_text().splitlines()


def degraded(log: Path, opened: Path, tool: str, simple: str) -> dict[str, Any]:
    """`a` holds only once `b` has opened, which comes after it; until then a simpler one stands."""

    def call(word: str, tool: str = tool) -> Any:
        return {"kind": "tool", "tool": tool, "args": {"file": str(log), "word": word}}

    rung = {**call(simple), "success": [{"type": "result"}], "improve_later": True}
    check = {"type": "command", "run": f"test -f {opened}"}
    a = {"id": "a", **call("full"), "success": [check], "retries": {"max_attempts": 1}}
    b = subtask("b", "mark", {"file": str(opened), "word": "b"}, depends_on=["a"])
    return task([{**a, "on_failure": [rung]}, b], tools=[TOOLS])


@pytest.mark.parametrize(
    ("tool", "simple", "left"),
    [
        ("book", "simple", ["book full", "release full", "book simple", "book full"]),
        ("book", "full", ["book full", "release full", "book full"]),
        ("mark", "simple", ["full", "simple", "full"]),
    ],
    ids=["reversible", "the same call", "idempotent"],
)
def test_what_the_simpler_version_did_is_taken_back(
    scene: Scene, tmp_path: Path, tool: str, simple: str, left: list[str]
) -> None:
    log = tmp_path / "log"
    given = degraded(log, tmp_path / "opened", tool, simple)
    assert scene.command("run", scene.file(given), "--id", "t").code == 0
    released = ["release simple"] if (tool, simple) == ("book", "simple") else []
    assert told(log) == [*left, *released]
    rows = scene.command("effects", "t", "--json").document
    standing = [row for row in rows if row["tool"] == "book" and row["state"] == "done"]
    assert len(standing) == (tool == "book")
    events = [e["type"] for e in scene.command("events", "t", "--json").document]
    assert events.count("SubtaskImproved") == 1


def test_a_simpler_booking_that_cannot_be_released_is_put_to_a_person(
    scene: Scene, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    given = degraded(log, tmp_path / "opened", "book", "simple")
    given["plan"]["subtasks"].append(
        subtask("c", "mark", {"file": str(tmp_path / "blocked"), "word": "c"}, depends_on=["b"])
    )
    assert scene.command("run", scene.file(given), "--id", "t").code == 3
    (question,) = scene.command("questions", "t", "--json").document
    assert (question["kind"], question["subtask"]) == ("undo_failed", "a")
    (tmp_path / "blocked").unlink()
    assert scene.command("answer", "t", question["id"], "retry").code == 0
    assert scene.command("resume", "t").code == 0
    assert told(log)[-1] == "release simple"
    assert told(log).count("book full") == 2
