"""Votes among samples of an agent: independent threads, red flags, first to be ahead."""

from pathlib import Path
from typing import Any

import pytest
from agent_bench import AgentBench, agent_order
from fakes import ok
from scripted import finishes, says, wants

from surefoot.graph.errors import ModelUnavailable
from surefoot.graph.values import Outcome
from surefoot.tools.content_checks import in_child
from surefoot.tools.stopping import Stop


@pytest.fixture
def agents(tmp_path: Path) -> AgentBench:
    return AgentBench.at(tmp_path)


class Died(BaseException):
    """What a test lets end the process's part of a vote."""


def puts(n: int) -> Any:
    return wants(("write_artifact", {"n": n}), ("finish", {"result": "done"}))


def voting(ahead_by: int, max_samples: int, *, red_flags: Any = None, **more: Any) -> Any:
    votes = {"ahead_by": ahead_by, "max_samples": max_samples, "red_flags": red_flags}
    return agent_order(votes=votes, **more)


def failure(outcome: Outcome) -> str:
    return (outcome.get("failure") or {"kind": ""})["kind"]


async def test_the_first_answer_to_be_ahead_by_two_wins(agents: AgentBench) -> None:
    agents.model.script = [finishes("Yes"), finishes("no"), finishes(" yes "), finishes("YES")]
    outcome = await agents.run(voting(2, 9))
    assert outcome.get("result") == {"value": "Yes"}
    assert [turn.sample for turn in agents.model.turns] == [1, 2, 3, 4]
    assert all(not turn.messages for turn in agents.model.turns)


async def test_samples_share_no_messages_and_steps_are_counted_through(
    agents: AgentBench,
) -> None:
    agents.host.add("look", lambda call: ok())
    agents.model.script = [wants(("look", {})), finishes(1), wants(("look", {})), finishes(1)]
    outcome = await agents.run(voting(2, 3, tools=["look"]))
    assert outcome["ok"]
    assert outcome.get("calls") == 2
    assert [len(turn.messages) for turn in agents.model.turns] == [0, 2, 0, 2]
    assert [step for *_, state, _, step in agents.steps if state == "calling"] == [1, 2, 3, 5, 6, 7]


async def test_an_election_without_a_winner_fails_as_soon_as_that_is_sure(
    agents: AgentBench,
) -> None:
    agents.model.script = [finishes("a"), finishes("b"), finishes("never asked")]
    outcome = await agents.run(voting(2, 3))
    assert failure(outcome) == "no_majority"
    assert (outcome.get("failure") or {}).get("retryable")
    assert len(agents.model.turns) == 2


@pytest.mark.parametrize(
    ("flags", "bad"),
    [
        ({"max_chars": 3}, "long"),
        ({"max_tokens": 50}, "ok"),
        ({"json_schema": {"type": "string"}}, 7),
        ({"pattern": "^[a-z]+$"}, "A1"),
    ],
)
async def test_samples_with_a_red_flag_are_thrown_away(
    agents: AgentBench, flags: dict[str, Any], bad: Any
) -> None:
    agents.host.check_answer = lambda call, context: in_child(context)
    agents.model.script = [finishes(bad, tokens=60), finishes("ok"), finishes("ok")]
    outcome = await agents.run(voting(2, 3, red_flags=flags))
    assert outcome.get("result") == {"value": "ok"}
    agents.model.script = [finishes(bad, tokens=60), finishes(bad, tokens=60)]
    assert failure(await agents.run(voting(2, 3, red_flags=flags, attempt=2))) == "no_majority"


async def test_a_sample_that_fails_by_itself_is_thrown_away_but_a_missing_model_ends_the_vote(
    agents: AgentBench,
) -> None:
    agents.model.script = [says("a"), says("b"), says("c"), finishes(1)]
    assert (await agents.run(voting(1, 2)))["ok"]
    agents.model.script = [finishes(1), ModelUnavailable("503")]
    assert failure(await agents.run(voting(2, 9, attempt=2))) == "model_unavailable"


async def test_declared_outputs_are_voted_on_and_the_winners_are_kept(agents: AgentBench) -> None:
    store = agents.bench.store
    texts = iter([b"one", b"two", b" Two\n"])
    refs: list[Any] = []

    def put(call: Any) -> Any:
        return ok(None, refs[len(agents.host.calls) - 1])

    for text in texts:
        refs.append(await store.artifact("sum.md", text))  # noqa: PERF401 - awaited one by one
    agents.host.add("write_artifact", put, effect="idempotent", module="builtin")
    agents.model.script = [puts(n) for n in range(3)]
    outcome = await agents.run(voting(1, 1, tools=["write_artifact"], outputs=["sum.md"]))
    assert outcome.get("artifacts") == [refs[0]]
    agents.host.calls.clear()
    agents.model.script = [puts(n) for n in range(3)]
    order = voting(2, 4, tools=["write_artifact"], outputs=["sum.md"], attempt=2)
    failed = await agents.run(order)  # one, two, two: ahead by one only, so a fourth is asked for
    assert "script is over" in (failed.get("failure") or {})["message"]


async def test_finished_samples_are_counted_again_after_a_restart_and_not_paid(
    agents: AgentBench,
) -> None:
    def dies(turn: Any) -> Any:
        raise Died

    agents.model.script = [finishes("a"), finishes("b"), dies]
    with pytest.raises(Died):
        await agents.run(voting(2, 9))
    agents.model.script = [finishes("a"), finishes("a")]
    votes = {"ahead_by": 2, "max_samples": 9}
    outcome = await agents.run(agent_order(votes=votes, attempt=2, go=1, recovering=True))
    assert outcome.get("result") == {"value": "a"}
    assert [turn.sample for turn in agents.model.turns] == [1, 2, 3, 3, 4]


async def test_a_pause_between_samples_loses_none(agents: AgentBench) -> None:
    stop = Stop()

    def eases(turn: Any) -> Any:
        stop.easing = True
        return wants(("look", {}))

    agents.host.add("look", lambda call: ok())
    agents.model.script = [finishes("a"), eases]
    outcome = await agents.run(voting(2, 9, tools=["look"]), stop=stop)
    assert outcome.get("cut")
    agents.model.script = [finishes("a")]
    votes = {"ahead_by": 2, "max_samples": 9}
    order = agent_order(votes=votes, tools=["look"], attempt=2, go=1, recovering=True)
    assert (await agents.run(order)).get("result") == {"value": "a"}
