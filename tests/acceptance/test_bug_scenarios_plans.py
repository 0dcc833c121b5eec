"""D12: a plan that cannot be done is refused at every door; a state that cannot move ends."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from scenes import Scene, lines, subtask, task

from surefoot.graph.build import build_task_graph
from surefoot.graph.creation import InvalidTask
from surefoot.graph.settings import Settings


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def as_environment(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host app that is configured by the environment."""
    for name, value in scene.environment().items():
        monkeypatch.setenv(name, value)


def edges(*pairs: tuple[str, str]) -> list[Any]:
    """Subtasks named in the pairs; the first of each depends on the second."""
    ids = list(dict.fromkeys(id for pair in pairs for id in pair))
    return [
        subtask(id, "echo", {"value": id}, depends_on=[b for a, b in pairs if a == id])
        for id in ids
    ]


RING = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a")]
BAD_PLANS: dict[str, tuple[list[Any], str, set[str]]] = {
    "self edge": (edges(("a", "a")), "self_dependency", {"a"}),
    "cycle of two": (edges(("a", "b"), ("b", "a")), "cycle", {"a", "b"}),
    "cycle of five": (edges(*RING, ("f", "a")), "cycle", {"a", "b", "c", "d", "e"}),
    "missing id": (
        [subtask("a", "echo", {"value": 1}, depends_on=["nowhere"])],
        "unknown_dependency",
        {"a"},
    ),
    "duplicate id": (
        [subtask("a", "echo", {"value": 1}), subtask("a", "echo", {"value": 2})],
        "duplicate_id",
        {"a"},
    ),
}
plans = pytest.mark.parametrize(
    ("subtasks", "code", "ids"), list(BAD_PLANS.values()), ids=list(BAD_PLANS)
)


@plans
def test_validate_and_run_refuse_it_and_name_the_subtasks(
    scene: Scene, subtasks: list[Any], code: str, ids: set[str]
) -> None:
    file = scene.file(task(subtasks))
    validated = scene.command("validate", file, "--json")
    assert validated.code == 2 and not validated.err
    (fault,) = validated.document["faults"]
    assert fault["code"] == code and ids <= set(fault["subtasks"]), fault
    assert all(id in fault["message"] for id in ids)
    ran = scene.command("run", file, "--id", "t", "--json")
    assert ran.code == 2 and ran.document["faults"] == validated.document["faults"]
    assert scene.tasks() == []


@plans
async def test_a_host_app_is_refused_it_too(
    scene: Scene, as_environment: None, subtasks: list[Any], code: str, ids: set[str]
) -> None:
    graph = build_task_graph().compile(checkpointer=InMemorySaver())
    with pytest.raises(InvalidTask) as refused:
        await graph.ainvoke({"task": task(subtasks)}, {"configurable": {"thread_id": "t"}})
    (fault,) = refused.value.report.faults
    assert fault.code == code and ids <= set(fault.subtasks)
    assert scene.tasks() == []


async def test_a_host_app_goes_on_after_a_refusal(scene: Scene, as_environment: None) -> None:
    graph = build_task_graph().compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    with pytest.raises(InvalidTask):
        await graph.ainvoke({"task": task(edges(("a", "a")))}, config)
    state = await graph.ainvoke({"task": task([subtask("a", "echo", {"value": 1})])}, config)
    assert state["status"] == "completed"


async def test_a_plan_put_into_the_state_that_cannot_move_ends_as_stuck_at_once(
    scene: Scene, as_environment: None, tmp_path: Path
) -> None:
    tried, opening = tmp_path / "tried", tmp_path / "open"
    first = subtask(
        "first",
        "works_once_open",
        {"file": str(tried), "open": str(opening)},
        retries={"max_attempts": 1},
    )
    spec = task([first, subtask("a", "echo", {"value": 1}, depends_on=["first"])])
    graph = build_task_graph().compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    state = await graph.ainvoke({"task": spec}, config)
    assert state["status"] == "failed"
    # By hand: the failed one is pending again, and what follows is a ring.
    ring = [{**one, "depends_on": ["a"] if one["id"] == "first" else ["first"]} for one in
            spec["plan"]["subtasks"]]  # fmt: skip
    plan = {**state["plan"], "subtasks": ring}
    record = {"first": {"state": "pending", "attempt": 1}}
    await graph.aupdate_state(
        config, {"plan": plan, "records": record, "ending": None, "status": "running"}, "dispatcher"
    )
    state = await graph.ainvoke({"go": 1}, config)
    assert state["ending"]["code"] == "stuck" and "first" in state["ending"]["message"]
    async with scene.client() as surefoot:
        status = await surefoot.status("t")
    assert (status["status"], status["failure"]["code"]) == ("failed", "stuck")
    assert len(lines(tried)) == 1
