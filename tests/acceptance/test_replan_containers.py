"""A new plan that keeps the ids of groups and foreaches that had not come to a good end."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, finish
from scenes import SCENE_TOOLS, Done, Scene, lines, subtask, task

from surefoot.graph.settings import Settings

SENDING = """
from pathlib import Path
from langchain_core.tools import tool
from surefoot.tools import effect

@effect("irreversible", probe=lambda args, context: None)
@tool
def send(file: str) -> str:
    \"\"\"Send something.\"\"\"
    with Path(file).open("a") as lines:
        lines.write("sent\\n")
    return "sent"

TOOLS = [send]
"""

ONCE = {"retries": {"max_attempts": 1}}


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Generator[ModelServer]:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def check(scene: Scene, open: str) -> dict[str, Any]:
    args = {"file": str(scene.folder / "tried"), "open": open}
    success = [{"type": "result"}]
    return {"kind": "tool", "tool": "works_once_open", "args": args, "success": success, **ONCE}


def replanned(scene: Scene, before: Any, after: Any, **more: Any) -> Done:
    """A task that failed with the first plan and goes on with the second."""
    file = scene.file(task(before, **more))
    assert scene.command("run", file, "--id", "t", "--quiet").code == 1
    plan = scene.write("plan.json", json.dumps({"subtasks": after}))
    done = scene.command("replan", "t", "--plan", plan, "--json")
    assert done.code == 0, done.out
    return scene.command("resume", "t", "--json")


def test_a_failed_group_with_another_plan_begins_anew(scene: Scene) -> None:
    first = subtask("a", "echo", {"value": 1})
    bad = {"id": "b", **check(scene, "nowhere"), "depends_on": ["a"]}
    good = subtask("b", "echo", {"value": "new"}, depends_on=["a"])
    end = subtask("end", "echo", {"value": "${g.b}"}, depends_on=["g"])

    def group(*inner: Any) -> Any:
        plan = {"subtasks": list(inner)}
        return {"id": "g", "kind": "group", "plan": plan, "outputs": {"b": "${b}"}}

    last = subtask("c", "echo", {"value": "${b}"}, depends_on=["b"])
    done = replanned(scene, [group(first, bad), end], [group(first, good, last), end])
    assert done.code == 0, done.out
    assert done.document["subtasks"] == {
        **dict.fromkeys(("pending", "running", "failed", "skipped"), 0),
        **{"total": 4, "completed": 4},
    }
    assert scene.command("result", "t", "end", "--json").document == "new"


def test_an_agent_in_a_changed_group_works_anew_and_its_attempts_are_counted_on(
    scene: Scene, models: ModelServer
) -> None:
    bad = {"id": "b", **check(scene, "nowhere"), "depends_on": ["a"]}

    def group(words: str, *more: Any) -> Any:
        agent = {"id": "a", "kind": "agent", "instructions": words, "tools": ["echo"]}
        plan = {"subtasks": [agent | {"success": [{"type": "result"}]}, *more]}
        return {"id": "g", "kind": "group", "plan": plan, "outputs": {"a": "${a}"}}

    models.on("agent", finish("one"), finish("two"))
    done = replanned(scene, [group("Say one.", bad)], [group("Say two.")], model="m")
    assert done.code == 0, done.out
    assert scene.command("result", "t", "g", "--json").document == {"a": "two"}
    assert done.document["attempts"] == 3  # one, nowhere, two
    assert [seen.says("Say two.") for seen in models.of("agent")] == [False, True]


@pytest.mark.parametrize("where", ["same group", "new group"])
def test_what_a_changed_group_did_outside_is_not_done_again_under_another_id(
    scene: Scene, where: str
) -> None:
    tools = [str(scene.write("sending.py", SENDING)), str(SCENE_TOOLS)]
    sent = scene.folder / "sent"
    bad = {"id": "b", **check(scene, "nowhere"), "depends_on": ["send"]}

    def group(id: str, send: str, *more: Any) -> Any:
        plan = {"subtasks": [subtask(send, "send", {"file": str(sent)}), *more]}
        return {"id": id, "kind": "group", "plan": plan}

    new = group("g" if where == "same group" else "h", "send-again")
    done = replanned(scene, [group("g", "send", bad)], [new], tools=tools)
    assert done.code == 0, done.out
    assert lines(sent) == ["sent"]


def spread(each: Any) -> Any:
    success = {"success": [{"type": "result"}]}
    return {"id": "fe", "kind": "foreach", "for_each": ["one", "two"], "each": {**each, **success}}


def test_a_failed_child_is_taken_up_again_and_good_ones_stay(scene: Scene) -> None:
    scene.write("one", "")
    each = check(scene, f"{scene.folder}/${{item}}")
    end = subtask("end", "echo", {"value": "${fe}"}, depends_on=["fe"])
    plan = [spread(each), end]
    assert scene.command("run", scene.file(task(plan)), "--id", "t", "--quiet").code == 1
    scene.write("two", "")
    replan = scene.write("plan.json", json.dumps({"subtasks": plan}))
    assert scene.command("replan", "t", "--plan", replan, "--json").code == 0
    done = scene.command("resume", "t", "--json")
    assert done.code == 0, done.out
    assert (done.document["attempts"], done.document["subtasks"]["completed"]) == (4, 3)


def test_a_foreach_that_means_something_else_begins_anew(scene: Scene) -> None:
    scene.write("one", "")
    end = subtask("end", "echo", {"value": "${fe}"}, depends_on=["fe"])
    other = {"kind": "tool", "tool": "echo", "args": {"value": "${item}!"}}
    before = [spread(check(scene, f"{scene.folder}/${{item}}")), end]
    after = [spread(other), end]
    after[0]["for_each"] = ["one"]
    done = replanned(scene, before, after)
    assert done.code == 0, done.out
    assert scene.command("result", "t", "end", "--json").document == ["one!"]
    assert done.document["subtasks"]["total"] == done.document["subtasks"]["completed"] == 2
