"""Votes: who wins, what is the same answer, and the formulas against simulation."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.graph.votes import (
    ballot,
    chance_of_all,
    chance_of_right,
    expected_cost,
    expected_votes,
    least_ahead_by,
    tally,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Yes", " yes\n"),
        ("a  b", "A\tB"),
        ("\uff21", "a"),
        (1, 1.0),
        ("42", 42),
        ("42.50", 42.5),
        ("1e3", 1000),
        ({"a": 1, "b": "X"}, {"b": "x", "a": 1.0}),
        (["Straße"], ["STRASSE"]),
        (0, "-0.0"),
    ],
)
def test_answers_that_differ_in_spelling_alone_agree(one: object, other: object) -> None:
    assert ballot(one) == ballot(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (True, 1),
        (None, ""),
        ("a b", "ab"),
        ([1, 2], [2, 1]),
        (10**40, 10**40 + 1),
        (0.1, 0.10000001),
        ({"a": 1}, {"A": 1}),
        ("1e999999999", "1e999999998"),
    ],
)
def test_answers_that_differ_in_more_do_not_agree(one: object, other: object) -> None:
    assert ballot(one) != ballot(other)


@given(JSON)
def test_every_value_has_a_ballot_that_is_its_own(value: object) -> None:
    assert ballot(value) == ballot(value)


def test_the_first_to_be_ahead_wins() -> None:
    assert tally(["a"], ahead_by=2, left=3).state == "open"
    assert tally(["a", "b", "a"], ahead_by=2, left=3).state == "open"
    assert tally(["a", "b", "a", "a"], ahead_by=2, left=3).winner == "a"


def test_an_election_that_cannot_be_won_any_more_is_over() -> None:
    assert tally(["a", "b"], ahead_by=2, left=1).state == "no_majority"
    assert tally([], ahead_by=1, left=0).state == "no_majority"
    assert tally([], ahead_by=1, left=1).state == "open"


def simulate(p: float, k: int, draw: random.Random) -> tuple[bool, int]:
    """One vote against one rival: (the right one won, samples taken)."""
    lead, samples = 0, 0
    while abs(lead) < k:
        lead += 1 if draw.random() < p else -1
        samples += 1
    return lead > 0, samples


@pytest.mark.parametrize(("p", "k"), [(0.6, 1), (0.6, 3), (0.75, 2), (0.9, 3), (0.5, 3), (0.4, 2)])
def test_the_formulas_hold_in_a_simulation(p: float, k: int) -> None:
    draw, n = random.Random(f"{p}/{k}"), 20_000
    runs = [simulate(p, k, draw) for _ in range(n)]
    # Four standard errors: of a share at most sqrt(1/4n); votes spread by less than 4k².
    assert abs(sum(right for right, _ in runs) / n - chance_of_right(p, k)) < 4 * (0.25 / n) ** 0.5
    mean = sum(samples for _, samples in runs) / n
    assert abs(mean - expected_votes(p, k)) < 4 * (4 * k**2) / n**0.5


def test_votes_of_many_steps_cost_and_hold_as_the_paper_says() -> None:
    assert chance_of_right(0.9, 2) == pytest.approx(0.81 / (0.81 + 0.01))
    assert chance_of_all(0.9, 2, 10) == pytest.approx((0.81 / 0.82) ** 10)
    # P = 0.81 / 0.82, so 2P - 1 = 0.8 / 0.82, and 2 * that / 0.8 = 2 / 0.82
    assert expected_votes(0.9, 2) == pytest.approx(2 / 0.82)
    assert expected_cost(0.9, 2, steps=100, cost=3, valid=0.5) == pytest.approx(
        100 * 3 * 2 / 0.82 / 0.5
    )


@given(st.floats(0.51, 0.999), st.floats(0.5, 0.999), st.integers(1, 1_000_000))
def test_the_least_k_reaches_the_target_and_one_less_does_not(
    p: float, target: float, steps: int
) -> None:
    k = least_ahead_by(p, target, steps)
    assert chance_of_all(p, k, steps) >= target - 1e-9
    assert k == 1 or chance_of_all(p, k - 1, steps) < target + 1e-9


def test_certain_samples_need_one_vote_and_coins_never_suffice() -> None:
    assert least_ahead_by(1.0, 0.99, 10) == 1
    assert expected_votes(1.0, 3) == 3
    assert expected_votes(0.0, 3) == 3
    with pytest.raises(ValueError, match="no k"):
        least_ahead_by(0.5, 0.99, 10)
