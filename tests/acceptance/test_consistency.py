"""The consistency report: what stops a task that goes on, what people answer, what doctor shows."""

import json
from pathlib import Path
from typing import Any

import pytest
from lost_tiers import TOOLS, Story
from model_server import ModelServer
from scenes import SCENE_TOOLS, Done, Scene, subtask, task

from surefoot.graph.settings import Settings

BIG = 5000
"""Characters of a result that lies in the store."""


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


def stopped(scene: Scene, **keeps: Any) -> Path:
    """A task that has used its steps up before its end; returns its workspace."""
    tools = [scene.write("kept.py", TOOLS), SCENE_TOOLS]
    data = scene.write("data.txt", "as it was")
    kept = {"path": "out/kept.txt", "text": "kept"}
    each = {"kind": "tool", "tool": "echo", "args": {"value": "${big}"}}
    subtasks = [
        subtask("keeps", "keep", kept, **(keeps or {"writes": ["out/**"]}), outputs=["kept.txt"]),
        subtask("big", "big", {"size": BIG}, depends_on=["keeps"]),
        subtask("list", "echo", {"value": [1, 2, 3]}, depends_on=["big"]),
        {
            **{"id": "then", "kind": "foreach", "for_each": "${list}", "depends_on": ["list"]},
            "each": {**each, "success": [{"type": "result"}]},
        },
        subtask("end", "echo", {"value": 1}, depends_on=["then"]),
    ]
    given = task(
        subtasks,
        tools=tools,
        goal={"inputs": {"data": str(data)}},
        budget={"max_steps": 5},
        concurrency=1,
    )
    done = scene.command("run", scene.file(given), "--id", "t", "--workspace", scene.folder / "w")
    assert done.code == 1, done.out + done.err
    return scene.folder / "w"


def resume(scene: Scene) -> Done:
    return scene.command("resume", "t", "--max-steps", "20", "--json")


def asked(done: Done) -> Any:
    assert done.code == 3, done.out
    (question,) = done.document["questions"]
    assert question["kind"] == "inconsistent_state"
    return question


def doctor(scene: Scene) -> dict[str, Any]:
    done = scene.command("doctor", "t", "--json")
    assert done.code == 0, done.out
    bad = {c["check"]: c for c in done.document["checks"] if not c["ok"]}
    assert done.document["consistent"] == (not bad)
    return bad


def events(scene: Scene, type: str) -> list[dict[str, Any]]:
    return [
        row["facts"]
        for row in scene.rows("select facts from surefoot.events where type = %s order by id", type)
    ]


def blob(scene: Scene, sha256: str) -> Path:
    root = Path(scene.settings.artifacts_url.removeprefix("file://"))
    return root / "sha256" / sha256[:2] / sha256


def test_doctor_shows_every_check_of_a_task_and_changes_nothing(scene: Scene) -> None:
    stopped(scene)
    before = scene.rows("select updated_at, lease_epoch from surefoot.tasks")
    shown = scene.command("doctor", "t")
    assert shown.code == 0, shown.err
    names = [line.split()[1] for line in shown.out.splitlines()]
    assert names == (
        "graph_version state artifacts results workspace inputs tools commands models".split()
    )
    assert all(line.startswith("ok ") for line in shown.out.splitlines()), shown.out
    assert shown.out.count("1 stored, all of them read and compared with their hash") == 2
    assert scene.rows("select updated_at, lease_epoch from surefoot.tasks") == before
    assert scene.command("doctor", "nobody", "--json").code_and_error == (2, "unknown_task")


def test_a_changed_input_is_asked_about_once_until_it_is_put_back(scene: Scene) -> None:
    stopped(scene)
    (scene.folder / "data.txt").write_text("another")
    question = asked(resume(scene))
    assert "data.txt has changed" in question["text"]
    assert doctor(scene).keys() == {"inputs"}
    assert asked(resume(scene))["id"] == question["id"]
    (scene.folder / "data.txt").write_text("as it was")
    assert resume(scene).document["status"] == "completed"
    assert not scene.rows("select 1 from surefoot.questions where open")


def test_a_changed_input_that_a_person_accepts_is_the_input_from_then_on(scene: Scene) -> None:
    stopped(scene)
    (scene.folder / "data.txt").write_text("another")
    question = asked(resume(scene))
    assert question["choices"] == ["recheck", "accept"]
    assert scene.command("answer", "t", question["id"], "accept").code == 0
    assert resume(scene).document["status"] == "completed"
    (accepted,) = events(scene, "StateAccepted")
    assert accepted["by"] and "data.txt has changed" in accepted["reason"]
    assert doctor(scene) == {}


def test_looking_again_where_nothing_was_mended_asks_again(scene: Scene) -> None:
    stopped(scene)
    (scene.folder / "data.txt").unlink()
    question = asked(resume(scene))
    assert scene.command("answer", "t", question["id"], "recheck").code == 0
    again = asked(resume(scene))
    assert again["id"] == f"{question['id']}-2"
    assert "data.txt is missing" in again["text"]


def test_a_changed_tools_module_is_not_gone_on_with(scene: Scene) -> None:
    stopped(scene)
    scene.write("kept.py", TOOLS + "\nANOTHER = 1\n")
    assert "tools module" in asked(resume(scene))["text"]
    assert doctor(scene).keys() == {"tools"}


def test_a_changed_workspace_is_put_back_and_what_lay_there_is_kept(scene: Scene) -> None:
    workspace = stopped(scene)
    (workspace / "out/kept.txt").write_text("by somebody else")
    question = asked(resume(scene))
    assert "out/kept.txt has changed" in question["text"]
    assert question["choices"] == ["recheck", "restore", "accept"]
    assert doctor(scene).keys() == {"workspace"}
    assert scene.command("answer", "t", question["id"], "restore").code == 0
    assert resume(scene).document["status"] == "completed"
    assert (workspace / "out/kept.txt").read_text() == "kept"
    (restored,) = events(scene, "WorkspaceRestored")
    assert restored["strategy"] == "roll back to the stable point"
    assert restored["changed"] == ["out/kept.txt"]
    kept = restored["kept"]
    content = kept.get("value") or json.loads(blob(scene, kept["sha256"]).read_text())
    entry = content["entries"]["out/kept.txt"]
    assert blob(scene, entry["sha256"]).read_text() == "by somebody else"
    history = scene.command("history", "t", "--json").document
    assert "roll back to the stable point" in [entry["strategy"] for entry in history]


def test_a_changed_workspace_that_a_person_accepts_is_vouched_for(scene: Scene) -> None:
    workspace = stopped(scene)
    (workspace / "out/kept.txt").write_text("by a person")
    question = asked(resume(scene))
    assert scene.command("answer", "t", question["id"], "accept").code == 0
    done = scene.command("resume", "t", "--max-steps", "6", "--json")
    assert done.document["failure"]["code"] == "budget_exhausted"
    assert (workspace / "out/kept.txt").read_text() == "by a person"
    (workspace / "out/kept.txt").write_text("once more by somebody else")
    assert asked(resume(scene))["id"] != question["id"]


def test_work_without_declared_paths_raises_no_false_alarm(scene: Scene) -> None:
    workspace = stopped(scene, writes=None)
    (workspace / "out/kept.txt").write_text("by somebody else")
    assert doctor(scene) == {}
    assert resume(scene).document["status"] == "completed"


def test_a_damaged_result_is_found_and_done_again(scene: Scene) -> None:
    stopped(scene)
    (row,) = scene.rows(
        "select result ->> 'sha256' as sha256 from surefoot.subtasks where id='big'"
    )
    blob(scene, row["sha256"]).write_bytes(b"something else")
    question = asked(resume(scene))
    assert "result of big does not match its hash" in question["text"]
    assert question["choices"] == ["recheck", "redo"]
    assert scene.command("answer", "t", question["id"], "redo").code == 0
    assert resume(scene).document["status"] == "completed"
    assert scene.command("result", "t", "then", "--json").document == ["0" * BIG] * 3


def set_version(scene: Scene, version: int) -> None:
    """As another program would have written all threads of the task."""
    scene.rows(
        "update checkpoints set checkpoint = jsonb_set(checkpoint,"
        " '{channel_values,graph_version}', to_jsonb(%s::int))"
        " where checkpoint -> 'channel_values' ? 'graph_version'",
        version,
    )
    scene.rows("update surefoot.tasks set graph_version = %s", version)


async def test_tasks_groups_and_agents_of_an_older_version_are_upgraded(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer() as models:
        for name, value in models.environment().items():
            monkeypatch.setenv(name, value)
        story = Story(Scene(settings, tmp_path / "files"), models)
        await story.kill_in_the_middle()
        set_version(story.scene, 1)
        said = len(models.of("agent"))
        story.is_whole(story.resume())
        # Its thread was gone on with: only what was not said yet is asked for.
        assert len(models.of("agent")) - said == 1
    upgraded = story.types("StateUpgraded", "GroupStateUpgraded")
    assert [event["subtask"] for event in upgraded] == [None, "g"]
    assert story.scene.rows("select graph_version from surefoot.tasks") == [{"graph_version": 2}]


@pytest.mark.parametrize("version", [0, 99])
def test_a_task_of_a_version_without_a_way_is_refused(scene: Scene, version: int) -> None:
    stopped(scene)
    set_version(scene, version)
    scene.rows("update surefoot.tasks set graph_version = 1")
    assert resume(scene).code_and_error == (2, "graph_version")
    assert doctor(scene).keys() == {"graph_version"}
