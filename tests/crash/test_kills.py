"""SIGKILL at every boundary and at random moments; then a new process runs on (durability sync).

102 kills in all; the other files of this folder add to them.
"""

import itertools

import pytest
from conftest import Sql
from crash import plans, verdict
from crash.storm import Storm

from surefoot.graph.settings import Settings

LIVES = 10
"""That end at each boundary."""

BOUNDARIES = {
    "after intent": 6,
    "before": 6,
    "during": 6,
    "after": 6,
    "after outcome": 6,
    "before checkpoint": 16,
    "after checkpoint": 16,
}
"""Where the worker dies, and at most at the how many-th time in its life."""

RANDOM_LIVES = 18
CHECK_LIVES = 6
RECOVERY_LIVES = 8


@pytest.mark.parametrize("point", BOUNDARIES)
def test_a_kill_at_a_boundary_loses_and_repeats_nothing(
    settings: Settings, sql: Sql, point: str
) -> None:
    storm = Storm(settings.home, settings.database_url, plans.task(), seed=sum(map(ord, point)))
    storm.kill(LIVES, lambda: storm.die_at(point, storm.draw.randint(1, BOUNDARIES[point])))
    verdict.check(storm, sql, settings)


def test_a_kill_at_a_random_moment_loses_and_repeats_nothing(settings: Settings, sql: Sql) -> None:
    storm = Storm(settings.home, settings.database_url, plans.task(), seed=1)
    storm.kill(RANDOM_LIVES, storm.die_at_random)
    verdict.check(storm, sql, settings)


def test_a_kill_during_a_milestone_loses_and_repeats_nothing(settings: Settings, sql: Sql) -> None:
    storm = Storm(settings.home, settings.database_url, plans.task(), seed=2)
    points = itertools.cycle(["check", "before milestone", "after milestone"])
    storm.kill(CHECK_LIVES, lambda: storm.die_at(next(points), 1))
    verdict.check(storm, sql, settings)


def test_a_recovery_that_is_killed_itself_loses_and_repeats_nothing(
    settings: Settings, sql: Sql
) -> None:
    storm = Storm(settings.home, settings.database_url, plans.task(), seed=3)
    points = itertools.cycle(["after", "probing", "after", "undoing", "after", "undone"])
    storm.kill(RECOVERY_LIVES, lambda: storm.die_at(next(points), storm.draw.randint(1, 2)))
    verdict.check(storm, sql, settings)
