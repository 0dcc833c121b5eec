"""The plan that is killed, two groups deep, and what must be true of it in the end."""

from collections import Counter
from typing import Any

from conftest import Sql
from crash import plans, verdict
from crash.storm import Storm, saved_state, wait_until

PREFIX = "outer/inner/"


def grouped() -> dict[str, Any]:
    """The plan that is killed, two groups deep, beside two leaves of the task's own."""
    task = plans.task()
    inner: dict[str, Any] = {"id": "inner", "kind": "group", "plan": task["plan"]}
    outer: dict[str, Any] = {"id": "outer", "kind": "group", "plan": {"subtasks": [inner]}}
    inner["outputs"] = {"first": "${send0.id}"}
    outer["outputs"] = {"first": "${inner.first}"}
    looks = [leaf.subtask("one", []) for leaf in plans.leaves("look", range(8, 9))]
    last: dict[str, Any] = {"id": "last", "kind": "tool", "tool": "look", "depends_on": ["outer"]}
    last |= {"args": {"id": "${outer.first}"}, "success": [{"type": "result"}]}
    phases = [{"id": "one"}]
    return {**task, "plan": {"phases": phases, "subtasks": [*looks, outer, last]}}


def all_ids() -> set[str]:
    inside = {f"{PREFIX}{id}" for id in plans.subtask_ids()}
    return inside | {"outer", "outer/inner", "look8", "last"}


def check(storm: Storm, sql: Sql) -> None:
    """Every task of the storm: nothing lost, nothing twice, nothing left."""
    for id in storm.ids:
        (task,) = sql.rows("select * from surefoot.tasks where id = %s", id)
        assert (task["status"], task["progress"], task["failure"]) == ("completed", 1.0, None)
        assert task["acquired_by"] is None
        assert task["failures"] == 2 * len(plans.ENDED), task["failures"]
        rows = sql.rows("select * from surefoot.subtasks where task_id = %s", id)
        states = {row["id"]: row["state"] for row in rows}
        assert states == dict.fromkeys(all_ids(), "completed")
        effects = sql.rows("select * from surefoot.effects where task_id = %s", id)
        assert {row["state"] for row in effects} == {"done"}
        assert all(row["subtask"].startswith(PREFIX) for row in effects)
        events = sql.rows("select * from surefoot.events where task_id = %s order by id", id)
        completed = Counter(e["subtask"] for e in events if e["type"] == "SubtaskCompleted")
        assert completed == dict.fromkeys(all_ids(), 1)
        passed = Counter(e["facts"]["milestone"] for e in events if e["type"] == "MilestonePassed")
        assert passed == dict.fromkeys((f"{PREFIX}{m}" for m in plans.MILESTONES), 1)
        verdict.check_outside(storm, id)
        named = "select distinct thread_id from checkpoints where starts_with(thread_id, %s)"
        (thread,) = sql.rows(named, f"{id}/outer/inner:")
        records = saved_state(sql.url, thread["thread_id"])["records"]
        verdict.check_records(records)
        own = saved_state(sql.url, id)["records"]
        assert own["last"]["result"]["value"]["id"] == "send0"
        assert own["outer"]["result"]["value"] == {"first": "send0"}
    wait_until(lambda: not storm.living(), timeout_s=15)
