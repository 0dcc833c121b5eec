"""D07, D08: what ends a task is a limit of its own, and a time limit that is set does fire."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, silent
from scenes import SCENE_TOOLS, Scene, gone, lines, subtask, task, until

from surefoot.graph.errors import UsageError
from surefoot.graph.settings import Settings

ONCE = {"max_attempts": 1}


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


# --- D07: the graph's step limit is never what ends a task -------------------------------------


async def test_a_healthy_plan_of_240_subtasks_completes_with_default_settings(
    scene: Scene,
) -> None:
    chain = [
        subtask(f"c{i}", "echo", {"value": i}, depends_on=[f"c{i - 1}"] if i else [])
        for i in range(120)
    ]
    wide = [subtask(f"w{i}", "echo", {"value": i}) for i in range(120)]
    status = await scene.run(task([*chain, *wide]), id="t")
    assert status.completed, status
    assert (status["attempts"], status["usage"]["steps"], status["progress"]) == (240, 240, 1.0)


LIMITS: list[tuple[str, str, float, float]] = [
    ("max_failures", "too_many_failures", 2, 50),
    ("max_seconds", "deadline", 0, 3600),
]


@pytest.mark.parametrize(("limit", "code", "low", "high"), LIMITS)
async def test_a_named_limit_ends_a_task_and_a_higher_one_goes_on_without_repeating(
    scene: Scene, tmp_path: Path, limit: str, code: str, low: float, high: float
) -> None:
    done, tried, opening = tmp_path / "done", tmp_path / "tried", tmp_path / "open"
    retries = {"max_attempts": 9, "backoff_seconds": 0}
    again = subtask("again", "works_once_open", _at(tried, opening), depends_on=["first"])
    spec = task(
        [subtask("first", "mark", {"file": str(done)}), {**again, "retries": retries}],
        budget={limit: low},
    )
    async with scene.client() as surefoot:
        status = await surefoot.run(spec, id="t")
        assert (status["status"], status["failure"]["code"]) == ("failed", code), status
        before, failed = lines(done), len(lines(tried))
        # Without a raised limit a failed task stays as it is.
        assert (await surefoot.resume("t"))["status"] == "failed"
        assert (lines(done), len(lines(tried))) == (before, failed)
        opening.touch()
        status = await surefoot.resume("t", limits={limit: high})
        assert status.completed, status
        assert await surefoot.result("t", "first") == 1
    assert lines(done) == ["x"] and len(lines(tried)) == failed + 1


async def test_used_up_steps_end_a_task_and_more_steps_complete_it(
    scene: Scene, tmp_path: Path
) -> None:
    done, tried, opening = tmp_path / "done", tmp_path / "tried", tmp_path / "open"
    retries = {"max_attempts": 99, "backoff_seconds": 0}
    work = [
        subtask(
            f"s{i}",
            "mark",
            {"file": str(done), "word": f"s{i}"},
            depends_on=[f"s{i - 1}"] if i else [],
        )
        for i in range(5)
    ]
    loops = subtask("loops", "works_once_open", _at(tried, opening), retries=retries)
    needs = [one["id"] for one in work]
    spec = task([*work, {**loops, "depends_on": needs}], budget={"max_steps": 10})
    async with scene.client() as surefoot:
        status = await surefoot.run(spec, id="t")
        assert status["failure"]["code"] == "budget_exhausted", status
        assert (status["usage"]["steps"], len(lines(tried))) == (10, 5)
        assert status["subtasks"]["completed"] == 5 and await surefoot.result("t", "s0") == 1
        opening.touch()
        status = await surefoot.resume("t", limits={"max_steps": 11})
        assert status.completed, status
    assert sorted(lines(done)) == needs and len(lines(tried)) == 6


@pytest.mark.parametrize(
    "limits",
    [{"max_stps": 5}, {"max_steps": -1}, {"max_steps": 1.5}, {"max_seconds": float("nan")}],
    ids=str,
)
async def test_a_raised_limit_that_is_none_is_refused_and_changes_nothing(
    scene: Scene, limits: dict[str, float]
) -> None:
    async with scene.client() as surefoot:
        await surefoot.create(task([subtask("a", "echo", {"value": 1})]), id="t")
        before = scene.rows("select * from surefoot.tasks")
        with pytest.raises(UsageError) as refused:
            await surefoot.resume("t", limits=limits)
        assert refused.value.code == "bad_limit" and next(iter(limits)) in str(refused.value)
        assert scene.rows("select * from surefoot.tasks") == before


# --- D08: a time limit fires -------------------------------------------------------------------


@pytest.mark.parametrize("stubborn", ["sleeps", "computes", "family"])
async def test_a_call_that_does_not_end_is_killed_at_its_timeout_while_others_go_on(
    scene: Scene, tmp_path: Path, stubborn: str
) -> None:
    pids, ticks = tmp_path / "pids", tmp_path / "ticks"
    args: dict[str, Any] = {"sleeps": {"seconds": 60}, "family": {"pids": str(pids)}}
    hangs = subtask(
        "hangs",
        stubborn,
        args.get(stubborn, {}),
        # A family needs time to come into being on a busy machine.
        timeout_seconds=8 if stubborn == "family" else 1,
        retries=ONCE,
        skippable=True,
        on_failure=["skip"],
    )
    others = [
        subtask(
            f"o{i}",
            "mark",
            {"file": str(ticks), "word": f"o{i}"},
            depends_on=[f"o{i - 1}"] if i else [],
        )
        for i in range(12)
    ]
    async with scene.client() as surefoot:
        status = await surefoot.run(task([hangs, *others], concurrency=2), id="t")
        events = [event async for event in surefoot.events("t")]
    assert status.completed and status["subtasks"]["skipped"] == 1, status
    ended = {e["subtask"]: n for n, e in enumerate(events) if e["type"].startswith("Subtask")}
    assert ended["o0"] < ended["hangs"], "the others waited for the one that hung"
    failed = [e for e in events if e["type"] == "AttemptFailed"]
    assert [e["subtask"] for e in failed] == ["hangs"] and "timeout" in str(failed[0])
    if stubborn == "family":
        assert len(lines(pids)) == 3
        await until(lambda: all(gone(int(pid)) for pid in lines(pids)))


ASLEEP = """
import psycopg
from langchain_core.tools import tool
from surefoot.tools import effect

@effect("read")
@tool
def asleep(url: str) -> int:
    '''Ask a database that does not answer.'''
    with psycopg.connect(url, application_name="asleep") as connection:
        connection.execute("select pg_sleep(600)")
    return 1

TOOLS = [asleep]
"""


async def test_a_statement_that_does_not_end_is_given_up_at_its_timeout(scene: Scene) -> None:
    module = scene.write("sleeping_tools.py", ASLEEP)
    hangs = subtask(
        "hangs",
        "asleep",
        {"url": scene.settings.database_url},
        timeout_seconds=2,
        retries={"max_attempts": 2, "backoff_seconds": 0},
        skippable=True,
        on_failure=["skip"],
    )
    given = task([hangs, subtask("b", "echo", {"value": 1})], tools=[module, SCENE_TOOLS])
    status = await asyncio.wait_for(scene.run(given, "t"), 90)
    assert status.completed and status["attempts"] == 3, status
    ended = "select facts from surefoot.events where type = 'AttemptFailed' order by id"
    assert [row["facts"]["kind"] for row in scene.rows(ended)] == ["timeout", "timeout"]


async def test_a_model_server_that_stays_silent_is_given_up_at_the_subtasks_timeout(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer() as models:
        for name, value in models.environment().items():
            monkeypatch.setenv(name, value)
        models.always("agent", silent("before headers"))
        hangs = {"id": "hangs", "kind": "agent", "instructions": "Do it.", "tools": ["echo"]}
        hangs |= {"success": [{"type": "result"}], "timeout_seconds": 1.5, "retries": ONCE}
        hangs |= {"skippable": True, "on_failure": ["skip"]}
        others = [subtask(f"o{n}", "echo", {"value": n}) for n in range(3)]
        status = await asyncio.wait_for(scene.run(task([hangs, *others], model="m"), "t"), 90)
        assert status.completed and status["subtasks"]["skipped"] == 1, status
        assert len(models.of("agent")) == 1
    (failed,) = scene.rows("select facts from surefoot.events where type = 'AttemptFailed'")
    assert "no whole answer within 1." in failed["facts"]["reason"], failed["facts"]


async def test_the_late_result_of_a_call_that_was_given_up_is_thrown_away(
    scene: Scene, tmp_path: Path
) -> None:
    file = tmp_path / "calls"
    late = subtask(
        "late",
        "slow_then_late",
        {"file": str(file)},
        timeout_seconds=3,
        retries={"max_attempts": 5, "backoff_seconds": 0},
    )
    async with scene.client() as surefoot:
        status = await surefoot.run(task([late]), id="t")
        assert status.completed, status
        assert await surefoot.result("t", "late") == "in time"
    assert status["attempts"] == len(lines(file)) >= 2


async def test_a_task_of_many_quick_steps_that_takes_too_long_ends_with_deadline(
    scene: Scene,
) -> None:
    # A minute at least, however fast the machine.
    quick = [
        subtask(f"q{i}", "sleeps", {"seconds": 0.06}, depends_on=[f"q{i - 1}"] if i else [])
        for i in range(1000)
    ]
    async with scene.client() as surefoot:
        status = await surefoot.run(task(quick, budget={"max_seconds": 4}), id="t")
        assert (status["status"], status["failure"]["code"]) == ("failed", "deadline"), status
        done = status["subtasks"]["completed"]
        assert 0 < done < 1000 and status["subtasks"]["running"] == 0
        assert await surefoot.result("t", f"q{done - 1}") == "slept"


async def test_a_deadline_cuts_a_call_that_would_take_for_ever(scene: Scene) -> None:
    spec = task([subtask("hangs", "sleeps", {"seconds": 600})], budget={"max_seconds": 1})
    status = await asyncio.wait_for(scene.run(spec, id="t"), 120)
    assert status["failure"]["code"] == "deadline", status


def _at(file: Path, opening: Path) -> dict[str, str]:
    return {"file": str(file), "open": str(opening)}
