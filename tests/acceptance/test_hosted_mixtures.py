"""A host's own app runs groups, agents and tools that it passes as objects, under any saver."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.types import Command
from model_server import ModelServer, call_tool, finish, say_json
from scenes import Scene, lines, subtask, task

from surefoot.graph.build import build_task_graph
from surefoot.graph.settings import Settings
from surefoot.tools import effect

CONFIG: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def models() -> Generator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def scene(
    settings: Settings, tmp_path: Path, models: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> Scene:
    scene = Scene(settings, tmp_path / "files")
    for name, value in scene.environment(**models.environment()).items():
        monkeypatch.setenv(name, value)
    return scene


@asynccontextmanager
async def saver_of(kind: str, scene: Scene) -> AsyncGenerator[BaseCheckpointSaver[Any]]:
    if kind == "memory":
        yield InMemorySaver()
        return
    assert scene.settings.database_url
    async with AsyncPostgresSaver.from_conn_string(scene.settings.database_url) as saver:
        await saver.setup()
        yield saver


def tools_over(sent: list[str]) -> list[BaseTool]:
    """Tools that only this process can have: they close over a list."""

    def key(args: dict[str, Any]) -> str:
        return args["word"]

    @effect("irreversible", key=key)
    @tool
    def send(word: str) -> str:
        """Send a word."""
        sent.append(word)
        return word

    return [send]


def mixed() -> dict[str, Any]:
    """A foreach of groups, an agent in each, with tools that no module has."""
    agent = {
        "id": "says",
        "kind": "agent",
        "instructions": "Send it.",
        "tools": ["send"],
        "success": [{"type": "result"}],
    }
    inner = [agent, subtask("after", "send", {"word": "${says}-after"}, depends_on=["says"])]
    each = {
        "kind": "group",
        "plan": {"subtasks": inner, "milestones": [{"id": "m", "after": "says"}]},
        "inputs": {"word": "${item}"},
        "outputs": {"said": "${after}"},
    }
    spread = {"id": "all", "kind": "foreach", "for_each": ["a"], "each": each}
    end = subtask("end", "send", {"word": "${all}"}, depends_on=["all"])
    end["args"] = {"word": "the end"}
    return task([spread, end], tools=[], model="m")


@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_groups_and_agents_run_with_tools_passed_as_objects(
    scene: Scene, models: ModelServer, kind: str
) -> None:
    sent: list[str] = []
    models.on("agent", call_tool("send", {"word": "hello"}), finish("hello"))
    models.always("verdict", say_json({"pass": True, "confidence": 1, "reasons": ["it is"]}))
    async with saver_of(kind, scene) as saver:
        graph = build_task_graph(tools=tools_over(sent)).compile(checkpointer=saver)
        state = await graph.ainvoke({"task": mixed()}, CONFIG, durability="sync")
    assert (state["status"], state["ending"]) == ("completed", None)
    assert sent == ["hello", "hello-after", "the end"]
    async with scene.client() as surefoot:
        status = await surefoot.status("t")
        assert status.completed and status["subtasks"]["completed"] == 3
        assert await surefoot.result("t", "all") == [{"said": "hello-after"}]


@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_a_question_inside_a_group_interrupts_the_host_and_goes_on_when_answered(
    scene: Scene, tmp_path: Path, kind: str
) -> None:
    tried, opening = tmp_path / "tried", tmp_path / "open"
    args = {"file": str(tried), "open": str(opening)}
    policy = {"retries": {"max_attempts": 1}, "on_failure": ["ask"]}
    asks = subtask("asks", "works_once_open", args, **policy)
    group = {"id": "g", "kind": "group", "plan": {"subtasks": [asks]}, "outputs": {"a": "${asks}"}}
    async with saver_of(kind, scene) as saver:
        graph = build_task_graph().compile(checkpointer=saver)
        state = await graph.ainvoke({"task": task([group])}, CONFIG, durability="sync")
        (asked,) = state["__interrupt__"]
        (question,) = asked.value["questions"]
        assert question["subtask"] == "g/asks"
        opening.touch()
        go_on: Any = Command(resume={asked.id: {question["id"]: "done"}})
        state = await graph.ainvoke(go_on, CONFIG, durability="sync")
    assert (state["status"], len(lines(tried))) == ("completed", 2)
