"""What the measurement of reliability holds the product against."""

import pytest

from benchmarks.odds import Scenario, drawn, formulas, with_bound
from surefoot.graph.votes import chance_of_right, expected_votes


def scenario(name: str, **changed: float) -> Scenario:
    given = {"seed": 1, "e": 0.05, "subtasks": 200, **changed}
    return Scenario(name=name, seed=int(given["seed"]), e=given["e"], subtasks=200)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("p", [0.6, 0.95])
def test_a_vote_with_very_many_samples_is_the_vote_of_the_formulas(p: float, k: int) -> None:
    right, samples = with_bound(p, k, most=2000, attempts=1)
    assert right == pytest.approx(chance_of_right(p, k))
    assert samples == pytest.approx(expected_votes(p, k))


def test_a_bounded_vote_is_gone_through_by_hand() -> None:
    # k = 2 of at most 3 samples, p = 0.9. Right: RR 0.81. Wrong: WW 0.01. Else one each after two
    # samples, and nobody can win with the third.
    right, samples = with_bound(0.9, 2, most=3, attempts=1)
    assert (right, samples) == (pytest.approx(0.81), pytest.approx(2.0))
    right, samples = with_bound(0.9, 2, most=3, attempts=2)
    assert (right, samples) == (pytest.approx(0.81 * 1.18), pytest.approx(2.0 * 1.18))


def test_the_formulas_are_those_of_independent_attempts() -> None:
    assert formulas(scenario("unchecked"))["run"] == pytest.approx(3.5e-5, rel=0.01)
    checked = formulas(scenario("checked"))
    assert checked["run"] == pytest.approx((1 - 0.05**5) ** 200)
    assert checked["answers_a_subtask"] == pytest.approx(1 + 0.05 + 0.05**2 + 0.05**3 + 0.05**4)


@pytest.mark.parametrize("name", ["checked", "unchecked", "votes-3"])
def test_the_draws_follow_the_formulas(name: str) -> None:
    runs = [drawn(scenario(name), run) for run in range(40)]
    asked = sum(times for _, times in runs) / (40 * 200)
    assert asked == pytest.approx(formulas(scenario(name))["answers_a_subtask"], rel=0.03)
    assert (sum(good for good, _ in runs) > 30) == (name != "unchecked")


def test_a_model_that_is_never_wrong_is_asked_once() -> None:
    assert drawn(scenario("checked", e=0.0), 0) == (True, 200)
    assert drawn(scenario("votes-2", e=0.0), 0) == (True, 400)
