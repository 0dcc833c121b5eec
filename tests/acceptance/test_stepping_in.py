"""Stepping in with the real command: skip, retry, edit; held by a worker, by nobody, refused."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from scenes import SCENE_TOOLS, Scene, lines, subtask, task, until
from stepping import events, failed_task, gated, mark, opens, resumed, states, used_values

from surefoot.graph.errors import UsageError
from surefoot.graph.settings import Settings

FAILED = "select 1 as n from surefoot.events where type = 'SubtaskFailed'"


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


# --- a failed task -----------------------------------------------------------------------------


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


def test_a_failed_task_goes_on_with_one_more_try(scene: Scene, log: Path, tmp_path: Path) -> None:
    failed_task(scene, log, tmp_path / "open")
    (tmp_path / "open").touch()
    assert scene.command("resume", "t", "--json").document["status"] == "failed"
    done = scene.command("retry", "t", "b", "--json")
    assert (done.code, done.document["reopened"]) == (0, ["b"])
    assert states(scene)["b"] == "pending"
    assert resumed(scene)["attempts"] == 4
    assert lines(log) == ["a", "x", "x", "c"]
    assert scene.command("result", "t", "b").out.strip() == '"open"'


def test_a_failed_task_goes_on_with_a_result_given_by_hand(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    failed_task(scene, log, tmp_path / "open")
    scene.write("b.json", '{"by": "hand"}')
    assert scene.command("edit", "t", "b", "--result", "b.json").code == 0
    assert resumed(scene)["subtasks"]["completed"] == 3
    assert scene.command("result", "t", "b").out.strip() == '{\n  "by": "hand"\n}'
    assert lines(log) == ["a", "x", "c"]


def test_a_failed_task_goes_on_with_other_arguments(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    failed_task(scene, log, tmp_path / "open")
    (tmp_path / "other").touch()
    args = json.dumps({"file": str(log), "open": str(tmp_path / "other")})
    assert scene.command("edit", "t", "b", "--args", args).code == 0
    assert resumed(scene)["status"] == "completed"
    assert lines(log) == ["a", "x", "x", "c"]


def test_another_failure_still_stands_and_is_named(scene: Scene, log: Path, tmp_path: Path) -> None:
    plan = [opens(log, tmp_path / "open", id) for id in ("one", "two")]
    held = [subtask("both", "echo", {"value": 1}, depends_on=["one", "two"])]
    assert scene.command("run", scene.file(task([*plan, *held])), "--id", "t").code == 1
    failed = [id for id, state in states(scene).items() if state == "failed"]
    if len(failed) == 1:  # the other was not begun any more
        assert scene.command("skip", "t", failed[0]).code == 0
    else:
        assert scene.command("skip", "t", "one").code == 0
        status = scene.command("status", "t", "--json").document
        assert (status["status"], status["failure"]["subtask"]) == ("failed", "two")
        assert scene.command("skip", "t", "two").code == 0
    (tmp_path / "open").touch()
    assert resumed(scene)["status"] == "completed"


# --- what used the old value is done again -----------------------------------------------------


def paused_at_gate(scene: Scene, log: Path, gate: Path, plan: list[Any], *needs: str) -> None:
    """Run a plan up to one last subtask, which fails as long as the gate is not there."""
    given = scene.file(task([*plan, opens(log, gate, "last", *needs)]))
    assert scene.command("run", given, "--id", "t").code == 1


def test_an_edited_result_is_a_new_version_and_its_users_are_done_again(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    plan = used_values(log)
    paused_at_gate(scene, log, tmp_path / "open", plan, "uses_more", "ordered", "apart")
    before = sorted(lines(log))
    assert before == ["apart", "uses", "x"]
    scene.write("new.json", '{"x": 2}')
    done = scene.command("edit", "t", "made", "--result", "new.json", "--json")
    assert (done.code, done.document["reopened"]) == (0, ["uses", "uses_more"]), done
    now = states(scene)
    assert [now[id] for id in ("made", "uses", "uses_more", "ordered", "apart")] == [
        *("completed", "pending", "pending", "completed", "completed")
    ]
    assert scene.command("retry", "t", "last").code == 0
    (tmp_path / "open").touch()
    assert resumed(scene)["status"] == "completed"
    assert sorted(lines(log)) == ["apart", "uses", "uses", "x", "x"]
    assert scene.command("result", "t", "made", "--json").document == {"x": 2}
    (event,) = events(scene, "SubtaskEdited")
    assert event["facts"]["by"] == "person" and event["facts"]["reopened"] == ["uses", "uses_more"]
    history = scene.command("history", "t", "--json").document
    assert any(entry["type"] == "SubtaskEdited" for entry in history)


def test_a_result_that_the_checks_refuse_changes_nothing(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    plan = used_values(log)
    paused_at_gate(scene, log, tmp_path / "open", plan, "uses_more")
    before = scene.command("status", "t", "--json").document
    scene.write("bad.json", '{"y": 2}')
    refused = scene.command("edit", "t", "made", "--result", "bad.json", "--json")
    assert refused.code_and_error == (2, "check_failed")
    assert "'x'" in refused.error["message"]
    after = scene.command("status", "t", "--json").document
    assert {k: v for k, v in after.items() if k not in ("usage", "updated_at")} == {
        k: v for k, v in before.items() if k not in ("usage", "updated_at")
    }
    assert scene.command("result", "t", "made", "--json").document == {"x": 1}


def test_other_arguments_of_a_completed_subtask_have_it_done_again(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    plan = used_values(log)
    paused_at_gate(scene, log, tmp_path / "open", plan, "uses_more")
    wrong = scene.command("edit", "t", "uses", "--args", '{"fil": "x"}', "--json")
    assert wrong.code_and_error == (2, "bad_arguments") and "'file'" in wrong.error["message"]
    args = json.dumps({"file": str(log), "word": "other", "value": "${made.x}"})
    done = scene.command("edit", "t", "uses", "--args", args, "--json")
    assert done.document["reopened"] == ["uses", "uses_more"], done
    assert scene.command("retry", "t", "last").code == 0
    (tmp_path / "open").touch()
    assert resumed(scene)["status"] == "completed"
    assert lines(log).count("other") == 1


ARTIFACTS = """
from langchain_core.tools import tool
from surefoot.tools import ToolContext, effect

@effect("read")
@tool
def put(text: str, context: ToolContext) -> str:
    '''Put an artifact.'''
    context.artifacts.put("text.txt", text)
    return text

@effect("read")
@tool
def file_length(path: str) -> int:
    '''Length of a file.'''
    with open(path) as file:
        return len(file.read())

TOOLS = [put, file_length]
"""


def test_an_edited_artifact_is_a_new_version_and_its_users_are_done_again(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    module = scene.write("artifact_tools.py", ARTIFACTS)
    plan = [
        subtask("made", "put", {"text": "one"}, outputs=["text.txt"]),
        subtask("n", "file_length", {"path": "${made.artifact.text.txt}"}, depends_on=["made"]),
        opens(log, tmp_path / "open", "last", "n"),
    ]
    given = scene.file(task(plan, tools=[SCENE_TOOLS, module]))
    assert scene.command("run", given, "--id", "t").code == 1
    scene.write("longer.txt", "longer")
    done = scene.command("edit", "t", "made", "--artifact", "text.txt=longer.txt", "--json")
    assert (done.code, done.document["reopened"]) == (0, ["n"]), done
    assert scene.command("retry", "t", "last").code == 0
    (tmp_path / "open").touch()
    assert resumed(scene)["status"] == "completed"
    assert scene.command("result", "t", "n").out.strip() == "6"
    versions = scene.command("artifacts", "t", "--json").document
    assert [one["version"] for one in versions if one["name"] == "made/text.txt"] == [1, 2]


def test_what_was_never_tried_is_completed_by_hand_with_all_that_it_must_have(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    module = scene.write("artifact_tools.py", ARTIFACTS)
    plan = [
        opens(log, tmp_path / "open", "first"),
        subtask("made", "put", {"text": "one"}, outputs=["text.txt"], depends_on=["first"]),
        subtask("n", "file_length", {"path": "${made.artifact.text.txt}"}, depends_on=["made"]),
    ]
    given = scene.file(task(plan, tools=[SCENE_TOOLS, module]))
    assert scene.command("run", given, "--id", "t").code == 1
    scene.write("longer.txt", "longer")
    scene.write("result.json", '"by hand"')
    lacking = scene.command("edit", "t", "made", "--result", "result.json", "--json")
    assert lacking.code_and_error == (2, "check_failed") and "text.txt" in lacking.error["message"]
    both = ("--result", "result.json", "--artifact", "text.txt=longer.txt")
    assert scene.command("edit", "t", "made", *both).code == 0
    assert scene.command("skip", "t", "first").code == 0
    status = resumed(scene)
    assert (status["status"], status["attempts"]) == ("completed", 2)
    assert scene.command("result", "t", "n").out.strip() == "6"
    assert scene.process("artifacts", "t", "made/text.txt").out == "longer"


# --- children of a foreach ---------------------------------------------------------------------


def children(log: Path, gate: Path) -> list[Any]:
    each = {
        "kind": "tool",
        "tool": "mark",
        "args": {"file": str(log), "word": "${item}"},
        "success": [{"type": "result"}],
    }
    review = {"id": "review", "kind": "foreach", "for_each": ["p", "q", "r"], "each": each}
    return [
        review,
        subtask("sum", "echo", {"value": "${review}"}, depends_on=["review"]),
        opens(log, gate, "last", "sum"),
    ]


def test_a_childs_result_is_gathered_anew(scene: Scene, log: Path, tmp_path: Path) -> None:
    given = scene.file(task(children(log, tmp_path / "open")))
    assert scene.command("run", given, "--id", "t").code == 1
    scene.write("seven.json", "7")
    done = scene.command("edit", "t", "review/1", "--result", "seven.json", "--json")
    assert (done.code, done.document["reopened"]) == (0, ["sum"]), done
    assert scene.command("retry", "t", "last").code == 0
    (tmp_path / "open").touch()
    assert resumed(scene)["status"] == "completed"
    assert scene.command("result", "t", "sum", "--json").document[1] == 7
    assert sorted(set(lines(log))) == ["p", "q", "r", "x"]
    assert lines(log).count("q") == 1


def test_a_child_is_done_again_with_other_arguments(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    given = scene.file(task(children(log, tmp_path / "open")))
    assert scene.command("run", given, "--id", "t").code == 1
    args = json.dumps({"file": str(log), "word": "other-${item}-${index}"})
    done = scene.command("edit", "t", "review/1", "--args", args, "--json")
    assert (done.code, done.document["reopened"]) == (0, ["review/1", "sum"]), done
    assert scene.command("retry", "t", "last").code == 0
    (tmp_path / "open").touch()
    assert resumed(scene)["status"] == "completed"
    assert lines(log).count("other-q-1") == 1 and len(lines(log)) == 6


UNKNOWN = [
    ("nobody", "unknown_subtask"),
    ("las", "unknown_subtask"),
    ("review/3", "unknown_subtask"),
    ("review/01", "unknown_subtask"),
    ("sum/0", "unknown_subtask"),
    ("review/0/x", "unknown_subtask"),
    ("", "unknown_subtask"),
]


def test_what_cannot_be_done_is_refused_and_says_what_is_possible(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    given = scene.file(task(children(log, tmp_path / "open")))
    assert scene.command("run", given, "--id", "t").code == 1
    for id, code in UNKNOWN:
        assert scene.command("skip", "t", id, "--json").code_and_error == (2, code), id
    near = scene.command("skip", "t", "las", "--json").error["message"]
    assert "did you mean 'last'" in near
    assert "3 children" in scene.command("retry", "t", "review/3", "--json").error["message"]
    for words in (["skip", "t", "sum"], ["retry", "t", "sum"], ["skip", "t", "review/0"]):
        assert scene.command(*words, "--json").code_and_error == (2, "wrong_state"), words
    assert scene.command("edit", "t", "sum", "--json").code_and_error == (2, "usage")
    assert scene.command("skip", "nobody", "sum", "--json").code_and_error == (2, "unknown_task")
    plain = scene.command("skip", "t", "las")
    assert (plain.code, plain.err.count("\n"), plain.out) == (2, 1, "")
    assert scene.command("status", "t", "--json").document["status"] == "failed"
    assert scene.command("skip", "t", "last").code == 0
    assert resumed(scene)["status"] == "completed"
    for words in (
        ["skip", "t", "sum"],
        ["retry", "t", "last"],
        ["edit", "t", "sum", "--args", "{}"],
    ):
        assert scene.command(*words, "--json").code_and_error == (2, "wrong_state"), words


def test_what_has_no_end_or_is_nested_without_end_is_no_edit(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    assert scene.command("run", scene.file(task([mark(log, "a")])), "--id", "t").code == 0
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for file in ("/dev/zero", str(pipe), str(tmp_path), "absent"):
        for given in (["--result", file], ["--artifact", f"n={file}"]):
            refused = scene.command("edit", "t", "a", *given, "--json")
            assert refused.code_and_error == (2, "unreadable_file"), given
    (tmp_path / "deep.json").write_text("[" * 200_000)
    refused = scene.command("edit", "t", "a", "--result", str(tmp_path / "deep.json"), "--json")
    assert refused.code_and_error == (2, "not_json")


# --- while a worker holds the task -------------------------------------------------------------


async def test_the_holder_skips_what_runs_after_it_was_stopped(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    plan = [gated(log, tmp_path / "never"), mark(log, "after", "gate"), mark(log, "beside")]
    async with scene.client() as holder, scene.client() as other:
        running = asyncio.create_task(holder.run(task(plan), id="t"))
        await until(lambda: "gate" in lines(log))
        outcome = await other.skip("t", "gate")
        assert outcome == {"applied": "skip", "subtask": "gate", "reopened": []}
        status = await running
        assert (status["status"], status["subtasks"]["skipped"]) == ("completed", 1)
        assert await other.result("t", "gate") is None
    assert sorted(lines(log)) == ["after", "beside", "gate"]


async def test_the_holder_refuses_to_edit_or_retry_what_runs(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    async with scene.client() as holder, scene.client() as other:
        running = asyncio.create_task(holder.run(task([gated(log, gate)]), id="t"))
        await until(lambda: "gate" in lines(log))
        for step in (other.edit("t", "gate", result=1), other.retry("t", "gate")):
            with pytest.raises(UsageError, match="running") as refused:
                await step
            assert refused.value.code == "wrong_state"
        gate.touch()
        assert (await running)["status"] == "completed"


async def test_the_holder_edits_while_other_work_goes_on_and_redoes_what_used_it(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    plan = [*used_values(log), gated(log, gate)]
    async with scene.client() as holder, scene.client() as other:
        running = asyncio.create_task(holder.run(task(plan), id="t"))
        done = "select 1 from surefoot.subtasks where id = 'uses_more' and state = 'completed'"
        await until(lambda: scene.rows(done) and "gate" in lines(log))
        asked = asyncio.create_task(other.edit("t", "made", result={"x": 2}))
        await until(lambda: events(scene, "SubtaskEdited"))
        gate.touch()
        assert (await asked)["reopened"] == ["uses", "uses_more"]
        assert (await running)["status"] == "completed"
        assert await other.result("t", "made") == {"x": 2}
    assert lines(log).count("uses") == 2 and lines(log).count("gate") == 1


async def test_a_retry_cuts_the_delay_short(scene: Scene, log: Path, tmp_path: Path) -> None:
    gate = tmp_path / "open"
    waits = opens(log, gate, "waits", retries={"max_attempts": 2, "backoff_seconds": 10_000})
    delayed = "select 1 from surefoot.subtasks where not_before > now() + interval '2 seconds'"
    async with scene.client() as holder, scene.client() as other:
        running = asyncio.create_task(holder.run(task([waits]), id="t"))
        await until(lambda: scene.rows(delayed))
        gate.touch()
        assert (await other.retry("t", "waits"))["reopened"] == ["waits"]
        status = await running
    assert (status["status"], status["attempts"]) == ("completed", 2)


async def test_of_two_commands_at_once_one_is_applied(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    failed = task([opens(log, tmp_path / "open", "b")])
    async with scene.client() as surefoot, scene.client() as one, scene.client() as two:
        assert (await surefoot.run(failed, id="t"))["status"] == "failed"
        came = await asyncio.gather(one.skip("t", "b"), two.skip("t", "b"), return_exceptions=True)
    refused = [outcome for outcome in came if isinstance(outcome, UsageError)]
    assert [error.code for error in refused] == ["wrong_state"]
    assert len(events(scene, "SubtaskSkipped")) == 1
