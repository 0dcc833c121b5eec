"""SIGKILL in the middle of going back: whatever was done of it, the next life comes to the same."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash.commands import started
from crash.storm import wait_until
from scenes import Scene, subtask, task

from surefoot.graph.settings import Settings

TOOLS = Path(__file__).parent.parent / "tool_modules" / "way_back_tools.py"

DONE = ["book a", "book b", "send c", "w", "book d", "e"]
UNDONE = ["release d", "release b", "clear e"]


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


def told(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def given(log: Path) -> dict[str, Any]:
    """Bookings, a letter, a file and a subtask with an `undo`, behind a milestone after `a`."""

    def act(id: str, tool: str, *needs: str, **more: Any) -> Any:
        args = {"file": str(log), "word": id, **more.pop("args", {})}
        return subtask(id, tool, args, depends_on=list(needs), **more)

    clear = {"tool": "clear", "args": {"file": str(log), "word": "e"}}
    made = task(
        [
            act("a", "book"),
            act("b", "book", "a"),
            act("c", "send", "b"),
            act("w", "scribble", "c", args={"path": "notes.txt"}),
            act("d", "book", "w"),
            act("e", "mark", "d", undo=clear),
        ],
        tools=[TOOLS],
    )
    made["plan"]["milestones"] = [{"id": "first", "after": "a", "checks": []}]
    return made


def killed_when(scene: Scene, words: list[str], moment: Callable[[], bool]) -> bool:
    """Run a command as a process and kill it at a moment; False where it ended before."""
    with scene.started(*words) as process:
        wait_until(lambda: process.poll() is not None or moment())
        if process.poll() is not None:
            return False
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return True


@pytest.mark.parametrize("undone", range(1, len(UNDONE) + 1))
def test_a_rollback_that_is_killed_comes_to_the_same(
    scene: Scene, tmp_path: Path, undone: int
) -> None:
    log, workspace = tmp_path / "log", tmp_path / "work"
    run = scene.command("run", scene.file(given(log)), "--id", "t1", "--workspace", workspace)
    assert run.code == 0
    assert told(log) == DONE
    reached = len(DONE) + undone
    kills = killed_when(scene, ["rollback", "t1", "first"], lambda: len(told(log)) >= reached)
    # What follows is killed as well, each time a little further on.
    for more in range(3):
        kills += killed_when(
            scene, ["resume", "t1"], lambda more=more: len(told(log)) > reached + more
        )
    assert kills >= 2
    wait_until(lambda: scene.command("resume", "t1").code == 0)
    check(scene, log, workspace)


def test_a_rollback_is_killed_at_its_first_and_at_its_last_moment(
    scene: Scene, tmp_path: Path
) -> None:
    log, workspace = tmp_path / "log", tmp_path / "work"
    run = scene.command("run", scene.file(given(log)), "--id", "t1", "--workspace", workspace)
    assert run.code == 0

    def event(type: str) -> Callable[[], bool]:
        query = f"select 1 as n from surefoot.events where type = '{type}'"
        return lambda: bool(scene.rows(query))

    killed_when(scene, ["rollback", "t1", "first"], event("CommandApplied"))
    killed_when(scene, ["resume", "t1"], event("RolledBack"))
    wait_until(lambda: scene.command("resume", "t1").code == 0)
    check(scene, log, workspace)


def test_what_is_asked_after_a_killed_rollback_is_asked_of_where_it_led(
    scene: Scene, tmp_path: Path
) -> None:
    """Some is taken back already: a nearer milestone does not stand any more, nor what used it."""
    log, workspace = tmp_path / "log", tmp_path / "work"
    plan = given(log)
    plan["plan"]["milestones"].append({"id": "later", "after": "w", "checks": []})
    run = scene.command("run", scene.file(plan), "--id", "t1", "--workspace", workspace)
    assert run.code == 0
    assert killed_when(scene, ["rollback", "t1", "first"], lambda: "release d" in told(log))
    nearer = scene.process("rollback", "t1", "later", "--json")
    assert nearer.code_and_error == (2, "unknown_milestone")
    assert told(log)[len(DONE) :].count("release b") == 1
    check_ways_back(scene, 1)
    assert scene.command("resume", "t1").code == 0
    begun = len(told(log))
    assert killed_when(scene, ["rollback", "t1", "first"], lambda: len(told(log)) > begun)
    (tmp_path / "given.json").write_text('"given"')
    edited = scene.process("edit", "t1", "b", "--result", str(tmp_path / "given.json"), "--json")
    check_ways_back(scene, 2)
    assert edited.code == 0
    assert edited.document["reopened"] == []  # nothing has used it any more
    assert scene.command("resume", "t1").code == 0
    assert scene.command("result", "t1", "b").document == "given"
    lines = told(log)
    # A release that was cut is made again; what counts is what stands.
    last = {word: [line for line in lines if line.endswith(f" {word}")][-1] for word in "abd"}
    assert last == {"a": "book a", "b": "release b", "d": "book d"}
    counts = [lines.count(f"book {word}") for word in "abd"]
    assert (*counts, lines.count("send c")) == (1, 2, 3, 1)


def test_a_cancel_finishes_the_way_back_that_was_begun(scene: Scene, tmp_path: Path) -> None:
    """Nobody will go on with it, and half of it taken back would look as if it were done."""
    log, workspace = tmp_path / "log", tmp_path / "work"
    run = scene.command("run", scene.file(given(log)), "--id", "t1", "--workspace", workspace)
    assert run.code == 0
    assert killed_when(scene, ["rollback", "t1", "first"], lambda: "release d" in told(log))
    done = scene.process("cancel", "t1", "--json")
    assert (done.code, done.document["status"]) == (0, "cancelled")
    assert "release b" in told(log) and "release a" not in told(log)
    assert not (workspace / "notes.txt").exists()
    rows = scene.rows("select id, state from surefoot.subtasks")
    done_still = [row["id"] for row in rows if row["state"] == "completed"]
    assert done_still == ["a"]
    assert len(scene.rows("select 1 from surefoot.events where type = 'RolledBack'")) == 1


def test_a_failed_task_goes_on_after_an_edit_that_was_killed_while_it_took_back(
    scene: Scene, tmp_path: Path
) -> None:
    log, opened = tmp_path / "log", tmp_path / "opened"

    def book(id: str, word: str, *needs: str, **more: Any) -> Any:
        return subtask(id, "book", {"file": str(log), "word": word}, depends_on=list(needs), **more)

    check = {"type": "command", "run": f"test -f {opened}"}
    plan = [
        book("a", "a"),
        book("b", "b-${a}", "a"),
        book("c", "c-${b}", "b"),
        book("f", "f-${c}", "c", success=[check], retries={"max_attempts": 1}),
    ]
    assert scene.command("run", scene.file(task(plan, tools=[TOOLS])), "--id", "t1").code == 1
    opened.touch()
    (tmp_path / "given.json").write_text('"x"')
    words = ["edit", "t1", "a", "--result", str(tmp_path / "given.json")]
    assert killed_when(scene, words, lambda: "release c-b-a" in told(log))
    assert scene.command("status", "t1", "--json").document["status"] == "paused"
    assert scene.command("resume", "t1").code == 0
    assert scene.command("result", "t1", "f").document == "f-c-b-x"
    last = [line for line in told(log) if line.endswith("b-a")]
    assert {line for line in last if line.startswith("release")} >= {"release b-a", "release c-b-a"}


def check_ways_back(scene: Scene, number: int) -> None:
    status = scene.command("status", "t1", "--json").document
    assert (status["status"], status["milestones"]["rollbacks"]) == ("paused", number)


def check(scene: Scene, log: Path, workspace: Path) -> None:
    """Only the segment was done again, once; what stays stands; the workspace is what it was."""
    lines = told(log)
    counts = {line: lines.count(line) for line in set(lines)}
    assert (counts["book a"], counts["send c"]) == (1, 1)
    for word in ("b", "d"):
        assert counts[f"book {word}"] == 2
        assert [line for line in lines if line.endswith(f" {word}")][-1] == f"book {word}"
    assert lines.index("release d") < lines.index("release b")
    assert counts["clear e"] >= 1
    assert (workspace / "notes.txt").read_text() == "w\n"
    events = scene.rows("select type, facts from surefoot.events order by id")
    assert [e["facts"]["milestone"] for e in events if e["type"] == "RolledBack"] == ["first"]
    status = json.loads(scene.command("status", "t1", "--json").out)
    assert (status["status"], status["progress"]) == ("completed", 1.0)
    assert status["milestones"]["rollbacks"] == 1
    states = scene.rows("select tool, state, rolled_back from surefoot.effects")
    assert {(row["state"], row["rolled_back"]) for row in states} == {("done", False)}


def test_a_cancel_ends_the_way_back_of_a_process_that_stands_still(
    scene: Scene, tmp_path: Path
) -> None:
    log, slow = tmp_path / "log", tmp_path / "slow b"
    assert scene.command("run", scene.file(given(log)), "--id", "t1").code == 0
    slow.touch()
    with started(scene, "rollback", "t1", "first") as rollback:
        wait_until(lambda: (tmp_path / "waits").exists())
        os.kill(rollback.pid, signal.SIGSTOP)
        slow.unlink()
        cancelled = scene.process("cancel", "t1", "--json")
        assert (cancelled.code, cancelled.document["status"]) == (0, "cancelled"), cancelled.err
        os.kill(rollback.pid, signal.SIGCONT)
        rollback.process.wait(60)
    states = {row["id"]: row["state"] for row in scene.rows("select * from surefoot.subtasks")}
    assert states == {"a": "completed", **dict.fromkeys("bcdew", "pending")}
    rows = scene.rows("select subtask, state from surefoot.effects where effect = 'reversible'")
    effects = {row["subtask"]: row["state"] for row in rows}
    assert effects == {"a": "done", "b": "compensated", "d": "compensated"}
    assert scene.rows("select 1 from surefoot.events where type = 'RolledBack'")
