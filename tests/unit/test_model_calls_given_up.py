"""What is no word of a model: a pause while it waits, a lost database, a head that was changed."""

from pathlib import Path
from typing import Any

import pytest
from graph_world import task, tool
from model_world import FakeModels, ModelWorld, agent, says

from surefoot.graph.errors import (
    AgentError,
    CallStopped,
    DatabaseUnavailable,
    InconsistentState,
)
from surefoot.graph.model_ports import Answer, Ask
from surefoot.graph.values import JsonObject

RUBRIC = {"type": "judge", "rubric": "it is good"}
CHANGED = InconsistentState("the head was changed")


@pytest.fixture
def world(tmp_path: Path) -> ModelWorld:
    return ModelWorld(tmp_path)


class Interrupted(FakeModels):
    """Gives the first call of a kind up, with a pause of its task; afterwards it answers."""

    def __init__(self, world: ModelWorld, kind: str, **said: Any) -> None:
        super().__init__(**said)
        self.world, self.kind = world, kind

    async def ask(self, ask: Ask) -> Answer:
        if ask.call == self.kind and not self.calls(self.kind):
            self.asked.append(ask)
            self.world.control.stop("pause")
            raise CallStopped("the task stops")
        return await super().ask(ask)


def passes(confidence: float = 1.0) -> JsonObject:
    return {"pass": True, "confidence": confidence, "reasons": ["seen"]}


async def test_a_pause_while_a_judge_is_waited_for_costs_no_attempt(world: ModelWorld) -> None:
    world.models = Interrupted(world, "verdict", verdict=passes())
    out = await world.run(task(tool("a", success=[RUBRIC])))
    assert (out["status"], out["records"]["a"].get("ended", 0)) == ("paused", 0)
    out = await world.run(None)
    assert (out["status"], out["records"]["a"]["ended"]) == ("completed", 1)


async def test_a_pause_while_a_critic_is_waited_for_asks_it_again_later(world: ModelWorld) -> None:
    world.models = Interrupted(world, "reflection", reflection=says("retry", "count from one"))
    world.agent = lambda order: 1 if order.attempt > 1 else "check_failed: it is 0"
    out = await world.run(task(agent("a")))
    assert out["status"] == "paused"
    out = await world.run(None)
    assert out["status"] == "completed"
    assert "count from one" in world.orders[1].criticism


async def test_a_pause_while_drift_is_looked_for_passes_no_milestone(world: ModelWorld) -> None:
    world.models = Interrupted(world, "verdict", verdict=passes())
    out = await world.run({**task(tool("a"), milestones=[{"id": "m", "after": "a"}]), "model": "m"})
    assert (out["status"], out.get("milestones") or {}) == ("paused", {})
    out = await world.run(None)
    assert (out["status"], out["milestones"]["m"]["passed"]) == ("completed", True)


@pytest.mark.parametrize(
    "plan",
    [
        task(tool("a", success=[RUBRIC], on_failure=["skip"], skippable=True)),
        task(agent("a", on_failure=["skip"], skippable=True)),
        task(tool("a"), milestones=[{"id": "m", "after": "a", "checks": [RUBRIC]}]),
        {**task(tool("a"), milestones=[{"id": "m", "after": "a"}]), "model": "m"},
        {"goal": {"objective": "o"}},
    ],
    ids=["judge", "critic", "milestone", "drift", "planner"],
)
async def test_a_changed_head_ends_the_task_and_goes_down_no_ladder(
    world: ModelWorld, plan: JsonObject
) -> None:
    world.models = FakeModels(verdict=CHANGED, reflection=CHANGED, goal=CHANGED)
    world.agent = lambda order: "check_failed: it is 0"
    out = await world.run(plan)
    assert out["status"] == "failed"
    assert out["ending"]["code"] == "inconsistent_state"
    assert "the head was changed" in out["ending"]["message"]


async def test_an_agent_that_meets_a_changed_head_goes_down_no_ladder(world: ModelWorld) -> None:
    world.agent = lambda order: "inconsistent_state: the head was changed"
    out = await world.run(task(agent("a", on_failure=["skip"], skippable=True)))
    assert (out["status"], out["ending"]["code"]) == ("failed", "inconsistent_state")
    assert world.models.asked == []


@pytest.mark.parametrize("kind", ["verdict", "reflection"])
async def test_a_database_lost_in_a_call_is_nobodys_word(world: ModelWorld, kind: str) -> None:
    lost: AgentError = DatabaseUnavailable("gone")
    world.models = FakeModels(**{kind: lost})
    world.agent = lambda order: "check_failed: it is 0"
    plan = task(agent("a")) if kind == "reflection" else task(tool("a", success=[RUBRIC]))
    with pytest.raises(DatabaseUnavailable):
        await world.run(plan)
