"""D15: the sync doors work where no loop runs and say what to use where one does."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from scenes import Scene, subtask, task

from surefoot.graph.errors import UsageError
from surefoot.graph.settings import Settings
from surefoot.service.client import Surefoot, SyncInLoop
from surefoot.tools import effect

ONE = task([subtask("a", "echo", {"value": 1})])


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


SCRIPT = """
import asyncio, gc, json, pathlib, threading
from surefoot.service.client import SyncInLoop, Surefoot

TASK = json.loads(pathlib.Path("task.json").read_text())
surefoot = Surefoot()

def shown(status):
    print(status["id"], status["status"])

shown(surefoot.run_sync(TASK, id="plain"))
shown(surefoot.run_sync(TASK, id="twice"))
thread = threading.Thread(target=lambda: shown(surefoot.run_sync(TASK, id="thread")))
thread.start(); thread.join()

async def inside():
    try:
        surefoot.run_sync(TASK, id="inside")
    except SyncInLoop as refused:
        assert "await surefoot.run(" in str(refused), refused
        print("refused")
    async with Surefoot() as own:
        shown(await own.run(TASK, id="awaited"))

asyncio.run(inside())
print(len(surefoot.list_sync()), surefoot.result_sync("twice", "a"))
gc.collect()
print("threads", [t.name for t in threading.enumerate() if t.name.startswith("surefoot")])
"""


def test_a_script_runs_tasks_plainly_in_a_thread_in_a_loop_and_beside_one_without_a_warning(
    scene: Scene,
) -> None:
    scene.file(ONE)
    done = scene.python(SCRIPT, "-W", "error")
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        *("plain completed", "twice completed", "thread completed", "refused"),
        *("awaited completed", "4 1", "threads []"),
    ]
    assert done.err == ""  # a leak would be "Exception ignored in ... ResourceWarning"


async def test_inside_a_loop_every_sync_method_names_its_async_twin(scene: Scene) -> None:
    surefoot = Surefoot(scene.settings)
    names = [name for name in dir(surefoot) if name.endswith("_sync")]
    assert len(names) >= 10
    for name in names:
        with pytest.raises(SyncInLoop, match="await surefoot"):
            getattr(surefoot, name)("t")


def test_a_runtime_error_of_the_job_is_the_jobs_own(scene: Scene) -> None:
    @effect("read", max_attempts=1)
    @tool
    def breaks() -> None:
        """Raise what asyncio raises when a loop runs already."""
        raise RuntimeError("asyncio.run() cannot be called from a running event loop")

    spec = task([subtask("a", "breaks")], tools=[])
    status = Surefoot(scene.settings).run_sync(spec, id="t", tools=[breaks])
    assert status["failure"]["code"] == "attempts_exhausted"
    assert "cannot be called from a running event loop" in status["failure"]["message"]


def test_a_runtime_error_of_the_callers_own_function_arrives_unchanged(scene: Scene) -> None:
    class Own(RuntimeError):
        pass

    mine = Own("no running event loop")

    def on_ready() -> None:
        raise mine

    surefoot = Surefoot(scene.settings)
    with pytest.raises(UsageError):
        surefoot.status_sync("t")
    asyncio.run(_made(scene))
    with pytest.raises(Own) as raised:
        surefoot.resume_sync("t", on_ready=on_ready)
    assert raised.value is mine
    # Nothing is held after it.
    assert surefoot.resume_sync("t").completed


async def _made(scene: Scene) -> None:
    async with scene.client() as surefoot:
        await surefoot.create(ONE, id="t")


async def test_a_client_opened_in_one_loop_is_refused_in_another_and_not_broken_by_it(
    scene: Scene,
) -> None:
    async with scene.client() as surefoot:
        assert (await surefoot.run(ONE, id="t")).completed
        caught: list[BaseException] = []

        def elsewhere() -> None:
            try:
                asyncio.run(_status(surefoot))
            except UsageError as error:
                caught.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        await asyncio.to_thread(thread.join)
        assert [getattr(error, "code", None) for error in caught] == ["other_loop"]
        assert (await surefoot.status("t")).completed


async def _status(surefoot: Surefoot) -> Any:
    return await surefoot.status("t")


async def test_many_tasks_of_one_loop_run_side_by_side(scene: Scene) -> None:
    async with scene.client() as surefoot:
        ends = await asyncio.gather(*(surefoot.run(ONE, id=f"t{n}") for n in range(4)))
        assert [end["status"] for end in ends] == ["completed"] * 4
        # A client that was closed opens again.
        await surefoot.close()
        assert (await surefoot.status("t0")).completed
