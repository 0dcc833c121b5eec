import pytest

from surefoot.graph.budget import effective_limits
from surefoot.graph.spending import Account, Cost, cost_of
from surefoot.graph.task import Budget, Price
from surefoot.graph.values import EffectiveLimits, Usage


def limits(**stated: float) -> EffectiveLimits:
    return effective_limits(Budget.model_validate(stated), leaves=1)


def account(*, tokens: int = 0, cost_usd: float = 0.0) -> Account:
    return Account(
        Usage(steps=0, tokens=tokens, cost_usd=cost_usd, seconds=0.0, failures=0), call_steps=0
    )


def test_a_call_costs_what_its_tokens_cost_per_million() -> None:
    # 1000 * 1.0 / 1e6 + 500 * 4.0 / 1e6 = 0.001 + 0.002
    cost = cost_of(Price(input=1.0, output=4.0), prompt=1000, answer=500)
    assert cost.tokens == 1500
    assert cost.cost_usd == pytest.approx(0.003)  # pyright: ignore[reportUnknownMemberType]
    assert cost_of(None, prompt=1000, answer=500) == Cost(tokens=1500)


def test_a_limit_of_n_tokens_allows_exactly_n() -> None:
    one = account(tokens=60)
    assert one.refusal(Cost(tokens=40), limits(max_tokens=100)) is None
    refused = one.refusal(Cost(tokens=41), limits(max_tokens=100))
    assert refused is not None
    assert refused.limit == "max_tokens"
    assert "60 tokens used and up to 41 more" in str(refused)


def test_what_is_set_aside_for_others_cannot_be_set_aside_again() -> None:
    one = account()
    one.reserve(Cost(tokens=70))
    assert one.refusal(Cost(tokens=31), limits(max_tokens=100)) is not None
    one.settle(Cost(tokens=70), Cost(tokens=10))
    assert one.refusal(Cost(tokens=90), limits(max_tokens=100)) is None
    assert (one.usage["tokens"], one.reserved, one.under_way) == (10, Cost(tokens=0), 0)


def test_a_limit_of_cost_holds_to_the_cent_and_names_itself() -> None:
    one = account(cost_usd=0.3)
    # 0.3 + 3 * 0.1 is above 0.6 in binary fractions: that is no dollar.
    for _ in range(2):
        one.reserve(Cost(tokens=1, cost_usd=0.1))
    assert one.refusal(Cost(tokens=1, cost_usd=0.1), limits(max_cost_usd=0.6)) is None
    refused = one.refusal(Cost(tokens=1, cost_usd=0.11), limits(max_cost_usd=0.6))
    assert refused is not None
    assert refused.limit == "max_cost_usd"


def test_no_reservation_is_left_of_fractions_when_nothing_is_under_way() -> None:
    one = account()
    costs = [Cost(tokens=1, cost_usd=n / 10) for n in (1, 2, 3)]
    for cost in costs:
        one.reserve(cost)
    for cost in costs:
        one.settle(cost, cost)
    assert one.reserved == Cost(tokens=0)


def test_a_row_read_again_brings_back_orders_and_keeps_calls() -> None:
    one = account(tokens=500)
    one.usage["steps"], one.call_steps = 10, 4  # six by orders, one of them in a lost superstep
    row = Usage(steps=8, tokens=100, cost_usd=0.0, seconds=5.0, failures=1)
    one.reload(row, call_steps=3)  # five by orders, three calls
    assert (one.usage["steps"], one.call_steps, one.order_steps()) == (9, 4, 5)
    assert (one.usage["tokens"], one.usage["failures"]) == (500, 1)


def test_sums_of_dollars_carry_no_noise() -> None:
    one = account()
    for _ in range(20):
        one.reserve(Cost(tokens=1, cost_usd=0.1))
        one.settle(Cost(tokens=1, cost_usd=0.1), Cost(tokens=1, cost_usd=0.0014))
    assert one.usage["cost_usd"] == 0.028
