"""The Python client in scripts, threads and running loops (bug scenario D15)."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from scenes import SCENE_TOOLS, Scene, subtask, task

from surefoot.graph.errors import UsageError
from surefoot.graph.session import InvalidTask
from surefoot.graph.settings import Settings
from surefoot.service.client import SyncInLoop


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


def echoing(**more: Any) -> dict[str, Any]:
    return task([subtask("a", "echo", {"value": 7})], **more)


SCRIPT = """
import asyncio
from surefoot.service.client import Surefoot, SyncInLoop

surefoot = Surefoot()
task = {task!r}
first = surefoot.run_sync(task, id="one")
second = surefoot.run_sync(task, id="two")
assert first.completed and second.completed, (first, second)
assert surefoot.status_sync("one")["id"] == "one"
assert [t["id"] for t in surefoot.list_sync()] == ["two", "one"]
assert surefoot.result_sync("two", "a") == 7
assert surefoot.events_sync("two")[-1]["type"] == "TaskCompleted"

async def inside():
    try:
        surefoot.status_sync("one")
    except SyncInLoop as error:
        return str(error)

assert "await surefoot.status(" in asyncio.run(inside())
print("fine")
"""


def test_the_sync_methods_work_twice_in_a_script_without_a_warning(scene: Scene) -> None:
    done = scene.python(SCRIPT.format(task=echoing()), "-W", "error")
    assert (done.code, done.out, done.err) == (0, "fine\n", "")


async def test_sync_methods_in_a_running_loop_name_the_async_one(scene: Scene) -> None:
    async with scene.client() as surefoot:
        calls: list[Callable[[], object]] = [
            lambda: surefoot.run_sync(echoing()),
            lambda: surefoot.status_sync(),
            lambda: surefoot.events_sync(),
        ]
        for call in calls:
            with pytest.raises(SyncInLoop, match=r"await surefoot\.\w+\("):
                call()
        status = await surefoot.run(echoing(), id="t")
    assert status.completed


async def test_a_thread_may_use_the_sync_methods_while_a_loop_runs_elsewhere(scene: Scene) -> None:
    async with scene.client() as surefoot:
        status = await asyncio.to_thread(surefoot.run_sync, echoing(), id="t")
        assert status.completed
        assert (await surefoot.status("t"))["status"] == "completed"


async def test_tools_passed_as_objects_run_in_this_process(scene: Scene) -> None:
    threads: list[str] = []

    @tool
    def here(value: int) -> int:
        """Add one, where the test can see it."""
        threads.append(threading.current_thread().name)
        return value + 1

    plan = {"subtasks": [subtask("a", "here", {"value": 1}, retries={"max_attempts": 1})]}
    written = {"name": "objects", "goal": {"objective": "o"}, "plan": plan}
    async with scene.client() as surefoot:
        status = await surefoot.run(written, id="t", tools=[here])
        assert status.completed, status
        assert await surefoot.result("t", "a") == 2
    assert len(threads) == 1


async def test_the_jobs_own_error_arrives_unchanged(scene: Scene) -> None:
    @tool
    def breaks() -> None:
        """Fail as asyncio would."""
        raise RuntimeError("This event loop is already running")

    plan = {"subtasks": [subtask("a", "breaks", {}, retries={"max_attempts": 1})]}
    written = {"name": "objects", "goal": {"objective": "o"}, "plan": plan}
    async with scene.client() as surefoot:
        status = await surefoot.run(written, id="t", tools=[breaks])
    told = str(status["failure"]) + str(status["questions"])
    assert "This event loop is already running" in told


async def test_an_invalid_task_is_an_error_with_its_report(scene: Scene) -> None:
    async with scene.client() as surefoot:
        with pytest.raises(InvalidTask) as caught:
            await surefoot.run(task([subtask("a", "no_such_tool")]))
        assert any(fault.code == "unknown_tool" for fault in caught.value.report.faults)
        found = await surefoot.validate(task([subtask("a", "no_such_tool")]))
        assert found["valid"] is False
    assert scene.tasks() == []


async def test_events_can_be_followed_while_the_task_runs(scene: Scene) -> None:
    gate = {"file": str(scene.folder / "seen"), "open": str(scene.folder / "open")}
    types: list[str] = []
    async with scene.client() as surefoot:
        created = await surefoot.create(task([subtask("a", "gate", gate)]), id="t")
        run = asyncio.create_task(surefoot.resume(created.id))
        while not (scene.folder / "seen").exists():
            await asyncio.sleep(0.02)
        async for event in surefoot.events("t", follow=True):
            types.append(event["type"])
            if event["type"] == "SubtaskStarted":
                (scene.folder / "open").touch()
        assert (await run).completed
    assert types[0] == "TaskStarted" and types[-1] == "TaskCompleted"


async def test_sets_and_module_tools_are_taken_as_on_the_command_line(scene: Scene) -> None:
    written = task([subtask("a", "echo", {"value": "${inputs.x}"})], tools=())
    async with scene.client() as surefoot:
        status = await surefoot.run(written, id="t", sets={"x": [1]}, tools=[SCENE_TOOLS])
        assert status.completed
        assert await surefoot.result("t", "a") == [1]
    assert "50.0 %" not in status._repr_html_()  # pyright: ignore[reportPrivateUsage]  (Jupyter's)


def test_one_client_belongs_to_one_loop(scene: Scene) -> None:
    from surefoot.service.client import Surefoot

    surefoot = Surefoot(scene.settings)

    async def look() -> Any:
        return await surefoot.list()

    async def look_elsewhere() -> None:
        await look()
        with pytest.raises(UsageError, match="another event loop"):
            await asyncio.to_thread(lambda: asyncio.run(look()))
        await surefoot.close()
        assert await look() == []
        await surefoot.close()

    asyncio.run(look_elsewhere())
    assert asyncio.run(_look_and_close(surefoot)) == []


async def _look_and_close(surefoot: Any) -> Any:
    found = await surefoot.list()
    await surefoot.close()
    return found
