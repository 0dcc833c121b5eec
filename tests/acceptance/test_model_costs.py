"""What models cost and how they are waited for, through the command and a scripted server."""

import asyncio
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from conftest import Sql
from model_server import ModelServer, call_tool, finish, refuse, silent
from scenes import Scene, task, until

from surefoot.graph.settings import Settings

KEY = "sk-a-key-that-nobody-may-see"
SUMS = "select steps, tokens, cost_usd, reserved_tokens from surefoot.tasks where id = 't'"
PRICED = {"executor": "m", "prices": {"m": {"input": 1000.0, "output": 10000.0}}}


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Generator[ModelServer]:
    with ModelServer(key=KEY) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def agent(**more: Any) -> dict[str, Any]:
    given = {"id": "a", "kind": "agent", "instructions": "Do it.", "tools": ["echo"]}
    return {**given, "success": [{"type": "result"}], **more}


async def test_a_kill_inside_a_call_leaves_sums_that_are_exact_to_the_token(
    scene: Scene, models: ModelServer, sql: Sql
) -> None:
    models.on("agent", call_tool("echo", {"value": 1}, usage=(100, 10)), silent())
    file = scene.file(task([agent()], model=PRICED))
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: len(models.of("agent")) == 2)
        process.kill()
        process.wait(30)
    row = sql.rows(SUMS)[0]
    # 100 * 1000 / 1e6 + 10 * 10000 / 1e6 = 0.1 + 0.1
    assert (row["tokens"], round(row["cost_usd"], 9)) == (110, 0.2)
    torn = row["reserved_tokens"]
    assert torn > models.seen[1].body["max_tokens"]
    models.on("agent", finish("end", usage=(200, 20)))
    assert scene.process("resume", "t").code == 0
    row = sql.rows(SUMS)[0]
    assert (row["tokens"], row["reserved_tokens"]) == (110 + torn + 220, 0)
    # Two saved replies, the torn one, and the call of the tool.
    assert row["steps"] == 4


def test_a_limit_of_three_steps_allows_exactly_three_calls(
    scene: Scene, models: ModelServer, sql: Sql
) -> None:
    models.always("agent", lambda seen: call_tool("echo", {"value": len(seen.messages)}))
    file = scene.file(task([agent()], model="m", budget={"max_steps": 3}))
    done = scene.process("run", file, "--id", "t", "--json")
    assert (done.code, done.document["failure"]["code"]) == (1, "budget_exhausted")
    assert sql.rows(SUMS)[0]["steps"] == 3
    assert len(models.seen) == 2


def test_a_cost_that_would_pass_its_limit_is_never_sent(
    scene: Scene, models: ModelServer, sql: Sql
) -> None:
    file = scene.file(task([agent()], model=PRICED, budget={"max_cost_usd": 0.5}))
    done = scene.process("run", file, "--id", "t", "--json")
    assert (done.code, done.document["failure"]["code"]) == (1, "budget_exhausted")
    assert "max_cost_usd" in done.document["failure"]["message"]
    assert models.seen == []
    assert sql.rows(SUMS)[0]["cost_usd"] == 0.0


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 3), (signal.SIGTERM, 3)])
async def test_a_stop_while_a_busy_server_is_waited_for_works_at_once(
    scene: Scene, models: ModelServer, sql: Sql, sign: signal.Signals, code: int
) -> None:
    models.always("any", refuse(429, retry_after=3600))
    file = scene.file(task([agent()], model="m"))
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: bool(models.seen))
        process.send_signal(sign)
        assert process.wait(20) == code
    assert len(models.seen) == 1
    assert sql.rows(SUMS)[0]["tokens"] == 0


async def test_a_cancel_while_a_busy_server_is_waited_for_works_at_once(
    scene: Scene, models: ModelServer
) -> None:
    models.always("any", refuse(429, retry_after=3600))
    file = scene.file(task([agent()], model="m"))
    with scene.started("run", file, "--id", "t") as process:
        await until(lambda: bool(models.seen))
        assert (await asyncio.to_thread(scene.process, "cancel", "t")).code == 0
        assert process.wait(20) == 4


def test_every_call_leaves_an_event_and_the_key_is_nowhere(
    scene: Scene, models: ModelServer, sql: Sql
) -> None:
    models.on("agent", refuse(500, error=f"key {KEY} is fine"), finish("end"))
    file = scene.file(task([agent()], model="m"))
    assert scene.process("run", file, "--id", "t").code == 0
    events = scene.process("events", "t", "--json")
    called = [one for one in events.document if one["type"] == "ModelCalled"]
    assert [(one["subtask"], one["model"], one["retries"]) for one in called] == [("a", "m", 1)]
    assert any(one["type"] == "ModelWaits" for one in events.document)
    kept = sql.rows(
        "select t::text as kept from surefoot.events t"
        " union all select t::text from surefoot.tasks t"
        " union all select encode(blob, 'escape') from checkpoint_writes where blob is not null"
    )
    assert all(KEY not in row["kept"] for row in kept)
