"""People on effects: approval before a call, unknown outcomes, other effects after a rollback."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_bench import AgentBench, agent_order
from fakes import Bench, ok, tool_order
from scripted import finishes, told, wants

from surefoot.graph.ports import EffectKind, ToolCall, ToolReply, WorkOrder
from surefoot.graph.questions import parse_answer
from surefoot.graph.values import Json, Outcome

ERROR = ToolReply(status="error", message="connection lost")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def agents(tmp_path: Path) -> AgentBench:
    return AgentBench.at(tmp_path)


async def attempt(bench: Bench, order: WorkOrder) -> Outcome:
    """One attempt by a new runner, as after a restart."""
    runner = bench.runner()
    await runner.submit([order])
    async with asyncio.timeout(5):
        await runner.wait()
    (outcome,) = runner.finished()
    await runner.close()
    return outcome


def question_of(outcome: Outcome, kind: str) -> Any:
    question = outcome.get("question")
    assert question is not None, outcome
    assert question["kind"] == kind
    return question


def answered(order: WorkOrder, outcome: Outcome, answer: Json, **changed: Any) -> WorkOrder:
    """The next attempt after a person has answered the question of an outcome."""
    question = outcome.get("question")
    assert question is not None
    said = {**order.said, question["id"]: parse_answer(question, answer)}
    goes_on: dict[str, Any] = {"recovering": True, "answered": True, **changed}
    return replace(order, attempt=order.attempt + 1, said=said, **goes_on)


def kind_of(outcome: Outcome) -> str | None:
    return (outcome.get("failure") or {}).get("kind")


def unbook(call: ToolCall) -> ToolReply:
    return ok()


def ticket_of(args: dict[str, str]) -> str:
    return args["ticket"]


# --- approve ---------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["read", "idempotent", "reversible", "irreversible"])
async def test_a_call_waits_for_approval_and_leaves_no_trace_before(
    bench: Bench, effect: EffectKind
) -> None:
    more: dict[str, Any] = {"compensate": unbook} if effect == "reversible" else {}
    bench.host.add("tool", lambda call: ok(1), effect=effect, **more)
    order = tool_order(approve="always", args={"to": "x"})
    outcome = await attempt(bench, order)
    question = question_of(outcome, "approve")
    assert 'tool({"to":"x"})' in question["text"]
    assert question["choices"] == ["yes", "no"]
    assert (bench.host.calls, bench.ledger.rows) == ([], {})
    allowed = await attempt(bench, answered(order, outcome, True))
    assert allowed["ok"] and "recovery" not in allowed, "nothing of it was cut"
    assert len(bench.host.calls) == 1


async def test_a_cut_after_an_approval_is_recovered_by_name(bench: Bench) -> None:
    bench.host.add("tool", lambda call: ok(1), effect="irreversible")
    order = tool_order(approve="always")
    approved = answered(order, await attempt(bench, order), True)
    killed_before_it_began = replace(approved, attempt=3, answered=False)
    recovery = (await attempt(bench, killed_before_it_began)).get("recovery") or {}
    assert recovery["reason"] == "no effect of it stands in the ledger"


async def test_a_call_that_is_not_allowed_fails_and_is_not_made(bench: Bench) -> None:
    bench.host.add("tool", lambda call: ok(1), effect="irreversible")
    order = tool_order(approve="always")
    refused = await attempt(bench, answered(order, await attempt(bench, order), False))
    assert kind_of(refused) == "not_approved"
    assert not (refused.get("failure") or {}).get("retryable")
    assert bench.host.calls == []


async def test_other_arguments_need_another_approval(bench: Bench) -> None:
    bench.host.add("tool", lambda call: ok(1), effect="irreversible")
    order = tool_order(approve="always", args={"to": "x"})
    outcome = await attempt(bench, order)
    other = tool_order(approve="always", args={"to": "y"})
    again = answered(order, outcome, True, unit=other.unit, work=other.work)
    asked = question_of(await attempt(bench, again), "approve")
    assert asked["id"] != question_of(outcome, "approve")["id"]
    assert bench.host.calls == []


async def test_a_call_that_has_begun_needs_no_second_approval(bench: Bench) -> None:
    bench.host.add(
        "tool",
        lambda call: ToolReply(status="cut"),
        effect="irreversible",
        probe=lambda call: ok("found"),
    )
    order = tool_order(approve="always")
    approved = answered(order, await attempt(bench, order), True)
    assert (await attempt(bench, approved)).get("cut")
    forgotten = replace(approved, attempt=3, said={})
    assert (await attempt(bench, forgotten)).get("result") == {"value": "found"}


async def test_each_call_of_an_agent_is_approved_by_itself(agents: AgentBench) -> None:
    agents.host.add("look", lambda call: ok())
    agents.host.add("send", lambda call: ok("sent"), effect="irreversible")
    agents.model.script = [wants(("look", {}), ("send", {"n": 1}), ("send", {"n": 1}))]
    order = agent_order(tools=["look", "send"], approve="always")
    first = await agents.run(order)
    assert [call.tool for call in agents.host.calls] == ["look"]
    order = answered(order, first, True, go=1)
    second = await agents.run(order)
    assert question_of(second, "approve")["id"] != question_of(first, "approve")["id"]
    agents.model.script = [finishes(1)]
    done = await agents.run(answered(order, second, False, go=1))
    assert done["ok"] and "recovery" not in done, "an answer is no mishap"
    assert [call.tool for call in agents.host.calls] == ["look", "send"]
    assert "a person did not allow the call" in told(agents.model.turns[-1])[-1]


# --- unknown outcomes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "result", "made"),
    [
        ("done", {"value": None}, 1),
        ({"done": True, "result": {"n": 7}}, {"value": {"n": 7}}, 1),
        ("not_done", {"value": "second"}, 2),
        ({"done": False}, {"value": "second"}, 2),
    ],
)
async def test_what_a_person_says_settles_an_unknown_effect(
    bench: Bench, answer: Json, result: Any, made: int
) -> None:
    replies = [ERROR, ok("second")]
    bench.host.add("tool", lambda call: replies.pop(0), effect="irreversible")
    order = tool_order()
    outcome = await attempt(bench, order)
    assert question_of(outcome, "unknown_effect")["choices"] == ["done", "not_done", "fail"]
    again = await attempt(bench, answered(order, outcome, answer))
    assert again.get("result") == result
    assert len(bench.host.calls) == made
    assert bench.ledger.state_of("a") == "done"


async def test_a_person_may_give_an_unknown_effect_up(bench: Bench) -> None:
    bench.host.add("tool", lambda call: ERROR, effect="irreversible")
    order = tool_order()
    given_up = await attempt(bench, answered(order, await attempt(bench, order), "fail"))
    assert kind_of(given_up) == "unknown_effect"
    assert len(bench.host.calls) == 1


async def test_an_answer_is_about_the_call_that_was_asked_about_and_no_later_one(
    bench: Bench,
) -> None:
    bench.host.add("tool", lambda call: ToolReply(status="cut"), effect="irreversible")
    order = tool_order()
    await attempt(bench, order)
    asking = replace(order, attempt=2, recovering=True)
    outcome = await attempt(bench, asking)
    again = answered(asking, outcome, "not_done")
    assert (await attempt(bench, again)).get("cut"), "it is made again, and cut again"
    third = await attempt(bench, replace(again, attempt=4))
    assert question_of(third, "unknown_effect")
    assert len(bench.host.calls) == 2


async def test_without_an_answer_the_probe_is_asked_again(bench: Bench) -> None:
    probes = [ERROR, ok("found")]
    bench.host.add(
        "tool", lambda call: ERROR, effect="irreversible", probe=lambda call: probes.pop(0)
    )
    order = tool_order()
    assert question_of(await attempt(bench, order), "unknown_effect")
    again = await attempt(bench, replace(order, attempt=2, recovering=True))
    assert again.get("result") == {"value": "found"}


# --- after a rollback ------------------------------------------------------------------------


async def rolled_back(bench: Bench, *orders: WorkOrder) -> None:
    """Work was done, then taken back; its irreversible effects stand."""
    for order in orders:
        assert (await attempt(bench, order))["ok"]
    await bench.ledger.leave_standing("t1", [*bench.ledger.rows.values()])
    bench.host.calls.clear()


def sender(bench: Bench, **more: Any) -> None:
    bench.host.add("tool", lambda call: ok(f"sent {call.args}"), effect="irreversible", **more)


async def test_the_same_call_after_a_rollback_is_answered_and_stands_again(bench: Bench) -> None:
    sender(bench)
    await rolled_back(bench, tool_order(args={"to": "x"}))
    again = await attempt(bench, tool_order(attempt=2, args={"to": "x"}))
    assert (again["ok"], again.get("calls")) == (True, 0)
    assert [row.rolled_back for row in bench.ledger.rows.values()] == [False]


async def test_another_subtask_takes_over_what_was_left_and_only_one_of_them(bench: Bench) -> None:
    sender(bench)
    await rolled_back(bench, tool_order("a", args={"to": "x"}))
    assert (await attempt(bench, tool_order("b", args={"to": "x"}))).get("calls") == 0
    assert (await attempt(bench, tool_order("c", args={"to": "x"}))).get("calls") == 1


async def test_the_plans_own_second_call_is_no_answer_without_a_rollback(bench: Bench) -> None:
    sender(bench)
    await attempt(bench, tool_order("a", args={"to": "x"}))
    assert (await attempt(bench, tool_order("b", args={"to": "x"}))).get("calls") == 1


@pytest.mark.parametrize(
    ("answer", "made", "result"), [("do", 1, "sent {'to': 'y'}"), ("reuse", 0, "sent {'to': 'x'}")]
)
async def test_another_meaning_after_a_rollback_is_put_to_a_person(
    bench: Bench, answer: str, made: int, result: str
) -> None:
    sender(bench)
    await rolled_back(bench, tool_order(args={"to": "x"}))
    order = tool_order(attempt=2, args={"to": "y"})
    outcome = await attempt(bench, order)
    question = question_of(outcome, "other_effect")
    for part in ('tool({"to":"x"})', 'tool({"to":"y"})'):
        assert part in question["text"]
    assert question["choices"] == ["do", "reuse", "fail"]
    assert bench.host.calls == []
    again = await attempt(bench, answered(order, outcome, answer))
    assert (again.get("result"), len(bench.host.calls)) == ({"value": result}, made)


async def test_a_person_may_give_another_effect_up(bench: Bench) -> None:
    sender(bench)
    await rolled_back(bench, tool_order(args={"to": "x"}))
    order = tool_order(attempt=2, args={"to": "y"})
    outcome = await attempt(bench, answered(order, await attempt(bench, order), "fail"))
    assert kind_of(outcome) == "other_effect"


async def test_where_nobody_may_be_asked_another_effect_fails(bench: Bench) -> None:
    sender(bench)
    await rolled_back(bench, tool_order(args={"to": "x"}))
    outcome = await attempt(bench, tool_order(attempt=2, args={"to": "y"}, approve="never"))
    assert kind_of(outcome) == "other_effect"
    assert bench.host.calls == []


async def test_an_own_key_means_the_same_under_another_wording_after_a_rollback(
    bench: Bench,
) -> None:
    sender(bench, key=ticket_of)
    await rolled_back(bench, tool_order(args={"ticket": "7", "body": "Hello"}))
    again = await attempt(bench, tool_order(attempt=2, args={"ticket": "7", "body": "Hi"}))
    assert (again["ok"], again.get("calls")) == (True, 0)


async def test_an_agent_that_words_its_calls_anew_after_a_rollback(agents: AgentBench) -> None:
    agents.host.add("send", lambda call: ok("sent"), effect="irreversible")
    agents.model.script = [wants(("send", {"n": 1}), ("send", {"n": 2})), finishes(1)]
    assert (await agents.run(agent_order(tools=["send"])))["ok"]
    ledger = agents.bench.ledger
    await ledger.leave_standing("t1", [*ledger.rows.values()])
    agents.model.script = [wants(("send", {"n": 2}), ("send", {"n": 3})), finishes(1)]
    order = agent_order(tools=["send"], attempt=2)
    asked = await agents.run(order)
    assert question_of(asked, "other_effect")
    assert len(agents.host.calls) == 2, "the second has answered, the third is asked about"
    assert (await agents.run(answered(order, asked, "do", go=2)))["ok"]
    assert [call.args["n"] for call in agents.host.calls] == [1, 2, 3]
