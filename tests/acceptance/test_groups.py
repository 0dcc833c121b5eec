"""Groups from outside: the command, the client and signals, on a real database."""

import asyncio
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, call_tool, say_json
from scenes import SCENE_TOOLS, Scene, lines, subtask, task, until

from surefoot.graph.settings import Settings

MARKING = """
import time
from collections.abc import Generator
from pathlib import Path
from langchain_core.tools import tool
from surefoot.tools import ToolContext, effect

def _append(name, text):
    with Path(name).open("a") as file:
        file.write(text + "\\n")

@effect("irreversible", key=lambda args: args["name"], probe=lambda args, context: None)
@tool
def once(name: str, folder: str, seconds: float = 0.0) -> dict:
    \"\"\"Do something that must happen once.\"\"\"
    _append(folder + "/started", name)
    time.sleep(seconds)
    _append(folder + "/done", name)
    return {"name": name}

TOOLS = [once]
"""


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


def group(id: str, *subtasks: Any, needs: tuple[str, ...] = (), **more: Any) -> Any:
    plan = {"subtasks": list(subtasks), **more.pop("plan", {})}
    return {"id": id, "kind": "group", "plan": plan, "depends_on": list(needs), **more}


def once(scene: Scene, name: str, *needs: str, seconds: float = 0.0) -> Any:
    args = {"name": name, "folder": str(scene.folder), "seconds": seconds}
    return subtask(name, "once", args, depends_on=list(needs))


def marking(scene: Scene, *subtasks: Any, **more: Any) -> Any:
    tools = [scene.write("marking.py", MARKING), SCENE_TOOLS]
    return task(list(subtasks), tools=tools, **more)


def reviewed() -> list[Any]:
    """A list, a group for each of its items, and what comes of them."""
    shout = subtask("shout", "echo", {"value": "${read}!"}, depends_on=["read"])
    inner = [subtask("read", "echo", {"value": "${inputs.name} ${inputs.n}"}), shout]
    each = {
        "kind": "group",
        "plan": {"subtasks": inner, "milestones": [{"id": "read-well", "after": "read"}]},
        "inputs": {"name": "${item}", "n": "${index}"},
        "outputs": {"loud": "${shout}"},
        "success": [{"type": "result", "path": "loud", "json_schema": {"type": "string"}}],
    }
    reviews = {"id": "review", "kind": "foreach", "for_each": "${list}", "each": each}
    return [
        subtask("list", "echo", {"value": ["a", "b"]}),
        reviews | {"depends_on": ["list"]},
        subtask("end", "echo", {"value": "${review}"}, depends_on=["review"]),
    ]


def test_what_a_group_did_is_seen_from_everywhere(scene: Scene) -> None:
    done = scene.command("run", scene.file(task(reviewed())), "--id", "t", "--json")
    assert done.code == 0, done.out + done.err
    assert done.document["subtasks"]["total"] == done.document["subtasks"]["completed"] == 6
    assert (done.document["attempts"], done.document["usage"]["steps"]) == (6, 6)
    result = scene.command("result", "t", "end", "--json").document
    assert result == [{"loud": "a 0!"}, {"loud": "b 1!"}]
    assert scene.command("result", "t", "review/1/shout", "--json").document == "b 1!"
    assert scene.command("result", "t", "review/1", "--json").document == {"loud": "b 1!"}
    assert scene.command("result", "t", "review/1/nothing").code == 2
    events = scene.command("events", "t", "--json").document
    of_inner = [e["type"] for e in events if e["subtask"] == "review/0/read"]
    assert of_inner == ["SubtaskStarted", "SubtaskCompleted"]
    passed = [e for e in events if e["type"] == "MilestonePassed"]
    assert sorted(e["subtask"] for e in passed) == ["review/0", "review/1"]
    assert [e["type"] for e in events].count("TaskCompleted") == 1
    threads = scene.rows("select distinct thread_id from checkpoints order by 1")
    named = [row["thread_id"].partition(":")[0] for row in threads]
    assert named == ["t", "t/review/0", "t/review/1"]


def test_a_plan_shows_its_groups_and_what_is_in_them(scene: Scene) -> None:
    inner = group("h", subtask("a", "echo", {"value": 1}))
    file = scene.file(task([group("g", inner, subtask("b", "echo", {"value": 2}))]))
    assert scene.command("run", file, "--id", "t", "--quiet").code == 0
    entries = scene.command("plan", "t", "--json").document
    assert [(e["subtask"], e["kind"], e["state"]) for e in entries] == [
        ("g", "group", "completed"),
        ("g/h", "group", "completed"),
        ("g/h/a", "tool", "completed"),
        ("g/b", "tool", "completed"),
    ]


def test_an_artifact_made_inside_is_known_outside(scene: Scene) -> None:
    note = {"name": "note.txt", "text": "hello"}
    write = subtask("write", "write_artifact", note, outputs=["note.txt"])
    read = subtask("read", "read_artifact", {"name": "note.txt"}, depends_on=["write"])
    path = subtask("use", "echo", {"value": "${g.artifact.note.txt}"}, depends_on=["g"])
    checks = [
        {"type": "artifact", "name": "note.txt", "min_bytes": 5},
        {"type": "artifact", "name": "g/write/note.txt", "contains": "hello"},
    ]
    file = scene.file(
        task([group("g", write, read, outputs=["note.txt"]), path], goal={"acceptance": checks})
    )
    done = scene.command("run", file, "--id", "t", "--json")
    assert done.code == 0, done.out + done.err
    names = [row["name"] for row in scene.command("artifacts", "t", "--json").document]
    assert names == ["g/write/note.txt"]
    where = scene.command("result", "t", "use", "--json").document
    assert Path(where).read_text() == "hello"


async def test_a_pause_inside_groups_ends_what_runs_and_resume_goes_on(scene: Scene) -> None:
    chain = [once(scene, "a", seconds=1.0), once(scene, "b", "a"), once(scene, "c", "b")]
    file = scene.file(marking(scene, group("g", group("h", *chain)), once(scene, "x")))
    with scene.started("run", file, "--id", "t", "--quiet") as process:
        await until(lambda: "a" in lines(scene.folder / "started"))
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait) == 3
    assert "b" not in lines(scene.folder / "started")
    (row,) = scene.rows("select status, progress from surefoot.tasks")
    assert row["status"] == "paused" and row["progress"] > 0
    done = await asyncio.to_thread(scene.process, "resume", "t", "--json")
    assert done.code == 0, done.out + done.err
    assert sorted(lines(scene.folder / "done")) == ["a", "b", "c", "x"]
    attempts = scene.rows("select id, attempts from surefoot.subtasks where id like 'g/h/%%'")
    assert {row["id"]: row["attempts"] for row in attempts} == dict.fromkeys(
        ("g/h/a", "g/h/b", "g/h/c"), 1
    )


async def test_a_cancel_cuts_what_runs_inside_groups(scene: Scene) -> None:
    file = scene.file(marking(scene, group("g", group("h", once(scene, "a", seconds=60)))))
    with scene.started("run", file, "--id", "t", "--quiet") as process:
        await until(lambda: "a" in lines(scene.folder / "started"))
        done = await asyncio.to_thread(scene.process, "cancel", "t")
        assert done.code == 0, done.err
        assert await asyncio.to_thread(process.wait) == 4
    assert lines(scene.folder / "done") == []
    (row,) = scene.rows("select status, acquired_by from surefoot.tasks")
    assert (row["status"], row["acquired_by"]) == ("cancelled", None)


async def test_groups_share_the_tasks_concurrency(scene: Scene) -> None:
    groups = [
        group(f"g{n}", *(once(scene, f"n{n}m{m}", seconds=0.05) for m in range(3)))
        for n in range(5)
    ]
    given = marking(scene, *groups, concurrency=2)
    status = await scene.run(given, "t")
    assert status["status"] == "completed" and len(lines(scene.folder / "done")) == 15
    spans = scene.rows("select started_at, ended_at from surefoot.subtasks where kind = 'tool'")
    most = max(
        sum(1 for b in spans if b["started_at"] <= a["started_at"] < b["ended_at"]) for a in spans
    )
    assert most <= 2


async def test_progress_counts_the_leaves_of_groups_while_they_run(scene: Scene) -> None:
    chain = [once(scene, "a"), once(scene, "b", "a", seconds=60)]
    file = scene.file(marking(scene, group("g", *chain), once(scene, "x")))
    with scene.started("run", file, "--id", "t", "--quiet") as process:
        await until(lambda: "b" in lines(scene.folder / "started"))
        await until(lambda: scene.rows("select progress from surefoot.tasks")[0]["progress"] > 0.7)
        running = "select id from surefoot.subtasks where id = 'g/b' and state = 'running'"
        await until(lambda: scene.rows(running))
        status = (await asyncio.to_thread(scene.process, "status", "t", "--json")).document
        assert status["subtasks"]["total"] == 3 and status["subtasks"]["completed"] == 2
        assert [one["subtask"] for one in status["current"]] == ["g/b"]
        process.kill()
        await asyncio.to_thread(process.wait)
    status = (await asyncio.to_thread(scene.process, "status", "t", "--json")).document
    assert status["progress"] == 0.75


EVERY: Any = {"weight": 1, "resumable": True, "skippable": False, "covers": []}


def planned(id: str, text: str, *needs: str, **more: Any) -> Any:
    """A subtask as a model must state it."""
    made = subtask(id, "echo", {"value": text}, name=id, depends_on=list(needs), **EVERY)
    return {**made, **more}


@pytest.fixture
def models() -> Generator[ModelServer]:
    with ModelServer() as server:
        yield server


def test_a_model_makes_the_plan_of_a_group_and_everybody_sees_it(
    scene: Scene, models: ModelServer
) -> None:
    check = {"id": "c1", "type": "file", "path": "note.txt", "exists": False}
    steps = [planned("a", "${inputs.x}"), planned("b", "${a}!", "a", covers=["c1"])]
    models.always("goal", say_json({"acceptance": [check], "prohibitions": []}))
    models.always("plan", say_json({"phases": [], "subtasks": steps, "milestones": []}))
    made = {"id": "g", "kind": "group", "goal": {"objective": "Say it.", "acceptance": [check]}}
    made |= {"inputs": {"x": "hello"}, "success": [{"type": "result"}]}
    file = scene.file(task([made, subtask("z", "echo", {"value": 1})], model={"planner": "m"}))
    done = scene.command("run", file, "--id", "t", "--json", **models.environment())
    assert done.code == 0, done.out + done.err
    assert done.document["subtasks"]["total"] == 3
    entries = scene.command("plan", "t", "--json").document
    assert [entry["subtask"] for entry in entries] == ["g", "g/a", "g/b", "z"]
    assert scene.command("result", "t", "g/b", "--json").document == "hello!"
    heads = {seen.messages[0]["content"] for seen in models.seen}
    assert len(heads) == 1 and "see what comes" in heads.pop()


def test_a_groups_token_budget_fails_the_group_and_not_the_task(
    scene: Scene, models: ModelServer
) -> None:
    models.always("agent", lambda seen: call_tool("echo", {"value": len(models.seen)}))
    agent = {"id": "a", "kind": "agent", "instructions": "Go.", "tools": ["echo"]}
    agent |= {"success": [{"type": "result"}]}
    simple = {"kind": "tool", "tool": "echo", "args": {"value": "simple"}}
    poor = group("g", agent, budget={"max_tokens": 6000}, on_failure=[simple])
    spec = task([poor], model={"executor": "m", "context_tokens": 4000})
    done = scene.command("run", scene.file(spec), "--id", "t", "--json", **models.environment())
    assert done.code == 0, done.out + done.err
    assert done.document["degraded"] == ["g"]
    assert 0 < done.document["usage"]["tokens"] <= 6000
    (failed,) = scene.rows("select facts from surefoot.events where type = 'SubtaskDegraded'")
    assert "max_tokens is 6000" in failed["facts"]["reason"]
