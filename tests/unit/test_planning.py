"""Planning with a model over stand-ins: rounds, faults that go back, endings, stops."""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from graph_world import World

from surefoot.graph.build import build_task_graph
from surefoot.graph.errors import AnswerUnusable, BudgetExhausted, ModelUnavailable
from surefoot.graph.model_ports import Answer, Ask, Message, Reply, Role, Turn
from surefoot.graph.values import JsonObject

EVERY: JsonObject = {
    "name": "n",
    "depends_on": [],
    "weight": 1,
    "resumable": True,
    "skippable": False,
    "covers": [],
    "success": [{"type": "result"}],
}
GOAL: JsonObject = {
    "objective": "say hello",
    "acceptance": [{"id": "a1", "type": "file", "path": "x"}],
}
DRAFT: JsonObject = {
    "acceptance": [{"id": "a1", "type": "file", "path": "x", "exists": True}],
    "prohibitions": ["Nothing is sent.", {"tool": "fails"}],
}


def step(id: str, *needs: str, **more: Any) -> JsonObject:
    base = {**EVERY, "id": id, "kind": "tool", "tool": "echo", "args": {"text": id}}
    return {**base, "depends_on": list(needs), **more}


def plan(*steps: JsonObject, **more: Any) -> JsonObject:
    return {"phases": [], "subtasks": list(steps), "milestones": [], **more}


GOOD = plan(step("a"), step("b", "a", covers=["a1"], writes=["x"]))
CYCLE = plan(step("a", "b"), step("b", "a", covers=["a1"], writes=["x"]))


@dataclass
class Planner:
    """A planning model that gives these answers: mappings, errors, or functions of the request."""

    answers: list[Any]
    asked: list[Ask] = field(default_factory=list[Ask])

    def has(self, role: Role) -> bool:
        return role == "planner"

    async def ask(self, ask: Ask) -> Answer:
        self.asked.append(ask)
        said: Any = self.answers.pop(0)
        if callable(said):
            said = said(ask)
        if asyncio.isfuture(said):
            said = await said
        if isinstance(said, BaseException):
            raise said
        return Answer(value=said, model="m", raw=json.dumps(said))

    async def step(self, turn: Turn) -> Reply:
        raise AssertionError(turn)

    async def fold(self, turn: Turn) -> list[Message] | None:
        raise AssertionError(turn)


def task(**more: Any) -> JsonObject:
    return {"goal": GOAL, "model": "m", **more}


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    (made.bench.folder / "workspace").mkdir(exist_ok=True)
    (made.bench.folder / "workspace" / "x").touch()
    return made


async def planned(world: World, *answers: Any, **more: Any) -> tuple[JsonObject, Planner]:
    model = Planner(list(answers))
    return await world.run(task(**more), models=model), model


async def test_a_plan_of_a_model_is_checked_and_run(world: World) -> None:
    state, model = await planned(world, GOOD)
    assert state["status"] == "completed"
    assert [ask.call for ask in model.asked] == ["plan"]
    assert world.calls() == ["a", "b"]
    assert world.journal.types().count("PlanAccepted") == 1


async def test_faults_go_back_with_the_answer_until_a_plan_holds(world: World) -> None:
    strange = plan(step("a", tool="shout"), step("b", "a", covers=["a1"], writes=["x"]))
    unusable = AnswerUnusable("plan", ["no JSON at all"], "Sure, here is ...")
    state, model = await planned(world, CYCLE, strange, unusable, GOOD)
    assert state["status"] == "completed"
    second, third, fourth = (ask.matter for ask in model.asked[1:])
    assert "cycle: " in second and "'a' -> " not in second and '"depends_on": ["b"]' in second
    assert "unknown_tool" in third and "'shout'" in third and "cycle: " not in third
    assert "no JSON at all" in fourth and "Sure, here is" in fourth
    assert world.calls() == ["a", "b"]


async def test_bad_for_ever_ends_after_the_allowed_rounds_with_the_last_answer_kept(
    world: World,
) -> None:
    state, model = await planned(world, *[CYCLE] * 9, limits={"plan_rounds": 3})
    assert (state["status"], state["ending"]["code"]) == ("failed", "plan_rejected")
    assert len(model.asked) == 3
    assert "plan" not in state and world.calls() == []
    raw = world.bench.store.blobs[state["planning"]["raw"]["sha256"]]
    assert json.loads(raw) == CYCLE
    assert [fault["code"] for fault in state["planning"]["faults"]] == ["cycle"]
    last = [facts for type, facts in world.journal.events if type == "PlanRejected"][-1]
    assert (last["round"], json.loads(last["answer"])) == (3, CYCLE)


async def test_no_round_allowed_means_no_question(world: World) -> None:
    state, model = await planned(world, GOOD, limits={"plan_rounds": 0})
    assert (state["ending"]["code"], model.asked) == ("plan_rejected", [])


async def test_a_goal_in_words_gets_criteria_before_any_plan(world: World) -> None:
    useless = {"acceptance": [{"id": "a1", "type": "judge", "rubric": "is it nice"}]}
    said: JsonObject = {**useless, "prohibitions": []}
    given: JsonObject = {"objective": "say hello", "prohibitions": ["Be brief."]}
    covering = GOOD
    state, model = await planned(world, said, DRAFT, covering, goal=given)
    assert [ask.call for ask in model.asked] == ["goal", "goal", "plan"]
    assert "no criterion is one that a program can check" in model.asked[1].matter
    assert state["goal"]["acceptance"] == DRAFT["acceptance"]
    assert state["goal"]["prohibitions"] == ["Be brief.", *DRAFT["prohibitions"]]
    assert "a1" in model.asked[2].brief.head and "Be brief." in model.asked[0].brief.head
    assert state["status"] == "completed" and world.calls() == ["a", "b"]


async def test_a_drafted_prohibition_of_a_tool_is_heeded_by_the_plan(world: World) -> None:
    given: JsonObject = {"objective": "say hello"}
    denied = plan(step("a", tool="fails", covers=["a1"], writes=["x"]), step("b", "a"))
    state, model = await planned(world, DRAFT, denied, goal=given, limits={"plan_rounds": 1})
    assert [fault["code"] for fault in state["planning"]["faults"]] == ["prohibited"]
    assert len(model.asked) == 2


async def test_criteria_of_the_user_are_never_asked_for_again(world: World) -> None:
    state, model = await planned(world, GOOD)
    assert state["goal"] == GOAL and [ask.call for ask in model.asked] == ["plan"]


async def test_a_user_who_wants_no_criteria_gets_none(world: World) -> None:
    wanted: JsonObject = {"objective": "say hello", "acceptance": []}
    state, model = await planned(world, plan(step("a")), goal=wanted)
    assert [ask.call for ask in model.asked] == ["plan"]
    assert (state["goal"], state["status"]) == (wanted, "completed")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ModelUnavailable("nobody answers"), "model_unavailable"),
        (BudgetExhausted("max_tokens", "no tokens left"), "budget_exhausted"),
    ],
)
async def test_a_call_that_cannot_be_made_names_the_ending_and_can_be_taken_up(
    world: World, error: Exception, code: str
) -> None:
    state, _ = await planned(world, error)
    assert (state["status"], state["ending"]["code"]) == ("failed", code)
    again = await world.run(None, models=Planner([GOOD]))
    assert again["status"] == "completed"


async def test_an_answer_that_was_saved_is_judged_and_not_asked_for_again(world: World) -> None:
    context = world.worker(models=Planner([GOOD]))
    graph = build_task_graph(context=context).compile(checkpointer=world.saver)
    config: Any = {"configurable": {"thread_id": "t1"}}
    given: Any = {"task": task()}
    async for _ in graph.astream(given, config, durability="sync", interrupt_after=["planner"]):
        pass
    saved = (await graph.aget_state(config)).values
    assert saved["planning"]["draft"] == GOOD and "plan" not in saved
    state = await world.run(None, models=Planner([]))
    assert state["status"] == "completed" and world.calls() == ["a", "b"]


@pytest.mark.parametrize(("how", "status"), [("cancel", "cancelled"), ("now", "paused")])
async def test_a_stop_during_the_call_gives_it_up_at_once(
    world: World, how: Any, status: str
) -> None:
    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def stop(ask: Ask) -> Any:
        del ask
        asyncio.get_running_loop().call_soon(lambda: world.control.stop(how))
        return never

    state, _ = await planned(world, stop)
    assert (state["status"], never.cancelled()) == (status, True)
    assert state["planning"]["rounds"] == 0


async def test_a_pause_lets_the_call_in_hand_end_and_keeps_its_answer(world: World) -> None:
    def stop(ask: Ask) -> Any:
        del ask
        world.control.stop("pause")
        return CYCLE

    state, _ = await planned(world, stop)
    assert (state["status"], state["planning"]["rounds"]) == ("paused", 1)
    again = await world.run(None, models=Planner([GOOD]))
    assert again["status"] == "completed"


async def test_milestones_that_a_program_adds_are_told(world: World) -> None:
    steps = [step(f"s{n}", *([f"s{n - 1}"] if n else []), phase=f"p{n // 3}") for n in range(6)]
    steps[5] |= {"covers": ["a1"], "writes": ["x"]}
    phases = [{"id": "p0"}, {"id": "p1"}]
    state, _ = await planned(world, plan(*steps, phases=phases))
    assert [milestone["after"] for milestone in state["plan"]["milestones"]] == ["p0"]
    told = [facts for type, facts in world.journal.events if type == "PlanAccepted"]
    assert "milestones added after p0" in told[0]["reason"]
    assert state["status"] == "completed"


@pytest.mark.parametrize(
    "field", ["name", "depends_on", "weight", "resumable", "skippable", "args"]
)
async def test_a_field_left_out_by_a_model_is_sent_back(world: World, field: str) -> None:
    first = step("a")
    del first[field]
    short = plan(first, *GOOD["subtasks"][1:])
    state, model = await planned(world, short, GOOD)
    assert state["status"] == "completed" and f"'{field}'" in model.asked[1].matter


async def test_text_that_cannot_be_stored_is_a_fault_and_kept_visibly(world: World) -> None:
    half = plan(step("a", description="caf\ud83c"), *GOOD["subtasks"][1:])
    state, model = await planned(world, half, GOOD)
    assert state["status"] == "completed" and "half a character" in model.asked[1].matter
