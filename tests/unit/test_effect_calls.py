"""Not twice: what the ledger, a probe, a compensation or a person decides about a call."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fakes import Bench, ok, tool_order

from surefoot.graph.keys import call_digest, default_key, own_key
from surefoot.graph.ports import EffectCall, EffectKind, ToolCall, ToolReply, WorkOrder
from surefoot.graph.values import Outcome

ERROR = ToolReply(status="error", message="connection lost")
TIMEOUT = ToolReply(status="timeout", message="no answer")
CRASHED = ToolReply(status="crashed", message="killed")
UNKNOWN = [ERROR, TIMEOUT, CRASHED]


class World:
    """What a tool does outside, call by call; its probe looks here."""

    def __init__(self, *replies: ToolReply, happens: bool = True) -> None:
        self.replies = list(replies)
        self.happens = happens
        self.done: list[dict[str, Any]] = []
        self.keys: list[str] = []

    def act(self, call: ToolCall) -> ToolReply:
        reply = self.replies.pop(0) if self.replies else ok("done")
        self.keys.append(call.idempotency_key)
        if reply.status == "ok" or (self.happens and reply.status != "not_done"):
            self.done.append(call.args)
        return reply

    def probe(self, call: ToolCall) -> ToolReply:
        return ok("found" if call.args in self.done else None)

    def compensate(self, call: ToolCall) -> ToolReply:
        self.done.remove(call.args)
        return ok()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def attempt(bench: Bench, order: WorkOrder | None = None, **fields: Any) -> Outcome:
    """One attempt by a new runner, as after a restart."""
    runner = bench.runner()
    await runner.submit([order or tool_order(**fields)])
    async with asyncio.timeout(5):
        await runner.wait()
    (outcome,) = runner.finished()
    await runner.close()
    return outcome


async def crash_in(bench: Bench, effect: EffectKind, args: dict[str, Any] | None = None) -> None:
    """What a crash between intent and outcome leaves in the ledger."""
    args = args or {}
    key = default_key("t1", "a", call_digest("tool", args))
    call = EffectCall(
        task_id="t1",
        key=key.key,
        scope=key.scope,
        subtask="a",
        attempt=1,
        tool="tool",
        effect=effect,
        args=args,
    )
    await bench.ledger.intend(call)
    bench.ledger.written.clear()


def kind_of(outcome: Outcome) -> str | None:
    return (outcome.get("failure") or {}).get("kind")


def strategy_of(outcome: Outcome) -> str | None:
    return (outcome.get("recovery") or {}).get("strategy")


# --- the common way --------------------------------------------------------------------------


async def test_a_reading_call_leaves_no_row(bench: Bench) -> None:
    bench.host.add("tool", lambda call: ok(1))
    assert (await attempt(bench))["ok"]
    assert bench.ledger.rows == {}


@pytest.mark.parametrize("effect", ["idempotent", "reversible", "irreversible"])
async def test_intent_is_written_before_the_call_and_the_outcome_after(
    bench: Bench, effect: EffectKind
) -> None:
    seen: list[str] = []

    def run(call: ToolCall) -> ToolReply:
        seen.extend(bench.ledger.written)
        return ok(1)

    bench.host.add("tool", run, effect=effect)
    assert (await attempt(bench))["ok"]
    assert seen == ["intent"]
    assert bench.ledger.written == ["intent", "done"]


@pytest.mark.parametrize("effect", ["reversible", "irreversible"])
async def test_the_ledger_answers_a_call_that_is_done(bench: Bench, effect: EffectKind) -> None:
    ref = await bench.store.artifact("x.txt", b"content")
    world = World(ok("first", ref), ok("second"))
    bench.host.add("tool", world.act, effect=effect)
    first = await attempt(bench, args={"to": "a"})
    again = await attempt(bench, args={"to": "a"}, attempt=2, recovering=True)
    assert first.get("calls") == 1
    assert again["ok"]
    assert again.get("result") == first.get("result") == {"value": "first"}
    assert again.get("artifacts") == [ref]
    assert again.get("calls") == 0
    assert strategy_of(again) == "resume at the step"
    assert world.done == [{"to": "a"}]


async def test_an_idempotent_call_is_simply_made_again(bench: Bench) -> None:
    world = World()
    bench.host.add("tool", world.act, effect="idempotent")
    await attempt(bench)
    again = await attempt(bench, attempt=2, recovering=True)
    assert len(world.done) == 2
    assert len(set(world.keys)) == 1
    assert strategy_of(again) == "rerun the subtask"


async def test_two_subtasks_with_the_same_call_make_two(bench: Bench) -> None:
    world = World()
    bench.host.add("tool", world.act, effect="irreversible")
    await attempt(bench, tool_order("a", args={"to": "x"}))
    await attempt(bench, tool_order("b", args={"to": "x"}))
    assert len(world.done) == 2


async def test_two_subtasks_with_the_same_own_key_make_one(bench: Bench) -> None:
    world, gate = World(), asyncio.Event()

    def run(call: ToolCall) -> asyncio.Future[ToolReply]:
        async def later() -> ToolReply:
            await gate.wait()
            return world.act(call)

        return asyncio.ensure_future(later())

    bench.host.add("tool", run, effect="irreversible", key=lambda args: args["ticket"])
    runner = bench.runner()
    args = {"ticket": "t-7"}
    await runner.submit([tool_order("a", args={**args, "text": "one"}), tool_order("b", args=args)])
    async with asyncio.timeout(5):
        while not bench.host.calls:
            await runner.wait(until=bench.clock.now)
            await asyncio.sleep(0)
        gate.set()
        while len(runner.finished()) < 2:
            await asyncio.sleep(0)
    assert [outcome["ok"] for outcome in runner.finished()] == [True, True]
    assert len(world.done) == 1
    assert world.keys == ["t1:t-7"]


@pytest.mark.parametrize(
    ("writes", "made"), [(None, 1), (["out/**"], 2), ([], 2)], ids=["unstated", "stated", "none"]
)
async def test_a_command_is_idempotent_only_when_its_writes_are_stated(
    bench: Bench, writes: list[str] | None, made: int
) -> None:
    world = World()
    bench.host.add("run_command", world.act, effect="irreversible", module="builtin")
    fields: dict[str, Any] = {"tool": "run_command", "args": {"command": "x"}, "writes": writes}
    await attempt(bench, **fields)
    await attempt(bench, attempt=2, **fields)
    assert len(world.done) == made


# --- failures that are known -----------------------------------------------------------------


@pytest.mark.parametrize("effect", ["idempotent", "reversible", "irreversible"])
async def test_not_done_is_a_failure_and_the_next_attempt_calls(
    bench: Bench, effect: EffectKind
) -> None:
    world = World(ToolReply(status="not_done", message="refused"))
    bench.host.add("tool", world.act, effect=effect)
    failed = await attempt(bench)
    assert kind_of(failed) == "tool_error"
    assert bench.ledger.state_of("a") == "failed"
    assert (await attempt(bench, attempt=2))["ok"]


@pytest.mark.parametrize(
    ("reply", "kind"), [(ERROR, "tool_error"), (TIMEOUT, "timeout"), (CRASHED, "crashed")]
)
@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_raise_of_a_harmless_call_is_a_failure(
    bench: Bench, effect: EffectKind, reply: ToolReply, kind: str
) -> None:
    bench.host.add("tool", World(reply).act, effect=effect)
    failed = await attempt(bench)
    assert kind_of(failed) == kind
    assert (failed.get("failure") or {}).get("retryable")


@pytest.mark.parametrize("kind", ["not_json", "result_too_large"])
@pytest.mark.parametrize("effect", ["read", "idempotent", "reversible", "irreversible"])
async def test_a_result_that_cannot_be_kept_fails_once(
    bench: Bench, effect: EffectKind, kind: str
) -> None:
    bench.host.add(
        "tool", World(ToolReply(status="bad_result", kind=kind, message="odd")).act, effect=effect
    )
    failed = await attempt(bench)
    assert kind_of(failed) == kind
    assert not (failed.get("failure") or {}).get("retryable")


async def test_an_effect_whose_result_was_lost_is_never_made_again(bench: Bench) -> None:
    world = World(ToolReply(status="bad_result", kind="result_too_large", message="90 MiB"))
    bench.host.add("tool", world.act, effect="irreversible")
    await attempt(bench)
    assert bench.ledger.state_of("a") == "done"
    again = await attempt(bench, attempt=2)
    assert kind_of(again) == "result_too_large"
    assert "90 MiB" in (again.get("failure") or {}).get("message", "")
    assert len(world.done) == 1


# --- the unknown, right after the call -------------------------------------------------------


@pytest.mark.parametrize("reply", UNKNOWN)
async def test_a_probe_that_finds_the_effect_gives_the_result(
    bench: Bench, reply: ToolReply
) -> None:
    world = World(reply)
    bench.host.add("tool", world.act, effect="irreversible", probe=world.probe)
    outcome = await attempt(bench)
    assert outcome["ok"]
    assert outcome.get("result") == {"value": "found"}
    assert outcome.get("calls") == 1
    assert bench.ledger.state_of("a") == "done"


async def test_an_empty_answer_of_a_probe_still_means_that_it_happened(bench: Bench) -> None:
    bench.host.add("tool", World(ERROR).act, effect="irreversible", probe=lambda call: ok({}))
    outcome = await attempt(bench)
    assert outcome.get("result") == {"value": {}}


@pytest.mark.parametrize("reply", UNKNOWN)
async def test_a_probe_that_finds_nothing_makes_it_a_failed_attempt(
    bench: Bench, reply: ToolReply
) -> None:
    world = World(reply, happens=False)
    bench.host.add("tool", world.act, effect="irreversible", probe=world.probe)
    failed = await attempt(bench)
    assert not failed["ok"]
    assert kind_of(failed) in ("tool_error", "timeout", "crashed")
    assert bench.ledger.state_of("a") == "failed"
    assert (await attempt(bench, attempt=2))["ok"]
    assert len(world.done) == 1


@pytest.mark.parametrize("reply", UNKNOWN)
async def test_without_a_probe_the_effect_is_compensated_and_the_attempt_failed(
    bench: Bench, reply: ToolReply
) -> None:
    world = World(reply)
    bench.host.add("tool", world.act, effect="reversible", compensate=world.compensate)
    failed = await attempt(bench)
    assert kind_of(failed) in ("tool_error", "timeout", "crashed")
    assert bench.ledger.state_of("a") == "compensated"
    assert (await attempt(bench, attempt=2))["ok"]
    assert bench.host.log == [("call", "tool"), ("compensate", "tool"), ("call", "tool")]
    assert len(world.done) == 1


@pytest.mark.parametrize("reply", UNKNOWN)
async def test_without_probe_and_compensation_a_person_is_asked(
    bench: Bench, reply: ToolReply
) -> None:
    world = World(reply)
    bench.host.add("tool", world.act, effect="irreversible")
    outcome = await attempt(bench, args={"to": "a@b"})
    question = outcome.get("question")
    assert question is not None
    assert question["kind"] == "unknown_effect"
    assert question["subtask"] == "a"
    for part in ("tool", '"to":"a@b"', reply.message, "surefoot resume t1"):
        assert part in question["text"]
    assert not outcome.get("failure")
    assert bench.ledger.state_of("a") == "intent"
    again = await attempt(bench, args={"to": "a@b"}, attempt=2, recovering=True)
    assert again.get("question")
    assert len(world.done) == 1


@pytest.mark.parametrize("probe", [ERROR, TIMEOUT, ToolReply(status="not_done", message="?")])
async def test_a_probe_that_cannot_tell_leads_to_a_person_and_resume_probes_again(
    bench: Bench, probe: ToolReply
) -> None:
    world = World(ERROR)
    answers = [probe]

    def ask(call: ToolCall) -> ToolReply:
        return answers.pop(0) if answers else world.probe(call)

    bench.host.add("tool", world.act, effect="irreversible", probe=ask)
    assert (await attempt(bench)).get("question")
    resumed = await attempt(bench, attempt=2, recovering=True)
    assert resumed["ok"]
    assert resumed.get("result") == {"value": "found"}
    assert len(world.done) == 1


async def test_a_probe_whose_process_was_killed_is_asked_again(bench: Bench) -> None:
    world, died = World(ERROR), [ToolReply(status="crashed"), ToolReply(status="crashed")]
    bench.host.add(
        "tool",
        world.act,
        effect="irreversible",
        probe=lambda call: died.pop() if died else world.probe(call),
    )
    outcome = await attempt(bench)
    assert outcome["ok"] and not died


async def test_a_probe_that_cannot_tell_leaves_the_compensation(bench: Bench) -> None:
    world = World(ERROR)
    bench.host.add(
        "tool",
        world.act,
        effect="reversible",
        probe=lambda call: TIMEOUT,
        compensate=world.compensate,
    )
    assert kind_of(await attempt(bench)) == "tool_error"
    assert bench.ledger.state_of("a") == "compensated"


async def test_a_failed_compensation_leads_to_a_person(bench: Bench) -> None:
    bench.host.add("tool", World(ERROR).act, effect="reversible", compensate=lambda call: ERROR)
    assert (await attempt(bench)).get("question")
    assert bench.ledger.state_of("a") == "intent"


async def test_where_nobody_may_be_asked_the_unknown_fails_for_good(bench: Bench) -> None:
    bench.host.add("tool", World(ERROR).act, effect="irreversible")
    failed = await attempt(bench, approve="never")
    assert kind_of(failed) == "unknown_effect"
    assert not (failed.get("failure") or {}).get("retryable")


async def test_a_probe_whose_answer_cannot_be_kept_still_settles_the_effect(bench: Bench) -> None:
    bench.host.add(
        "tool",
        World(ERROR).act,
        effect="irreversible",
        probe=lambda call: ToolReply(status="bad_result", kind="not_json", message="a set"),
    )
    assert kind_of(await attempt(bench)) == "not_json"
    assert bench.ledger.state_of("a") == "done"


# --- the unknown, after a crash --------------------------------------------------------------


@pytest.mark.parametrize("happened", [True, False])
async def test_after_a_crash_the_probe_decides(bench: Bench, happened: bool) -> None:
    world = World()
    if happened:
        world.done.append({})
    bench.host.add("tool", world.act, effect="irreversible", probe=world.probe)
    await crash_in(bench, "irreversible")
    outcome = await attempt(bench, attempt=2, recovering=True)
    assert outcome["ok"]
    assert outcome.get("result") == {"value": "found" if happened else "done"}
    assert outcome.get("calls") == (0 if happened else 1)
    assert strategy_of(outcome) == ("resume at the step" if happened else "rerun the subtask")
    assert bench.ledger.written == (["done"] if happened else ["failed", "intent", "done"])
    assert len(world.done) == 1


async def test_after_a_crash_the_unknown_is_compensated_and_done_anew(bench: Bench) -> None:
    world = World()
    world.done.append({})
    bench.host.add("tool", world.act, effect="reversible", compensate=world.compensate)
    await crash_in(bench, "reversible")
    outcome = await attempt(bench, attempt=2, recovering=True)
    assert outcome["ok"]
    assert strategy_of(outcome) == "rerun the subtask"
    assert bench.ledger.written == ["compensated", "intent", "done"]
    assert len(world.done) == 1


async def test_after_a_crash_without_any_evidence_a_person_is_asked(bench: Bench) -> None:
    world = World()
    bench.host.add("tool", world.act, effect="irreversible")
    await crash_in(bench, "irreversible")
    outcome = await attempt(bench, attempt=2, recovering=True)
    assert outcome.get("question")
    assert strategy_of(outcome) == "ask a person"
    assert world.done == []


async def test_a_crash_before_the_intent_just_calls(bench: Bench) -> None:
    bench.host.add("tool", World().act, effect="irreversible")
    outcome = await attempt(bench, attempt=2, recovering=True)
    assert outcome["ok"]
    assert strategy_of(outcome) == "rerun the subtask"


async def test_a_compensated_call_is_done_again(bench: Bench) -> None:
    world = World()
    bench.host.add("tool", world.act, effect="reversible", compensate=world.compensate)
    await attempt(bench)
    ((place, row),) = bench.ledger.rows.items()
    from dataclasses import replace

    bench.ledger.rows[place] = replace(row, state="compensated")
    assert (await attempt(bench, attempt=2)).get("calls") == 1


async def test_an_own_key_is_found_again_under_another_wording(bench: Bench) -> None:
    world = World()
    bench.host.add("tool", world.act, effect="irreversible", key=lambda args: args["ticket"])
    await attempt(bench, args={"ticket": "7", "body": "Hello"})
    again = await attempt(bench, args={"ticket": "7", "body": "Good day"}, attempt=2)
    assert again["ok"]
    assert len(world.done) == 1
    assert (own_key("t1", "tool", "7").key, "") in bench.ledger.rows
