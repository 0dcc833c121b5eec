"""What must be true after a storm: nothing lost, nothing twice, nothing left."""

from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from conftest import Sql
from crash import plans
from crash.storm import Storm, saved_state, wait_until

from surefoot.graph.settings import Settings


def check(storm: Storm, sql: Sql, settings: Settings) -> None:
    """Every task of the storm, from all sides."""
    for id in storm.ids:
        records = saved_state(sql.url, id)["records"]
        check_rows(sql, id)
        check_events(sql, id)
        check_records(records)
        check_outside(storm, id)
        check_results(storm, records, sql, id, settings)
    wait_until(lambda: not storm.living(), timeout_s=15)


def check_rows(sql: Sql, id: str) -> None:
    (task,) = sql.rows("select * from surefoot.tasks where id = %s", id)
    questions = sql.rows("select text from surefoot.questions where task_id = %s", id)
    assert questions == []
    assert (task["status"], task["progress"], task["failure"]) == ("completed", 1.0, None)
    assert (task["acquired_by"], task["stopping"]) == (None, False)
    assert task["milestones"]["passed"] == len(plans.MILESTONES)
    assert task["failures"] == 2 * len(plans.ENDED)
    rows = sql.rows("select * from surefoot.subtasks where task_id = %s", id)
    assert {row["id"]: row["state"] for row in rows} == dict.fromkeys(
        plans.subtask_ids(), "completed"
    )
    attempts = {row["id"]: row["attempts"] for row in rows if row["id"] != "notes"}
    assert attempts == {i: plans.ENDED.get(i, 1) for i in attempts}
    assert {row["step_state"] for row in rows if row["id"] != "notes"} == {"succeeded"}
    effects = sql.rows("select * from surefoot.effects where task_id = %s", id)
    assert {row["state"] for row in effects} == {"done"}
    assert len(effects) == sum(map(len, plans.EFFECTS.values()))


def check_events(sql: Sql, id: str) -> None:
    events = sql.rows("select * from surefoot.events where task_id = %s order by id", id)
    completed = Counter(e["subtask"] for e in events if e["type"] == "SubtaskCompleted")
    assert completed == dict.fromkeys(plans.subtask_ids(), 1)
    passed = Counter(e["facts"]["milestone"] for e in events if e["type"] == "MilestonePassed")
    assert passed == dict.fromkeys(plans.MILESTONES, 1)
    once = Counter(e["type"] for e in events)
    assert (once["TaskStarted"], once["TaskCompleted"], once["SubtaskExpanded"]) == (1, 1, 1)
    # A kill tears nothing that is saved: a state is never behind the rows that left with it.
    made_anew = "StateRebuilt GroupStateRebuilt StateLost AgentThreadLost".split()
    assert [once[type] for type in made_anew] == [0, 0, 0, 0]
    assert events[-1]["type"] == "TaskCompleted"


def check_records(records: dict[str, Any]) -> None:
    assert {id: r["state"] for id, r in records.items()} == dict.fromkeys(
        plans.subtask_ids(), "completed"
    )


def check_outside(storm: Storm, id: str) -> None:
    """Each logical effect once: done and not undone, or for repeatable ones at least once."""
    counted = storm.effects(id)
    for kind, names in plans.EFFECTS.items():
        for name in names:
            facts = counted[f"{kind}/{name}"]
            stands = facts["do"] - facts["undo"]
            if kind in plans.REPEATABLE:
                assert stands >= 1, (kind, name, facts)
            else:
                assert stands == 1, (kind, name, facts)
                assert kind == "book" or facts["do"] == 1, (kind, name, facts)
    done = {name for name, facts in counted.items() if facts["do"]}
    assert done == {f"{kind}/{n}" for kind, names in plans.EFFECTS.items() for n in names}


def check_results(
    storm: Storm, records: dict[str, Any], sql: Sql, id: str, settings: Settings
) -> None:
    """Results name the fact that stands outside, and have reached the subtask that needs them."""
    facts = standing(storm, id)
    results = {leaf.id: records[leaf.id]["result"]["value"] for leaf in plans.LEAVES}
    for leaf in plans.LEAVES:
        assert results[leaf.id]["id"] == leaf.key
        if leaf.tool in plans.EFFECTS:
            assert results[leaf.id]["nonce"] in facts[f"{leaf.tool}/{leaf.key}"], leaf.id
    artifacts = sql.rows("select * from surefoot.artifacts where task_id = %s", id)
    notes = {f"notes/{i}" for i in range(plans.ITEMS)}
    assert Counter(row["subtask"] for row in artifacts) == dict.fromkeys({*notes, "collect"}, 1)
    (report,) = [row for row in artifacts if row["name"] == "report.json"]
    expected = [records[f"notes/{i}"]["result"]["value"]["nonce"] for i in range(plans.ITEMS)]
    assert plans.report(blob(settings, report["sha256"])) == {
        "notes": expected,
        "results": results,
    }


def standing(storm: Storm, id: str) -> dict[str, set[str]]:
    """By `kind/id`: the nonces that count. Of the undone ones only the last stands."""
    found: dict[str, set[str]] = {}
    for fact in storm.facts(id):
        name = fact["effect"].removeprefix(f"{id}/")
        if fact["fact"] == "undo":
            found[name] = set()
        elif fact["fact"] == "do":
            found.setdefault(name, set()).add(fact["nonce"])
    return found


def blob(settings: Settings, sha256: str) -> bytes:
    root = Path(unquote(urlsplit(settings.artifacts_url).path))
    return (root / "sha256" / sha256[:2] / sha256).read_bytes()
