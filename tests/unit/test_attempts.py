"""The policy of attempts, rungs, timeouts and limits, with the arithmetic shown."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.graph.attempts import (
    after_failure,
    effect_of,
    failure_code,
    full_jitter_delay_s,
    max_attempts,
    timeout_s,
    wants_improvement,
)
from surefoot.graph.budget import effective_limits, exhausted, steps_left
from surefoot.graph.plan import Subtask, rung_work
from surefoot.graph.ports import EffectKind, ToolSpec
from surefoot.graph.task import Budget
from surefoot.graph.values import Failure, Record, Usage

BOOM = Failure(kind="tool_error", message="boom", retryable=True)


def subtask(**fields: Any) -> Subtask:
    return Subtask.model_validate({"id": "s", "kind": "tool", "tool": "t", **fields})


def spec(effect: EffectKind, **fields: Any) -> ToolSpec:
    return ToolSpec(name="t", description="", schema={}, effect=effect, **fields)


@pytest.mark.parametrize(
    ("effect", "importance", "attempts", "seconds"),
    [
        ("read", "normal", 5, 30),
        ("read", "core", 7, 30),
        ("read", "edge", 4, 30),
        ("idempotent", "normal", 3, 120),
        ("reversible", "normal", 2, 120),
        ("reversible", "edge", 1, 120),
        ("irreversible", "normal", 1, 300),
        ("irreversible", "core", 1, 300),
        ("irreversible", "edge", 1, 300),
    ],
)
def test_defaults_follow_effect_and_importance(
    effect: EffectKind, importance: str, attempts: int, seconds: float
) -> None:
    unit = subtask(importance=importance)
    assert max_attempts(unit, unit, rung=0, spec=spec(effect)) == attempts
    assert timeout_s(unit, spec(effect)) == seconds


def test_an_agent_has_fifteen_minutes_and_three_attempts() -> None:
    unit = subtask(kind="agent", tool=None, instructions="x")
    assert (max_attempts(unit, unit, rung=0, spec=None), timeout_s(unit, None)) == (3, 900)


def test_the_subtask_goes_before_the_decorator_and_that_before_the_default() -> None:
    decorated = spec("read", max_attempts=9, timeout_s=7.0)
    plain = subtask()
    stated = subtask(retries={"max_attempts": 2}, timeout_seconds=3)
    assert max_attempts(plain, plain, rung=0, spec=decorated) == 9
    assert timeout_s(plain, decorated) == 7.0
    assert max_attempts(stated, stated, rung=0, spec=decorated) == 2
    assert timeout_s(stated, decorated) == 3.0


def test_a_rung_has_one_attempt_and_inherits_what_it_does_not_state() -> None:
    unit = subtask(
        outputs=["a.json"],
        timeout_seconds=9,
        success=[{"type": "result", "path": "x"}],
        on_failure=[{"kind": "tool", "tool": "simple"}, "fail"],
    )
    work = rung_work(unit, 1)
    assert work is not None
    assert (work.outputs, work.timeout_seconds, work.success) == (["a.json"], 9, unit.success)
    assert max_attempts(unit, work, rung=1, spec=spec("read")) == 1
    assert rung_work(unit, 2) is None


def test_run_command_is_idempotent_once_its_writes_are_stated() -> None:
    command = ToolSpec(
        name="run_command", description="", schema={}, effect="irreversible", module="builtin"
    )
    assert effect_of(command, subtask()) == "irreversible"
    assert effect_of(command, subtask(writes=[])) == "idempotent"


def choose(unit: Subtask, record: Record, failure: Failure = BOOM, **more: Any) -> tuple[str, int]:
    facts: dict[str, Any] = {"allowed": 2, "null_reference": False, "draw": 0.5, **more}
    choice = after_failure(unit, record, failure, **facts)
    return choice.kind, choice.rung


def test_attempts_come_first_then_the_rungs_one_by_one_then_failure() -> None:
    unit = subtask(skippable=True, on_failure=[{"kind": "tool", "tool": "simple"}, "ask", "skip"])
    assert choose(unit, Record()) == ("retry", 0)
    assert choose(unit, Record(tries=1)) == ("degrade", 1)
    assert choose(unit, Record(rung=1), allowed=1) == ("ask", 2)
    assert choose(unit, Record(rung=2), allowed=1) == ("skip", 3)
    assert choose(unit, Record(rung=3), allowed=1) == ("fail", 3)
    assert choose(subtask(), Record(tries=1)) == ("fail", 0)


@pytest.mark.parametrize(
    "kind", ["bad_arguments", "bad_reference", "result_too_large", "not_json", "prohibited"]
)
def test_what_another_try_cannot_change_is_not_retried(kind: str) -> None:
    failure = Failure(kind=kind, message="x", retryable=True)
    assert choose(subtask(), Record(), failure) == ("fail", 0)


def test_a_null_that_breaks_the_schema_skips_a_skippable_subtask() -> None:
    failure = Failure(kind="bad_arguments", message="x", retryable=False)
    assert choose(subtask(skippable=True), Record(), failure, null_reference=True)[0] == "skip"
    assert choose(subtask(), Record(), failure, null_reference=True)[0] == "fail"


@given(st.integers(0, 10_000), st.floats(0, 100), st.floats(0, 1, exclude_max=True))
def test_a_wait_is_never_longer_than_a_minute(failed: int, backoff: float, draw: float) -> None:
    assert 0 <= full_jitter_delay_s(failed, backoff_s=backoff, draw=draw) <= 60


def test_the_wait_doubles_with_every_failure() -> None:
    # 0.5 * 2**n for n = 0, 1, 2 with a draw of 0.5: 0.25, 0.5, 1.0
    waits = [full_jitter_delay_s(n, backoff_s=0.5, draw=0.5) for n in range(3)]
    assert waits == [0.25, 0.5, 1.0]


def test_a_degraded_result_is_owed_one_full_try() -> None:
    unit = subtask(on_failure=[{"kind": "tool", "tool": "simple", "improve_later": True}])
    assert wants_improvement(unit, Record(state="completed", rung=1))
    assert not wants_improvement(unit, Record(state="completed", rung=1, improved=True))
    assert not wants_improvement(unit, Record(state="completed"))


def test_a_named_failure_keeps_its_name_as_the_tasks_code() -> None:
    named = Failure(kind="bad_reference", message="x", retryable=False)
    assert (failure_code(named), failure_code(BOOM)) == ("bad_reference", "attempts_exhausted")


def test_limits_grow_with_the_plan_unless_somebody_set_them() -> None:
    small, large = effective_limits(Budget(), leaves=10), effective_limits(Budget(), leaves=1000)
    assert (small["max_steps"], large["max_steps"]) == (10_000, 20_000)
    assert (small["max_failures"], large["max_failures"]) == (50, 1000)
    budget = Budget(max_steps=5, max_failures=0)
    stated = effective_limits(budget, leaves=1000, raised={"max_steps": 7})
    assert (stated["max_steps"], stated["max_failures"]) == (7, 0)


def test_exactly_n_are_allowed() -> None:
    limits = effective_limits(Budget(max_steps=3, max_failures=2, max_seconds=10), leaves=1)
    usage = Usage(steps=2, tokens=0, cost_usd=0.0, seconds=9.9, failures=2)
    assert exhausted(limits, usage) is None
    assert steps_left(limits, usage, reserved=0) == 1
    assert steps_left(limits, usage, reserved=1) == 0
    over = exhausted(limits, {**usage, "failures": 3})
    late = exhausted(limits, {**usage, "seconds": 10.0})
    assert over is not None and over["code"] == "too_many_failures"
    assert late is not None and late["code"] == "deadline"
