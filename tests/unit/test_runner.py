"""LocalRunner: slots, backlog, holding, acknowledging, cutting; attempts to their outcomes."""

import asyncio
from pathlib import Path

import pytest
from fakes import Bench, foreach_order, ok, tool_order

from surefoot.graph.errors import DatabaseUnavailable, LeaseLost, ToolUnavailable
from surefoot.graph.ports import ToolCall, ToolReply
from surefoot.graph.values import Outcome
from surefoot.tools.runner import LocalRunner


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class Gate:
    """A tool whose calls end when the test says so, by subtask."""

    def __init__(self) -> None:
        self.open: dict[str, asyncio.Future[ToolReply]] = {}
        self.called = asyncio.Event()

    def __call__(self, call: ToolCall) -> asyncio.Future[ToolReply]:
        self.open[call.subtask] = asyncio.get_running_loop().create_future()
        self.called.set()
        return self.open[call.subtask]

    def end(self, subtask: str, reply: ToolReply | None = None) -> None:
        self.open[subtask].set_result(reply or ok())


async def outcomes(runner: LocalRunner, count: int) -> list[Outcome]:
    async with asyncio.timeout(5):
        while len(runner.finished()) < count:
            await runner.wait()
            await asyncio.sleep(0)
    return runner.finished()


async def started(gate: Gate, *subtasks: str) -> None:
    async with asyncio.timeout(5):
        while not set(subtasks) <= gate.open.keys():
            gate.called.clear()
            await gate.called.wait()


async def only_outcome(bench: Bench, *args: object, **fields: object) -> Outcome:
    runner = bench.runner()
    await runner.submit([tool_order(*args, **fields)])  # pyright: ignore[reportArgumentType] - passed through
    (outcome,) = await outcomes(runner, 1)
    await runner.close()
    return outcome


# --- the pool --------------------------------------------------------------------------------


async def test_only_as_many_attempts_run_as_there_are_slots(bench: Bench) -> None:
    gate = Gate()
    bench.host.add("tool", gate)
    runner = bench.runner(slots=2)
    await runner.submit([tool_order(id) for id in "abcd"])
    await started(gate, "a", "b")
    assert runner.load() == (2, 2)
    gate.end("b")
    await outcomes(runner, 1)
    await started(gate, "c")
    assert set(gate.open) == {"a", "b", "c"}
    assert runner.load() == (2, 1)
    assert runner.known() == {("a", 1), ("b", 1), ("c", 1), ("d", 1)}
    await runner.close()


async def test_outcomes_come_again_until_they_are_acknowledged(bench: Bench) -> None:
    bench.host.add("tool", lambda call: ok(call.subtask))
    runner = bench.runner()
    await runner.submit([tool_order("a"), tool_order("b")])
    first = await outcomes(runner, 2)
    await runner.wait()  # at once: nothing of them is durable yet
    assert runner.finished() == first
    runner.acknowledge([dict(first[0])])  # pyright: ignore[reportArgumentType] - as read from a checkpoint
    assert runner.finished() == first[1:]
    assert runner.known() == {("b", 1)}


async def test_an_order_that_is_known_is_not_run_again(bench: Bench) -> None:
    bench.host.add("tool", lambda call: ok())
    runner = bench.runner()
    await runner.submit([tool_order("a"), tool_order("a")])
    await outcomes(runner, 1)
    await runner.submit([tool_order("a")])
    assert len(bench.host.calls) == 1
    await runner.submit([tool_order("a", attempt=2)])
    await outcomes(runner, 2)
    assert len(bench.host.calls) == 2


async def test_after_a_failure_nothing_waiting_starts_until_the_next_submit(bench: Bench) -> None:
    gate = Gate()
    bench.host.add("tool", gate)
    runner = bench.runner(slots=1)
    await runner.submit([tool_order("a"), tool_order("b")])
    await started(gate, "a")
    gate.end("a", ToolReply(status="error", message="no"))
    await outcomes(runner, 1)
    assert runner.load() == (0, 1)
    await runner.submit([])
    await started(gate, "b")
    await runner.close()


async def test_waiting_orders_can_be_taken_back(bench: Bench) -> None:
    gate = Gate()
    bench.host.add("tool", gate)
    runner = bench.runner(slots=1)
    await runner.submit([tool_order("a"), tool_order("b"), tool_order("c")])
    assert runner.recall() == [("b", 1), ("c", 1)]
    assert runner.known() == {("a", 1)}
    await runner.close()


async def test_wait_ends_at_its_time_and_when_woken(bench: Bench) -> None:
    runner = bench.runner()
    async with asyncio.timeout(5):
        await runner.wait(until=bench.clock.now - 1)
        asyncio.get_running_loop().call_soon(runner.wake)
        await runner.wait()


async def test_containers_take_no_slot(bench: Bench) -> None:
    gate = Gate()
    bench.host.add("tool", gate)
    runner = bench.runner(slots=1)
    await runner.submit([tool_order("a"), foreach_order("expand", for_each=[1, 2, 3])])
    (outcome,) = await outcomes(runner, 1)
    assert outcome["subtask"] == "review"
    assert outcome.get("n") == 3
    assert outcome.get("result") == {"value": [1, 2, 3]}
    await runner.close()


async def test_a_lost_lease_is_raised_from_wait_and_the_order_is_forgotten(bench: Bench) -> None:
    bench.host.add("tool", lambda call: ok(), effect="irreversible")
    bench.ledger.broken = LeaseLost("t1")
    runner = bench.runner(slots=1)
    await runner.submit([tool_order("a"), tool_order("b")])
    with pytest.raises(LeaseLost):
        await runner.wait()
    assert runner.known() == {("b", 1)}  # held back
    assert bench.host.calls == []


async def test_an_unreachable_database_is_raised_from_wait(bench: Bench) -> None:
    bench.host.add("tool", lambda call: ok(), effect="idempotent")
    bench.ledger.broken = DatabaseUnavailable("gone")
    runner = bench.runner()
    await runner.submit([tool_order("a")])
    with pytest.raises(DatabaseUnavailable):
        await runner.wait()


async def test_what_a_lost_database_tore_off_is_taken_up_by_the_next_submit(bench: Bench) -> None:
    gate = Gate()
    bench.host.add("tool", gate, effect="idempotent")
    runner = bench.runner()
    await runner.submit([tool_order("a")])
    await started(gate, "a")
    bench.ledger.broken = DatabaseUnavailable("gone")
    gate.end("a")
    with pytest.raises(DatabaseUnavailable):
        await runner.wait()
    assert runner.known() == {("a", 1)}
    bench.ledger.broken = None
    gate.open.clear()
    await runner.submit([])  # the orders of that superstep: it was ordered long before
    await started(gate, "a")
    gate.end("a")
    (outcome,) = await outcomes(runner, 1)
    assert outcome["ok"]
    assert (outcome.get("recovery") or {})["strategy"] == "rerun the subtask"


async def test_a_bug_of_ours_fails_the_attempt_and_not_the_pool(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(call: ToolCall) -> ToolReply:
        raise ZeroDivisionError("ours")

    bench.host.add("tool", broken)
    bench.host.add("fine", lambda call: ok())
    runner = bench.runner(slots=1)
    await runner.submit([tool_order("a")])
    (outcome,) = await outcomes(runner, 1)
    assert outcome.get("failure") == {
        "kind": "internal",
        "message": "ZeroDivisionError: ours",
        "retryable": True,
    }
    assert "Traceback" in caplog.text
    await runner.submit([tool_order("b", tool="fine")])
    assert (await outcomes(runner, 2))[1]["ok"]


async def test_a_store_that_stays_away_fails_the_attempt_for_now(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(content: bytes) -> str:
        raise ToolUnavailable("the store does not answer")  # any TransientError

    monkeypatch.setattr("surefoot.tools.kept_values.PATIENCE_S", 0.0)
    monkeypatch.setattr(bench.store, "put_bytes", away)
    bench.host.add("tool", lambda call: ok("x" * 2000))
    failure = (await only_outcome(bench)).get("failure") or {}
    assert (failure.get("kind"), failure.get("retryable")) == ("unavailable", True)


# --- stopping --------------------------------------------------------------------------------


async def test_cut_ends_what_is_in_flight_without_counting_it(bench: Bench) -> None:
    gate = Gate()
    bench.host.add("tool", gate, effect="irreversible")
    runner = bench.runner()
    await runner.submit([tool_order("a")])
    await started(gate, "a")
    await runner.cut()
    (outcome,) = runner.finished()
    assert outcome.get("cut")
    assert not outcome["ok"]
    assert bench.ledger.state_of("a") == "intent"  # nobody knows: the next attempt finds out


async def test_cutting_only_safe_calls_leaves_the_others(bench: Bench) -> None:
    gate = Gate()
    bench.host.add("safe", gate, effect="idempotent")
    bench.host.add("unsafe", gate, effect="reversible")
    runner = bench.runner()
    await runner.submit([tool_order("a", tool="safe"), tool_order("b", tool="unsafe")])
    await started(gate, "a", "b")
    await runner.cut(only_safe=True)
    assert [o["subtask"] for o in runner.finished()] == ["a"]
    gate.end("b")
    assert (await outcomes(runner, 2))[1]["ok"]


async def test_an_attempt_that_is_cut_before_its_call_leaves_no_doubt(bench: Bench) -> None:
    bench.host.add("tool", lambda call: ok(), effect="irreversible")
    runner = bench.runner()
    await runner.submit([tool_order("a")])
    await asyncio.sleep(0)
    assert bench.host.calls == []  # the intent is being written
    await runner.cut()
    (outcome,) = runner.finished()
    assert outcome.get("cut")
    assert bench.host.calls == []
    assert bench.ledger.state_of("a") == "failed"


async def test_a_call_that_ended_while_we_stop_keeps_its_outcome_in_the_ledger(
    bench: Bench,
) -> None:
    gate = Gate()
    bench.host.add("tool", gate, effect="irreversible")
    runner = bench.runner()
    await runner.submit([tool_order("a")])
    await started(gate, "a")
    gate.end("a", ok("sent"))
    await runner.cut()
    assert bench.ledger.state_of("a") == "done"


async def test_a_check_is_torn_by_a_cut(bench: Bench) -> None:
    bench.host.add("tool", lambda call: ok(), effect="read")
    waiting = Gate()
    bench.host.add("run_command", waiting, effect="irreversible", module="builtin")
    runner = bench.runner()
    await runner.submit([tool_order("a", success=[{"type": "command", "run": "sleep 60"}])])
    await started(waiting, "a")
    async with asyncio.timeout(5):
        await runner.cut()
    (outcome,) = runner.finished()
    assert outcome.get("cut")


async def test_nothing_runs_after_close(bench: Bench) -> None:
    gate = Gate()
    bench.host.add("tool", gate)
    runner = bench.runner(slots=1)
    await runner.submit([tool_order("a"), tool_order("b")])
    await started(gate, "a")
    async with asyncio.timeout(5):
        await runner.close()
    await runner.submit([tool_order("c")])
    assert runner.load() == (0, 0)
    assert set(gate.open) == {"a"}
