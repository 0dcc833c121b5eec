"""Going back to a milestone or to the start: by the judge, by a person, with all that was done."""

import json
from pathlib import Path
from typing import Any

import pytest
from scenes import Scene, subtask, task

from surefoot.graph.settings import Settings

TOOLS = Path(__file__).parent.parent / "tool_modules" / "way_back_tools.py"


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def told(log: Path) -> list[str]:
    """What was done outside, in order."""
    return log.read_text().splitlines() if log.exists() else []


def ends(log: Path) -> list[str]:
    """The same without what says that it begins."""
    return [line for line in told(log) if not line.endswith("begins")]


def act(log: Path, id: str, tool: str, *needs: str, **more: Any) -> Any:
    """A subtask that leaves the line of its id."""
    args = {"file": str(log), "word": id, **more.pop("args", {})}
    return subtask(id, tool, args, depends_on=list(needs), **more)


def milestone(id: str, after: str, *on_failure: str, check: Any = None) -> Any:
    made = {"id": id, "after": after, "checks": [check] if check else []}
    return {**made, "on_failure": list(on_failure)} if on_failure else made


def planned(subtasks: list[Any], milestones: list[Any], **more: Any) -> dict[str, Any]:
    made = task(subtasks, tools=[TOOLS], **more)
    made["plan"]["milestones"] = milestones
    return made


def exists(path: Path) -> Any:
    return {"type": "command", "run": f"test -f {path}"}


def test_a_milestone_goes_back_as_often_as_it_may_and_then_takes_its_next_choice(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    given = planned(
        [act(log, "a", "mark"), act(log, "b", "mark", "a"), act(log, "c", "mark", "b")],
        [
            milestone("first", "a"),
            milestone("second", "b", "rollback", "fail", check=exists(tmp_path / "ok")),
        ],
    )
    done = scene.command("run", scene.file(given), "--id", "t1", "--json")
    assert done.code == 1
    assert told(log) == ["a", "b", "b", "b"]
    status = done.document
    assert status["failure"]["code"] == "milestone_failed"
    assert status["milestones"] == {"total": 2, "passed": 1, "failed": 3, "rollbacks": 2}
    assert status["attempts"] == 4
    history = scene.command("history", "t1", "--json").document
    back = [e for e in history if e["strategy"] == "roll back to the stable point"]
    assert [e["milestone"] for e in back] == ["first", "first"]
    assert all("second" in e["reason"] for e in back)
    (tmp_path / "ok").touch()
    assert scene.command("resume", "t1", "--rollbacks", "3").code == 0
    assert told(log) == ["a", "b", "b", "b", "c"]


def test_a_person_goes_back_and_only_the_segment_is_done_again(scene: Scene, log: Path) -> None:
    subtasks = [
        act(log, "a", "make", args={"name": "a.txt"}),
        act(log, "b", "make", "a", args={"name": "b.txt"}),
        act(log, "c", "mark", "b", args={"value": "${b.artifact.b.txt}"}),
    ]
    given = planned(subtasks, [milestone("first", "a")])
    assert scene.command("run", scene.file(given), "--id", "t1").code == 0
    done = scene.command("rollback", "t1", "first", "--json")
    assert done.code == 0
    assert done.document == {"applied": "rollback", "milestone": "first", "reopened": ["b", "c"]}
    status = scene.command("status", "t1", "--json").document
    assert (status["status"], status["failure"]) == ("paused", None)
    assert status["progress"] == pytest.approx(1 / 3, abs=1e-4)
    assert status["milestones"] == {"total": 1, "passed": 1, "failed": 0, "rollbacks": 1}
    assert status["attempts"] == 3
    artifacts = scene.command("artifacts", "t1", "--json").document
    assert {e["name"]: e["withdrawn"] for e in artifacts} == {"a/a.txt": False, "b/b.txt": True}
    assert scene.command("artifacts", "t1", "b.txt", "--json").code == 2
    assert scene.command("result", "t1", "b", "--json").code_and_error == (2, "no_result")
    again = scene.command("resume", "t1", "--json").document
    assert (again["status"], again["attempts"]) == ("completed", 5)
    assert told(log) == ["a", "b", "c", "b", "c"]
    newest = scene.folder / "newest.txt"
    assert scene.command("artifacts", "t1", "b.txt", "-o", newest).code == 0
    assert newest.read_text() == "b 4"
    artifacts = scene.command("artifacts", "t1", "--json").document
    assert [(e["version"], e["withdrawn"]) for e in artifacts if e["subtask"] == "b"] == [
        (1, True),
        (2, False),
    ]


def test_the_start_always_exists(scene: Scene, log: Path) -> None:
    given = planned([act(log, "a", "mark"), act(log, "b", "mark", "a")], [])
    assert scene.command("run", scene.file(given), "--id", "t1").code == 0
    told_so = scene.command("rollback", "t1", "start")
    assert (told_so.code, told_so.out) == (
        0,
        "t1: back to 'start'; to be done again: a, b (paused)\ngo on with: surefoot resume t1\n",
    )
    assert scene.command("status", "t1", "--json").document["progress"] == 0
    assert scene.command("resume", "t1").code == 0
    assert told(log) == ["a", "b", "a", "b"]


def test_a_way_back_that_does_not_exist_is_refused(scene: Scene, log: Path, tmp_path: Path) -> None:
    subtasks = [act(log, "a", "mark"), act(log, "b", "mark", "a")]
    never = milestone("never", "b", "fail", check=exists(tmp_path / "no"))
    given = planned(subtasks, [milestone("first", "a"), never])
    assert scene.command("run", scene.file(given), "--id", "t1").code == 1
    for name in ("nobody", "never"):
        refused = scene.command("rollback", "t1", name, "--json")
        assert refused.code_and_error == (2, "unknown_milestone")
        assert "first, start" in refused.error["message"]
    assert scene.command("status", "t1", "--json").document["status"] == "failed"
    assert scene.command("rollback", "nobody", "start", "--json").code_and_error == (
        2,
        "unknown_task",
    )
    assert scene.command("rollback", "t1", "first").code == 0
    assert scene.command("cancel", "t1").code == 0
    cancelled = scene.command("rollback", "t1", "start", "--json")
    assert cancelled.code_and_error == (2, "wrong_state")


def test_effects_are_taken_back_newest_first_and_what_stays_answers(
    scene: Scene, log: Path
) -> None:
    subtasks = [
        act(log, "a", "book"),
        act(log, "b", "book", "a"),
        act(log, "c", "send", "b"),
        act(log, "d", "book", "c"),
        act(log, "e", "mark", "d", undo={"tool": "clear", "args": {"file": str(log), "word": "e"}}),
    ]
    given = planned(subtasks, [milestone("first", "a")])
    assert scene.command("run", scene.file(given), "--id", "t1").code == 0
    sent = scene.command("result", "t1", "c").out
    assert scene.command("rollback", "t1", "first").code == 0
    before = ["book a", "book b", "send c", "book d", "e"]
    back = ["release d", "release b", "clear e"]
    assert told(log) == [*before, *back]
    assert scene.command("resume", "t1").code == 0
    assert told(log) == [*before, *back, "book b", "book d", "e"]
    assert scene.command("result", "t1", "c").out == sent
    rows = scene.rows("select tool, state, rolled_back from surefoot.effects order by key")
    assert all(
        row["state"] == "done" and not row["rolled_back"] for row in rows if row["tool"] == "send"
    )


def test_the_workspace_is_what_it_was_and_what_lay_there_is_kept(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "work"
    subtasks = [
        act(log, "a", "scribble", args={"path": "notes.txt"}),
        act(log, "b", "scribble", "a", args={"path": "notes.txt"}),
        act(log, "c", "scribble", "b", args={"path": "more.txt"}),
    ]
    given = planned(subtasks, [milestone("first", "a")])
    run = scene.command("run", scene.file(given), "--id", "t1", "--workspace", workspace)
    assert run.code == 0
    assert (workspace / "notes.txt").read_text() == "a\nb\n"
    assert scene.command("rollback", "t1", "first").code == 0
    assert (workspace / "notes.txt").read_text() == "a\n"
    assert not (workspace / "more.txt").exists()
    assert scene.command("resume", "t1").code == 0
    assert (workspace / "notes.txt").read_text() == "a\nb\n"
    assert scene.command("rollback", "t1", "start").code == 0
    assert [path.name for path in workspace.iterdir()] == []
    (event,) = scene.rows(
        "select facts from surefoot.events where type = 'RolledBack'"
        " and facts ->> 'milestone' = 'start'"
    )
    assert event["facts"]["files"] == 2
    assert event["facts"]["kept"]
    assert scene.command("resume", "t1").code == 0
    assert (workspace / "notes.txt").read_text() == "a\nb\n"
    assert scene.command("rollback", "t1", "first").code == 0
    assert (workspace / "notes.txt").read_text() == "a\n"
    assert scene.command("resume", "t1").code == 0


def asks(tmp_path: Path) -> dict[str, Any]:
    """What makes a `once_open` subtask wait for a person until the file is there."""
    return {
        "retries": {"max_attempts": 1},
        "on_failure": ["ask"],
        "args": {"open": str(tmp_path / "open")},
    }


def answer_all(scene: Scene, word: str) -> None:
    for question in scene.command("questions", "t1", "--json").document:
        assert scene.command("answer", "t1", question["id"], word).code == 0


def test_children_that_were_done_at_the_milestone_are_not_done_again(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    more = asks(tmp_path)
    args = {"file": str(log), "word": "f${index}", "open": "${item}"}
    each: Any = {**more, "kind": "tool", "tool": "once_open", "args": args, "writes": ["x"]}
    each["success"] = [{"type": "result"}]
    opens = [str(tmp_path), str(tmp_path / "open"), str(tmp_path)]
    subtasks = [
        act(log, "a", "after", args={"line": "f1"}),
        {"id": "f", "kind": "foreach", "for_each": opens, "each": each},
        act(log, "b", "mark", "f"),
    ]
    given = planned(subtasks, [milestone("first", "a")], concurrency=2)
    assert scene.command("run", scene.file(given), "--id", "t1").code == 3
    assert ends(log) == ["f0", "f1", "a"]
    (tmp_path / "open").touch()
    answer_all(scene, "retry")
    assert scene.command("resume", "t1").code == 0
    once = ["f0", "f1", "a", "f1", "f2", "b"]
    assert ends(log) == once
    done = scene.command("rollback", "t1", "first", "--json")
    assert (done.code, done.document["reopened"]) == (0, ["f", "b", "f/1", "f/2"])
    status = scene.command("status", "t1", "--json").document["subtasks"]
    assert (status["completed"], status["pending"]) == (2, 3)
    assert scene.command("resume", "t1").code == 0
    assert ends(log) == [*once, "f1", "f2", "b"]
    assert scene.command("result", "t1", "f", "--json").document == ["f0", "f1", "f2"]


def test_a_group_goes_on_from_where_it_was_at_the_milestone(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    inner = [
        act(log, "x", "book"),
        act(log, "y", "once_open", "x", **asks(tmp_path)),
        act(log, "z", "book", "y"),
    ]
    subtasks = [
        act(log, "a", "after", args={"line": "y"}),
        {"id": "g", "kind": "group", "plan": {"subtasks": inner}, "outputs": {"z": "${z}"}},
        act(log, "b", "mark", "g", args={"value": "${g.z}"}),
    ]
    given = planned(subtasks, [milestone("first", "a")], concurrency=2)
    assert scene.command("run", scene.file(given), "--id", "t1").code == 3
    (tmp_path / "open").touch()
    answer_all(scene, "retry")
    assert scene.command("resume", "t1").code == 0
    first = ["book x", "y", "a", "y", "book z", "b"]
    assert ends(log) == first
    back = scene.command("rollback", "t1", "first", "--json").document
    assert back["reopened"] == ["g", "b"]
    rows = scene.rows("select id, state, attempts from surefoot.subtasks order by id")
    assert {row["id"]: row["state"] for row in rows} == {
        **{"a": "completed", "g": "pending", "b": "pending"},
        **{"g/x": "completed", "g/y": "pending", "g/z": "pending"},
    }
    progress = scene.command("status", "t1", "--json").document["progress"]
    assert progress == pytest.approx((1 + 1 / 3) / 3, abs=1e-4)
    assert ends(log) == [*first, "release z"]
    assert scene.command("resume", "t1").code == 0
    second = [*first, "release z", "y", "book z", "b"]
    assert ends(log) == second
    assert scene.command("rollback", "t1", "start").code == 0
    assert ends(log) == [*second, "release z", "release x"]
    assert scene.command("resume", "t1").code == 0
    assert sorted(ends(log)[len(second) + 2 :]) == sorted(["a", "book x", "y", "book z", "b"])
    rows = scene.rows("select id, attempts from surefoot.subtasks where id like 'g/%%'")
    assert {row["id"]: row["attempts"] for row in rows} == {"g/x": 2, "g/y": 4, "g/z": 3}


def test_a_milestone_inside_a_group_goes_back_inside_it(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    inner = {
        "subtasks": [act(log, "x", "mark"), act(log, "y", "book", "x")],
        "milestones": [
            milestone("half", "x"),
            milestone("whole", "y", "rollback", "fail", check=exists(tmp_path / "ok")),
        ],
    }
    subtasks = [
        {"id": "g", "kind": "group", "plan": inner},
        act(log, "b", "mark", "g"),
    ]
    given = planned(subtasks, [], limits={"rollbacks": 1})
    assert scene.command("run", scene.file(given), "--id", "t1").code == 1
    assert told(log) == ["x", "book y", "release y", "book y"]
    history = scene.command("history", "t1", "--json").document
    (back,) = [e for e in history if e["strategy"] == "roll back to the stable point"]
    assert (back["subtask"], back["milestone"]) == ("g", "g/half")


def test_a_blocked_way_back_is_put_to_a_person(scene: Scene, log: Path, tmp_path: Path) -> None:
    given = planned([act(log, "a", "book"), act(log, "b", "book", "a")], [])
    assert scene.command("run", scene.file(given), "--id", "t1").code == 0
    (tmp_path / "blocked").touch()
    assert scene.command("rollback", "t1", "start").code == 0
    status = scene.command("status", "t1", "--json").document
    assert status["status"] == "waiting"
    (question,) = status["questions"]
    assert (question["kind"], question["subtask"]) == ("undo_failed", "b")
    result = tmp_path / "result.json"
    result.write_text('"b"')
    plan = scene.write("plan.json", json.dumps({"subtasks": [act(log, "z", "book")]}))
    for words in (
        ["rollback", "t1", "start"],
        ["edit", "t1", "a", "--result", str(result)],
        ["replan", "t1", "--plan", str(plan)],
    ):
        refused = scene.command(*words, "--json")
        assert refused.code_and_error == (2, "wrong_state")
        assert "waits for an answer" in refused.error["message"]
    assert scene.command("resume", "t1").code == 3
    assert told(log) == ["book a", "book b"]
    (tmp_path / "blocked").unlink()
    assert scene.command("answer", "t1", question["id"], "retry").code == 0
    status = scene.command("status", "t1", "--json").document
    assert (status["status"], status["questions"]) == ("paused", [])
    assert told(log) == ["book a", "book b", "release b", "release a"]
    assert scene.command("resume", "t1").code == 0
    assert told(log)[-2:] == ["book a", "book b"]


def test_a_cancel_tells_how_far_a_blocked_way_back_had_come(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    given = planned([act(log, "a", "book"), act(log, "b", "book", "a")], [])
    assert scene.command("run", scene.file(given), "--id", "t1").code == 0
    (tmp_path / "blocked a").touch()
    assert scene.command("rollback", "t1", "start").code == 0
    assert told(log) == ["book a", "book b", "release b"]
    assert scene.command("cancel", "t1").code == 0
    events = scene.command("events", "t1", "--json").document
    (left,) = [event for event in events if event["type"] == "NotTakenBack"]
    assert "of subtask 'a' is to be taken back, and could not be" in left["reason"]
    assert left["reason"].endswith("taken back by then: b")
