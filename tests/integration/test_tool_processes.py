"""Calls that do not end by themselves: timeouts, cuts, deaths. Afterwards nothing is left."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tool_place import MODULES, Place

from surefoot.graph.processes import children_of, process_started
from surefoot.tools import worker_pool

GRACE_S = 2.0
FAMILY_SIZE = 4  # the worker, its child, a grandchild, and a daemon in a session of its own

HOST = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tool_place import MODULES, Place, call_of

async def main():
    place = Place(Path(sys.argv[1]), task_dir=MODULES)
    host = await place.start("./stubborn_tools.py")
    print(host.child_pids()[0][0], flush=True)
    await host.call(call_of("family", timeout_s=600, pids=sys.argv[1] + "/pids"))

asyncio.run(main())
"""


async def until(condition: Callable[[], bool], within_s: float = 20.0) -> None:
    """Wait for a condition of the world outside this process."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        await asyncio.sleep(0.01)


def pids_in(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def is_gone(pid: int) -> bool:
    return process_started(pid) is None


@contextmanager
def start_main(source: str, folder: Path) -> Generator["subprocess.Popen[str]"]:
    """Another main process; killed at the end whatever happens."""
    argv = [sys.executable, "-c", source, str(folder), str(MODULES.parent)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as main:
        try:
            yield main
        finally:
            main.kill()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(tmp_path, task_dir=MODULES)
    await made.start("./stubborn_tools.py")
    yield made
    await made.host.close()


@pytest.mark.parametrize(
    ("tool", "args"),
    [("sleeps", {"seconds": 60}), ("sleeps_async", {"seconds": 60}), ("computes", {})],
)
async def test_a_hanging_tool_ends_at_its_timeout_while_others_go_on(
    place: Place, tool: str, args: dict[str, float]
):
    started = time.monotonic()
    other = asyncio.create_task(place.call("sleeps", seconds=0.4))
    reply = await place.call(tool, timeout_s=0.2, **args)
    assert (reply.status, reply.retryable) == ("timeout", True)
    assert 0.2 <= time.monotonic() - started < 0.2 + GRACE_S
    assert "0.2 s" in reply.message
    assert (await other).value == "slept"


async def test_a_timeout_ends_the_whole_family(place: Place, tmp_path: Path):
    pids = tmp_path / "pids"
    call = asyncio.create_task(place.call("family", timeout_s=3, pids=str(pids)))
    await until(lambda: len(pids_in(pids)) == FAMILY_SIZE)
    family = pids_in(pids)
    assert not any(is_gone(pid) for pid in family)
    reply = await call
    assert reply.status == "timeout"
    assert [ref["name"] for ref in reply.artifacts] == ["started.txt"]
    assert all(is_gone(pid) for pid in family)


async def test_a_cut_ends_only_the_named_subtasks(place: Place, tmp_path: Path):
    pids = tmp_path / "pids"
    call = asyncio.create_task(place.call("family", pids=str(pids)))
    other = asyncio.create_task(place.call("sleeps", seconds=0.5))
    await until(lambda: len(pids_in(pids)) == FAMILY_SIZE)
    await place.host.cut(["family", "nobody"])
    assert all(is_gone(pid) for pid in pids_in(pids))
    assert (await call).status == "cut"
    assert (await other).value == "slept"


async def test_a_cancelled_caller_takes_the_call_with_it(place: Place, tmp_path: Path):
    pids = tmp_path / "pids"
    call = asyncio.create_task(place.call("family", pids=str(pids)))
    await until(lambda: len(pids_in(pids)) == FAMILY_SIZE)
    call.cancel()
    await until(lambda: all(is_gone(pid) for pid in pids_in(pids)))


async def test_what_a_finished_call_left_behind_ends_with_the_host(place: Place, tmp_path: Path):
    pids = tmp_path / "pids"
    assert (await place.call("leaves_behind", pids=str(pids))).value == 0
    await until(lambda: len(pids_in(pids)) == 1)
    await place.host.close()
    assert is_gone(pids_in(pids)[0])


async def test_close_ends_everything_and_what_was_running_is_cut(place: Place, tmp_path: Path):
    pids = tmp_path / "pids"
    root = place.host.child_pids()[0][0]
    call = asyncio.create_task(place.call("family", pids=str(pids)))
    await until(lambda: len(pids_in(pids)) == FAMILY_SIZE)
    await place.host.close()
    assert (await call).status == "cut"
    assert all(is_gone(pid) for pid in [root, *pids_in(pids)])
    assert not (tmp_path / "staging").exists()


async def test_signals_of_the_terminal_do_not_reach_the_tools(place: Place):
    root = place.host.child_pids()[0][0]
    call = asyncio.create_task(place.call("sleeps", seconds=0.5))
    await until(lambda: bool(children_of(root)))
    assert os.getpgid(root) != os.getpgid(0)
    for pid in [root, *children_of(root)]:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
    assert (await call).value == "slept"


async def test_a_killed_root_is_replaced_and_its_calls_have_crashed(place: Place, tmp_path: Path):
    pids = tmp_path / "pids"
    root = place.host.child_pids()[0][0]
    call = asyncio.create_task(place.call("family", pids=str(pids)))
    await until(lambda: len(pids_in(pids)) == FAMILY_SIZE)
    os.kill(root, signal.SIGKILL)
    assert (await call).status == "crashed"
    assert all(is_gone(pid) for pid in [root, *pids_in(pids)])
    assert (await place.call("sleeps", seconds=0)).value == "slept"
    assert place.host.child_pids()[0][0] != root


async def test_a_worker_killed_from_outside_is_replaced(place: Place):
    root = place.host.child_pids()[0][0]
    call = asyncio.create_task(place.call("sleeps", seconds=60))
    await until(lambda: bool(children_of(root)))
    os.kill(children_of(root)[0], signal.SIGKILL)
    reply = await call
    assert (reply.status, "SIGKILL" in reply.message) == ("crashed", True)
    assert (await place.call("sleeps", seconds=0)).value == "slept"


async def test_a_root_that_does_not_answer_is_replaced(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(worker_pool, "ANSWER_WITHIN_S", 0.3)
    root = place.host.child_pids()[0][0]
    call = asyncio.create_task(place.call("sleeps", timeout_s=1.0, seconds=60))
    await until(lambda: bool(children_of(root)))
    worker = children_of(root)[0]
    os.kill(root, signal.SIGSTOP)
    assert (await call).status == "timeout"
    assert is_gone(root)
    assert is_gone(worker)
    assert (await place.call("sleeps", seconds=0)).value == "slept"


async def test_a_tool_that_forks_answers_once(place: Place):
    for _ in range(3):
        assert (await place.call("forks")).value == "parent"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_no_process_is_left_when_the_main_process_dies(tmp_path: Path, number: int):
    pids = tmp_path / "pids"
    with start_main(HOST, tmp_path) as main:
        assert main.stdout is not None
        root = int(await asyncio.to_thread(main.stdout.readline))
        await until(lambda: len(pids_in(pids)) == FAMILY_SIZE)
        assert not is_gone(root)
        main.send_signal(number)
        await until(lambda: is_gone(root))
        # The root ends last: with it everything else is gone.
        assert all(is_gone(pid) for pid in pids_in(pids))


async def test_no_process_is_left_when_the_main_process_dies_during_imports(tmp_path: Path):
    (tmp_path / "slow.py").write_text(
        f"import os, time\nopen({str(tmp_path / 'root')!r}, 'w').write(f'{{os.getpid()}} ')\n"
        "time.sleep(1000)\n"
    )
    source = HOST.replace('"./stubborn_tools.py"', '"./slow.py"').replace("MODULES)", "None)")
    with start_main(source, tmp_path) as main:
        await until(lambda: len(pids_in(tmp_path / "root")) == 1)
        main.kill()
        await until(lambda: is_gone(pids_in(tmp_path / "root")[0]))
