"""The example `flaky-steps` under kills: its arithmetic is the same as without."""

import json
from typing import Any

import pytest
import yaml
from conftest import Sql
from crash.storm import Storm, status_of
from example_code import FLAKY_STEPS

from surefoot.graph.settings import Settings

LIVES = 6


def flaky_steps(seed: int) -> dict[str, Any]:
    task: dict[str, Any] = yaml.safe_load((FLAKY_STEPS / "task.yaml").read_text())
    task["goal"]["inputs"]["seed"] = seed
    return {**task, "tools": [str(FLAKY_STEPS / "my_tools.py")]}


@pytest.mark.parametrize(("seed", "attempts", "rate"), [(42, 21, 0.75), (7, 20, 0.667)])
def test_kills_change_no_figure(
    settings: Settings, sql: Sql, seed: int, attempts: int, rate: float
) -> None:
    storm = Storm(settings.home, settings.database_url, flaky_steps(seed), seed=seed)
    points = ["before checkpoint", "after checkpoint"]
    for _ in range(LIVES):
        assert storm.die_at(storm.draw.choice(points), storm.draw.randint(3, 14))
    storm.finish()
    assert status_of(sql, "a1") == "completed"
    counted = sql.value("select sum(attempts) from surefoot.subtasks")
    assert (counted, round((counted - 12) / 12, 3)) == (attempts, rate)
    assert sql.value("select failures from surefoot.tasks") == attempts - 12
    last = sql.value("select result from surefoot.subtasks where id = 'step12'")
    assert last == {"value": {"value": "step12_result", "draws": attempts}}, json.dumps(last)


def test_kills_do_not_help_a_step_that_must_fail(settings: Settings, sql: Sql) -> None:
    storm = Storm(settings.home, settings.database_url, flaky_steps(13), seed=13)
    assert storm.die_at("after checkpoint", 12)
    storm.finish()
    assert status_of(sql, "a1") == "failed"
    assert sql.value("select sum(attempts) from surefoot.subtasks") == 8
    failure = sql.value("select failure from surefoot.tasks")
    assert (failure["code"], failure["subtask"]) == ("attempts_exhausted", "step5")
