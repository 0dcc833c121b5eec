"""Questions to people through the command: asked, listed, answered by id, applied once."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from question_scenes import FINE, answer, asks, mark, open_questions, resume, run
from scenes import Scene, lines, subtask, task, until

from surefoot.graph.build import build_task_graph
from surefoot.graph.errors import UsageError
from surefoot.graph.settings import Settings


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


# --- D05 -------------------------------------------------------------------------------------


def test_answers_reach_the_step_that_asked(scene: Scene, log: Path) -> None:
    """D05."""
    both = [mark(log, "a", approve="always"), mark(log, "b", approve="always"), mark(log, "c")]
    status = run(scene, task(both), 3)
    assert status["status"] == "waiting" and lines(log) == ["c"]
    asked = open_questions(scene)
    assert set(asked) == {"a", "b"} and asked["a"]["id"] != asked["b"]["id"]
    assert all(q["kind"] == "approve" and q["choices"] == ["yes", "no"] for q in asked.values())

    second = answer(scene, asked["b"]["id"], "yes", "--json")
    assert (second.code, second.document["status"]) == (0, "waiting")
    assert set(open_questions(scene)) == {"a"}
    assert answer(scene, asked["b"]["id"], "true").code == 0, "the same answer changes nothing"
    other = answer(scene, asked["b"]["id"], "no", "--json")
    assert other.code_and_error == (2, "answered")
    assert scene.command("answer", "t1", "yes", "--json").code_and_error == (2, "usage")
    unknown = answer(scene, "approve-x-1", "yes", "--json")
    assert unknown.code_and_error == (2, "unknown_question")
    assert asked["a"]["id"] in unknown.error["message"]
    wrong = answer(scene, asked["a"]["id"], "42", "--json")
    assert wrong.code_and_error == (2, "bad_answer") and "yes or no" in wrong.error["message"]

    status = resume(scene, 3)
    assert lines(log) == ["c", "b"], "the one that was not answered does not run"
    assert open_questions(scene)["a"] == asked["a"], "and is not asked again"
    first = answer(scene, asked["a"]["id"], "yes", "--json")
    assert (first.code, first.document["status"]) == (0, "paused")
    assert resume(scene)["status"] == "completed"
    assert lines(log) == ["c", "b", "a"]
    told = {entry["type"] for entry in scene.command("history", "t1", "--json").document}
    assert "AttemptRecovered" not in told, "nothing was cut: a call waited to be allowed"
    assert answer(scene, asked["a"]["id"], "yes").code == 0
    assert answer(scene, asked["a"]["id"], "no", "--json").code_and_error == (2, "answered")


def test_a_call_that_is_not_approved_is_not_made(scene: Scene, log: Path) -> None:
    run(scene, task([mark(log, "a", approve="always")]), 3)
    (question,) = open_questions(scene).values()
    assert answer(scene, question["id"], "no: it is too early").code == 0
    status = resume(scene, 1)
    assert lines(log) == [] and status["failure"]["subtask"] == "a"
    history = scene.command("history", "t1", "--json").document
    (answered,) = [entry for entry in history if entry["type"] == "QuestionAnswered"]
    assert "it is too early" in answered["reason"]


# --- who and when ----------------------------------------------------------------------------


def test_questions_are_listed_and_tell_how_to_answer(scene: Scene, log: Path) -> None:
    given = scene.file(task([mark(log, "a", approve="always")]))
    waiting = scene.command("run", given, "--id", "t1")
    (question,) = scene.command("questions", "--json").document
    assert question["task"] == "t1" and question["asked_at"]
    command = f"surefoot answer t1 {question['id']} yes"
    for told in (
        question["text"],
        waiting.out,
        scene.command("status", "t1").out,
        scene.command("questions").out,
    ):
        assert command in told
    (shown,) = scene.command("status", "t1", "--json").document["questions"]
    assert (shown["id"], shown["choices"]) == (question["id"], ["yes", "no"])
    assert answer(scene, question["id"], "yes").code == 0
    (row,) = scene.rows("select * from surefoot.questions")
    assert (row["open"], row["answer"], row["answered_by"]) == (False, {"choice": "yes"}, "person")
    assert row["answered_at"] >= row["asked_at"] and row["schema"]
    assert scene.command("questions", "t1", "--json").document == []
    assert scene.command("questions", "nobody", "--json").code_and_error == (2, "unknown_task")
    nobody = scene.command("answer", "nobody", question["id"], "yes", "--json")
    assert nobody.code_and_error == (2, "unknown_task")


def test_a_question_of_a_cancelled_task_is_closed(scene: Scene, log: Path) -> None:
    run(scene, task([mark(log, "a", approve="always")]), 3)
    (question,) = open_questions(scene).values()
    assert scene.command("cancel", "t1").code == 0
    assert open_questions(scene) == {}
    assert answer(scene, question["id"], "yes", "--json").code_and_error == (2, "wrong_state")


# --- ask rungs -------------------------------------------------------------------------------


def test_an_ask_rung_stays_open_until_it_is_answered(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    opening = tmp_path / "open"
    run(scene, task([asks("a", log, opening)]), 3)
    before = open_questions(scene)["a"]
    assert before["kind"] == "ask" and before["choices"] == ["retry", "fail"]
    resume(scene, 3)
    assert open_questions(scene)["a"] == before and len(lines(log)) == 1
    assert answer(scene, before["id"], "retry").code == 0
    resume(scene, 3)
    again = open_questions(scene)["a"]
    assert again["id"] != before["id"] and len(lines(log)) == 2
    opening.touch()
    assert answer(scene, again["id"], "retry").code == 0
    assert resume(scene)["status"] == "completed"


@pytest.mark.parametrize(
    ("value", "code", "state"), [("skip", 0, "skipped"), ("fail: no use", 1, "failed")]
)
def test_an_ask_rung_may_be_left_out_or_given_up(
    scene: Scene, log: Path, tmp_path: Path, value: str, code: int, state: str
) -> None:
    given = task([asks("a", log, tmp_path / "never", skippable=True), mark(log, "b", "a")])
    run(scene, given, 3)
    assert answer(scene, open_questions(scene)["a"]["id"], value).code == 0
    status = resume(scene, code)
    (a, _) = scene.command("plan", "t1", "--json").document
    assert a["state"] == state
    if code:
        assert status["failure"]["code"] == "attempts_exhausted"
        assert "no use" in status["failure"]["message"]
    else:
        assert lines(log) == ["x", "b"]


# --- held by a worker ------------------------------------------------------------------------


async def test_an_answer_is_applied_while_other_work_runs(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    opening = tmp_path / "open"
    gate = {"file": str(log), "open": str(opening), "word": "g"}
    given = task([subtask("g", "gate", gate, timeout_seconds=60), mark(log, "a", approve="always")])
    async with scene.client() as holder, scene.client() as other:
        running = asyncio.create_task(holder.run(given, id="t1"))
        await until(lambda: scene.rows("select 1 from surefoot.questions where open"))
        await until(lambda: "g" in lines(log))
        (question,) = await other.questions("t1")
        status = await other.answer("t1", question["id"], True)
        assert status["status"] == "running" and status["questions"] == []
        await until(lambda: "a" in lines(log))
        assert not running.done()
        with pytest.raises(UsageError, match="already"):
            await other.answer("t1", question["id"], False)
        opening.touch()
        status = await running
    assert status.completed and lines(log) == ["g", "a"]


async def test_a_kill_between_answer_and_work_loses_nothing(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    given = task([mark(log, "a", approve="always"), mark(log, "b", approve="always")])
    done = await asyncio.to_thread(scene.process, "run", scene.file(given), "--id", "t1", "--quiet")
    assert done.code == 3
    async with scene.client() as surefoot:
        asked = {q["subtask"]: q["id"] for q in await surefoot.questions("t1")}
    for id in asked.values():
        with scene.started("answer", "t1", id, "yes") as process:
            await until(
                lambda: (
                    scene.rows("select 1 from surefoot.commands where name = 'answer'")
                    or process.poll() is not None
                )
            )
            os.kill(process.pid, signal.SIGKILL)
        again = await asyncio.to_thread(scene.process, "answer", "t1", id, "yes")
        assert again.code == 0, again.err
    last = await asyncio.to_thread(scene.process, "resume", "t1", "--quiet")
    assert last.code == 0 and sorted(lines(log)) == ["a", "b"]
    events = "select 1 from surefoot.events where type = 'QuestionAnswered'"
    assert len(scene.rows(events)) == 2


# --- effects that nobody knows about ---------------------------------------------------------

MAIL = """
from pathlib import Path
from langchain_core.tools import tool
from surefoot.tools import effect

@effect("irreversible")
@tool
def send(file: str, word: str) -> str:
    \"\"\"Send something, then fail the first time.\"\"\"
    with Path(file).open("a") as lines:
        lines.write(word + "\\n")
    if len(Path(file).read_text().splitlines()) == 1:
        raise RuntimeError("the answer was lost")
    return "sent"

TOOLS = [send]
"""


@pytest.mark.parametrize(
    ("value", "calls", "result"),
    [('{"done": true, "result": {"id": 7}}', 1, {"id": 7}), ("not_done", 2, "sent")],
)
def test_an_unknown_effect_is_what_a_person_says(
    scene: Scene, log: Path, value: str, calls: int, result: Any
) -> None:
    send = subtask("a", "send", {"file": str(log), "word": "mail"})
    run(scene, task([send], tools=[scene.write("mail.py", MAIL)]), 3)
    question = open_questions(scene)["a"]
    assert question["kind"] == "unknown_effect"
    resume(scene, 3)
    assert open_questions(scene)["a"] == question, "it is looked for again, not asked again"
    assert len(lines(log)) == 1
    assert answer(scene, question["id"], value).code == 0
    assert resume(scene)["status"] == "completed"
    assert len(lines(log)) == calls
    assert scene.command("result", "t1", "a", "--json").document == result


# --- inside ----------------------------------------------------------------------------------


def test_questions_inside_groups_and_lists_are_answered_by_id(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    opening = tmp_path / "open"
    inner = [asks("a", log, opening), mark(log, "b", "a")]
    nested = {"id": "h", "kind": "group", "plan": {"subtasks": inner}}
    each = {"kind": "group", "plan": {"subtasks": [nested]}}
    all_of: Any = {"id": "all", "kind": "foreach", "for_each": "${l}", "each": each}
    all_of["depends_on"] = ["l"]
    run(scene, task([subtask("l", "echo", {"value": [1, 2]}), all_of]), 3)
    asked = open_questions(scene)
    assert set(asked) == {"all/0/h/a", "all/1/h/a"}
    opening.touch()
    first = answer(scene, asked["all/1/h/a"]["id"], "retry", "--json")
    assert (first.code, first.document["status"]) == (0, "waiting"), first.out
    resume(scene, 3)
    assert set(open_questions(scene)) == {"all/0/h/a"}
    assert lines(log).count("b") == 1
    assert answer(scene, asked["all/1/h/a"]["id"], "retry").code == 0
    assert answer(scene, asked["all/1/h/a"]["id"], "fail", "--json").code == 2
    assert answer(scene, asked["all/0/h/a"]["id"], "retry").code == 0
    assert resume(scene)["status"] == "completed"
    assert lines(log).count("b") == 2


async def test_an_answer_reaches_a_group_that_runs(scene: Scene, log: Path, tmp_path: Path) -> None:
    opening = tmp_path / "open"
    gate = {"file": str(log), "open": str(opening), "word": "g"}
    inner = [subtask("g", "gate", gate, timeout_seconds=60), mark(log, "a", approve="always")]
    given = task([{"id": "in", "kind": "group", "plan": {"subtasks": inner}}])
    async with scene.client() as holder, scene.client() as other:
        running = asyncio.create_task(holder.run(given, id="t1"))
        await until(lambda: scene.rows("select 1 from surefoot.questions where open"))
        await until(lambda: "g" in lines(log))
        (question,) = await other.questions("t1")
        assert question["subtask"] == "in/a"
        await other.answer("t1", question["id"], "yes")
        await until(lambda: "a" in lines(log))
        assert not running.done()
        opening.touch()
        assert (await running).completed


def test_a_milestone_inside_a_group_is_judged_by_a_person(scene: Scene, log: Path) -> None:
    plan: Any = {"subtasks": [mark(log, "a"), mark(log, "b", "a")]}
    plan["milestones"] = [{"id": "m", "after": "a", "checks": [FINE]}]
    run(scene, task([{"id": "g", "kind": "group", "plan": plan}]), 3)
    (question,) = open_questions(scene).values()
    assert question["subtask"] == "g" and lines(log) == ["a"]
    assert answer(scene, question["id"], "pass").code == 0
    assert resume(scene)["status"] == "completed" and lines(log) == ["a", "b"]


# --- a host's app ----------------------------------------------------------------------------


async def test_a_host_answers_what_is_asked_inside_of_groups(
    scene: Scene, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in scene.environment().items():
        monkeypatch.setenv(name, value)
    config: Any = {"configurable": {"thread_id": "t1"}}
    graph = build_task_graph().compile(checkpointer=InMemorySaver())
    inner = [mark(log, "a", approve="always"), mark(log, "b", approve="always")]
    given = task([{"id": "g", "kind": "group", "plan": {"subtasks": inner}}])
    state = await graph.ainvoke({"task": given}, config, durability="sync")
    (asked,) = state["__interrupt__"]
    ids = {question["subtask"]: question["id"] for question in asked.value["questions"]}
    assert set(ids) == {"g/a", "g/b"}
    one: Any = Command(resume={asked.id: {ids["g/b"]: "yes"}})
    state = await graph.ainvoke(one, config, durability="sync")
    assert lines(log) == ["b"]
    (asked,) = state["__interrupt__"]
    assert [question["id"] for question in asked.value["questions"]] == [ids["g/a"]]
    other: Any = Command(resume={asked.id: {ids["g/a"]: "yes"}})
    state = await graph.ainvoke(other, config, durability="sync")
    assert (state["status"], lines(log)) == ("completed", ["b", "a"])


async def test_a_host_answers_with_the_resume_value(
    scene: Scene, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in scene.environment().items():
        monkeypatch.setenv(name, value)
    config: Any = {"configurable": {"thread_id": "t1"}}
    graph = build_task_graph().compile(checkpointer=InMemorySaver())
    both = [mark(log, "a", approve="always"), mark(log, "b", approve="always"), mark(log, "c")]

    async def go(value: Any) -> Any:
        return await graph.ainvoke(value, config, durability="sync")

    state = await go({"task": task(both)})
    (asked,) = state["__interrupt__"]
    ids = {question["subtask"]: question["id"] for question in asked.value["questions"]}
    assert set(ids) == {"a", "b"} and lines(log) == ["c"]
    for bare in (Command(resume={asked.id: True}), Command(resume=True)):
        with pytest.raises(UsageError, match="2 questions are open"):
            await go(bare)
    with pytest.raises(UsageError, match="no open question"):
        await go(Command(resume={asked.id: {"approve-x-1": True, ids["a"]: True}}))
    with pytest.raises(UsageError, match="yes or no"):
        await go(Command(resume={asked.id: {ids["a"]: 42}}))
    assert lines(log) == ["c"]
    state = await go(Command(resume={asked.id: {ids["b"]: "yes"}}))
    assert lines(log) == ["c", "b"]
    (asked,) = state["__interrupt__"]
    assert [question["id"] for question in asked.value["questions"]] == [ids["a"]]
    state = await go(Command(resume={asked.id: True}))
    assert (state["status"], lines(log)) == ("completed", ["c", "b", "a"])
