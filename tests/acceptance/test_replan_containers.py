"""A new plan that keeps the ids of groups and foreaches that had not come to a good end."""

import json
from pathlib import Path
from typing import Any

import pytest
from scenes import Done, Scene, subtask, task

from surefoot.graph.settings import Settings

ONCE = {"retries": {"max_attempts": 1}}


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


def check(scene: Scene, open: str) -> dict[str, Any]:
    args = {"file": str(scene.folder / "tried"), "open": open}
    success = [{"type": "result"}]
    return {"kind": "tool", "tool": "works_once_open", "args": args, "success": success, **ONCE}


def replanned(scene: Scene, before: Any, after: Any) -> Done:
    """A task that failed with the first plan and goes on with the second."""
    assert scene.command("run", scene.file(task(before)), "--id", "t", "--quiet").code == 1
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
