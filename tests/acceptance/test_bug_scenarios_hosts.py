"""One task file everywhere: by URL, in a running loop, in a host's graph under any checkpointer."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.errors import GraphRecursionError
from scenes import Scene, lines, subtask, task, until

from surefoot.graph.build import build_task_graph
from surefoot.graph.errors import LeaseHeld, UsageError
from surefoot.graph.settings import Settings


@pytest.fixture
def scene(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    scene = Scene(settings, tmp_path / "files")
    for name, value in scene.environment().items():
        monkeypatch.setenv(name, value)
    return scene


def one_task(folder: Path) -> dict[str, Any]:
    """A list, a foreach over it with an effect each, a sum; and a milestone."""
    marks = str(folder / "marks")
    each = {
        "kind": "tool",
        "tool": "mark",
        "args": {"file": marks, "word": "${item}"},
        "success": [{"type": "result"}],
    }
    items = subtask("items", "echo", {"value": ["a", "b", "c"]}, phase="one")
    spread = {"id": "each", "kind": "foreach", "for_each": "${items}", "each": each}
    spread |= {"depends_on": ["items"], "phase": "one"}
    last = subtask("last", "echo", {"value": "${each}"}, depends_on=["each"], phase="two")
    spec = task([items, spread, last])
    spec["plan"]["phases"] = [{"id": "one"}, {"id": "two"}]
    spec["plan"]["milestones"] = [{"id": "m", "after": "one", "checks": []}]
    return spec


async def assert_done(scene: Scene, folder: Path, id: str) -> None:
    assert sorted(lines(folder / "marks")) == ["a", "b", "c"]
    async with scene.client() as surefoot:
        status = await surefoot.status(id)
        assert status.completed and status["milestones"]["passed"] == 1, status
        assert (status["attempts"], status["progress"]) == (5, 1.0)
        assert sorted(await surefoot.result(id, "last")) == [1, 2, 3]
        assert [e["type"] async for e in surefoot.events(id)].count("TaskCompleted") == 1
    (row,) = scene.rows("select acquired_by from surefoot.tasks where id = %s", id)
    assert row["acquired_by"] is None


async def test_a_task_file_runs_inside_a_loop_that_does_other_things(
    scene: Scene, tmp_path: Path
) -> None:
    file = scene.file(one_task(tmp_path))
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    beating = asyncio.create_task(beat())
    async with scene.client() as surefoot:
        assert (await surefoot.run(file, id="t")).completed
    beating.cancel()
    assert beats > 10
    await assert_done(scene, tmp_path, "t")


async def test_a_host_app_runs_it_with_a_saver_in_memory(scene: Scene, tmp_path: Path) -> None:
    graph = build_task_graph().compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    state = await graph.ainvoke({"task": one_task(tmp_path)}, config)
    assert state["status"] == "completed"
    await assert_done(scene, tmp_path, "t")
    again = await graph.ainvoke({"go": 1}, config)
    assert again["status"] == "completed"
    await assert_done(scene, tmp_path, "t")


async def test_a_host_app_runs_it_with_the_stock_saver_and_goes_on_in_another_graph(
    scene: Scene, tmp_path: Path
) -> None:
    tried, opening = tmp_path / "tried", tmp_path / "open"
    spec = one_task(tmp_path)
    spec["plan"]["subtasks"][-1] |= {"tool": "works_once_open"}
    spec["plan"]["subtasks"][-1]["args"] = {"file": str(tried), "open": str(opening)}
    retries = {"max_attempts": 9, "backoff_seconds": 0}
    spec["plan"]["subtasks"][-1]["retries"] = retries
    spec["budget"] = {"max_failures": 1}
    config = {"configurable": {"thread_id": "t"}}
    assert scene.settings.database_url
    async with AsyncPostgresSaver.from_conn_string(scene.settings.database_url) as saver:
        await saver.setup()
        graph = build_task_graph().compile(checkpointer=saver)
        state = await graph.ainvoke({"task": spec}, config, durability="sync")
        assert state["ending"]["code"] == "too_many_failures"
    opening.touch()
    async with AsyncPostgresSaver.from_conn_string(scene.settings.database_url) as saver:
        graph = build_task_graph().compile(checkpointer=saver)
        state = await graph.ainvoke({"go": 1}, config, durability="sync")
        # Nobody raised the limit: it ends again, and nothing was tried.
        assert state["status"] == "failed" and len(lines(tried)) == 2
        query = 'update surefoot.tasks set spec = spec || \'{"raised": {"max_failures": 5}}\''
        scene.rows(query)
        state = await graph.ainvoke({"go": 1}, config, durability="sync")
        assert state["status"] == "completed", state
    assert sorted(lines(tmp_path / "marks")) == ["a", "b", "c"] and len(lines(tried)) == 3


async def test_a_second_go_of_a_thread_is_refused_while_the_first_one_runs(
    scene: Scene, tmp_path: Path
) -> None:
    marks, gate = tmp_path / "marks", tmp_path / "open"
    held = subtask("held", "gate", {"file": str(marks), "open": str(gate), "word": "held"})
    graph = build_task_graph().compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    first = asyncio.create_task(graph.ainvoke({"task": task([held])}, config))
    await until(lambda: lines(marks))
    for given in ({"task": task([held])}, {"go": 1}, None):
        with pytest.raises(LeaseHeld):
            await graph.ainvoke(given, config)
    gate.touch()
    assert (await first)["status"] == "completed"
    assert lines(marks) == ["held"]
    assert (await graph.ainvoke({"go": 1}, config))["status"] == "completed"


async def test_another_task_under_an_id_that_is_taken_is_refused_by_a_new_saver_too(
    scene: Scene, tmp_path: Path
) -> None:
    def marking(word: str) -> dict[str, Any]:
        return task([subtask(word, "mark", {"file": str(tmp_path / "marks"), "word": word})])

    config: Any = {"configurable": {"thread_id": "t"}}
    for word in ("one", "one"):
        graph = build_task_graph().compile(checkpointer=InMemorySaver())
        done = await graph.ainvoke({"task": marking(word)}, config)
        assert done["status"] == "completed"
    graph = build_task_graph().compile(checkpointer=InMemorySaver())
    with pytest.raises(UsageError, match="different file"):
        await graph.ainvoke({"task": marking("two")}, config)
    assert lines(tmp_path / "marks") == ["one"]


class Failing(InMemorySaver):
    """A host's saver that fails once something runs."""

    def __init__(self, runs: Callable[[], bool]) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.runs = runs

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        if self.runs():
            raise OSError("the host's disk is full")
        return await super().aput(*args, **kwargs)


async def left_early(graph: Any, task: Any, config: Any) -> None:
    async for chunk in graph.astream({"task": task}, config, stream_mode="updates"):
        if "executor" in chunk:
            break


@pytest.mark.parametrize("end", ["left", "breakpoint", "limit", "saver"])
async def test_a_go_that_its_host_ends_between_two_nodes_leaves_nothing_running(
    scene: Scene, tmp_path: Path, end: str
) -> None:
    before = set(psutil.Process().children())
    marks, gate = tmp_path / "marks", tmp_path / "open"
    quick = subtask("quick", "mark", {"file": str(marks), "word": "quick"})
    held_args = {"file": str(marks), "open": str(gate), "word": "held"}
    held = subtask("held", "gate", held_args, timeout_seconds=600)
    spec = task([quick, held])
    config: Any = {"configurable": {"thread_id": "t"}}
    saver = Failing(lambda: end == "saver" and "quick" in lines(marks))
    points = {"interrupt_after": ["executor"]} if end == "breakpoint" else {}
    graph = build_task_graph().compile(checkpointer=saver, **points)
    if end == "left":
        await left_early(graph, spec, config)
    elif end == "limit":
        with pytest.raises(GraphRecursionError):
            await graph.ainvoke({"task": spec}, {**config, "recursion_limit": 6})
    elif end == "saver":
        with pytest.raises(OSError, match="disk is full"):
            await graph.ainvoke({"task": spec}, config, durability="sync")
    else:
        await graph.ainvoke({"task": spec}, config)
    holder = "select acquired_by from surefoot.tasks"
    await until(lambda: scene.rows(holder) == [{"acquired_by": None}])
    cancelled = await asyncio.to_thread(scene.process, "cancel", "t", "--json")
    assert cancelled.document["status"] == "cancelled", cancelled.out
    assert set(psutil.Process().children()) <= before, "a tool's process is left"


HOST = """
import asyncio, json, sys
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from surefoot.graph.build import build_task_graph

async def main(url, task):
    async with AsyncPostgresSaver.from_conn_string(url) as saver:
        await saver.setup()
        graph = build_task_graph().compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "t"}}
        await graph.ainvoke({"task": json.loads(task)}, config, durability="sync")

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("given", [None, {"go": 1}], ids=["no input", "go"])
async def test_a_host_that_was_killed_goes_on_with_or_without_an_input(
    scene: Scene, tmp_path: Path, given: Any
) -> None:
    """Without one LangGraph begins in the middle of a go, at the node that was next."""
    gates, opening = tmp_path / "gates", tmp_path / "open"
    spec = one_task(tmp_path)
    for n in range(2):
        gate = {"file": str(gates), "open": str(opening), "word": f"gate{n}"}
        spec["plan"]["subtasks"].append(subtask(f"gate{n}", "gate", gate, phase="two"))
    url = scene.settings.database_url
    assert url
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", HOST, url, json.dumps(spec))
    await until(lambda: len(lines(gates)) == 2 or host.returncode is not None)
    host.kill()
    assert await host.wait() == -signal.SIGKILL
    opening.touch()
    config = {"configurable": {"thread_id": "t"}}
    async with AsyncPostgresSaver.from_conn_string(url) as saver:
        graph = build_task_graph().compile(checkpointer=saver)
        state = await graph.ainvoke(given, config, durability="sync")
    assert state["status"] == "completed", state["ending"]
    assert len(lines(gates)) == 4
    assert {*lines(tmp_path / "marks")} == {"a", "b", "c"}  # idempotent: what was cut is done again
    async with scene.client() as surefoot:
        status = await surefoot.status("t")
    assert (status["status"], status["attempts"], status["progress"]) == ("completed", 7, 1.0)


async def test_a_task_whose_state_a_host_keeps_is_asked_there(scene: Scene, tmp_path: Path) -> None:
    """What is done to it elsewhere the host's next go would not know of; a cancel holds."""
    spec = one_task(tmp_path)
    opening = str(tmp_path / "open")
    fails = {"file": str(tmp_path / "tried"), "open": opening}
    spec["plan"]["subtasks"].append(
        subtask("fails", "works_once_open", fails, phase="two", retries={"max_attempts": 1})
    )
    config = {"configurable": {"thread_id": "t"}}
    graph = build_task_graph().compile(checkpointer=InMemorySaver())
    state = await graph.ainvoke({"task": spec}, config)
    assert state["status"] == "failed"
    for words in (["rollback", "t", "start"], ["skip", "t", "fails"], ["retry", "t", "fails"]):
        refused = await asyncio.to_thread(scene.process, *words, "--json")
        assert refused.code_and_error == (2, "wrong_state"), words
        assert "is run by a host's graph" in refused.error["message"]
    # Once the host's checkpointer is gone, the state is made anew from snapshots and tables.
    resumed = await asyncio.to_thread(scene.process, "resume", "t", "--max-steps", "100")
    assert resumed.code == 1
    assert (await asyncio.to_thread(scene.process, "skip", "t", "fails")).code == 0
    cancelled = await asyncio.to_thread(scene.process, "cancel", "t")
    assert cancelled.code == 0
    again = await graph.ainvoke({"go": 1}, config)
    assert again["status"] == "cancelled"


async def test_two_threads_of_one_host_graph_run_side_by_side(scene: Scene, tmp_path: Path) -> None:
    graph = build_task_graph().compile(checkpointer=InMemorySaver())
    folders = [tmp_path / name for name in ("x", "y")]
    for folder in folders:
        folder.mkdir()
    states = await asyncio.gather(
        *(
            graph.ainvoke({"task": one_task(f)}, {"configurable": {"thread_id": f.name}})
            for f in folders
        )
    )
    assert [state["status"] for state in states] == ["completed"] * 2
    for folder in folders:
        await assert_done(scene, folder, folder.name)


def test_a_task_file_runs_against_a_server_by_url_as_a_process(
    scene: Scene, tmp_path: Path
) -> None:
    done = scene.process("run", scene.file(one_task(tmp_path)), "--id", "t", "--json")
    assert (done.code, done.document["status"]) == (0, "completed"), done
    asyncio.run(assert_done(scene, tmp_path, "t"))
    # Nothing of an embedded server came into being.
    assert not (scene.settings.home / "pg").exists()
