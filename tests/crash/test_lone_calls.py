"""A call that dies and that no probe can tell about: asked about, or answered by the ledger."""

import pytest
from conftest import Sql
from crash import plans
from crash.storm import Storm, status_of

from surefoot.graph.settings import Settings


@pytest.mark.parametrize(("point", "done"), [("after", 1), ("after intent", 0)])
def test_a_cut_call_that_nothing_can_tell_about_waits_for_a_person(
    settings: Settings, sql: Sql, point: str, done: int
) -> None:
    storm = Storm(settings.home, settings.database_url, plans.one_call("blind"))
    assert storm.die_at(point, 1)
    for _ in range(2):
        storm.finish()
        assert status_of(sql, "a1") == "waiting"
    assert len(storm.facts()) == done
    assert sql.value("select state from surefoot.effects") == "intent"
    assert sql.value("select count(*) from surefoot.questions where open") == 1


def test_an_effect_without_a_usable_result_says_the_same_after_a_kill(
    settings: Settings, sql: Sql
) -> None:
    storm = Storm(settings.home, settings.database_url, plans.one_call("odd"))
    assert storm.die_at("after outcome", 1)
    storm.finish()
    assert status_of(sql, "a1") == "failed"
    assert storm.effects("a1")["odd/x"]["do"] == 1
    failure = sql.value("select failure from surefoot.subtasks")
    assert failure["kind"] == "not_json"
    assert "object" in failure["message"]


def test_a_worker_that_dies_after_the_end_leaves_no_lease_for_long(
    settings: Settings, sql: Sql
) -> None:
    storm = Storm(settings.home, settings.database_url, plans.one_call("put"))
    assert storm.die_at("after end", 1)
    assert status_of(sql, "a1") == "completed"
    assert sql.value("select acquired_by from surefoot.tasks") is not None
    storm.finish()
    assert sql.value("select acquired_by from surefoot.tasks") is None
    assert storm.effects("a1")["put/x"]["do"] == 1
