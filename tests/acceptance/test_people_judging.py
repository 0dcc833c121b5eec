"""Work that people judge: results, samples, milestones, the end, and what a judge doubts."""

from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, finish, say_json
from question_scenes import FINE, ONCE, answer, asks, mark, open_questions, resume, run
from scenes import Scene, lines, subtask, task

from surefoot.graph.settings import Settings


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


# --- checks ----------------------------------------------------------------------------------


def test_a_person_accepts_a_result_without_the_tool_running_again(scene: Scene, log: Path) -> None:
    success = [{"type": "result"}, FINE]
    a = {**mark(log, "a"), "success": success}
    run(scene, task([a, mark(log, "b", "a")]), 3)
    question = open_questions(scene)["a"]
    assert question["kind"] == "check" and "result: 1" in question["text"]
    assert answer(scene, question["id"], "pass").code == 0
    assert resume(scene)["status"] == "completed"
    assert lines(log) == ["a", "b"]
    assert scene.command("result", "t1", "a", "--json").document == 1


def test_a_person_refuses_a_result_and_says_why(scene: Scene, log: Path) -> None:
    retries = {"max_attempts": 2, "backoff_seconds": 0}
    a = {**mark(log, "a"), "success": [{"type": "result"}, FINE], "retries": retries}
    run(scene, task([a]), 3)
    first = open_questions(scene)["a"]
    assert answer(scene, first["id"], '{"pass": false, "reason": "too short"}').code == 0
    resume(scene, 3)
    second = open_questions(scene)["a"]
    assert second["id"] != first["id"] and lines(log) == ["a", "a"]
    assert answer(scene, second["id"], "fail: still too short").code == 0
    status = resume(scene, 1)
    assert status["failure"]["code"] == "attempts_exhausted"
    assert "still too short" in status["failure"]["message"] and lines(log) == ["a", "a"]
    events = scene.command("events", "t1", "--json").document
    failed = [e for e in events if e["type"] == "AttemptFailed"]
    assert [e["kind"] for e in failed] == ["check_failed"] * 2 and "too short" in failed[0][
        "reason"
    ]


def test_a_question_inside_a_group_that_began_anew_is_answered_like_any(
    scene: Scene, log: Path
) -> None:
    group = {
        "id": "g",
        "kind": "group",
        "plan": {"subtasks": [{**mark(log, "i"), "success": [FINE]}]},
    }
    run(scene, task([group, mark(log, "b", "g")]), 3)
    assert scene.command("rollback", "t1", "start").code == 0
    resume(scene, 3)
    question = open_questions(scene)["g/i"]
    refused = answer(scene, question["id"], "perhaps")
    assert refused.code == 2
    assert answer(scene, question["id"], "pass").code == 0
    assert resume(scene)["status"] == "completed"
    assert lines(log) == ["i", "i", "b"]


def test_two_people_checks_are_asked_one_after_the_other(scene: Scene, log: Path) -> None:
    also = {"type": "person", "question": "And is it short?"}
    run(scene, task([{**mark(log, "a"), "success": [FINE, also]}]), 3)
    first = open_questions(scene)["a"]
    assert answer(scene, first["id"], "pass").code == 0
    second = open_questions(scene)["a"]
    assert "short" in second["text"] and second["id"] != first["id"]
    assert answer(scene, second["id"], "pass", "--json").document["status"] == "paused"
    assert resume(scene)["status"] == "completed" and lines(log) == ["a"]


def test_no_person_is_asked_about_what_a_program_refuses(scene: Scene, log: Path) -> None:
    wrong = {"type": "result", "equals": 7}
    run(scene, task([{**mark(log, "a", retries=ONCE), "success": [FINE, wrong]}]), 1)
    assert scene.rows("select 1 from surefoot.questions") == []


def test_a_person_judges_samples_of_a_list_of_work(scene: Scene, log: Path) -> None:
    each: Any = {"kind": "tool", "tool": "echo", "args": {"value": "item-${index}"}}
    each["success"] = [{"type": "result"}]
    review: Any = {"id": "r", "kind": "foreach", "for_each": "${l}", "each": each}
    review |= {"depends_on": ["l"], "success": [{**FINE, "sample": 3}]}
    given = task([subtask("l", "echo", {"value": list(range(40))}), review])
    run(scene, given, 3)
    question = open_questions(scene)["r"]
    shown = [line for line in question["text"].splitlines() if "item-" in line]
    assert len(shown) == 3 and "3 of 40" in question["text"]
    assert answer(scene, question["id"], "pass").code == 0
    assert resume(scene)["status"] == "completed"
    assert len(scene.command("result", "t1", "r", "--json").document) == 40


def test_a_resume_without_answers_leaves_every_question_as_it_is(scene: Scene, log: Path) -> None:
    each: Any = {"kind": "tool", "tool": "echo", "args": {"value": "${item}"}}
    each["success"] = [{"type": "result"}]
    listed: Any = {"id": "listed", "kind": "foreach", "for_each": [1, 2], "each": each}
    inside, inner = mark(log, "in"), {**mark(log, "inner"), "success": [FINE]}
    rung = asks("rung", log, log.with_name("never"), skippable=True)
    never = {"type": "result", "equals": "never"}
    plan = [
        {**mark(log, "one"), "success": [FINE]},
        {**listed, "success": [FINE]},
        {**listed, "id": "sampled", "each": {**each, "success": [FINE]}},
        {"id": "group", "kind": "group", "plan": {"subtasks": [inside]}, "success": [FINE]},
        {"id": "around", "kind": "group", "plan": {"subtasks": [inner]}},
        {**mark(log, "allowed"), "approve": "always"},
        rung,
        {**listed, "id": "asked", "success": [never], "on_failure": ["ask"], "skippable": True},
        mark(log, "last", "one", "listed", "sampled", "group", "around", "allowed", "rung"),
    ]
    run(scene, task(plan), 3)
    asked = scene.command("questions", "t1", "--json").document
    assert {question["subtask"] for question in asked} == {
        *("one", "listed", "sampled/0", "sampled/1", "group", "around/inner", "allowed", "rung"),
        "asked",
    }
    for _ in range(3):
        assert resume(scene, 3)["status"] == "waiting"
        assert scene.command("questions", "t1", "--json").document == asked
    for question in asked:
        word = {"check": "pass", "approve": "yes", "ask": "skip"}[question["kind"]]
        assert answer(scene, question["id"], word).code == 0
    assert resume(scene)["status"] == "completed"
    assert sorted(lines(log)) == ["allowed", "in", "inner", "last", "one", "x"]


@pytest.mark.parametrize("kind", ["group", "foreach"])
def test_a_container_that_fails_again_asks_anew(scene: Scene, log: Path, kind: str) -> None:
    never = {"success": [{"type": "result", "equals": "never"}], "on_failure": ["ask"]}
    group = {"id": "c", "kind": "group", "plan": {"subtasks": [mark(log, "i")]}, **never}
    each: Any = {"kind": "tool", "tool": "mark", "args": {"file": str(log), "word": "${item}"}}
    each["success"] = [{"type": "result"}]
    foreach = {"id": "c", "kind": "foreach", "for_each": ["i"], "each": each, **never}
    container = {**(group if kind == "group" else foreach), "skippable": True}
    run(scene, task([container, mark(log, "b", "c")]), 3)
    seen: set[str] = set()
    for word in ("retry", "retry", "skip"):
        question = open_questions(scene)["c"]
        assert question["id"] not in seen
        seen.add(question["id"])
        assert answer(scene, question["id"], word).code == 0
        resume(scene, 0 if word == "skip" else 3)
    assert scene.command("rollback", "t1", "start").code == 0
    resume(scene, 3)
    question = open_questions(scene)["c"]
    assert question["id"] not in seen
    assert answer(scene, question["id"], "skip").code == 0
    assert resume(scene)["status"] == "completed"


def test_a_milestone_and_the_end_are_judged_by_a_person(scene: Scene, log: Path) -> None:
    milestone = {"id": "m", "after": "a", "checks": [FINE], "on_failure": ["fail"]}
    given = task([mark(log, "a"), mark(log, "b", "a")])
    given["plan"]["milestones"] = [milestone]
    given["goal"]["acceptance"] = [{"id": "end", "type": "person", "question": "Is all fine?"}]
    run(scene, given, 3)
    question = open_questions(scene)[None]
    assert question["kind"] == "check" and "result" in question["text"] and lines(log) == ["a"]
    assert resume(scene, 3)["status"] == "waiting"
    assert open_questions(scene)[None] == question
    assert answer(scene, question["id"], "pass").code == 0
    resume(scene, 3)
    assert lines(log) == ["a", "b"]
    last = open_questions(scene)[None]
    assert last["id"] != question["id"] and "Is all fine?" in last["text"]
    assert answer(scene, last["id"], "fail: it is not").code == 0
    status = resume(scene, 1)
    assert status["failure"]["code"] == "acceptance_failed"
    assert "it is not" in status["failure"]["message"]


def test_a_failed_milestone_is_judged_again_or_given_up(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    check = {"type": "command", "run": ["test", "-e", str(there)]}
    given = task([mark(log, "a"), mark(log, "b", "a")])
    given["plan"]["milestones"] = [
        {"id": "m", "after": "a", "checks": [check], "on_failure": ["ask", "fail"]}
    ]
    run(scene, given, 3)
    first = open_questions(scene)[None]
    assert (first["kind"], first["id"]) == ("milestone", "milestone-m-1")
    assert first["choices"] == ["judge", "rollback", "fail"]
    assert answer(scene, first["id"], "judge").code == 0
    resume(scene, 3)
    second = open_questions(scene)[None]
    assert second["id"] == "milestone-m-2"
    there.touch()
    assert answer(scene, second["id"], "judge").code == 0
    assert resume(scene)["status"] == "completed" and lines(log) == ["a", "b"]


def test_a_person_gives_a_milestone_up(scene: Scene, log: Path) -> None:
    check = {"type": "file", "path": "never.txt"}
    given = task([mark(log, "a"), mark(log, "b", "a")])
    given["plan"]["milestones"] = [
        {"id": "m", "after": "a", "checks": [check], "on_failure": ["ask", "fail"]}
    ]
    run(scene, given, 3)
    done = answer(scene, "milestone-m-1", "fail: it will never be there", "--json")
    assert (done.code, done.document["status"]) == (0, "failed")
    assert done.document["failure"]["code"] == "milestone_failed"
    assert "never be there" in done.document["failure"]["message"] and lines(log) == ["a"]


def test_a_person_sends_a_failed_milestone_back(scene: Scene, log: Path) -> None:
    check = {"type": "file", "path": "out.txt", "contains": "second"}
    write = subtask("a", "write_text", {"path": "out.txt", "text": "first"}, writes=["out.txt"])
    given = task([mark(log, "x"), write | {"depends_on": ["x"]}, mark(log, "b", "a")])
    given["plan"]["milestones"] = [
        {"id": "begun", "after": "x", "checks": [{"type": "result"}]},
        {"id": "m", "after": "a", "checks": [check], "on_failure": ["ask", "fail"]},
    ]
    run(scene, given, 3)
    unknown = answer(scene, "milestone-m-1", "rollback: nowhere", "--json")
    assert unknown.code_and_error == (2, "unknown_milestone")
    done = answer(scene, "milestone-m-1", "rollback: begun", "--json")
    assert (done.code, done.document["status"]) == (0, "paused")
    resume(scene, 3)
    assert lines(log) == ["x"], "what was before the milestone is not done again"
    assert open_questions(scene)[None]["id"] == "milestone-m-2"
    started = "select 1 from surefoot.events where type = 'SubtaskStarted' and subtask = 'a'"
    assert len(scene.rows(started)) == 2


# --- judges ----------------------------------------------------------------------------------


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Any:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.mark.parametrize(("value", "code"), [("pass", 0), ("fail: it is not", 1)])
def test_a_judge_that_is_not_sure_leaves_it_to_a_person(
    scene: Scene, models: ModelServer, value: str, code: int
) -> None:
    agent = {
        "id": "a",
        "kind": "agent",
        "instructions": "Greet.",
        "tools": [],
        "success": [{"type": "judge", "rubric": "it is a greeting"}],
        "retries": ONCE,
        "on_failure": ["ask"],
    }
    models.always("agent", finish("hello"))
    models.always("verdict", say_json({"pass": True, "confidence": 0.3, "reasons": ["hm"]}))
    run(scene, task([agent], model="m"), 3)
    question = open_questions(scene)["a"]
    assert question["kind"] == "verdict"
    for part in ("it is a greeting", "hm", "hello"):
        assert part in question["text"]
    assert answer(scene, question["id"], value).code == 0
    if code == 0:
        assert resume(scene)["status"] == "completed"
    else:
        resume(scene, 3)
        assert open_questions(scene)["a"]["kind"] == "ask", "its ladder says so"
    assert len(models.of("agent")) == 1 and len(models.of("verdict")) == 1
