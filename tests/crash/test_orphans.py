"""Tool processes that do not want to end: none outlives its worker, and none its task's end."""

import asyncio

import pytest
from conftest import Sql
from crash import plans
from crash.storm import Storm, status_of, wait_until

from surefoot.graph.session import Engine
from surefoot.graph.settings import Settings

BRED = 3
"""Facts of one call of `breed`: two processes started, itself done."""


@pytest.fixture
def stubborn(settings: Settings) -> Storm:
    return Storm(settings.home, settings.database_url, plans.one_call("breed"))


def test_what_a_killed_worker_leaves_ends_by_itself(stubborn: Storm, sql: Sql) -> None:
    with stubborn.life() as life:
        life.wait_for_facts(BRED)
        assert len(stubborn.living()) >= 4, "root, tool process and its two children"
        life.end()
    wait_until(lambda: not stubborn.living(), timeout_s=15)
    stubborn.finish()
    assert status_of(sql, "a1") == "completed"
    assert stubborn.effects("a1")["breed/x"]["do"] == 2
    assert stubborn.living() == []


def test_a_take_over_begins_when_the_dead_worker_s_tools_are_gone(
    stubborn: Storm, sql: Sql
) -> None:
    with stubborn.life() as life:
        life.wait_for_facts(BRED)
        life.end()
    stubborn.finish()
    assert status_of(sql, "a1") == "completed"
    assert sql.value("select result from surefoot.subtasks")["value"]["left"] == []


async def test_cancelling_from_another_process_leaves_nothing_running(
    stubborn: Storm, sql: Sql, settings: Settings
) -> None:
    with stubborn.life() as life:
        await asyncio.to_thread(life.wait_for_facts, BRED)
        async with await Engine.open(settings) as engine:
            await engine.cancel("a1")
            assert status_of(sql, "a1") == "cancelled"
            assert stubborn.living() == []
            await engine.cancel("a1")
        assert await asyncio.to_thread(life.wait_for_end)
        assert life.code == 0, life.said()
    assert len(stubborn.facts()) == BRED
    assert sql.rows("select 1 from surefoot.subtasks where state = 'running'") == []


async def test_a_task_whose_worker_died_is_cancelled_once_its_tools_are_gone(
    stubborn: Storm, sql: Sql, settings: Settings
) -> None:
    with stubborn.life() as life:
        await asyncio.to_thread(life.wait_for_facts, BRED)
        life.end()
    async with await Engine.open(settings) as engine:
        await engine.cancel("a1")
    assert status_of(sql, "a1") == "cancelled"
    assert stubborn.living() == []
    assert len(stubborn.facts()) == BRED


def test_a_second_worker_is_refused_while_the_first_one_lives(stubborn: Storm) -> None:
    with stubborn.life() as first:
        first.wait_for_facts(BRED)
        with stubborn.life() as second:
            assert second.wait_for_end()
            assert second.code == 70
            assert "LeaseHeld" in second.said()
        assert first.code is None
    assert len(stubborn.facts()) == BRED
