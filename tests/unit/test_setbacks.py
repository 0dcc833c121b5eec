"""What a run does when its database fails again and again."""

from surefoot.graph.setbacks import Setbacks


def test_the_first_failure_is_tried_again_at_once_and_later_ones_after_growing_pauses() -> None:
    setbacks = Setbacks(300)
    pauses = [setbacks.pause_s(saved=5, now=float(n)) for n in range(10)]
    assert pauses == [0, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10]


def test_failures_without_anything_saved_are_given_up_after_their_time() -> None:
    setbacks = Setbacks(300)
    assert setbacks.pause_s(saved=1, now=0) == 0
    assert setbacks.pause_s(saved=1, now=299.9) is not None
    assert setbacks.pause_s(saved=1, now=300) is None


def test_what_was_saved_in_between_begins_a_new_count() -> None:
    setbacks = Setbacks(300)
    assert [setbacks.pause_s(saved=1, now=t) for t in (0, 1, 2)] == [0, 0.2, 0.4]
    assert setbacks.pause_s(saved=2, now=400) == 0
