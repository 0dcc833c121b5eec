"""SIGKILL right after each of the first checkpoints of a task and its groups.

A thread whose input alone was saved has not begun: LangGraph drops that input when another one
comes, so it must be given once more. Both groups begin within the fourteen.
"""

from typing import Any

import pytest
from conftest import Sql
from crash import plans
from crash.groups import grouped
from crash.storm import Storm, status_of

from surefoot.graph.settings import Settings


@pytest.mark.parametrize(
    ("plan", "first"), [(plans.task, 5), (grouped, 14)], ids=["flat", "grouped"]
)
def test_a_kill_after_each_of_the_first_checkpoints_loses_nothing(
    settings: Settings, sql: Sql, plan: Any, first: int
) -> None:
    storm = Storm(settings.home, settings.database_url, plan())
    for count in range(1, first + 1):
        storm.ids.clear()  # the tasks before have ended
        storm.add()
        assert storm.die_at("after checkpoint", count)
        storm.finish()
        assert status_of(sql, storm.ids[0]) == "completed", count
