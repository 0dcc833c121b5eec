"""The tool host with real processes: what calls return, and what odd tools do to them."""

import asyncio
import hashlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.tools import tool
from tool_place import MODULES, Place, call_of

from surefoot.graph.errors import ToolArgumentsInvalid
from surefoot.graph.ports import ArtifactRef, ToolReply
from surefoot.graph.processes import children_of, process_started
from surefoot.tools import ToolContext, effect
from surefoot.tools.root_process import WarmRoot

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    folder = tmp_path_factory.mktemp("host")
    made = Place(folder, task_dir=MODULES)
    await made.start("./odd_tools.py")
    yield made
    await made.host.close()


# --- results ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "value", "marks"),
    [
        ("nul", {r"a\u0000": r"b\u0000c"}, ()),
        ("half", r"\ud83d", ()),
        ("bytes", r"caf\udce9", ()),
        (
            "nan",
            {"x": [None, None]},
            ("NaN at $.x[0] became null", "Infinity at $.x[1] became null"),
        ),
        ("big", 10**40, ()),
    ],
)
async def test_odd_results_stay_visible_and_exact(
    place: Place, which: str, value: object, marks: tuple[str, ...]
):
    assert place.host.faults == []
    assert await place.call("odd", which=which) == ToolReply(status="ok", value=value, marks=marks)


@pytest.mark.parametrize(
    ("which", "said"), [("set", "$: set is not JSON"), ("cycle", "containing itself")]
)
async def test_results_that_are_not_json_fail_once(place: Place, which: str, said: str):
    reply = await place.call("odd", which=which)
    assert (reply.status, reply.kind, reply.retryable) == ("bad_result", "not_json", False)
    assert said in reply.message


async def test_a_result_over_the_limit_fails_once_and_a_large_one_arrives(place: Place):
    reply = await place.call("huge")
    assert (reply.status, reply.kind, reply.retryable) == ("bad_result", "result_too_large", False)
    assert len((await place.call("large")).value) == 5 * 1024 * 1024


@pytest.mark.parametrize(
    "value", ["x" * 3_000_000, [10**40, "é\U0001f600", None], {"a": {"b": [1.5, True]}}, 2**70]
)
async def test_arguments_arrive_as_they_are(place: Place, value: Any):
    assert (await place.call("echo", value=value)).value == value


async def test_arguments_are_judged_before_anything_runs(place: Place):
    bad: list[dict[str, Any]] = [{}, {"a": "x"}, {"a": 1, "c": 2}]
    for args in bad:
        reply = await place.call("keyed", **args)
        assert (reply.status, reply.kind, reply.retryable) == ("not_done", "bad_arguments", False)
    assert (await place.call("nobody")).kind == "bad_arguments"


async def test_an_async_tool_sees_its_context(place: Place):
    reply = await place.call("slow_add", a=1)
    assert reply.value == {
        "a": 1,
        "key": "key-1",
        "failed": 1,
        "attempt": 2,
        "task": "t1",
        "cancelled": False,
    }
    assert list(place.host.specs["slow_add"].schema["properties"]) == ["a"]


# --- failures --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "status", "retryable", "said"),
    [
        ("not_done", "not_done", False, "surely not"),
        ("os", "error", True, "TimeoutError: slow"),
        ("exit", "error", False, "sys.exit(3)"),
        ("_exit", "crashed", True, "exit code 5"),
        ("segfault", "crashed", True, "SIGSEGV"),
        ("closed", "crashed", True, "SIGKILL"),
        ("long", "error", False, "characters left out"),
    ],
)
async def test_failures_say_what_happened(
    place: Place, how: str, status: str, retryable: bool, said: str
):
    reply = await place.call("fail", how=how)
    assert (reply.status, reply.retryable) == (status, retryable)
    assert said in reply.message
    assert len(reply.message) < 5000
    assert (await place.call("echo", value=1)).value == 1


async def test_a_traceback_goes_to_the_log(place: Place):
    await place.call("fail", how="os")
    assert any("TimeoutError: slow" in line for line in place.lines_of("fail"))


# --- key, probe, compensate, check -----------------------------------------------------------


async def test_a_key_sees_coerced_arguments_with_defaults(place: Place):
    assert await place.host.key(call_of("keyed", a="1")) == "1-7"
    for bad in (call_of("keyed", a="x"), call_of("slow_add", a=1)):
        with pytest.raises(ToolArgumentsInvalid):
            await place.host.key(bad)


async def test_a_probe_answers_with_the_result_or_raises(place: Place):
    assert (await place.host.probe(call_of("keyed", a=1))).value == {"p": {"a": 1, "b": 7}}
    failed = await place.host.probe(call_of("slow_add", a=1))
    assert (failed.status, failed.message) == ("error", "ZeroDivisionError: division by zero")


async def test_a_compensation_gets_what_the_call_returned(place: Place):
    reply = await place.host.compensate(call_of("slow_add", a=4, subtask="back"), {"r": 1})
    assert (reply.status, reply.value) == ("ok", None)
    assert place.lines_of("back") == ["undo {'a': 4} {'r': 1} back"]


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        ("good", True),
        ("said", "too few"),
        ("silent", False),
        ("writes", "no x in t1"),
    ],
)
async def test_a_check_answers(place: Place, function: str, answer: bool | str):
    context = {"result": {"n": 3}, "artifacts": {"a.txt": "/x/a.txt"}}
    assert await place.host.check(f"odd_checks:{function}", context) == answer


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("odd_checks:raises", "AttributeError: the context of a check has no 'nothing'"),
        ("odd_checks:odd", "returned 3"),
        ("odd_checks:missing", "AttributeError"),
        ("nowhere:f", "ModuleNotFoundError"),
    ],
)
async def test_a_check_that_cannot_answer_says_why(place: Place, call: str, said: str):
    answer = await place.host.check(call, {})
    assert isinstance(answer, str)
    assert said in answer


# --- output and artifacts --------------------------------------------------------------------


async def test_everything_printed_is_logged_in_order(place: Place):
    await place.call("chatter")
    assert place.lines_of("chatter") == [
        "by print",
        r"odd \udce9 \ud83d",
        "by child",
        "unfinishedby log",
        "no end",
    ]


async def test_a_flood_of_output_is_bounded(place: Place):
    assert (await place.call("flood", lines=3000)).value == 3000
    lines = place.lines_of("flood")
    assert 1000 < len(lines) < 1200
    assert "left out" in lines[-1]


async def test_an_artifact_is_in_the_store_when_put_returns(place: Place):
    sha256 = await place.store.put_bytes(b" seen")
    seen = ArtifactRef(name="seen.txt", sha256=sha256, size=5, media_type="text/plain")
    reply = await place.host.call(
        call_of("keep", name="out.txt", artifacts={"other/seen.txt": seen})
    )
    assert reply.value == r"second \u0000 seen"
    kept = hashlib.sha256(b"second \x00").hexdigest()
    assert reply.artifacts == (
        {"name": "out.txt", "sha256": kept, "size": 8, "media_type": "text/x-own"},
    )
    assert place.store.blobs[kept] == b"second \x00"
    assert list((place.folder / "staging").iterdir()) == []


async def test_artifacts_that_are_not_there_are_key_errors(place: Place):
    refs = {
        f"{s}/a.txt": ArtifactRef(name="a.txt", sha256="0", size=1, media_type="") for s in "pq"
    }
    assert "no artifact 'b'" in (await place.call("see", name="b")).message
    for name, said in (("a.txt", "several artifacts: p/a.txt, q/a.txt"), ("p/a.txt", "no blob 0")):
        reply = await place.host.call(call_of("see", name=name, artifacts=refs))
        assert said in reply.message
    assert "cannot be an artifact name" in (await place.call("bad_put")).message


async def test_calls_run_in_the_workspace_in_a_group_of_their_own(place: Place):
    pid, cwd, stdin, group, parent = (await place.call("where")).value
    assert cwd == str(place.folder / "ws")
    assert (stdin, group) == ("", pid)
    assert place.host.child_pids() == [(parent, process_started(parent))]


async def test_calls_run_beside_each_other_in_warm_processes(place: Place):
    await asyncio.gather(*(place.call("where") for _ in range(6)))
    pids = {(await place.call("where")).value[0] for _ in range(6)}
    assert len(pids) <= 2


# --- in this process -------------------------------------------------------------------------


async def test_a_declared_tool_runs_in_this_process(place: Place):
    here = (await place.call("here")).value
    assert process_started(here) == process_started(await asyncio.to_thread(_own_pid))


def _own_pid() -> int:
    return int(Path("/proc/self").resolve().name)


async def test_objects_run_in_this_process(tmp_path: Path):
    seen: list[str] = []

    @effect("idempotent")
    @tool
    async def on_loop(x: int, context: ToolContext) -> str:
        """Async."""
        context.artifacts.put("a.txt", f"{x}")
        context.log("one\ntwo")
        seen.append(context.subtask_id)
        return context.artifacts.get("a.txt").decode()

    @tool
    def on_thread(x: int, context: ToolContext) -> str:
        """Sync."""
        context.artifacts.put("b.txt", f"{x}")
        return context.artifacts.get("b.txt").decode()

    @effect("read")
    @tool
    def broken(context: ToolContext) -> None:
        """Fail."""
        raise SystemExit(2)

    place = Place(tmp_path)
    host = await place.start(objects=[on_loop, on_thread, broken])
    assert host.specs["on_thread"].in_process
    for name in ("on_loop", "on_thread"):
        reply = await place.call(name, x=3)
        assert (reply.status, reply.value, len(reply.artifacts)) == ("ok", "3", 1)
        assert place.store.blobs[reply.artifacts[0]["sha256"]] == b"3"
    assert (await place.call("broken")).message == "the tool called sys.exit(2)"
    assert (await place.call("on_loop", x="a")).kind == "bad_arguments"
    assert seen == ["on_loop"]
    assert place.lines_of("on_loop") == ["one", "two"]
    await host.close()


async def test_an_in_process_call_is_abandoned_and_its_late_work_dropped(tmp_path: Path):
    release, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @tool
    def waits(context: ToolContext) -> str:
        """Wait."""
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
        try:
            context.artifacts.put("late.txt", "x")
        except RuntimeError:
            loop.call_soon_threadsafe(ended.set)
        return "late" if context.cancelled else "early"

    @tool
    async def sleeps() -> None:
        """Wait."""
        await asyncio.sleep(1000)

    place = Place(tmp_path)
    host = await place.start(objects=[waits, sleeps])
    assert (await place.call("sleeps", timeout_s=0.05)).status == "timeout"
    assert (await place.call("waits", timeout_s=0.05)).status == "timeout"
    running = asyncio.create_task(place.call("sleeps"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await host.cut(["sleeps"])
    assert (await running).status == "cut"
    release.set()
    await ended.wait()
    assert place.store.blobs == {}
    await host.close()


# --- starting --------------------------------------------------------------------------------


async def test_modules_that_end_the_process_are_faults_and_the_others_work(tmp_path: Path):
    (tmp_path / "dies.py").write_text("import os; os._exit(3)")
    (tmp_path / "talks.py").write_text("print('hello'); raise ImportError('no')")
    (tmp_path / "good.py").write_text("def f() -> int:\n    'F.'\n    return 1\nTOOLS = [f]")
    place = Place(tmp_path)
    host = await place.start("./dies.py", "./talks.py", "./good.py", "./missing.py")
    said = {fault.module: fault.message for fault in host.faults}
    assert "ended the process" in said["./dies.py"]
    assert "ImportError: no (talks.py, line 1)" in said["./talks.py"]
    assert "there is no file" in said["./missing.py"]
    assert (await place.call("f")).value == 1
    assert ("", 0, "hello") in place.logs
    await host.close()
    assert host.child_pids() == []
    assert (await place.call("f")).kind == "tool_unavailable"


async def test_a_root_that_somebody_kills_while_it_starts_is_started_again(tmp_path: Path):
    (tmp_path / "killed.py").write_text(
        "import os, pathlib, signal\n"
        "seen = pathlib.Path(__file__).with_suffix('.seen')\n"
        "if not seen.exists():\n"
        "    seen.touch()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "def f() -> int:\n    'F.'\n    return 1\n"
        "TOOLS = [f]\n"
    )
    warm, before = WarmRoot(), set(children_of(os.getpid()))
    await warm.warm_up()
    (waiting,) = set(children_of(os.getpid())) - before
    os.kill(waiting, signal.SIGKILL)
    place = Place(tmp_path)
    host = await place.start("./killed.py", warm=warm)
    assert host.faults == []
    assert (await place.call("f")).value == 1
    await host.close()


async def test_a_module_that_always_kills_the_process_is_a_fault(tmp_path: Path):
    (tmp_path / "kills.py").write_text("import os; os.kill(os.getpid(), 9)")
    (tmp_path / "good.py").write_text("def f() -> int:\n    'F.'\n    return 1\nTOOLS = [f]")
    place = Place(tmp_path)
    host = await place.start("./kills.py", "./good.py")
    assert [fault.module for fault in host.faults] == ["./kills.py"]
    assert (await place.call("f")).value == 1
    await host.close()


async def test_specs_survive_the_wire(place: Place):
    spec = place.host.specs["keyed"]
    assert (spec.effect, spec.has_key, spec.has_probe) == ("idempotent", True, True)
    assert spec.module == "./odd_tools.py"
    assert json.dumps(spec.schema)
