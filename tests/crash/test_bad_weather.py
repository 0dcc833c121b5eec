"""D03, D04: the database is away, full, read-only or crowded in mid-run; the run sits it out."""

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Sql
from crash.bad_weather import Closed, Crowded, FullDisk, ReadOnly, SaysFull, Weather
from crash.commands import started
from crash.storm import wait_until
from scenes import Scene, lines, subtask, task

from surefoot.graph.settings import Settings

STEPS = 120
"""Enough that the weather comes while there is much left to do."""

TOOLS = Path(__file__).parent / "still_tools.py"
KINDS = (Closed, ReadOnly, FullDisk, SaysFull, Crowded)


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def weather(request: pytest.FixtureRequest, sql: Sql) -> Generator[Weather]:
    kind: type[Weather] = request.param
    made = kind(sql)
    try:
        made.prepare()
    except Exception as exc:
        if kind is FullDisk and not hasattr(exc, "sqlstate"):
            pytest.skip(f"no disk of its own can be made here: {exc}")
        raise
    yield made
    made.clear()


def chain(scene: Scene, marks: Path, *, inside: bool = False) -> Path:
    """One mark after the other, with something of a size in each, two at a time; or in a group."""
    args = {"file": str(marks), "value": "x" * 2000}
    steps = [
        subtask(
            f"s{n}",
            "write_once",
            {**args, "word": f"s{n}"},
            depends_on=[f"s{n - 2}"] if n > 1 else [],
        )
        for n in range(STEPS)
    ]
    group = {"id": "g", "kind": "group", "plan": {"subtasks": steps}}
    return scene.file(task([group] if inside else steps, tools=[TOOLS], concurrency=2))


def expected() -> list[str]:
    return sorted(f"s{n}" for n in range(STEPS))


def test_a_run_sits_out_the_weather_and_loses_and_repeats_nothing(
    settings: Settings, sql: Sql, tmp_path: Path, weather: Weather
) -> None:
    scene = Scene(replace(settings, database_url=weather.url), tmp_path / "files")
    marks = tmp_path / "marks"
    with started(scene, "run", chain(scene, marks), "--id", "t") as run:
        wait_until(lambda: len(lines(marks)) >= 10)
        weather.begin()
        wait_until(lambda: "waiting for it, nothing is lost" in run.said())
        look = scene.process("status", "t", "--json")
        if weather.readable:
            assert (look.code, look.document["status"]) == (0, "running"), look.err
        else:
            assert look.code_and_error == (2, "database_unreachable")
        assert run.code is None
        assert len(lines(marks)) < STEPS
        weather.end()
        run.end()
        assert run.code == 0, run.said()
    assert "well again" in run.said()
    assert "Traceback" not in run.said()
    assert sorted(lines(marks)) == expected()
    status = scene.process("status", "t", "--json").document
    assert (status["status"], status["attempts"], status["usage"]["failures"]) == (
        "completed",
        STEPS,
        0,
    )
    rows = sql.rows("select state, count(*)::int as n from surefoot.effects group by state")
    assert rows == [{"state": "done", "n": STEPS}]
    assert sql.value("select lease_epoch from surefoot.tasks") == 1
    types = sql.rows("select type, count(*)::int as n from surefoot.events group by type")
    counted = {row["type"]: row["n"] for row in types}
    assert (counted["SubtaskCompleted"], counted["TaskCompleted"]) == (STEPS, 1)


@pytest.mark.parametrize("kind", [Closed, ReadOnly])
@pytest.mark.parametrize("inside", [False, True], ids=["flat", "in a group"])
def test_a_run_gives_up_at_last_and_goes_on_later(
    scene: Scene, sql: Sql, tmp_path: Path, kind: type[Weather], inside: bool
) -> None:
    marks, weather = tmp_path / "marks", kind(sql)
    weather.prepare()
    file = chain(scene, marks, inside=inside)
    try:
        with started(scene, "run", file, "--id", "t", PATIENCE_S="2") as run:
            wait_until(lambda: len(lines(marks)) >= 10)
            weather.begin()
            run.end()
        assert run.code == 3, run.said()
        assert "Traceback" not in run.said()
        assert run.said().count("surefoot: nothing is lost; later go on with") == 1
        assert run.said().rstrip().splitlines()[-1].startswith("surefoot: PostgreSQL ")
    finally:
        weather.end()
    done = scene.process("resume", "t")
    assert done.code == 0, done.err
    assert sorted(lines(marks)) == expected()


@pytest.mark.parametrize("kind", [ReadOnly, SaysFull])
def test_a_run_that_cannot_write_at_its_start_makes_no_task(
    scene: Scene, sql: Sql, tmp_path: Path, kind: type[Weather]
) -> None:
    marks, weather = tmp_path / "marks", kind(sql)
    weather.prepare()
    file = chain(scene, marks)
    if kind is SaysFull:
        refusing = "create trigger full_disk before insert on surefoot.tasks"
        sql.rows(f"{refusing} for each row execute function full_disk()")
    else:
        weather.begin()
    try:
        done = scene.process("run", file, "--id", "t", "--json")
    finally:
        if kind is not SaysFull:
            weather.end()
    assert done.code_and_error == (2, "database_unavailable")
    assert "no task was made" in done.error["message"]
    assert (scene.tasks(), lines(marks)) == ([], [])
