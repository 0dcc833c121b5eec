"""PostgreSQL dies or cuts its connections in mid-run: the run goes on, nothing is done twice."""

import os
import shutil
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from conftest import Sql
from crash import groups, outside, plans, verdict
from crash.storm import Life, Storm, wait_until
from model_server import ModelServer, Said, Seen, finish
from scenes import Scene, task, until

from surefoot.checkpointing.embedded import EmbeddedServer
from surefoot.graph.settings import Settings

CUTS = 8
DEATHS = 3


def test_cut_connections_in_mid_run_stop_nothing(settings: Settings, sql: Sql) -> None:
    storm = Storm(settings.home, settings.database_url, plans.task(), seed=4)
    storm.add()
    with storm.life() as life:
        for _ in range(CUTS):
            if more(storm, life, storm.draw.randint(4, 10)):
                sql.cut_connections()
        assert life.wait_for_end()
        assert life.code == 0, life.said()
    verdict.check(storm, sql, settings)


def test_cut_connections_inside_groups_stop_nothing(settings: Settings, sql: Sql) -> None:
    storm = Storm(settings.home, settings.database_url, groups.grouped(), seed=8)
    with storm.life() as life:
        for _ in range(CUTS):
            if more(storm, life, storm.draw.randint(2, 6)):
                sql.cut_connections()
        assert life.wait_for_end()
        assert life.code == 0, life.said()
    groups.check(storm, sql)


@pytest.fixture
def own_server(home: Path) -> Generator[EmbeddedServer]:
    """A server that only this test uses, and may kill."""
    server = EmbeddedServer(home)
    yield server
    server.release()


def test_a_killed_embedded_server_is_started_again_by_the_run(
    home: Path, own_server: EmbeddedServer
) -> None:
    url = own_server.acquire()
    storm = Storm(home, None, plans.task(), seed=5)
    with storm.life() as life:
        for _ in range(DEATHS):
            assert more(storm, life, storm.draw.randint(3, 9)), life.said()
            kill_server(home)
        assert life.wait_for_end()
        assert life.code == 0, life.said()
    verdict.check(storm, Sql(url), settings_of(home, None))
    own_server.release()
    wait_until(lambda: not storm.living(servers=True), timeout_s=15)


@pytest.fixture
def other_home() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="surefoot-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_a_run_waits_for_an_external_server_that_was_killed(
    home: Path, own_server: EmbeddedServer, other_home: Path
) -> None:
    url = own_server.acquire()
    storm = Storm(other_home, url, plans.task(), seed=6)
    with storm.life() as life:
        for _ in range(DEATHS):
            assert more(storm, life, storm.draw.randint(3, 9)), life.said()
            kill_server(home)
            assert life.code is None, life.said()
            own_server.ensure_running()
        assert life.wait_for_end()
        assert life.code == 0, life.said()
    verdict.check(storm, Sql(url), settings_of(other_home, url))


def test_a_run_waits_for_a_server_that_was_killed_while_groups_ran(
    home: Path, own_server: EmbeddedServer, other_home: Path
) -> None:
    url = own_server.acquire()
    storm = Storm(other_home, url, groups.grouped(), seed=9)
    with storm.life() as life:
        assert more(storm, life, storm.draw.randint(9, 20)), life.said()
        kill_server(home)
        own_server.ensure_running()
        assert life.wait_for_end()
        assert life.code == 0, life.said()
    groups.check(storm, Sql(url))


def test_worker_and_server_may_die_together(
    home: Path, own_server: EmbeddedServer, other_home: Path
) -> None:
    url = own_server.acquire()
    storm = Storm(other_home, url, plans.task(), seed=7)
    for _ in range(DEATHS):
        with storm.life() as life:
            more(storm, life, storm.draw.randint(3, 9))
            kill_server(home)
            life.end()
        own_server.ensure_running()
    storm.finish()
    verdict.check(storm, Sql(url), settings_of(other_home, url))


def more(storm: Storm, life: Life, facts: int) -> bool:
    """Wait until so much more is true outside; False if the life ended before."""
    wanted = len(storm.facts()) + facts
    wait_until(lambda: life.code is not None or len(storm.facts()) >= wanted)
    return life.code is None


def kill_server(home: Path) -> None:
    """SIGKILL to the postmaster of a home, as the system's memory killer would do it."""
    pid = int((home / "pg" / "data" / "postmaster.pid").read_text().split("\n", 1)[0])
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: outside.started(pid) is None)


def settings_of(home: Path, url: str | None) -> Settings:
    return Settings(home=home, database_url=url, artifacts_url=(home / "artifacts").as_uri())


VOTERS, AHEAD_BY = 3, 3
BALLOTS = ["A", "b", "A", "A", "a", "A"]
"""What a model answers in turn; A is three ahead with the fifth."""

CUT_AT = (2, 4)
"""While these ballots are asked for, all connections are cut."""


async def test_votes_go_on_over_lost_connections_and_pay_for_no_ballot_twice(
    settings: Settings, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, asked = Scene(settings, tmp_path / "files"), Counter[str]()
    counting, cutting, cuts = threading.Lock(), threading.Lock(), list[int]()

    def answer(seen: Seen) -> Said:
        voter = next(f"v{n}" for n in range(VOTERS) if seen.says(f"[v{n}]"))
        with counting:  # one that was given up may still be answered beside the next
            asked[voter] += 1
            number = asked[voter]
        if number in CUT_AT:
            with cutting:  # else they cut each other
                cuts.append(sql.cut_connections())
        return finish(BALLOTS[min(number, len(BALLOTS)) - 1])

    votes = {"ahead_by": AHEAD_BY, "max_samples": 15}
    voters = [
        {
            "id": f"v{n}",
            "kind": "agent",
            "instructions": f"Choose, as [v{n}].",
            "tools": [],
            "success": [{"type": "result"}],
            "votes": votes,
        }
        for n in range(VOTERS)
    ]
    with ModelServer() as models:
        models.always("agent", answer)
        for name, value in models.environment().items():
            monkeypatch.setenv(name, value)
        file = scene.file(task(voters, model="m", concurrency=VOTERS))
        with scene.started("run", file, "--id", "t") as run:
            await until(lambda: run.poll() is not None)
            assert run.returncode == 0, run.communicate()[1]
    assert len([cut for cut in cuts if cut]) == VOTERS * len(CUT_AT)
    results = sql.rows("select result from surefoot.subtasks order by id")
    assert [row["result"]["value"] for row in results] == ["A"] * VOTERS
    # A ballot whose answer was on its way when the task was taken up anew is asked for once more.
    assert all(5 <= asked[f"v{n}"] <= 5 + len(cuts) for n in range(VOTERS))
