"""The commands that look, as processes, on one task with a bit of everything."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scenes import SUREFOOT, Done, Scene, subtask, task

from surefoot.graph.settings import Settings

TEACHING = """
from langchain_core.tools import tool
from surefoot.tools import ToolContext, effect

@effect("idempotent")
@tool
def teach(pupil: str, context: ToolContext) -> dict:
    \"\"\"Teach; some need a second lesson.\"\"\"
    context.log(f"teaching {pupil}")
    if pupil == "slow" and context.attempt == 1:
        raise RuntimeError("not yet")
    context.artifacts.put("note.txt", f"about {pupil}")
    return {"pupil": pupil}

TOOLS = [teach]
"""


def lesson() -> dict[str, Any]:
    each = {
        "kind": "tool",
        "tool": "teach",
        "args": {"pupil": "${item}"},
        "outputs": ["note.txt"],
        "retries": {"max_attempts": 2, "backoff_seconds": 0},
    }
    return task(
        [
            subtask("list", "teach", {"pupil": "first"}, phase="one"),
            {
                "id": "class",
                "name": "Teach the class",
                "kind": "foreach",
                "for_each": ["quick", "slow"],
                "each": each,
                "depends_on": ["list"],
                "phase": "two",
                "weight": 3,
            },
        ],
        tools=["teaching.py"],
    )


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    scene = Scene(settings, tmp_path / "files")
    scene.write("teaching.py", TEACHING)
    written = lesson()
    written["plan"]["phases"] = [{"id": "one"}, {"id": "two"}]
    done = scene.command("run", scene.file(written), "--id", "t", "--quiet")
    assert done.code == 0, done
    return scene


def look(scene: Scene, *words: str) -> Any:
    done = scene.command(*words, "--json")
    assert (done.code, done.err) == (0, ""), done
    return done.document


def refused(done: Done, code: str) -> None:
    assert (done.code, done.error["code"]) == (2, code), done


def flat(entries: list[dict[str, Any]]) -> bool:
    return not any(isinstance(value, dict) for entry in entries for value in entry.values())


def test_everything_about_a_task_can_be_looked_at(scene: Scene) -> None:
    newest = look(scene, "status")
    assert newest["id"] == "t"
    assert newest["subtasks"]["completed"] == newest["subtasks"]["total"] == 3
    assert (newest["attempts"], newest["retry_rate"]) == (4, round(1 / 3, 3))

    (listed,) = look(scene, "list")
    assert (listed["id"], listed["status"]) == ("t", "completed")

    planned = look(scene, "plan", "t")
    assert flat(planned)
    assert [(e["subtask"], e["phase"], e["children"]) for e in planned] == [
        ("list", "one", None),
        ("class", "two", 2),
    ]

    events = look(scene, "events", "t")
    assert flat(events)
    started = next(e for e in events if e["type"] == "SubtaskStarted" and e["subtask"] == "class/1")
    assert (started["task"], started["attempt"], started["phase"]) == ("t", 1, "two")
    assert (started["from"], started["to"]) == ("pending", "running")
    assert [e["id"] for e in events] == sorted(e["id"] for e in events)

    history = look(scene, "history", "t")
    assert flat(history)
    retry = next(e for e in history if e["subtask"] == "class/1")
    assert retry["strategy"] == "retry"
    assert "not yet" in retry["reason"]

    lines = look(scene, "logs", "t", "class")
    assert {line["subtask"] for line in lines} == {"class/0", "class/1"}
    assert any(line["text"] == "teaching slow" for line in lines)

    assert look(scene, "result", "t", "class") == [{"pupil": "quick"}, {"pupil": "slow"}]
    assert look(scene, "result", "t", "class/1") == {"pupil": "slow"}
    assert look(scene, "result", "t") == {"class": [{"pupil": "quick"}, {"pupil": "slow"}]}

    artifacts = look(scene, "artifacts", "t")
    assert flat(artifacts)
    assert {a["name"] for a in artifacts} >= {"class/0/note.txt", "class/1/note.txt"}

    for words in (["status"], ["list"], ["plan", "t"], ["history", "t"], ["logs", "t"]):
        done = scene.command(*words)
        assert done.code == 0 and done.err == "" and done.out.strip(), words


def test_an_artifact_is_read_by_its_name(scene: Scene) -> None:
    assert scene.process("artifacts", "t", "class/1/note.txt").out == "about slow"
    done = scene.command("artifacts", "t", "class/0/note.txt", "-o", "copy.txt")
    assert done.code == 0
    assert (scene.folder / "copy.txt").read_text() == "about quick"
    refused(scene.command("artifacts", "t", "note.txt", "--json"), "ambiguous_artifact")
    refused(scene.command("artifacts", "t", "none", "--json"), "unknown_artifact")
    version = scene.command("artifacts", "t", "class/1/note.txt", "--version", "9", "--json")
    refused(version, "unknown_artifact")
    unwritable = scene.command("artifacts", "t", "class/1/note.txt", "-o", "no/dir", "--json")
    refused(unwritable, "unwritable_file")


def test_an_exported_plan_runs_again(scene: Scene) -> None:
    import yaml

    assert scene.command("plan", "t", "--export", "plan.yaml").code == 0
    exported = yaml.safe_load((scene.folder / "plan.yaml").read_text())
    file = scene.file(lesson() | exported, "again.json")
    done = scene.command("run", file, "--id", "again", "--json")
    assert (done.code, done.document["subtasks"]["completed"]) == (0, 3), done
    refused(scene.command("plan", "t", "--version", "7", "--json"), "unknown_version")


UNKNOWN = {
    "unknown_task": [
        *(["status", "none"], ["plan", "none"], ["history", "none"], ["events", "none"]),
        *(["logs", "none"], ["result", "none"], ["artifacts", "none"], ["cancel", "none"]),
        ["resume", "none"],
    ],
    "unknown_subtask": [["logs", "t", "none"], ["result", "t", "class/9"]],
    "wrong_state": [["cancel", "t"]],
}


def test_unknown_names_and_forbidding_states_are_refused(scene: Scene) -> None:
    for code, commands in UNKNOWN.items():
        for words in commands:
            refused(scene.command(*words, "--json"), code)


def test_followed_events_are_json_lines_and_end_with_the_task(scene: Scene) -> None:
    done = scene.command("events", "t", "--follow", "--json")
    entries = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0
    assert entries[-1]["type"] == "TaskCompleted"
    assert scene.command("status", "t", "--watch", "--json").document["status"] == "completed"


def test_a_reader_that_goes_away_ends_a_command_quietly(scene: Scene) -> None:
    piped = f"{SUREFOOT} events t | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {piped}"],
        env=scene.environment(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.count(b"\n") == 1
    assert (done.returncode, done.stderr) == (0, b"")


def test_plain_lines_tell_the_progress_right_after_each_event(
    settings: Settings, tmp_path: Path
) -> None:
    """Also where all of it happens between two looks, and where a milestone goes back."""
    scene = Scene(settings, tmp_path / "back")
    seen = tmp_path / "seen"
    once = f"test -e {seen} || (touch {seen}; exit 1)"
    goes_back = {
        **{"id": "m", "after": "b", "on_failure": ["rollback", "fail"]},
        "checks": [{"type": "command", "run": once}],
    }
    work = [
        subtask(id, "echo", {"value": 1}, depends_on=needs)
        for id, needs in [("a", []), ("b", ["a"])]
    ]
    given = task(work)
    given["plan"]["milestones"] = [goes_back]
    told = scene.command("run", scene.file(given), "--id", "t1")
    assert told.code == 0, told.err
    shares = [line[8:].split(" %  ") for line in told.out.splitlines() if " %  " in line]
    kept = [(float(share), said) for share, said in shares if said.split()[0] in ("a", "b", "back")]
    assert [share for share, _ in kept] == [50.0, 99.9, 0.0, 50.0, 99.9], told.out
    assert kept[2][1].startswith("back to start")
    (turn,) = [e for e in look(scene, "history", "t1") if e["type"] == "RolledBack"]
    assert turn["by"] == "milestone"
