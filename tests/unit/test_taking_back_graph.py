"""What the task graph makes of attempts that are taken back: counts, rungs, and full tries."""

from pathlib import Path
from typing import Any

import pytest
from fakes import ok
from graph_world import World, task, tool
from langgraph.types import Command

from surefoot.graph.build import build_task_graph
from surefoot.graph.ports import ToolCall, ToolReply

WRONG = [{"type": "result", "equals": "right"}]
ONCE = {"max_attempts": 1}


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def world(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("surefoot.tools.compensating.BACKOFF_S", 0.0)
    world = World(tmp_path)

    def does(word: str, reply: ToolReply | None = None) -> Any:
        def act(call: ToolCall) -> ToolReply:
            said.append(word)
            return reply or ok(word)

        return act

    for name in ("full", "right"):
        compensate = does(f"undo {name}", ok())
        world.host.add(name, does(name), effect="reversible", compensate=compensate)
    stuck = does("stuck", ToolReply(status="error", message="locked"))
    world.host.add("locked", does("locked"), effect="reversible", compensate=stuck)
    return world


async def test_a_full_try_that_fails_leaves_what_the_simpler_version_did(
    world: World, said: list[str]
) -> None:
    simple = {"kind": "tool", "tool": "right", "improve_later": True}
    plan = task(tool("a", "full", success=WRONG, retries=ONCE, on_failure=[simple]))
    out = await world.run(plan)
    assert out["status"] == "completed"
    assert said == ["full", "undo full", "right", "full", "undo full"]
    standing = [row.tool for row in world.bench.ledger.rows.values() if row.state == "done"]
    assert standing == ["right"]
    assert "improving" not in out["records"]["a"]


def never(call: ToolCall) -> ToolReply:
    raise AssertionError("what failed is not called once more to be undone")


async def test_a_failure_that_could_not_be_undone_is_counted_when_it_is(
    world: World, said: list[str]
) -> None:
    plan = task(tool("a", "locked", success=WRONG, retries=ONCE, on_failure=["skip"]))
    out = await world.run(plan)
    assert out["status"] == "waiting"
    (question,) = out["questions"]
    record = out["records"]["a"]
    assert (question["kind"], record["undoing"]["kind"]) == ("undo_failed", "check_failed")
    assert record.get("ended", 0) == 0
    world.host.add("locked", never, effect="reversible", compensate=lambda call: ok())
    graph = build_task_graph(context=world.worker()).compile(checkpointer=world.saver)
    config: Any = {"configurable": {"thread_id": "t1"}}
    answer: Any = Command(resume={question["id"]: "retry"})
    out = await graph.ainvoke(answer, config, durability="sync")
    assert (out["records"]["a"]["state"], out["records"]["a"].get("ended")) == ("skipped", 1)
    assert said == ["locked", *["stuck"] * 3]
