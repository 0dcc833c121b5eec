"""surefoot gc: what goes, what stays, and that nothing breaks: resume, ways back, history."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from lost_tiers import TOOLS, Story
from model_server import ModelServer
from scenes import SCENE_TOOLS, Scene, lines, subtask, task, until

from surefoot.graph.settings import Settings

PHASES = 5


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def story(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Any:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield Story(scene, server)


def gc(scene: Scene, *words: str) -> dict[str, Any]:
    done = scene.process("gc", "--older-than", "0", "--json", *words)
    assert done.code == 0, done.out + done.err
    return done.document


def checkpoints(scene: Scene, thread: str = "t") -> int:
    (row,) = scene.rows("select count(*) as n from checkpoints where thread_id = %s", thread)
    return row["n"]


def blobs(scene: Scene) -> set[str]:
    root = Path(scene.settings.artifacts_url.removeprefix("file://"))
    return {file.name for file in (root / "sha256").rglob("*") if file.is_file()}


def in_phases(scene: Scene) -> Any:
    """A task of five phases, each with a milestone and a version of one file; it fails at its end.

    The last subtask works once `open` is there.
    """
    subtasks: list[Any] = []
    for n in range(PHASES):
        kept = {"path": "out/kept.txt", "text": str(n) * 3000}
        needs = {"depends_on": [f"w{n - 1}"]} if n else {}
        more = {"phase": f"p{n}", "writes": ["out/**"]}
        subtasks.append(subtask(f"w{n}", "keep", kept, **needs, **more))
    last = {"file": str(scene.folder / "tried"), "open": str(scene.folder / "open")}
    tries = {"retries": {"max_attempts": 1}, "depends_on": [f"w{PHASES - 1}"]}
    subtasks.append(subtask("last", "works_once_open", last, **tries))
    plan = {
        "phases": [{"id": f"p{n}"} for n in range(PHASES)],
        "subtasks": subtasks,
        "milestones": [{"id": f"m{n}", "after": f"p{n}"} for n in range(PHASES)],
    }
    return task(subtasks, tools=[scene.write("kept.py", TOOLS), SCENE_TOOLS], plan=plan)


def failed(scene: Scene) -> Path:
    file = scene.file(in_phases(scene))
    done = scene.command("run", file, "--id", "t", "--workspace", scene.folder / "w")
    assert done.code == 1, done.out + done.err
    return scene.folder / "w"


def test_of_a_task_that_waits_all_ways_back_stay(scene: Scene) -> None:
    given = in_phases(scene)
    given["plan"]["subtasks"][-1]["on_failure"] = ["ask"]
    file, workspace = scene.file(given), scene.folder / "w"
    assert scene.command("run", file, "--id", "t", "--workspace", workspace).code == 3
    done = gc(scene, "--keep-milestones", "1")
    assert done["tasks"][0]["milestones"] == []
    assert scene.command("rollback", "t", "m0").code == 0
    assert (workspace / "out/kept.txt").read_text() == "0" * 3000


def test_a_stopped_task_goes_on_from_its_head_alone(scene: Scene) -> None:
    failed(scene)
    before = checkpoints(scene)
    done = gc(scene)
    assert checkpoints(scene) == 1
    assert done["checkpoints"] == before - 1
    assert done["bytes"] > 0
    assert scene.command("doctor", "t", "--json").document["consistent"]
    scene.write("open", "")
    assert scene.command("retry", "t", "last").code == 0
    resumed = scene.command("resume", "t", "--json")
    assert resumed.document["status"] == "completed", resumed.out
    assert resumed.document["subtasks"]["completed"] == PHASES + 1
    (once,) = scene.rows(
        "select count(*) as n from surefoot.events where type = 'SubtaskCompleted'"
    )
    assert once["n"] == PHASES + 1


def test_the_newest_milestones_can_be_gone_back_to_and_others_say_what_is_left(
    scene: Scene,
) -> None:
    workspace = failed(scene)
    points = {
        row["milestone"]: row["state"]["sha256"]
        for row in scene.rows(
            "select milestone, state from surefoot.snapshots where state ? 'sha256'"
        )
    }
    done = gc(scene, "--keep-milestones", "2")
    assert done["tasks"][0]["milestones"] == ["m0", "m1", "m2"]
    assert {id for id, sha256 in points.items() if sha256 in blobs(scene)} >= {"m3", "m4"}
    assert not blobs(scene) & {points[id] for id in ("m0", "m1", "m2")}
    refused = scene.command("rollback", "t", "m1", "--json")
    assert refused.code_and_error == (2, "unknown_milestone")
    assert "m3, m4, start" in refused.error["message"]
    assert scene.command("rollback", "t", "m3", "--json").code == 0
    assert (workspace / "out/kept.txt").read_text() == "3" * 3000
    scene.write("open", "")
    assert scene.command("resume", "t", "--json").document["status"] == "completed"
    assert (workspace / "out/kept.txt").read_text() == "4" * 3000


def test_the_start_can_always_be_gone_back_to(scene: Scene) -> None:
    workspace = failed(scene)
    done = gc(scene, "--keep-milestones", "0")
    assert "start" not in done["tasks"][0]["milestones"]
    assert scene.command("rollback", "t", "start", "--json").code == 0
    assert not (workspace / "out/kept.txt").exists()
    scene.write("open", "")
    assert scene.command("resume", "t", "--json").document["status"] == "completed"


async def test_a_killed_task_with_agent_group_and_foreach_goes_on_after_keeping_house(
    story: Story,
) -> None:
    await story.kill_in_the_middle()
    gc(story.scene)
    assert checkpoints(story.scene) == 1
    story.is_whole(story.resume())
    assert story.types("StateRebuilt", "GroupStateRebuilt", "AgentThreadLost") == []


async def test_a_finished_task_keeps_heads_results_artifacts_and_history(story: Story) -> None:
    await story.kill_in_the_middle()
    story.is_whole(story.resume())
    scene = story.scene
    history = scene.process("history", "t", "--json").document
    folder = scene.settings.task_folder("t")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "copy.txt").write_text("read-only copy")
    done = gc(scene)
    assert done["folders"] == 1 and not folder.exists()
    threads = scene.rows("select thread_id from checkpoints")
    assert threads == [{"thread_id": "t"}]
    assert scene.rows("select 1 from surefoot.snapshots") == []
    assert scene.process("history", "t", "--json").document == history
    assert scene.process("artifacts", "t", "keeps/kept.txt").out == "kept"
    assert scene.process("result", "t", "end", "--json").document == {"name": "end"}
    assert scene.process("resume", "t", "--json").document["status"] == "completed"
    assert len(scene.process("effects", "t", "--json").document) >= 8
    assert gc(scene)["checkpoints"] == 0


def test_contents_that_nothing_refers_to_are_swept_by_age(scene: Scene) -> None:
    failed(scene)
    root = Path(scene.settings.artifacts_url.removeprefix("file://"))
    spare = root / "sha256" / "ab" / ("ab" * 32)
    spare.parent.mkdir(exist_ok=True)
    spare.write_bytes(b"forgotten")
    day = time.time() - 25 * 3600
    kept = blobs(scene) - {spare.name}
    assert scene.command("gc", "--json").document["blobs"] == 0
    os.utime(spare, (day, day))
    litter = spare.with_name(f"{'cd' * 32}#17")
    litter.write_bytes(b"half")
    os.utime(litter, (day, day))
    done = scene.command("gc", "--json").document
    assert (done["blobs"], done["litter"]) == (1, 1)
    assert not spare.exists() and not litter.exists()
    assert blobs(scene) == kept


def test_a_dry_run_counts_and_removes_nothing(scene: Scene) -> None:
    failed(scene)
    before = checkpoints(scene), blobs(scene), scene.rows("select id from surefoot.snapshots")
    done = gc(scene, "--dry-run", "--keep-milestones", "1")
    assert done["dry_run"] and done["checkpoints"] == before[0] - 1
    assert done["tasks"][0]["milestones"] == ["m0", "m1", "m2", "m3"]
    after = checkpoints(scene), blobs(scene), scene.rows("select id from surefoot.snapshots")
    assert after == before


async def test_a_task_that_a_live_worker_holds_is_left_alone(story: Story) -> None:
    scene = story.scene
    gate = {"file": str(scene.folder / "waits"), "open": str(scene.folder / "open")}
    other = scene.file(task([subtask("a", "echo", {"value": 1})]), "other.json")
    assert scene.process("run", other, "--id", "other").code == 0
    file = scene.file(task([subtask("g", "gate", gate)]))
    root = Path(scene.settings.artifacts_url.removeprefix("file://"))
    young = root / "sha256" / "ab" / ("ab" * 32)  # as one that a worker has put and not told of yet
    with scene.started("run", file, "--id", "held") as process:
        await until(lambda: lines(scene.folder / "waits"))
        young.parent.mkdir(parents=True, exist_ok=True)
        young.write_bytes(b"new")
        before = checkpoints(scene, "held")
        done = scene.process("gc", "--older-than", "0", "--json").document
        skipped = {entry["task"]: entry["skipped"] for entry in done["tasks"]}
        assert skipped == {"held": "a live worker holds it", "other": None}
        assert checkpoints(scene, "held") == before
        scene.process("gc", "--older-than", "0", "--task", "other", "--json")
        assert young.exists()
        scene.write("open", "")
        assert process.wait(60) == 0


def test_two_databases_with_one_store_sweep_nothing(scene: Scene) -> None:
    failed(scene)
    root = Path(scene.settings.artifacts_url.removeprefix("file://"))
    (root / "owners" / "another").write_bytes(b"")
    done = gc(scene)
    assert done["blobs"] == 0
    assert "other databases" in done["skipped"]


def test_one_task_alone_is_named_and_unknown_ones_are_refused(scene: Scene) -> None:
    failed(scene)
    file = scene.file(task([subtask("a", "echo", {"value": 1})]), "other.json")
    assert scene.command("run", file, "--id", "other").code == 0
    assert [t["task"] for t in gc(scene, "--task", "other")["tasks"]] == ["other"]
    assert checkpoints(scene) > 1
    assert scene.command("gc", "--task", "nobody", "--json").code_and_error == (2, "unknown_task")
