"""What failed and given up attempts leave, with real tool processes and the real ledger (D06).

The world outside is a file of lines that only grows: `do x`, `undo x`, `clean x`.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from conftest import Sql
from fakes import tool_order
from real_runner import Real

from surefoot.checkpointing.artifacts import ObjectArtifacts
from surefoot.checkpointing.database import Database
from surefoot.graph.ports import WorkOrder
from surefoot.graph.settings import Settings
from surefoot.graph.values import Outcome
from surefoot.tools.host import ChildToolHost

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODULE = '''
import os, time
from langchain_core.tools import tool
from surefoot.tools import ToolContext, effect

def say(context, text):
    with open(context.workspace.parent / "outside.txt", "a") as file:
        file.write(text + "\\n")

def lines(context):
    world = context.workspace.parent / "outside.txt"
    return world.read_text().splitlines() if world.exists() else []

def stands(context, name):
    said = lines(context)
    return said.count(f"do {name}") > said.count(f"undo {name}")

def found(args, context):
    return 1 if stands(context, args["name"]) else None

def undo(args, result, context):
    if args["how"] == "no way back":
        raise OSError("locked")
    if args["how"] == "slow way back" and not (context.workspace.parent / "open").exists():
        (context.workspace.parent / "undoing").touch()
        time.sleep(600)
    say(context, f"undo {args['name']}")

def act(name, how, context):
    say(context, f"do {name}")
    if context.attempt == 1:
        if how == "crash":
            os._exit(9)
        if how == "hang":
            time.sleep(600)
        if how == "raise":
            raise OSError("connection lost")
    return context.attempt

@effect("reversible", compensate=undo)
@tool
def book(name: str, how: str, context: ToolContext) -> int:
    """Book."""
    return act(name, how, context)

@effect("reversible", compensate=undo, probe=found)
@tool
def order(name: str, how: str, context: ToolContext) -> int:
    """Order."""
    return act(name, how, context)

@tool
def send(name: str, how: str, context: ToolContext) -> int:
    """Send."""
    return act(name, how, context)

@effect("irreversible")
@tool
def clean(name: str, context: ToolContext) -> None:
    """Clear."""
    say(context, f"clean {name}")

@effect("irreversible", in_process=True)
@tool
def late(name: str, how: str, context: ToolContext) -> str:
    """End when nobody waits any more."""
    while not (context.workspace.parent / "open").exists():
        time.sleep(0.01)
    say(context, f"do {name}")
    try:
        context.artifacts.put("late.txt", "late")
    except RuntimeError:
        say(context, f"refused {name}")
    return "late"

TOOLS = [book, order, send, clean, late]
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(folder: Path) -> AsyncGenerator[ChildToolHost]:
    (folder / "my_tools.py").write_text(MODULE)
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
    host: ChildToolHost,
    folder: Path,
    settings: Settings,
    sql: Sql,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncGenerator[Real]:
    monkeypatch.setattr("surefoot.tools.compensating.BACKOFF_S", 0.01)
    for name in ("outside.txt", "open", "undoing"):
        (folder / name).unlink(missing_ok=True)
    store = ObjectArtifacts((folder / "artifacts").as_uri())
    async with await Database.open(settings) as database:
        yield Real(folder, host, store, database, sql.make_task("t1"))


def work(tool: str, how: str = "ok", *, attempt: int = 1, **fields: Any) -> WorkOrder:
    """An attempt whose result is good from the second attempt on."""
    args = {"name": "x", "how": how}
    later: Any = [{"type": "result", "json_schema": {"minimum": 2}}]
    given: dict[str, Any] = {"success": later, **fields}
    return tool_order(tool=tool, args=args, attempt=attempt, **given)


def said(real: Real) -> list[str]:
    world = real.folder / "outside.txt"
    return [line.removesuffix(" x") for line in world.read_text().splitlines()]


def kind_of(outcome: Outcome) -> str | None:
    return (outcome.get("failure") or {}).get("kind")


async def test_a_reversible_effect_is_done_undone_and_done(real: Real, sql: Sql) -> None:
    (failed,) = await real.run(work("book"))
    assert kind_of(failed) == "check_failed"
    assert sql.value("select state from surefoot.effects") == "compensated"
    (again,) = await real.run(work("book", attempt=2))
    assert again["ok"], again
    assert said(real) == ["do", "undo", "do"]


async def test_a_tool_that_declares_nothing_is_never_called_twice(real: Real) -> None:
    (failed,) = await real.run(work("send"))
    assert kind_of(failed) == "check_failed"
    (again,) = await real.run(work("send", attempt=2))
    assert kind_of(again) == "check_failed", "the first result stands"
    assert said(real) == ["do"]


@pytest.mark.parametrize("how", ["crash", "raise", "hang"])
async def test_with_an_undo_it_is_done_cleared_and_done(real: Real, sql: Sql, how: str) -> None:
    undo = {"tool": "clean", "args": {"name": "x"}}
    (failed,) = await real.run(work("send", how, timeout_s=1.0, undo=undo))
    assert kind_of(failed) in ("crashed", "tool_error", "timeout")
    (again,) = await real.run(work("send", how, attempt=2, undo=undo))
    assert again["ok"], again
    assert said(real) == ["do", "clean", "do"]
    rows = sql.rows("select tool, state from surefoot.effects order by tool")
    assert [(row["tool"], row["state"]) for row in rows] == [("clean", "done"), ("send", "done")]


@pytest.mark.parametrize("tool", ["book", "order"])
@pytest.mark.parametrize("how", ["crash", "raise", "hang"])
async def test_a_dead_reversible_call_leaves_one_effect_in_the_end(
    real: Real, tool: str, how: str
) -> None:
    success: list[Any] = []
    (first,) = await real.run(work(tool, how, timeout_s=1.0, success=success))
    if tool == "order":
        assert first.get("result") == {"value": 1}
        assert said(real) == ["do"]
        return
    assert kind_of(first) in ("crashed", "tool_error", "timeout")
    (again,) = await real.run(work(tool, how, attempt=2, success=success))
    assert again["ok"]
    assert said(real) == ["do", "undo", "do"]


async def test_a_blocked_way_back_is_a_question_and_by_hand_it_goes_on(real: Real) -> None:
    (asked,) = await real.run(work("book", "no way back"))
    question = asked.get("question")
    assert question is not None
    assert question["kind"] == "undo_failed"
    assert "locked" in question["text"]
    again = work("book", "no way back", attempt=2, recovering=True)
    answered = replace(
        again, said={question["id"]: {"choice": "undone"}}, undoing=asked.get("failure")
    )
    (told,) = await real.run(answered)
    assert kind_of(told) == "check_failed"
    (done,) = await real.run(work("book", "no way back", attempt=3))
    assert done["ok"]
    assert said(real) == ["do", "do"]


@pytest.mark.parametrize("tool", ["book", "order"])
async def test_cut_while_it_is_taken_back_it_converges(real: Real, sql: Sql, tool: str) -> None:
    ledger = real.ledger()
    runner = real.runner(ledger)
    await runner.submit([work(tool, "slow way back")])
    async with asyncio.timeout(20):
        while not (real.folder / "undoing").exists():
            await runner.wait(until=time.time() + 0.01)
        await runner.cut()
    assert runner.finished()[0].get("cut")
    await ledger.close()
    assert sql.value("select state from surefoot.effects") == "intent"
    (real.folder / "open").touch()
    again = replace(work(tool, "slow way back", attempt=2), recovering=True)
    (outcome,) = await real.run(again)
    assert (outcome.get("recovery") or {}).get("strategy") == (
        "rerun the subtask" if tool == "book" else "resume at the step"
    )
    if tool == "order":  # its probe found it: it stands, and is not good enough
        assert kind_of(outcome) == "check_failed"
        (outcome,) = await real.run(work(tool, "slow way back", attempt=3))
    assert outcome["ok"], outcome
    assert said(real) == ["do", "undo", "do"]


async def test_what_may_not_be_resumed_starts_from_scratch_after_its_effects_are_undone(
    real: Real,
) -> None:
    (first,) = await real.run(work("book", success=[], resumable=False))
    assert first["ok"]
    cut = replace(work("book", attempt=2, resumable=False), recovering=True)
    (again,) = await real.run(cut)
    assert again.get("result") == {"value": 2}
    assert said(real) == ["do", "undo", "do"]


async def test_a_late_answer_of_an_abandoned_call_changes_nothing(real: Real, sql: Sql) -> None:
    (outcome,) = await real.run(work("late", timeout_s=0.2, success=[]))
    question = outcome.get("question")
    assert question is not None
    before = sql.rows("select * from surefoot.effects")
    (settled,) = await real.run(
        replace(
            work("late", attempt=2, success=[]),
            recovering=True,
            said={question["id"]: {"choice": "done", "result": "a person's"}},
        )
    )
    assert settled.get("result") == {"value": "a person's"}
    (real.folder / "open").touch()
    async with asyncio.timeout(20):
        while not (real.folder / "outside.txt").exists() or said(real) != ["do", "refused"]:
            await asyncio.sleep(0.01)
    (row,) = sql.rows("select * from surefoot.effects")
    assert (row["state"], row["result"]) == ("done", {"value": "a person's"})
    assert before[0]["state"] == "intent"
    assert row["artifacts"] is None
