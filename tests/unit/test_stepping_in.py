"""Commands of people over stand-ins: what each does to records, endings, effects and questions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes import ok
from graph_world import World, task, tool

from surefoot.graph.build import build_task_graph
from surefoot.graph.dependants import Dependants
from surefoot.graph.index import PlanIndex
from surefoot.graph.ports import Command, ToolReply
from surefoot.graph.readiness import ReadySet
from surefoot.graph.tool_ports import ToolSpec
from surefoot.graph.values import JsonObject, Record
from surefoot.nodes.places import Place, near_names, place_of


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Asked:
    """Commands by hand, and what their senders are told."""

    def __init__(self) -> None:
        self.told: dict[int, JsonObject] = {}

    async def apply(self, world: World, *commands: tuple[str, JsonObject]) -> list[JsonObject]:
        """Apply commands to a task that nobody runs; returns what came of each."""
        context = world.worker(only_commands=True, ledger=world.bench.ledger)
        first = len(self.told) + 1
        world.control.on_settled = lambda id, outcome: self.told.update({id: outcome})
        for number, (name, args) in enumerate(commands):
            world.control.ask(Command(id=first + number, name=name, args=args, by="ada"))
        await _go(world, context)
        context.tell_senders()
        return [self.told[first + number] for number in range(len(commands))]


async def _go(world: World, context: Any) -> JsonObject:
    graph = build_task_graph(context=context).compile(checkpointer=world.saver)
    config: Any = {"configurable": {"thread_id": "t1"}}
    return await graph.ainvoke({"go": 1}, config, durability="sync")


@pytest.fixture
def asked() -> Asked:
    return Asked()


ONCE = {"max_attempts": 1}


def broken(id: str, *needs: str, **more: Any) -> JsonObject:
    return tool(id, "fails", *needs, retries=ONCE, **more)


def about(subtask: str, **more: Any) -> JsonObject:
    return {"subtask": subtask, **more}


# --- endings -----------------------------------------------------------------------------------


async def test_a_skip_of_what_failed_opens_the_way(world: World, asked: Asked) -> None:
    failed = await world.run(task(tool("a"), broken("b", "a"), tool("c", "echo", "b")))
    assert failed["status"] == "failed"
    (told,) = await asked.apply(world, ("skip", about("b")))
    assert told == {"applied": "skip", "subtask": "b", "reopened": []}
    assert world.journal.columns["status"] == "paused"
    done = await world.run(None)
    assert (done["status"], done["records"]["b"]["state"]) == ("completed", "skipped")
    assert done["records"]["b"]["reason"] == "ada: skipped"
    assert [d["kind"] for d in done["decisions"].values()].count("skip") == 1


async def test_of_two_failures_the_other_one_still_stands(world: World, asked: Asked) -> None:
    await world.run(task(broken("b1"), broken("b2"), tool("c", "echo", "b1", "b2")))
    await asked.apply(world, ("skip", about("b1")))
    assert world.journal.columns["status"] == "failed"
    assert world.journal.columns["failure"]["subtask"] == "b2"
    await asked.apply(world, ("skip", about("b2")))
    assert (await world.run(None))["status"] == "completed"


async def test_a_limit_that_was_reached_stands_whatever_is_skipped(
    world: World, asked: Asked
) -> None:
    failed = await world.run(task(tool("a"), tool("b", "echo", "a"), budget={"max_steps": 1}))
    assert failed["ending"]["code"] == "budget_exhausted"
    await asked.apply(world, ("skip", about("b")))
    assert world.journal.columns["failure"]["code"] == "budget_exhausted"


async def test_refused_commands_change_nothing(world: World, asked: Asked) -> None:
    before = await world.run(task(tool("a"), broken("b", "a"), tool("c", "echo", "b")))
    commands: list[tuple[str, JsonObject]] = [
        ("skip", about("a")),
        ("retry", about("a")),
        ("retry", about("c")),
        ("edit", about("nobody", result={"value": 1})),
        ("edit", about("a", args={"x": "${c.y}"})),
    ]
    told = await asked.apply(world, *commands)
    codes = [outcome["error"]["code"] for outcome in told]
    assert codes == [
        "wrong_state",
        "wrong_state",
        "wrong_state",
        "unknown_subtask",
        "bad_arguments",
    ]
    after = await world.run(None)
    assert (after["status"], after["records"]) == (before["status"], before["records"])


# --- attempts ----------------------------------------------------------------------------------


async def test_a_retry_counts_its_tries_from_one_and_its_attempts_on(
    world: World, asked: Asked
) -> None:
    twice = tool("b", "fails", retries={"max_attempts": 2, "backoff_seconds": 0})
    failed = await world.run(task(twice))
    assert failed["records"]["b"]["ended"] == 2
    (told,) = await asked.apply(world, ("retry", about("b")))
    assert told["reopened"] == ["b"]
    again = await world.run(None)
    assert (again["status"], again["records"]["b"]["ended"]) == ("failed", 4)
    assert again["records"]["b"]["attempt"] == 4


async def test_other_arguments_are_used_by_every_later_attempt(world: World, asked: Asked) -> None:
    world.host.add("picky", lambda call: ok(1) if call.args == {"x": 2} else _no())
    await world.run(task(tool("a", "picky", args={"x": 1}, retries=ONCE)))
    await asked.apply(world, ("edit", about("a", args={"x": 2})))
    done = await world.run(None)
    assert (done["status"], done["records"]["a"]["args"]) == ("completed", {"x": 2})


def _no() -> ToolReply:
    return ToolReply(status="error", message="no")


async def test_a_failed_foreach_is_gathered_once_more_from_its_children(
    world: World, asked: Asked
) -> None:
    check = {"type": "result", "path": "0.x", "equals": 2}
    each = {"kind": "tool", "tool": "echo", "args": {"x": 1}}
    review = {"id": "r", "kind": "foreach", "for_each": [1, 2], "each": each, "success": [check]}
    failed = await world.run(task(review))
    assert failed["status"] == "failed" and len(world.calls()) == 2
    given = {"result": {"value": {"x": 2}}}
    (told,) = await asked.apply(world, ("edit", about("r/0", **given)))
    assert told["reopened"] == []
    done = await world.run(None)
    assert (done["status"], len(world.calls())) == ("completed", 2)
    assert done["records"]["r"]["result"] == {"value": [{"x": 2}, {"x": 1}]}


async def test_a_skipped_foreach_leaves_out_what_is_open_and_keeps_what_is_done(
    world: World, asked: Asked
) -> None:
    world.host.add("second", lambda call: _no() if call.subtask == "r/1" else ok(1))
    each = {"kind": "tool", "tool": "second", "retries": ONCE}
    review = {"id": "r", "kind": "foreach", "for_each": [1, 2, 3], "each": each}
    await world.run(task(review, tool("end", "echo", "r", args={"x": "${r}"})), slots=1)
    await asked.apply(world, ("skip", about("r")))
    done = await world.run(None)
    states = {id: record["state"] for id, record in done["records"].items()}
    assert done["status"] == "completed"
    assert (states["r"], states["r/0"], states["r/1"]) == ("skipped", "completed", "skipped")
    assert done["records"]["end"]["result"] == {"value": {"x": None}}


async def test_what_a_cut_attempt_did_is_taken_back_before_it_is_skipped(
    world: World, asked: Asked
) -> None:
    undone: list[str] = []

    def compensate(call: Any) -> ToolReply:
        undone.append(call.subtask)
        return ok(None)

    world.host.add("books", lambda call: ok(1), effect="reversible", compensate=compensate)
    given = task(tool("a", "books", success=[{"type": "person", "question": "Good?"}]))
    waiting = await world.run(given)
    assert waiting["records"]["a"]["held"]
    (told,) = await asked.apply(world, ("skip", about("a")))
    assert (told["applied"], undone) == ("skip", ["a"])
    done = await world.run(None)
    assert (done["status"], done["questions"]) == ("completed", [])


# --- which id is meant -------------------------------------------------------------------------

PLAN: JsonObject = {
    "subtasks": [
        {"id": "list", "kind": "tool", "tool": "echo"},
        {"id": "many", "kind": "foreach", "each": {"kind": "tool", "tool": "echo"}},
        {"id": "groups", "kind": "foreach", "each": {"kind": "group", "plan": {"subtasks": []}}},
        {"id": "g", "kind": "group", "plan": {"subtasks": []}},
    ]
}


@pytest.mark.parametrize(
    ("id", "place"),
    [
        ("list", Place("list")),
        ("list/0", None),
        ("lis", None),
        ("many/2", Place("many/2")),
        ("many/3", None),
        ("many/02", None),
        ("many/-1", None),
        ("many/2/x", None),
        ("groups/0", Place("groups/0")),
        ("groups/0/x/1", Place("groups/0", "x/1")),
        ("groups/9/x", None),
        ("g/a/b", Place("g", "a/b")),
        ("", None),
        ("/", None),
    ],
)
def test_an_id_is_found_where_it_stands(id: str, place: Place | None) -> None:
    records = {"many": Record(n=3), "groups": Record(n=1)}
    assert place_of(id, PlanIndex(PLAN), records) == place


def test_an_unknown_id_is_told_what_could_be_meant() -> None:
    index = PlanIndex(PLAN)
    assert near_names("lits", index, {}) == "; did you mean 'list'?"
    assert "no children yet" in near_names("many/0", index, {})
    assert "3 children" in near_names("many/7", index, {"many": Record(n=3)})
    assert near_names("zzz", index, {}) == ""


# --- who used what -----------------------------------------------------------------------------


def spec(name: str, effect: Any) -> ToolSpec:
    return ToolSpec(name=name, description="", schema={}, effect=effect)


SPECS = {"read": spec("read", "read"), "write": spec("write", "idempotent")}
DONE = Record(state="completed", attempt=1)


def uses(
    plan: Sequence[JsonObject], id: str, *, files: bool = False, **records: Record
) -> list[str]:
    all_done = {one["id"]: DONE for one in plan} | records
    return Dependants(PlanIndex({"subtasks": list(plan)}), all_done, SPECS).using(id, files=files)


def of(id: str, name: str, *needs: str, **args: str) -> JsonObject:
    return {"id": id, "kind": "tool", "tool": name, "depends_on": list(needs), "args": args}


def test_what_looks_a_value_up_uses_it_and_what_merely_comes_later_does_not() -> None:
    plan = [
        of("a", "read"),
        of("b", "read", "a", x="${a.k}"),
        of("far", "read", "b", x="${a}"),
        of("later", "read", "a"),
        of("more", "read", "b", x="${b}"),
        of("apart", "read"),
    ]
    assert uses(plan, "a") == ["b", "far", "more"]
    assert uses(plan, "a", more=Record()) == ["b", "far"]
    assert uses(plan, "a", b=Record(state="completed", edited=True)) == ["far"]
    assert uses(plan, "a", files=True) == ["b", "far", "later", "more"]


def test_what_depends_on_something_that_is_done_again_and_may_write_is_done_again() -> None:
    plan = [of("a", "read"), of("b", "write", "a", x="${a}"), of("c", "read", "b")]
    assert uses(plan, "a") == ["b", "c"]
    assert uses([plan[0], {**plan[1], "writes": []}, plan[2]], "a") == ["b"]
    assert uses([plan[0], {**plan[1], "writes": ["x"]}, plan[2]], "a") == ["b", "c"]


def test_agents_use_all_that_they_depend_on_and_groups_what_they_are_given() -> None:
    inner = [of("a", "read"), of("x", "read", "a", y="${a}")]
    plan = [
        of("a", "read"),
        {"id": "thinks", "kind": "agent", "depends_on": ["a"]},
        {"id": "blind", "kind": "group", "depends_on": ["a"], "plan": {"subtasks": inner}},
        {"id": "given", "kind": "group", "depends_on": ["a"], "inputs": {"v": "${a}"}},
        {"id": "each", "kind": "foreach", "for_each": [1], "depends_on": ["a"]}
        | {"each": of("_", "read", x="${a}")},
        of("rung", "read", "a") | {"on_failure": [of("_", "read", x="${a}"), "skip"]},
    ]
    assert uses(plan, "a") == ["thinks", "given", "each", "rung"]


def test_given_arguments_count_instead_of_the_plans() -> None:
    plan = [of("a", "read"), of("b", "read", "a", x="${a}"), of("c", "read", "a")]
    given = Record(state="completed", args={"x": 1})
    taken = Record(state="completed", args={"x": "${a}"})
    assert uses(plan, "a", b=given, c=taken) == ["c"]


# --- children one by one -----------------------------------------------------------------------


def serial() -> ReadySet:
    plan: JsonObject = {
        "subtasks": [{"id": "r", "kind": "foreach", "each": {"kind": "tool", "tool": "t"}}]
    }
    ready = ReadySet(PlanIndex(plan), {}, [])
    ready.take_expansions()
    ready.update("r", Record(state="running", n=4, serial=True))
    return ready


def test_children_that_go_one_by_one_pass_over_what_was_settled_by_hand() -> None:
    ready = serial()
    assert ready.take(9, 0.0) == ["r/0"]
    ready.update("r/1", Record(state="skipped"))
    ready.update("r/3", Record(state="pending", args={}))
    assert ready.take(9, 0.0) == []
    ready.update("r/0", Record(state="completed"))
    assert ready.take(9, 0.0) == ["r/2"]
    ready.update("r/2", Record(state="completed"))
    assert ready.take(9, 0.0) == ["r/3"]
    ready.update("r/3", Record(state="completed"))
    assert ready.take_gathers() == ["r"]
