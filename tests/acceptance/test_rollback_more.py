"""Going back with models, new plans and running tasks; what snapshots hold; history that stays."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, call_tool, finish, say_json
from scenes import Scene, subtask, task, until

from surefoot.graph.build import build_task_graph
from surefoot.graph.errors import UsageError
from surefoot.graph.settings import Settings

NOTHING_DRIFTS = say_json({"pass": True, "confidence": 0.9, "reasons": ["fine"]})
TOOLS = Path(__file__).parent.parent / "tool_modules" / "way_back_tools.py"


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Any:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def told(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def act(log: Path, id: str, tool: str, *needs: str, **more: Any) -> Any:
    args = {"file": str(log), "word": id, **more.pop("args", {})}
    return subtask(id, tool, args, depends_on=list(needs), **more)


def agent(id: str, *needs: str, wants: Any, **more: Any) -> Any:
    return {
        **{"id": id, "kind": "agent", "instructions": "Count.", "tools": []},
        **{"depends_on": list(needs), "success": [{"type": "result", "equals": wants}]},
        **{"retries": {"max_attempts": 3, "backoff_seconds": 0}},
        **more,
    }


def after(id: str, place: str) -> Any:
    return {"id": id, "after": place, "checks": []}


def planned(subtasks: list[Any], milestones: list[Any], **more: Any) -> dict[str, Any]:
    made = task(subtasks, tools=[TOOLS], **more)
    made["plan"]["milestones"] = milestones
    return made


def reflects(choice: str) -> Any:
    return say_json({"choice": choice, "criticism": "the numbers are old"})


def test_a_model_goes_back_once_for_a_failure_and_not_twice_for_the_same(
    scene: Scene, models: ModelServer, log: Path
) -> None:
    models.on("agent", finish(2), finish(2), finish(3))
    models.always("reflection", reflects("rollback"))
    models.always("verdict", NOTHING_DRIFTS)
    subtasks = [
        act(log, "a", "mark"),
        act(log, "b", "mark", "a"),
        agent("c", "b", wants=3),
    ]
    given = planned(subtasks, [after("first", "a")], model="m")
    done = scene.process("run", scene.file(given), "--id", "t1", "--json")
    assert done.code == 0, done.err
    assert told(log) == ["a", "b", "b"]
    assert done.document["milestones"]["rollbacks"] == 1
    first, second, *_ = models.of("reflection")
    assert "go back to the last good state" in str(first.body)
    assert "go back to the last good state" not in str(second.body)
    history = scene.command("history", "t1", "--json").document
    (back,) = [e for e in history if e["strategy"] == "roll back to the stable point"]
    assert "it is 2, not 3" in back["reason"]
    assert done.document["attempts"] == 6


def test_an_agent_that_is_taken_back_begins_on_a_new_thread(
    scene: Scene, models: ModelServer, log: Path
) -> None:
    models.always("agent", finish(3))
    models.always("verdict", NOTHING_DRIFTS)
    given = planned([act(log, "a", "mark"), agent("c", "a", wants=3)], [after("m", "a")], model="m")
    assert scene.process("run", scene.file(given), "--id", "t1").code == 0
    assert scene.process("rollback", "t1", "m").code == 0
    assert scene.process("resume", "t1").code == 0
    threads = scene.rows("select distinct thread_id as id from checkpoints order by 1")
    assert [row["id"] for row in threads] == ["t1", "t1/c/1", "t1/c/2"]
    assert [len(seen.messages) for seen in models.of("agent")] == [2, 2]


def send(log: Path, word: str) -> Any:
    return call_tool("send", {"file": str(log), "word": word})


@pytest.mark.parametrize(
    ("choice", "sent"),
    [("do", ["send A", "send A2"]), ("reuse", ["send A"])],
)
def test_an_agent_that_words_a_call_otherwise_in_a_retry_is_asked_about(
    scene: Scene, models: ModelServer, log: Path, choice: str, sent: list[str]
) -> None:
    """What the failed attempt sent stands; a fresh wording of it must not send it twice."""
    models.on("agent", send(log, "A"), finish("bad"), send(log, "A2"), finish("good"))
    models.always("reflection", reflects("retry"))
    models.always("verdict", NOTHING_DRIFTS)
    given = planned([agent("a", wants="good", tools=["send"])], [], model="m")
    assert scene.process("run", scene.file(given), "--id", "t1").code == 3
    assert told(log) == ["send A"]
    (question,) = scene.command("questions", "t1", "--json").document
    assert (question["kind"], question["subtask"]) == ("other_effect", "a")
    assert scene.command("answer", "t1", question["id"], choice).code == 0
    assert scene.process("resume", "t1").code == 0
    assert told(log) == sent


def test_an_agent_that_asks_again_for_what_it_sent_may_send_more(
    scene: Scene, models: ModelServer, log: Path
) -> None:
    both = [send(log, "A"), send(log, "B"), finish("good")]
    models.on("agent", send(log, "A"), finish("bad"), *both)
    models.always("reflection", reflects("retry"))
    models.always("verdict", NOTHING_DRIFTS)
    given = planned([agent("a", wants="good", tools=["send"])], [], model="m")
    assert scene.process("run", scene.file(given), "--id", "t1").code == 0
    assert told(log) == ["send A", "send B"]


def test_a_new_plan_stays_when_the_task_goes_back(scene: Scene, log: Path) -> None:
    subtasks = [act(log, "a", "book"), act(log, "b", "book", "a"), act(log, "c", "mark", "b")]
    broken = [
        *subtasks,
        subtask(
            "x",
            "once_open",
            {"file": str(log), "word": "x", "open": "/no"},
            depends_on=["c"],
            retries={"max_attempts": 1},
        ),
    ]
    assert (
        scene.command("run", scene.file(planned(broken, [after("m", "a")])), "--id", "t1").code == 1
    )
    new = scene.file({"subtasks": [act(log, "y", "mark", "c")]}, "new.json")
    assert scene.command("replan", "t1", "--plan", new).code == 0
    back = scene.command("rollback", "t1", "m", "--json").document
    assert back["reopened"] == ["b", "c"]
    status = scene.command("status", "t1", "--json").document
    assert (status["plan_version"], status["subtasks"]["total"]) == (2, 4)
    assert scene.command("resume", "t1").code == 0
    assert told(log) == ["book a", "book b", "c", "x", "release b", "book b", "c", "y"]


async def test_a_task_that_runs_is_paused_first(scene: Scene, log: Path, tmp_path: Path) -> None:
    subtasks = [
        act(log, "a", "mark"),
        act(log, "b", "gate", "a", args={"open": str(tmp_path / "open")}, timeout_seconds=60),
    ]
    given = planned(subtasks, [after("m", "a")])
    with scene.started("run", scene.file(given), "--id", "t1") as running:
        await until(lambda: told(log) == ["a", "b"])
        async with scene.client() as other:
            with pytest.raises(UsageError) as refused:
                await other.rollback("t1", "m")
        assert refused.value.code == "wrong_state"
        assert "pause it first" in str(refused.value)
        (tmp_path / "open").touch()
        await until(lambda: running.poll() is not None)
        assert running.returncode == 0
    assert told(log) == ["a", "b"]


def test_a_snapshot_holds_all_that_a_rebuild_needs(scene: Scene, log: Path) -> None:
    subtasks = [act(log, "a", "scribble", args={"path": "notes.txt"}), act(log, "b", "mark", "a")]
    given = planned(subtasks, [after("m", "a")])
    assert scene.command("run", scene.file(given), "--id", "t1").code == 0
    start, at_milestone = scene.rows(
        "select milestone, manifest, state, environment, files, bytes from surefoot.snapshots"
        " where tier = 'complete' order by id"
    )
    assert (start["milestone"], start["files"]) == ("start", 0)
    assert (at_milestone["milestone"], at_milestone["files"], at_milestone["bytes"]) == ("m", 1, 2)
    assert at_milestone["environment"]["programs"]["langgraph"]
    assert at_milestone["environment"]["tools"]
    document = stored(scene, at_milestone["state"])
    assert {"goal", "head", "records", "milestones", "decisions", "plan_at", "groups"} <= set(
        document
    )
    assert document["records"]["a"]["state"] == "completed"
    assert [s["id"] for s in stored(scene, document["plan_at"])["subtasks"]] == ["a", "b"]


def test_what_was_put_right_by_hand_counts_for_that_way_back_alone(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    written = {"args": {"path": "out.txt"}, "writes": ["out.txt"]}
    given = planned(
        [act(log, "a", "scribble", **written), act(log, "b", "scribble", "a", **written)],
        [after("m", "a")],
    )
    place = tmp_path / "place"
    file = scene.file(given)
    assert scene.command("run", file, "--id", "t1", "--workspace", place).code == 0
    root = Path(scene.settings.artifacts_url.removeprefix("file://"))
    sha256 = hashlib.sha256(b"a\n").hexdigest()
    (root / "sha256" / sha256[:2] / sha256).unlink()
    assert scene.command("rollback", "t1", "m").code == 0
    (question,) = scene.command("questions", "t1", "--json").document
    assert question["kind"] == "undo_failed" and "missing" in question["text"]
    (place / "out.txt").write_text("a\n")
    assert scene.command("answer", "t1", question["id"], "undone").code == 0
    assert scene.command("resume", "t1").code == 0
    assert (place / "out.txt").read_text() == "a\nb\n"
    assert scene.command("rollback", "t1", "start").code == 0
    assert not (place / "out.txt").exists()


@pytest.mark.parametrize("way", ["skip and retry", "another ladder", "away and back"])
def test_a_group_that_was_taken_back_is_done_again_whatever_became_of_its_record(
    scene: Scene, log: Path, way: str
) -> None:
    inner = [act(log, "x", "book"), act(log, "y", "book", "x")]
    group = {"id": "g", "kind": "group", "plan": {"subtasks": inner}, "depends_on": ["a"]}
    a, z = act(log, "a", "mark"), act(log, "z", "mark", "g")
    assert scene.command("run", scene.file(planned([a, group, z], [])), "--id", "t1").code == 0
    assert scene.command("rollback", "t1", "start").code == 0

    def replan(*subtasks: Any) -> None:
        plan = scene.write("plan.json", json.dumps({"subtasks": subtasks}))
        done = scene.command("replan", "t1", "--plan", str(plan))
        assert done.code == 0, done.err

    if way == "skip and retry":
        assert scene.command("skip", "t1", "g").code == 0
        assert scene.command("retry", "t1", "g").code == 0
    elif way == "another ladder":
        replan(a, {**group, "on_failure": ["ask"]}, z)
    else:
        replan(a, act(log, "z", "mark", "a"))
        replan(a, group, z)
    assert scene.command("resume", "t1").code == 0
    lines = ["book x", "book y", "release y", "release x", "book x", "book y"]
    assert [line for line in told(log) if " " in line] == lines
    rows = scene.rows("select state from surefoot.subtasks where id like 'g%%'")
    assert {row["state"] for row in rows} == {"completed"}


@pytest.mark.parametrize("back", ["rollback", "edit"])
def test_who_goes_back_over_a_milestone_is_not_asked_about_what_going_back_removed(
    scene: Scene, log: Path, tmp_path: Path, back: str
) -> None:
    written = {"path": "out/deep/a.txt"}
    a = act(log, "a", "scribble", args=written, writes=["out/deep/a.txt"])
    fails = act(log, "b", "mark", "a", success=[{"type": "result", "equals": "never"}])
    given = planned([a, {**fails, "retries": {"max_attempts": 1}}], [after("m", "a")])
    place = tmp_path / "place"
    file = scene.file(given)
    assert scene.command("run", file, "--id", "t1", "--workspace", place).code == 1
    other = json.dumps({"file": str(log), "word": "other", **written})
    words = ["start"] if back == "rollback" else ["a", "--args", other]
    done = scene.command(back, "t1", *words)
    assert done.code == 0, done.err
    assert not (place / "out").exists()
    resumed = scene.command("resume", "t1", "--json")
    assert resumed.code == 1, "it goes on to where it fails, and asks nothing"
    assert (place / "out/deep/a.txt").exists()


def test_a_plan_that_cannot_write_looks_at_no_workspace(scene: Scene) -> None:
    given = planned([subtask("a", "listed", {"count": 2})], [])
    assert scene.command("run", scene.file(given), "--id", "t1").code == 0
    (start,) = scene.rows("select manifest from surefoot.snapshots")
    assert start["manifest"] == {"value": None}
    assert scene.command("rollback", "t1", "start").code == 0
    assert scene.command("resume", "t1").code == 0


async def test_langgraphs_own_history_stays_readable(scene: Scene, log: Path) -> None:
    given = planned([act(log, "a", "mark"), act(log, "b", "mark", "a")], [after("m", "a")])
    async with scene.client() as surefoot:
        await surefoot.run(given, id="t1")
        await surefoot.rollback("t1", "m")
        await surefoot.resume("t1")
    assert scene.settings.database_url is not None
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    async with AsyncPostgresSaver.from_conn_string(scene.settings.database_url) as saver:
        graph: Any = build_task_graph().compile(checkpointer=saver)
        found = graph.aget_state_history({"configurable": {"thread_id": "t1"}})
        states = [state async for state in found]
    done = [state.values.get("records", {}).get("b", {}).get("state") for state in states]
    turns = [one for one, before in zip(done, [None, *done], strict=False) if one != before]
    assert turns == ["completed", "running", "pending", "completed", "running", None]
    steps = [state.metadata["step"] for state in states]
    assert steps == sorted(steps, reverse=True)


def stored(scene: Scene, value: Any) -> Any:
    """A stored value, wherever it lies."""
    if "sha256" not in value:
        return value["value"]
    root = Path(scene.settings.artifacts_url.removeprefix("file://"))
    sha256 = value["sha256"]
    return json.loads((root / "sha256" / sha256[:2] / sha256).read_bytes())
