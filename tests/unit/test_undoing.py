"""Failed attempts leave nothing: compensations, `undo`, and people where those fail."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_bench import AgentBench, agent_order
from fakes import Bench, ok, tool_order
from scripted import finishes, wants

from surefoot.graph.ports import EffectKind, ToolCall, ToolReply, WorkOrder
from surefoot.graph.questions import parse_answer
from surefoot.graph.values import Json, Outcome
from surefoot.tools.compensating import TAKING_BACK

ERROR = ToolReply(status="error", message="connection lost")
WRONG = [{"type": "result", "equals": "right"}]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr("surefoot.tools.compensating.BACKOFF_S", 0.0)
    return Bench(tmp_path)


class World:
    """What was done and undone outside, in order."""

    def __init__(self, *replies: ToolReply) -> None:
        self.said: list[str] = []
        self.replies = list(replies)

    def does(self, word: str, reply: ToolReply | None = None) -> Any:
        def act(call: ToolCall) -> ToolReply:
            self.said.append(word)
            return reply or (self.replies.pop(0) if self.replies else ok(word))

        return act


async def attempt(bench: Bench, order: WorkOrder | None = None, **fields: Any) -> Outcome:
    """One attempt by a new runner, as after a restart."""
    runner = bench.runner()
    await runner.submit([order or tool_order(**fields)])
    async with asyncio.timeout(5):
        await runner.wait()
    (outcome,) = runner.finished()
    await runner.close()
    return outcome


def add(bench: Bench, world: World, effect: EffectKind = "reversible", **more: Any) -> None:
    compensate = world.does("undo", ok()) if effect == "reversible" else None
    given: dict[str, Any] = {"compensate": compensate, **more}
    bench.host.add("tool", world.does("do"), effect=effect, **given)


def kind_of(outcome: Outcome) -> str | None:
    return (outcome.get("failure") or {}).get("kind")


def question_of(outcome: Outcome) -> Any:
    question = outcome.get("question")
    assert question is not None, outcome
    return question


def answered(order: WorkOrder, outcome: Outcome, answer: Json, **changed: Any) -> WorkOrder:
    """The next attempt after a person has answered the question of an outcome."""
    question = question_of(outcome)
    given: dict[str, Any] = {
        "attempt": order.attempt + 1,
        "recovering": True,
        "said": {**order.said, question["id"]: parse_answer(question, answer)},
        "undoing": outcome.get("failure"),
    }
    return replace(order, **{**given, **changed})


# --- compensations ---------------------------------------------------------------------------


async def test_a_failed_attempt_is_compensated_and_the_retry_does_it_anew(bench: Bench) -> None:
    world = World()
    add(bench, world)
    failed = await attempt(bench, success=WRONG)
    assert kind_of(failed) == "check_failed"
    assert bench.ledger.state_of("a") == "compensated"
    assert (await attempt(bench, attempt=2))["ok"]
    assert world.said == ["do", "undo", "do"]
    assert bench.host.known == ["do"], "the compensation is given the result"


async def test_an_irreversible_effect_stays_and_answers_the_retry(bench: Bench) -> None:
    world = World()
    add(bench, world, "irreversible")
    assert kind_of(await attempt(bench, success=WRONG)) == "check_failed"
    assert (await attempt(bench, attempt=2)).get("calls") == 0
    assert world.said == ["do"]


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_of_a_harmless_call_nothing_is_undone_and_the_ledger_not_asked(
    bench: Bench, effect: EffectKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def of_subtask(task_id: str, subtask: str) -> list[Any]:
        raise AssertionError("asked")

    monkeypatch.setattr(bench.ledger, "of_subtask", of_subtask)
    add(bench, World(), effect)
    assert kind_of(await attempt(bench, success=WRONG)) == "check_failed"


async def test_an_effect_that_another_attempt_did_is_undone_with_the_one_that_fails(
    bench: Bench,
) -> None:
    world = World()
    add(bench, world)
    await attempt(bench)
    await attempt(bench, attempt=2, recovering=True, success=WRONG)
    assert world.said == ["do", "undo"]


async def test_what_stands_from_before_a_full_try_is_left_alone(bench: Bench) -> None:
    world = World()
    add(bench, world)
    await attempt(bench, args={"n": 1})
    order = tool_order(attempt=3, args={"n": 2}, success=WRONG, action="improve")
    await attempt(bench, replace(order, since=2))
    assert world.said == ["do", "do", "undo"]
    assert [row.state for row in bench.ledger.rows.values()] == ["done", "compensated"]


async def test_a_lost_result_is_asked_of_the_probe_or_a_person(bench: Bench) -> None:
    world = World()
    order = tool_order(success=WRONG)

    def large_then_lost(call: ToolCall) -> ToolReply:
        world.said.append("do")
        return ok("x" * 20_000)

    bench.host.add("tool", large_then_lost, effect="reversible", compensate=world.does("undo"))
    await attempt(bench)
    bench.store.blobs.clear()
    asked = await attempt(bench, order, attempt=2)
    question = question_of(asked)
    assert question["kind"] == "undo_failed" and "is missing" in question["text"]
    assert world.said == ["do"], "it is not told that nothing is known"
    bench.host.add(
        "tool",
        large_then_lost,
        effect="reversible",
        compensate=world.does("undo", ok()),
        probe=lambda _: ok("found"),
    )
    retry = answered(order, asked, "retry")
    assert kind_of(await attempt(bench, retry)) == kind_of(asked)
    assert world.said == ["do", "undo"] and bench.host.known == ["found"]
    assert bench.ledger.state_of("a") == "compensated"


async def test_a_compensation_is_tried_again_and_then_a_person_is_asked(bench: Bench) -> None:
    world = World()
    add(bench, world, compensate=world.does("undo", ERROR))
    order = tool_order(success=WRONG, args={"to": "x"})
    outcome = await attempt(bench, order)
    question = question_of(outcome)
    assert world.said == ["do", "undo", "undo", "undo"]
    assert (question["kind"], question["choices"]) == ("undo_failed", ["undone", "retry"])
    for part in ('tool({"to":"x"})', "'a'", "connection lost"):
        assert part in question["text"]
    assert kind_of(outcome) == "check_failed", "the failure that is undone goes with it"
    assert bench.ledger.state_of("a") == "intent"


async def test_undone_by_hand_the_failure_is_told_and_the_retry_does_it_anew(bench: Bench) -> None:
    world = World()
    add(bench, world, compensate=world.does("undo", ERROR))
    order = tool_order(success=WRONG)
    outcome = await attempt(bench, order)
    told = await attempt(bench, answered(order, outcome, "undone"))
    assert (kind_of(told), told.get("question")) == ("check_failed", None)
    assert bench.ledger.state_of("a") == "compensated"
    assert (await attempt(bench, attempt=3))["ok"]
    assert world.said == ["do", "undo", "undo", "undo", "do"]


async def test_told_to_retry_the_compensation_is_made_again_and_asked_about_anew(
    bench: Bench,
) -> None:
    world = World()
    add(bench, world, compensate=world.does("undo", ERROR))
    order = tool_order(success=WRONG)
    first = await attempt(bench, order)
    order = answered(order, first, "retry")
    second = await attempt(bench, order)
    assert question_of(second)["id"] != question_of(first)["id"]
    add(bench, world)
    assert kind_of(await attempt(bench, answered(order, second, "retry"))) == "check_failed"
    assert bench.ledger.state_of("a") == "compensated"


async def test_where_nobody_may_be_asked_a_blocked_way_back_fails_for_good(bench: Bench) -> None:
    world = World()
    add(bench, world, compensate=world.does("undo", ERROR))
    outcome = await attempt(bench, success=WRONG, approve="never")
    assert kind_of(outcome) == "undo_failed"
    assert not (outcome.get("failure") or {}).get("retryable")


async def test_a_kill_while_it_is_taken_back_leaves_an_effect_that_is_found_out(
    bench: Bench,
) -> None:
    gate: asyncio.Future[ToolReply] = asyncio.get_running_loop().create_future()
    world = World()

    def hangs(call: ToolCall) -> asyncio.Future[ToolReply]:
        return gate

    add(bench, world, compensate=hangs)
    runner = bench.runner()
    await runner.submit([tool_order(success=WRONG)])
    async with asyncio.timeout(5):
        while not bench.host.in_flight:
            await asyncio.sleep(0)
    (row,) = bench.ledger.rows.values()
    assert (row.state, row.note, row.result) == ("intent", TAKING_BACK, {"value": "do"})
    gate.set_result(ToolReply(status="cut"))
    await runner.close()
    add(bench, world)
    assert (await attempt(bench, attempt=2, recovering=True))["ok"]
    assert world.said == ["do", "undo", "do"]
    assert bench.host.known == ["do", "do"], "the result was not forgotten"


# --- undo ------------------------------------------------------------------------------------

UNDO: dict[str, Any] = {"undo": {"tool": "clean", "args": {"of": "a"}}}


@pytest.mark.parametrize("effect", ["idempotent", "irreversible", "reversible"])
async def test_the_undo_runs_after_the_compensations_once_an_attempt(
    bench: Bench, effect: EffectKind
) -> None:
    world = World()
    add(bench, world)
    bench.host.add("clean", world.does("clean"), effect=effect, compensate=world.does("no"))
    order = tool_order(success=WRONG, **UNDO)
    await attempt(bench, order)
    await attempt(bench, replace(order, attempt=2))
    assert world.said == ["do", "undo", "clean"] * 2


async def test_the_undo_clears_what_nobody_knows_about_the_one_call(bench: Bench) -> None:
    world = World(ERROR)
    add(bench, world, "irreversible")
    bench.host.add("clean", world.does("clean", ok()), effect="idempotent")
    failed = await attempt(bench, **UNDO)
    assert (kind_of(failed), failed.get("question")) == ("tool_error", None)
    assert (await attempt(bench, attempt=2, **UNDO))["ok"]
    assert world.said == ["do", "clean", "do"]


async def test_what_the_undo_cleared_is_done_anew_after_a_failed_check(bench: Bench) -> None:
    world = World()
    add(bench, world, "irreversible")
    bench.host.add("clean", world.does("clean", ok()), effect="idempotent")
    await attempt(bench, success=WRONG, **UNDO)
    assert bench.ledger.rows[next(iter(bench.ledger.rows))].state == "compensated"
    assert (await attempt(bench, attempt=2, **UNDO))["ok"]
    assert world.said == ["do", "clean", "do"]


async def test_a_cut_call_is_cleared_before_it_is_made_again(bench: Bench) -> None:
    world = World(ToolReply(status="cut"))
    add(bench, world, "irreversible")
    bench.host.add("clean", world.does("clean", ok()), effect="irreversible")
    assert (await attempt(bench, **UNDO)).get("cut")
    outcome = await attempt(bench, attempt=2, recovering=True, **UNDO)
    assert outcome["ok"]
    assert world.said == ["do", "clean", "do"]
    assert (outcome.get("recovery") or {})["strategy"] == "rerun the subtask"
    assert "cleared by the subtask's undo" in (outcome.get("recovery") or {})["reason"]


async def test_a_call_that_never_began_is_not_cleared(bench: Bench) -> None:
    world = World()
    add(bench, world, "irreversible")
    bench.host.add("clean", world.does("clean", ok()), effect="idempotent")
    await attempt(bench, attempt=2, recovering=True, **UNDO)
    await attempt(bench, tool_order("b", args={"x": "${no.where}"}, **UNDO))
    assert world.said == ["do"]


async def test_an_undo_whose_outcome_nobody_knows_is_put_to_a_person(bench: Bench) -> None:
    world = World()
    add(bench, world)
    bench.host.add("clean", world.does("clean", ERROR), effect="irreversible")
    order = tool_order(success=WRONG, **UNDO)
    outcome = await attempt(bench, order)
    assert question_of(outcome)["kind"] == "undo_failed"
    assert "undo (clean)" in question_of(outcome)["text"]
    again = await attempt(bench, answered(order, outcome, "undone"))
    assert kind_of(again) == "check_failed"
    assert world.said == ["do", "undo", "clean"]


async def test_told_to_retry_an_unknown_undo_counts_as_not_done_once(bench: Bench) -> None:
    world = World()
    add(bench, world)
    bench.host.add("clean", world.does("clean", ERROR), effect="irreversible")
    order = tool_order(success=WRONG, **UNDO)
    outcome = await attempt(bench, order)
    order = answered(order, outcome, "retry")
    assert question_of(await attempt(bench, order))
    assert world.said == ["do", "undo", "clean", "clean"]
    await attempt(bench, replace(order, attempt=3))  # killed, and nobody has answered since
    assert world.said == ["do", "undo", "clean", "clean"]


async def test_an_undo_that_cannot_be_called_is_put_to_a_person(bench: Bench) -> None:
    world = World()
    add(bench, world)
    order = tool_order(success=WRONG, **UNDO)
    outcome = await attempt(bench, order)
    assert "no tool 'clean'" in question_of(outcome)["text"]
    assert kind_of(await attempt(bench, answered(order, outcome, "undone"))) == "check_failed"


# --- work that may not be resumed ------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "said"),
    [("reversible", ["do", "undo", "do"]), ("irreversible", ["do"]), ("idempotent", ["do", "do"])],
)
async def test_what_may_not_be_resumed_starts_from_scratch(
    bench: Bench, effect: EffectKind, said: list[str]
) -> None:
    world = World()
    add(bench, world, effect)
    await attempt(bench, resumable=False)
    outcome = await attempt(bench, attempt=2, recovering=True, resumable=False)
    assert outcome["ok"]
    assert world.said == said
    assert (outcome.get("recovery") or {})["strategy"] == "rerun the subtask"


async def test_what_may_not_be_resumed_runs_its_undo_once(bench: Bench) -> None:
    world = World(ToolReply(status="cut"))
    add(bench, world, "idempotent")
    bench.host.add("clean", world.does("clean", ok()), effect="irreversible")
    fields: dict[str, Any] = {"resumable": False, **UNDO}
    await attempt(bench, **fields)
    assert (await attempt(bench, attempt=2, recovering=True, **fields))["ok"]
    assert world.said == ["do", "clean", "do"]


# --- agents ----------------------------------------------------------------------------------


@pytest.fixture
def agents(tmp_path: Path) -> AgentBench:
    return AgentBench.at(tmp_path)


async def test_a_failed_go_of_an_agent_is_undone_newest_first_and_done_anew(
    agents: AgentBench,
) -> None:
    said: list[str] = []

    def does(word: str) -> Any:
        def act(call: ToolCall) -> ToolReply:
            said.append(f"{word} {call.args['n']}")
            return ok()

        return act

    agents.host.add("book", does("book"), effect="reversible", compensate=does("unbook"))
    agents.host.add("send", does("send"), effect="irreversible")
    calls = wants(("book", {"n": 1}), ("send", {"n": 1}), ("book", {"n": 2}))
    agents.model.script = [calls, finishes("wrong")]
    tools = ["book", "send"]
    failed = await agents.run(agent_order(tools=tools, success=WRONG))
    assert kind_of(failed) == "check_failed"
    done = ["book 1", "send 1", "book 2", "unbook 2", "unbook 1"]
    assert said == done
    agents.model.script = [calls, finishes("right")]
    again = await agents.run(agent_order(tools=tools, success=WRONG, attempt=2))
    assert again["ok"]
    assert said == [*done, "book 1", "book 2"], "what cannot be undone has answered"


async def test_a_go_that_was_being_undone_fails_when_it_is_taken_up_again(
    agents: AgentBench,
) -> None:
    agents.host.add("book", lambda call: ok(), effect="reversible", compensate=lambda call: ok())
    agents.model.script = [wants(("book", {"n": 1})), finishes("wrong")]
    order = agent_order(tools=["book"], success=WRONG)
    await agents.run(order)
    good = agent_order(tools=["book"], attempt=2, go=1, recovering=True)
    assert kind_of(await agents.run(good)) == "undone_halfway"


async def test_a_spent_budget_undoes_nothing(agents: AgentBench) -> None:
    from surefoot.graph.errors import BudgetExhausted

    undone: list[ToolCall] = []

    def undo(call: ToolCall) -> ToolReply:
        undone.append(call)
        return ok()

    agents.host.add("book", lambda call: ok(), effect="reversible", compensate=undo)
    agents.model.script = [wants(("book", {"n": 1})), BudgetExhausted("max_tokens", "none left")]
    assert kind_of(await agents.run(agent_order(tools=["book"]))) == "budget_exhausted"
    assert undone == []


async def test_an_agent_that_may_not_be_resumed_finds_out_before_a_new_go(
    agents: AgentBench,
) -> None:
    agents.host.add("send", lambda call: ToolReply(status="cut"), effect="irreversible")
    agents.model.script = [wants(("send", {"n": 1}))]
    await agents.run(agent_order(tools=["send"], resumable=False))
    order = agent_order(tools=["send"], resumable=False, attempt=2, go=2, recovering=True)
    agents.model.script = [finishes(1)]
    asked = await agents.run(order)
    assert question_of(asked)["kind"] == "unknown_effect"
    assert len(agents.model.turns) == 1, "the new go has not begun"
    assert (await agents.run(answered(order, asked, "not_done", go=3, undoing=None)))["ok"]
    assert agents.bench.ledger.state_of("a") == "failed"
