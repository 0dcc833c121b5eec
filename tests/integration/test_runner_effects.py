"""Attempts with real processes, the real ledger and the real store: each effect exactly once."""

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from conftest import Sql
from fakes import tool_order
from real_runner import Real

from surefoot.checkpointing.artifacts import ObjectArtifacts
from surefoot.checkpointing.database import Database
from surefoot.graph.errors import LeaseLost
from surefoot.graph.ports import Binding, WorkOrder
from surefoot.graph.settings import Settings
from surefoot.tools import contents
from surefoot.tools.host import ChildToolHost

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODULE = '''
import os, time
from langchain_core.tools import tool
from surefoot.tools import NotDone, ToolContext, effect

def world(context):
    return context.workspace.parent / "outside.txt"

def lines(context):
    return world(context).read_text().split() if world(context).exists() else []

def act(context, text):
    with open(world(context), "a") as file:
        file.write(text + "\\n")

def undo(args, result, context):
    left = [line for line in lines(context) if line != args["ticket"]]
    world(context).write_text("".join(line + "\\n" for line in left))

def was_sent(args, context):
    return {"found": args["ticket"]} if args["ticket"] in lines(context) else None

def no_number(args, context):
    return float(args["how"].partition(" ")[2]) if args["ticket"] in lines(context) else None

def _send(ticket, how, context):
    first = context.attempt == 1
    if how == "refuse" and first:
        raise NotDone("closed")
    if how == "crash before" and first:
        os._exit(9)
    act(context, ticket)
    if first and how.startswith("crash"):
        os._exit(9)
    if first and how == "hang":
        time.sleep(600)
    if first and how == "raise":
        raise OSError("connection lost")
    return {"sent": ticket, "key": context.idempotency_key}

@effect("irreversible", probe=was_sent)
@tool
def probed(ticket: str, how: str, context: ToolContext) -> dict:
    """Send."""
    return _send(ticket, how, context)

@effect("irreversible", probe=no_number)
@tool
def measured(ticket: str, how: str, context: ToolContext) -> dict:
    """Send; its probe answers with what is no number."""
    return _send(ticket, how, context)

@effect("irreversible")
@tool
def blind(ticket: str, how: str, context: ToolContext) -> dict:
    """Send."""
    return _send(ticket, how, context)

@effect("reversible", compensate=undo)
@tool
def undoable(ticket: str, how: str, context: ToolContext) -> dict:
    """Send."""
    return _send(ticket, how, context)

@effect("irreversible", key=lambda args: args["ticket"])
@tool
def keyed(ticket: str, how: str, context: ToolContext) -> dict:
    """Send."""
    time.sleep(0.05)
    return _send(ticket, how, context)

@effect("read")
@tool
def make(context: ToolContext) -> int:
    """Put an artifact."""
    context.artifacts.put("x.txt", "a" * 40 + "!")
    return 1

TOOLS = [probed, measured, blind, undoable, keyed, make]
'''

CHECKS = """
import os, signal, time
from pathlib import Path
def killed_once(context):
    mark = Path(context.workspace) / "killed"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return True
def always_killed(context):
    os.kill(os.getpid(), signal.SIGKILL)
def good(context):
    return context.result == 1 and context.artifacts["x.txt"].read_text().startswith("aaa")
def bad(context):
    return "too short"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(folder: Path) -> AsyncGenerator[ChildToolHost]:
    """One host for all tests here: the imports of its processes cost more than a test."""
    (folder / "my_tools.py").write_text(MODULE)
    (folder / "my_checks.py").write_text(CHECKS)
    host = await ChildToolHost.start(
        ["./my_tools.py"],
        task_id="t1",
        workspace=folder / "workspace",
        task_dir=folder,
        store=ObjectArtifacts((folder / "artifacts").as_uri()),
        slots=4,
        staging=folder / "staging",
        on_log=lambda subtask, attempt, line: None,
    )
    assert host.faults == []
    yield host
    await host.close()


@pytest_asyncio.fixture(loop_scope="module")
async def real(
    host: ChildToolHost, folder: Path, settings: Settings, sql: Sql
) -> AsyncGenerator[Real]:
    (folder / "outside.txt").unlink(missing_ok=True)
    store = ObjectArtifacts((folder / "artifacts").as_uri())
    async with await Database.open(settings) as database:
        yield Real(folder, host, store, database, sql.make_task("t1"))


def send(tool: str, how: str = "ok", *, id: str = "a", **fields: Any) -> WorkOrder:
    return tool_order(id, tool=tool, args={"ticket": "t-7", "how": how}, **fields)


async def test_a_finished_call_is_answered_after_a_restart(real: Real, sql: Sql) -> None:
    (first,) = await real.run(send("blind"))
    (again,) = await real.run(send("blind", attempt=2, recovering=True))
    assert first["ok"]
    assert again.get("result") == first.get("result")
    assert real.outside() == ["t-7"]
    (row,) = sql.rows("select * from surefoot.effects")
    assert (row["state"], row["scope"], row["attempt"]) == ("done", "a", 1)
    value: dict[str, str] = (first.get("result") or {}).get("value") or {}
    assert value["key"].startswith("t1:a:")


@pytest.mark.parametrize("how", ["crash", "raise", "hang"])
async def test_a_probe_settles_what_a_dead_call_left_open(real: Real, sql: Sql, how: str) -> None:
    (outcome,) = await real.run(send("probed", how, timeout_s=1.0))
    assert outcome["ok"]
    assert outcome.get("result") == {"value": {"found": "t-7"}}
    assert real.outside() == ["t-7"]
    assert sql.value("select state from surefoot.effects") == "done"


@pytest.mark.parametrize("how", ["crash nan", "crash inf"])
async def test_a_probe_that_answers_with_no_number_says_that_it_happened(
    real: Real, how: str
) -> None:
    (outcome,) = await real.run(send("measured", how))
    assert outcome["ok"]
    assert real.outside() == ["t-7"]


@pytest.mark.parametrize("how", ["crash before", "refuse"])
async def test_what_did_not_happen_is_tried_again(real: Real, how: str) -> None:
    (failed,) = await real.run(send("probed", how))
    assert not failed["ok"]
    assert (failed.get("failure") or {}).get("retryable")
    (again,) = await real.run(send("probed", how, attempt=2))
    assert again["ok"]
    assert real.outside() == ["t-7"]


@pytest.mark.parametrize("how", ["crash", "raise", "hang"])
async def test_without_any_evidence_a_person_is_asked_and_nothing_repeated(
    real: Real, sql: Sql, how: str
) -> None:
    (outcome,) = await real.run(send("blind", how, timeout_s=1.0))
    assert (outcome.get("question") or {}).get("kind") == "unknown_effect"
    (again,) = await real.run(send("blind", how, attempt=2, recovering=True))
    assert again.get("question")
    assert real.outside() == ["t-7"]
    assert sql.value("select state from surefoot.effects") == "intent"


@pytest.mark.parametrize("how", ["crash", "raise"])
async def test_an_unknown_reversible_effect_is_taken_back_and_done_anew(
    real: Real, how: str
) -> None:
    (failed,) = await real.run(send("undoable", how))
    assert not failed["ok"]
    assert real.outside() == []
    (again,) = await real.run(send("undoable", how, attempt=2))
    assert again["ok"]
    assert real.outside() == ["t-7"]


async def test_four_subtasks_with_one_own_key_make_one_effect(real: Real) -> None:
    outcomes = await real.run(*(send("keyed", id=id) for id in "abcd"))
    assert [outcome["ok"] for outcome in outcomes] == [True] * 4
    assert real.outside() == ["t-7"]


async def test_a_stolen_lease_stops_before_the_call(real: Real, sql: Sql) -> None:
    sql.steal("t1")
    with pytest.raises(LeaseLost):
        await real.run(send("blind"))
    assert real.outside() == []
    assert sql.rows("select * from surefoot.effects") == []


async def test_a_cut_call_is_found_out_by_the_next_attempt(real: Real) -> None:
    ledger = real.ledger()
    runner = real.runner(ledger)
    await runner.submit([send("probed", "hang")])
    async with asyncio.timeout(10):
        while real.outside() != ["t-7"]:
            await runner.wait(until=time.time() + 0.01)
        await runner.cut()
    assert runner.finished()[0].get("cut")
    await ledger.close()
    (again,) = await real.run(send("probed", "hang", attempt=2, recovering=True))
    assert (again.get("recovery") or {}).get("strategy") == "resume at the step"
    assert real.outside() == ["t-7"]


async def test_artifacts_pass_from_one_subtask_to_a_file_tool(real: Real) -> None:
    (made,) = await real.run(tool_order("make", tool="make", outputs=["x.txt"]))
    artifacts = tuple(made.get("artifacts") or ())
    binding = Binding(result=made.get("result"), artifacts=artifacts, producer="make")
    (read,) = await real.run(
        tool_order(
            "look",
            tool="read_text",
            args={"path": "${make.artifact.x.txt}"},
            bindings={"make": binding},
        )
    )
    assert read["ok"], read.get("failure")
    assert "aaaa" in str(read.get("result"))


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (
            {"type": "command", "run": 'test "$SUREFOOT_TASK_DIR" && python -c "import surefoot"'},
            None,
        ),
        ({"type": "command", "run": ["sh", "-c", "echo no; exit 3"]}, "exit code 3"),
        ({"type": "command", "run": "sleep 60 & sleep 60", "timeout_seconds": 0.5}, "0.5 s"),
        ({"type": "python", "call": "my_checks:good"}, None),
        ({"type": "python", "call": "my_checks:bad"}, "too short"),
        ({"type": "python", "call": "my_checks:missing"}, "missing"),
        ({"type": "python", "call": "my_checks:killed_once"}, None),
        ({"type": "python", "call": "my_checks:always_killed"}, "always_killed"),
        ({"type": "artifact", "name": "x.txt", "regex": "^a+!$"}, None),
        ({"type": "artifact", "name": "x.txt", "regex": "b+"}, "nothing in it matches"),
    ],
)
async def test_checks_by_real_processes(real: Real, check: dict[str, Any], why: str | None) -> None:
    (outcome,) = await real.run(tool_order("make", tool="make", success=[check]))
    assert outcome["ok"] is (why is None), outcome.get("failure")
    if why is not None:
        assert why in (outcome.get("failure") or {}).get("message", "")


async def test_an_exploding_pattern_is_ended_and_never_blocks_the_loop(
    real: Real, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "CONTENT_TIMEOUT_S", 1.0)
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    beating = asyncio.create_task(beat())
    check = {"type": "artifact", "name": "x.txt", "regex": "^(a|a)+$"}
    (outcome,) = await real.run(tool_order("make", tool="make", success=[check]))
    beating.cancel()
    assert (outcome.get("failure") or {}).get("kind") == "check_failed"
    assert "within 1 s" in (outcome.get("failure") or {}).get("message", "")
    assert beats > 10  # about 100 in the second that the pattern was given
