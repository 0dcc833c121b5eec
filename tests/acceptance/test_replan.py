"""`surefoot replan` with a plan that a person gives: held by nobody, by a worker, refused."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from scenes import Scene, lines, subtask, task, until

from surefoot.graph.errors import UsageError
from surefoot.graph.settings import Settings

TAKEN = "select 1 as n from surefoot.events where type = 'ReplanAsked'"


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def mark(log: Path, id: str, *needs: str, **more: Any) -> Any:
    return subtask(id, "mark", {"file": str(log), "word": id}, depends_on=list(needs), **more)


def failing(id: str, *needs: str) -> Any:
    return subtask(id, "odd_error", depends_on=list(needs), retries={"max_attempts": 1})


def failed_task(scene: Scene, log: Path) -> None:
    """Task `t1`: a is done, b has failed, c is pending."""
    given = scene.file(task([mark(log, "a"), failing("b", "a"), mark(log, "c", "b")]))
    assert scene.command("run", given, "--id", "t1").code == 1


def test_a_failed_task_goes_on_with_the_plan_of_a_person(scene: Scene, log: Path) -> None:
    failed_task(scene, log)
    new = scene.file({"subtasks": [mark(log, "d", "a"), mark(log, "c", "d")]}, "new.json")
    done = scene.command("replan", "t1", "--plan", new, "--json")
    assert done.code == 0
    assert (done.document["plan_version"], done.document["status"]) == (2, "paused")
    assert done.document["failure"] is None
    assert done.document["subtasks"]["total"] == 3
    assert scene.command("resume", "t1").code == 0
    assert lines(log) == ["a", "d", "c"]
    first = scene.command("plan", "t1", "--version", "1", "--json").document
    assert [entry["subtask"] for entry in first] == ["a", "b", "c"]
    history = scene.command("history", "t1", "--json").document
    assert any(entry["strategy"] == "replan" for entry in history)


def test_a_person_may_mend_the_failed_subtask_under_its_own_id(scene: Scene, log: Path) -> None:
    failed_task(scene, log)
    whole = task([mark(log, "a"), mark(log, "b", "a"), mark(log, "c", "b")])
    assert scene.command("replan", "t1", "--plan", scene.file(whole, "new.json")).code == 0
    status = scene.command("resume", "t1", "--json").document
    assert status["status"] == "completed"
    assert lines(log) == ["a", "b", "c"]
    assert status["attempts"] == 4


@pytest.mark.parametrize(
    ("subtasks", "code"),
    [
        ([("a", "d"), ("d", "a")], "finished_changed"),
        ([("d", "e"), ("e", "d")], "cycle"),
        ([("d", "nobody")], "unknown_dependency"),
        ([("d", "b")], "unknown_dependency"),
        ([("d", "d")], "self_dependency"),
    ],
)
def test_a_new_plan_that_cannot_be_is_refused_and_all_stays(
    scene: Scene, log: Path, subtasks: Any, code: str
) -> None:
    failed_task(scene, log)
    before = scene.command("status", "t1", "--json").document
    plan = {"subtasks": [mark(log, id, *needs) for id, *needs in subtasks]}
    refused = scene.command("replan", "t1", "--plan", scene.file(plan, "new.json"), "--json")
    assert refused.code_and_error == (2, code)
    after = scene.command("status", "t1", "--json").document
    for unchanged in ("status", "failure", "plan_version", "subtasks"):
        assert after[unchanged] == before[unchanged]


def test_a_replan_needs_a_task_that_is_not_over_and_something_to_do(
    scene: Scene, log: Path
) -> None:
    given = scene.file(task([mark(log, "a")]))
    assert scene.command("run", given, "--id", "t1").code == 0
    over = scene.command("replan", "t1", "--plan", given, "--json")
    assert over.code_and_error == (2, "wrong_state")
    unknown = scene.command("replan", "nobody", "--plan", given, "--json")
    assert unknown.code_and_error == (2, "unknown_task")
    assert scene.command("replan", "t1", "--json").code_and_error == (2, "usage")


def test_a_requirement_needs_a_planner(scene: Scene, log: Path) -> None:
    failed_task(scene, log)
    refused = scene.command("replan", "t1", "--require", "in blue", "--json", SUREFOOT_MODEL="")
    assert refused.code_and_error == (2, "missing_model")


async def test_the_holder_applies_a_replan_when_nothing_runs(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = {"file": str(log), "open": str(tmp_path / "open"), "word": "g"}
    given = task([subtask("g", "gate", gate, timeout_seconds=60), mark(log, "old", "g")])
    async with scene.client() as holder, scene.client() as other:
        running = asyncio.create_task(holder.run(given, id="t1"))
        await until(lambda: "g" in lines(log))
        asked = asyncio.create_task(
            other.replan("t1", plan={"subtasks": [given["plan"]["subtasks"][0], mark(log, "new")]})
        )
        await until(lambda: scene.rows(TAKEN))
        assert not asked.done()
        (tmp_path / "open").touch()
        status = await asked
        assert status["plan_version"] == 2
        assert (await running)["status"] == "completed"
    assert lines(log) == ["g", "new"]


async def test_the_holder_refuses_a_plan_with_faults_and_goes_on(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = {"file": str(log), "open": str(tmp_path / "open"), "word": "g"}
    given = task([subtask("g", "gate", gate, timeout_seconds=60), mark(log, "old", "g")])
    async with scene.client() as holder, scene.client() as other:
        running = asyncio.create_task(holder.run(given, id="t1"))
        await until(lambda: "g" in lines(log))
        loop = {"subtasks": [mark(log, "x", "x")]}
        asked = asyncio.create_task(other.replan("t1", plan=loop))
        await until(lambda: scene.rows(TAKEN))
        (tmp_path / "open").touch()
        with pytest.raises(UsageError) as refused:
            await asked
        assert refused.value.code == "self_dependency"
        status = await running
    assert (status["status"], status["plan_version"]) == ("completed", 1)
    assert lines(log) == ["g", "old"]


async def test_a_replan_that_comes_while_a_task_fails_is_done_afterwards_by_the_caller(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = {"file": str(log), "open": str(tmp_path / "open"), "word": "g"}
    given = task([subtask("g", "gate", gate, timeout_seconds=60), failing("f")])
    async with scene.client() as holder, scene.client() as other:
        running = asyncio.create_task(holder.run(given, id="t1"))
        failed = "select 1 as n from surefoot.events where type = 'SubtaskFailed'"
        await until(lambda: "g" in lines(log) and scene.rows(failed))
        asked = asyncio.create_task(
            other.replan("t1", plan={"subtasks": [given["plan"]["subtasks"][0], mark(log, "new")]})
        )
        await until(lambda: scene.rows("select 1 as n from surefoot.commands"))
        (tmp_path / "open").touch()
        assert (await running)["status"] == "failed"
        assert (await asked)["status"] == "paused"
        assert (await other.resume("t1"))["status"] == "completed"
    assert lines(log) == ["g", "new"]


SEND = """
from pathlib import Path
from langchain_core.tools import tool
from surefoot.tools import effect

@effect("irreversible")
@tool
def send(file: str, word: str) -> int:
    '''Append a line outside.'''
    with Path(file).open("a") as lines:
        lines.write(word + chr(10))
    return 1

TOOLS = [send]
"""


def test_an_effect_of_a_removed_subtask_answers_the_one_that_replaces_it(
    scene: Scene, log: Path
) -> None:
    """It was done, its check failed, and the plan goes on without it: it is not done twice."""
    module = scene.write("send_tools.py", SEND)
    args = {"file": str(log), "word": "sent"}
    wrong = [{"type": "result", "equals": "never"}]
    first = subtask("first", "send", args, success=wrong, retries={"max_attempts": 1})
    given = scene.file(task([first], tools=[module]))
    assert scene.command("run", given, "--id", "t1").code == 1
    new = scene.file({"subtasks": [subtask("second", "send", args)]}, "new.json")
    assert scene.command("replan", "t1", "--plan", new).code == 0
    assert scene.command("resume", "t1").code == 0
    assert lines(log) == ["sent"]
