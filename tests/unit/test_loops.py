"""Loop detection: the same calls with the same results, back to back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.graph.loops import LONGEST_STRETCH, STOP_AT, judged, loop_message, repetitions

PAIR = st.tuples(st.sampled_from("abc"), st.sampled_from("xy"))


@pytest.mark.parametrize(
    ("calls", "verdict"),
    [
        ("", "fresh"),
        ("aa", "fresh"),
        ("aaa", "warn"),
        ("baaaa", "warn"),
        ("aaaaa", "loop"),
        ("ababab", "warn"),
        ("xababababab", "loop"),
        ("abcabcabcabcabc", "loop"),
        ("aaaab", "fresh"),
    ],
)
def test_stretches_that_come_back_to_back_are_loops(calls: str, verdict: str) -> None:
    assert judged([(call, "same") for call in calls]) == verdict


@given(st.lists(st.sampled_from("ab"), max_size=40))
def test_polling_whose_result_changes_is_no_loop(calls: list[str]) -> None:
    assert repetitions([(call, str(n)) for n, call in enumerate(calls)]) <= 1


@given(st.lists(PAIR, max_size=10), st.lists(PAIR, min_size=1, max_size=LONGEST_STRETCH))
def test_a_stretch_that_came_five_times_is_a_loop_whatever_was_before(
    before: list[tuple[str, str]], stretch: list[tuple[str, str]]
) -> None:
    assert judged([*before, *stretch * STOP_AT]) == "loop"


@given(st.lists(PAIR, max_size=30))
def test_counts_are_bounded_by_the_calls_there_were(calls: list[tuple[str, str]]) -> None:
    assert 0 <= repetitions(calls) <= len(calls)


def test_the_message_names_the_calls_and_bounds_their_arguments() -> None:
    message = loop_message([("look", {"x": "y" * 1000})], 5)
    assert "look(" in message
    assert len(message) < 300
