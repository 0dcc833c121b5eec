"""Stepping in with the real command: skip, retry, edit; held by a worker, by nobody, refused."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from scenes import SCENE_TOOLS, Scene, lines, subtask, task, until

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
    return scene.rows(
        "select subtask, facts from surefoot.events where type = %s order by id", type
    )


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


def used_values(log: Path) -> list[Any]:
    """made -> uses -> uses_more; ordered merely comes later; apart is apart."""
    return [
        subtask("made", "echo", {"value": {"x": 1}}, success=[{"type": "result", "path": "x"}]),
        mark(log, "uses", "made", value="${made.x}"),
        subtask("uses_more", "echo", {"value": "${uses}"}, depends_on=["uses"]),
        subtask("ordered", "echo", {"value": 1}, depends_on=["made"]),
        mark(log, "apart"),
    ]


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


# --- while a worker holds the task -------------------------------------------------------------


def gated(log: Path, gate: Path, id: str = "gate", **more: Any) -> Any:
    args = {"file": str(log), "open": str(gate), "word": id}
    return subtask(id, "gate", args, timeout_seconds=600, **more)


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


# --- inside groups -----------------------------------------------------------------------------


def group(id: str, *subtasks: Any, needs: tuple[str, ...] = (), **more: Any) -> Any:
    plan = {"subtasks": list(subtasks)}
    return {"id": id, "kind": "group", "plan": plan, "depends_on": list(needs), **more}


def test_a_failed_group_goes_on_where_a_person_mended_it(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    inner = [mark(log, "a"), opens(log, gate, "b", "a"), mark(log, "c", "b")]
    plan = [group("g", *inner), mark(log, "after", "g")]
    assert scene.command("run", scene.file(task(plan)), "--id", "t").code == 1
    for id in ("g/nobody", "g/b/c", "after/b"):
        refused = scene.command("skip", "t", id, "--json")
        assert refused.code_and_error == (2, "unknown_subtask"), id
    assert scene.command("retry", "t", "g/a", "--json").code_and_error == (2, "wrong_state")
    gate.touch()
    done = scene.command("retry", "t", "g/b", "--json")
    assert (done.code, done.document) == (
        0,
        {"applied": "retry", "subtask": "g/b", "reopened": ["g/b"]},
    )
    status = scene.command("status", "t", "--json").document
    assert (status["status"], status["failure"]) == ("paused", None)
    assert resumed(scene)["status"] == "completed"
    assert lines(log) == ["a", "x", "x", "c", "after"]


def test_an_edit_inside_a_completed_group_works_out_its_end_anew(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    inner = [
        subtask("made", "echo", {"value": 1}),
        subtask("uses", "echo", {"value": "${made}"}, depends_on=["made"]),
        mark(log, "apart"),
    ]
    plan = [
        group("g", *inner, outputs={"n": "${uses}"}),
        subtask("sum", "echo", {"value": "${g.n}"}, depends_on=["g"]),
        opens(log, tmp_path / "open", "last", "sum"),
    ]
    assert scene.command("run", scene.file(task(plan)), "--id", "t").code == 1
    scene.write("two.json", "2")
    done = scene.command("edit", "t", "g/made", "--result", "two.json", "--json")
    assert (done.code, done.document["reopened"]) == (0, ["g/uses", "sum"]), done
    assert scene.command("retry", "t", "last").code == 0
    (tmp_path / "open").touch()
    assert resumed(scene)["status"] == "completed"
    assert scene.command("result", "t", "sum").out.strip() == "2"
    assert sorted(lines(log)) == ["apart", "x", "x"]


def test_what_stands_deep_inside_is_reached_by_its_full_id(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    each = {
        "kind": "group",
        "plan": {"subtasks": [group("deep", opens(log, tmp_path / "open", "leaf"))]},
    }
    many = {"id": "many", "kind": "foreach", "for_each": [1], "each": each}
    plan = [many, subtask("end", "echo", {"value": 1}, depends_on=["many"])]
    assert scene.command("run", scene.file(task(plan, concurrency=1)), "--id", "t").code == 1
    done = scene.command("skip", "t", "many/0/deep/leaf", "--json")
    assert (done.code, done.document["subtask"]) == (0, "many/0/deep/leaf"), done
    (tmp_path / "open").touch()
    status = resumed(scene)
    assert (status["status"], status["subtasks"]["skipped"]) == ("completed", 1)


async def test_a_group_that_runs_applies_what_is_for_its_inside(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    inner = [gated(log, tmp_path / "never"), mark(log, "later", "gate")]
    plan = [group("g", group("deep", *inner), mark(log, "beside")), mark(log, "after", "g")]
    async with scene.client() as holder, scene.client() as other:
        running = asyncio.create_task(holder.run(task(plan), id="t"))
        await until(lambda: "gate" in lines(log) and "beside" in lines(log))
        with pytest.raises(UsageError) as refused:
            await other.skip("t", "g/deep/nobody")
        assert refused.value.code == "unknown_subtask"
        assert (await other.skip("t", "g/deep/later"))["subtask"] == "g/deep/later"
        assert (await other.skip("t", "g/deep/gate"))["subtask"] == "g/deep/gate"
        status = await running
    assert (status["status"], status["subtasks"]["skipped"]) == ("completed", 2)
    assert sorted(lines(log)) == ["after", "beside", "gate"]


# --- kills and sizes ---------------------------------------------------------------------------


def test_a_command_whose_sender_was_killed_is_applied_once_by_the_next_go(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    failed_task(scene, log, tmp_path / "open")
    scene.rows(
        "insert into surefoot.commands (task_id, name, args, by) values"
        " ('t', 'skip', '{\"subtask\": \"b\"}', 'person')"
    )
    assert scene.command("skip", "t", "c").code == 0
    status = resumed(scene)
    assert (status["status"], status["subtasks"]["skipped"]) == ("completed", 2)
    assert lines(log) == ["a", "x"]
    told = events(scene, "SubtaskSkipped")
    assert [event["subtask"] for event in told] == ["b", "c"]
    open_ones = scene.rows("select 1 from surefoot.commands where applied_at is null")
    assert open_ones == []


def test_a_holder_killed_with_a_command_in_hand_loses_nothing_and_repeats_nothing(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    plan = [gated(log, gate), mark(log, "b", "gate"), mark(log, "c", "b")]
    with scene.started("run", scene.file(task(plan)), "--id", "t") as process:
        asyncio.run(until(lambda: "gate" in lines(log)))
        with scene.started("skip", "t", "b") as skipping:
            asyncio.run(until(lambda: scene.rows("select 1 from surefoot.commands")))
            process.kill()
            skipping.wait(timeout=120)
    gate.touch()
    status = resumed(scene)
    assert (status["status"], status["subtasks"]["skipped"]) == ("completed", 1)
    assert lines(log).count("c") == 1 and "b" not in lines(log)
    assert len(events(scene, "SubtaskSkipped")) == 1


def test_an_edit_outlives_the_death_of_all_before_its_users_were_taken_back(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    given = scene.file(task([*used_values(log), gated(log, gate)]))
    done = "select 1 from surefoot.subtasks where id = 'uses_more' and state = 'completed'"
    scene.write("new.json", '{"x": 2}')
    with scene.started("run", given, "--id", "t") as process:
        asyncio.run(until(lambda: scene.rows(done) and "gate" in lines(log)))
        with scene.started("edit", "t", "made", "--result", "new.json") as editing:
            asyncio.run(until(lambda: events(scene, "SubtaskEdited")))
            assert editing.poll() is None  # what used it is not taken back while the gate runs
            editing.kill()
            process.kill()
            process.wait()
    gate.touch()
    assert resumed(scene)["status"] == "completed"
    assert lines(log).count("uses") == 2
    assert scene.command("result", "t", "made", "--json").document == {"x": 2}
    assert len(events(scene, "SubtaskEdited")) == 1
    assert scene.rows("select 1 from surefoot.commands where applied_at is null") == []


def test_a_plan_of_a_thousand_is_stepped_into_at_once(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    wide = [subtask(f"w{n}", "echo", {"value": "${made}"}, depends_on=["made"]) for n in range(998)]
    plan = [subtask("made", "echo", {"value": 1}), *wide, opens(log, tmp_path / "open", "last")]
    needs = [one["id"] for one in wide]
    plan[-1]["depends_on"] = needs
    assert scene.command("run", scene.file(task(plan, concurrency=8)), "--id", "t").code == 1
    scene.write("two.json", "2")
    done = scene.command("edit", "t", "made", "--result", "two.json", "--json")
    assert done.document["reopened"] == needs
    assert scene.command("skip", "t", "w500").code == 0
    assert scene.command("skip", "t", "last").code == 0
    status = resumed(scene)
    assert (status["status"], status["subtasks"]["skipped"]) == ("completed", 2)
    assert scene.command("result", "t", "w7").out.strip() == "2"
