"""SIGKILL while work is inside groups: what is in them goes on on their own threads."""

import pytest
from conftest import Sql
from crash.groups import check, grouped
from crash.storm import Storm

from surefoot.graph.settings import Settings

RANDOM_LIVES = 20
LIVES = 4
BOUNDARIES = {
    "after intent": 6,
    "after outcome": 6,
    "before checkpoint": 40,
    "after checkpoint": 40,
}


def test_a_kill_at_a_random_moment_inside_groups_loses_and_repeats_nothing(
    settings: Settings, sql: Sql
) -> None:
    storm = Storm(settings.home, settings.database_url, grouped(), seed=11)
    storm.kill(RANDOM_LIVES, storm.die_at_random)
    check(storm, sql)


@pytest.mark.parametrize("point", BOUNDARIES)
def test_a_kill_at_a_boundary_inside_groups_loses_and_repeats_nothing(
    settings: Settings, sql: Sql, point: str
) -> None:
    storm = Storm(settings.home, settings.database_url, grouped(), seed=sum(map(ord, point)))
    storm.kill(LIVES, lambda: storm.die_at(point, storm.draw.randint(1, BOUNDARIES[point])))
    check(storm, sql)
