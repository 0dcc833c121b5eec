"""The rollback node over stand-ins: what it undoes, what it asks, and that it may be done twice."""

from pathlib import Path
from typing import Any

import pytest
from fakes import ok
from graph_world import World, task, tool

from surefoot.graph.build import build_task_graph
from surefoot.graph.errors import PermanentError
from surefoot.graph.ports import Command, ToolCall, ToolReply
from surefoot.graph.values import JsonObject


class Counter(World):
    """Where things are booked and released, while it is open."""

    closed = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.host.add(
            "book", lambda call: ok(call.args), effect="reversible", compensate=self._release
        )
        self.host.add("send", lambda call: ok(call.args), effect="irreversible")

    def _release(self, call: ToolCall) -> ToolReply:
        del call
        if self.closed:
            return ToolReply(status="error", message="closed", retryable=False)
        return ok()


@pytest.fixture
def world(tmp_path: Path) -> Counter:
    return Counter(tmp_path)


async def command(world: World, id: int, name: str, **args: Any) -> JsonObject:
    """A go that applies one command, as a person's who finds the task unheld."""
    context = world.worker(ledger=world.bench.ledger, only_commands=True)
    world.control.ask(Command(id=id, name=name, args=args, by="person"))
    graph = build_task_graph(context=context).compile(checkpointer=world.saver)
    config: Any = {"configurable": {"thread_id": "t1"}}
    return await graph.ainvoke({"go": 1}, config, durability="sync")


def undone(world: Counter) -> list[str]:
    return [tool for what, tool in world.host.log if what == "compensate"]


def given(**more: Any) -> JsonObject:
    milestones: Any = [{"id": "m", "after": "a", "checks": []}]
    subtasks = (tool("a", "book"), tool("b", "book", "a"), tool("c", "send", "b"))
    return task(*subtasks, milestones=milestones, **more)


async def finished(world: Counter) -> None:
    out = await world.run(given(), ledger=world.bench.ledger)
    assert out["status"] == "completed"


async def test_only_what_came_after_is_undone_and_pending(world: Counter) -> None:
    await finished(world)
    out = await command(world, 1, "rollback", milestone="m")
    assert out["status"] == "paused"
    assert {id: record["state"] for id, record in out["records"].items()} == {
        **{"a": "completed", "b": "pending", "c": "pending"}
    }
    assert undone(world) == ["book"]
    rows = {row.subtask: (row.state, row.rolled_back) for row in world.bench.ledger.rows.values()}
    assert rows == {
        "a": ("done", False),
        "b": ("compensated", False),
        "c": ("done", True),
    }
    assert out["milestones"]["m"]["passed"]
    assert [d["kind"] for d in out["decisions"].values()] == ["rollback"]
    assert sorted(world.journal.withdrawn) == ["b", "c"]
    assert (out.get("rollbacks"), out["back"]) == (None, None)
    assert (await world.run(None, ledger=world.bench.ledger))["status"] == "completed"
    assert [call.subtask for call in world.host.calls] == ["a", "b", "c", "b"]


async def test_back_to_the_start_everything_is_judged_again(world: Counter) -> None:
    await finished(world)
    out = await command(world, 1, "rollback", milestone="start")
    assert {record["state"] for record in out["records"].values()} == {"pending"}
    assert not out["milestones"]["m"]["passed"]
    assert undone(world) == ["book", "book"]
    await command(world, 2, "rollback", milestone="start")
    assert undone(world) == ["book", "book"]


async def test_a_blocked_way_is_asked_about_again_until_it_is_free(world: Counter) -> None:
    await finished(world)
    world.closed = True
    out = await command(world, 1, "rollback", milestone="start")
    assert (out["status"], out["back"]["milestone"]) == ("waiting", "start")
    first = out["questions"][0]
    assert (first["kind"], first["subtask"]) == ("undo_failed", "b")
    assert out["records"]["b"]["state"] == "completed"
    out = await command(world, 2, "answer", question=first["id"], value="retry")
    (second,) = out["questions"]
    assert second["id"] != first["id"]
    out = await command(world, 3, "answer", question=second["id"], value="undone")
    (third,) = out["questions"]
    assert third["subtask"] == "a"
    world.closed = False
    out = await command(world, 4, "answer", question=third["id"], value="retry")
    assert (out["status"], out["questions"], out["back"]) == ("paused", [], None)
    states = {row.subtask: row.state for row in world.bench.ledger.rows.values()}
    assert (states["a"], states["b"]) == ("compensated", "compensated")


async def test_an_unknown_milestone_changes_nothing(world: Counter) -> None:
    await finished(world)
    out = await command(world, 1, "rollback", milestone="nobody")
    assert out["status"] == "completed"
    error = out["applied"][-1]["outcome"]["error"]
    assert error["code"] == "unknown_milestone"
    assert "m, start" in error["message"]


async def test_a_task_that_runs_refuses_to_go_back(world: Counter) -> None:
    context = world.worker(ledger=world.bench.ledger)
    world.control.ask(Command(id=1, name="rollback", args={"milestone": "start"}, by="person"))
    graph = build_task_graph(context=context).compile(checkpointer=world.saver)
    config: Any = {"configurable": {"thread_id": "t1"}}
    out = await graph.ainvoke({"task": given()}, config, durability="sync")
    assert out["status"] == "completed"
    assert out["applied"][-1]["outcome"]["error"]["code"] == "wrong_state"


async def test_a_damaged_snapshot_is_passed_over_for_an_earlier_point(world: Counter) -> None:
    check = {"type": "result", "path": "x", "equals": 2}
    last = {"id": "n", "after": "b", "checks": [check], "on_failure": ["rollback", "fail"]}
    long = "x" * 3000
    made = task(
        tool("a", args={"long": long}),
        tool("b", "echo", "a", args={"x": 1}),
        milestones=[{"id": "m", "after": "a", "checks": []}, last],
        limits={"rollbacks": 1},
    )
    store = world.bench.store
    kept = store.get_bytes

    async def lost(sha256: str) -> bytes:
        content = await kept(sha256)
        if b"plan_at" in content:
            raise PermanentError("it is damaged")
        return content

    store.get_bytes = lost
    out = await world.run(made)
    assert out["ending"]["code"] == "milestone_failed"
    assert world.calls() == ["a", "b", "a", "b"]
    told = [(type, facts.get("milestone")) for type, facts in world.journal.events]
    assert ("RollbackUnavailable", "m") in told
    assert ("RolledBack", "start") in told
