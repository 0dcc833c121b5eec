"""Stepping in with the real command: skip, retry, edit; held by a worker, by nobody, refused."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from scenes import Done, Scene, lines, subtask, task, until

from surefoot.graph.errors import UsageError
from surefoot.graph.settings import Settings

ONCE = {"max_attempts": 1}
FAILED = "select 1 as n from surefoot.events where type = 'SubtaskFailed'"


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def mark(log: Path, id: str, *needs: str, value: Any = None, **more: Any) -> Any:
    args = {"file": str(log), "word": id, "value": value}
    return subtask(id, "mark", args, depends_on=list(needs), **more)


def opens(log: Path, gate: Path, id: str, *needs: str, **more: Any) -> Any:
    """Fails until the gate is there."""
    args = {"file": str(log), "open": str(gate)}
    needed = {"depends_on": list(needs), "retries": ONCE, **more}
    return subtask(id, "works_once_open", args, **needed)


def states(scene: Scene, id: str = "t") -> dict[str, str]:
    entries = scene.command("plan", id, "--json").document
    return {entry["subtask"]: entry["state"] for entry in entries}


def resumed(scene: Scene, id: str = "t") -> Any:
    done = scene.command("resume", id, "--json")
    assert done.code == 0, done
    return done.document


def events(scene: Scene, type: str) -> list[Any]:
    return scene.rows("select subtask, facts from surefoot.events where type = %s order by id", type)


# --- a failed task -----------------------------------------------------------------------------


def failed_task(scene: Scene, log: Path, gate: Path) -> None:
    """Task `t`: a is done, b has failed, c is pending."""
    plan = [mark(log, "a"), opens(log, gate, "b", "a"), mark(log, "c", "b", value="${b}")]
    assert scene.command("run", scene.file(task(plan)), "--id", "t").code == 1


def test_a_failed_task_goes_on_without_the_subtask_that_failed(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    failed_task(scene, log, tmp_path / "open")
    done = scene.command("skip", "t", "b", "--json")
    assert (done.code, done.document) == (0, {"applied": "skip", "subtask": "b", "reopened": []})
    status = scene.command("status", "t", "--json").document
    assert (status["status"], status["failure"]) == ("paused", None)
    assert resumed(scene)["subtasks"]["skipped"] == 1
    assert lines(log) == ["a", "x", "c"]
    (event,) = events(scene, "SubtaskSkipped")
    assert event["facts"]["by"] == "person"
