from hypothesis import given
from hypothesis import strategies as st

from surefoot.models.brake import (
    LONGEST_BACKOFF_S,
    SPREAD_S,
    STORM_AFTER,
    Brake,
    full_jitter_s,
)
from surefoot.models.refusals import refusal, retry_after_s


def busy(brake: Brake, now: float, *, left_at: float, after: float | None = None) -> float:
    return brake.failed(now, left_at=left_at, busy=True, retry_after_s=after, draw=0.5)


def broken(brake: Brake, now: float) -> float:
    return brake.failed(now, left_at=now, busy=False, retry_after_s=None, draw=0.5)


@given(failures=st.integers(0, 10_000), draw=st.floats(0, 1, exclude_max=True))
def test_a_backoff_is_never_negative_and_never_beyond_the_longest(
    failures: int, draw: float
) -> None:
    assert 0 <= full_jitter_s(failures, draw=draw) < LONGEST_BACKOFF_S


def test_in_calm_everybody_may_leave_at_once() -> None:
    brake = Brake()
    assert [brake.enter(0.0, draw=0.9) for _ in range(100)] == [0.0] * 100


def test_nobody_leaves_before_the_announced_time_and_those_after_it_are_spread() -> None:
    brake = Brake()
    brake.enter(0.0, draw=0.0)
    busy(brake, 1.0, left_at=0.0, after=3.0)
    brake.leave()
    assert brake.enter(3.9, draw=0.0) > 0
    waits = [brake.enter(2.0, draw=draw / 10) for draw in range(10)]
    assert all(2.0 <= wait < 2.0 + SPREAD_S for wait in waits)
    assert len(set(waits)) == 10
    assert brake.enter(4.0, draw=0.0) == 0.0


def test_in_a_storm_one_probes_and_each_success_doubles_how_many_may_leave() -> None:
    brake = Brake()
    busy(brake, 0.0, left_at=0.0, after=1.0)
    assert brake.enter(1.0, draw=0.5) == 0.0
    assert brake.enter(1.0, draw=0.5) > 0
    brake.accepted()
    assert [brake.enter(1.0, draw=0.5) == 0.0 for _ in range(3)] == [True, False, False]
    for _ in range(6):
        brake.accepted()
    assert (brake.window, brake.stormy_since) == (None, None)


def test_a_failed_probe_keeps_the_others_waiting_longer() -> None:
    brake = Brake()
    busy(brake, 0.0, left_at=0.0)
    first = left_at = brake.blocked_until
    for _ in range(6):
        left_at = brake.blocked_until
        assert brake.enter(left_at, draw=0.0) == 0.0
        busy(brake, left_at + 0.01, left_at=left_at)
        brake.leave()
    assert brake.failures == 7
    assert brake.blocked_until - left_at > first


def test_failures_of_one_wave_make_the_wait_longer_only_once() -> None:
    brake = Brake()
    waits = [busy(brake, 1.0 + n / 100, left_at=0.0) for n in range(20)]
    assert (brake.failures, set(waits)) == (1, {0.5})


def test_a_single_broken_answer_holds_up_nobody_else_and_a_row_of_them_does() -> None:
    brake = Brake()
    for now in range(STORM_AFTER - 1):
        broken(brake, float(now))
        assert brake.enter(float(now), draw=0.0) == 0.0
        brake.leave()
    broken(brake, float(STORM_AFTER))
    assert brake.enter(float(STORM_AFTER), draw=0.0) > 0


def test_one_silent_call_says_nothing_about_the_server() -> None:
    brake = Brake()
    for now in range(10):
        brake.failed(
            float(now), left_at=now - 1.0, busy=False, retry_after_s=None, draw=0.5, counts=False
        )
    assert brake.enter(10.0, draw=0.0) == 0.0


def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    now = 1_000_000_000.0  # Sun, 09 Sep 2001 01:46:40 GMT
    assert retry_after_s("3", now=now) == 3.0
    assert retry_after_s("2.5", now=now) == 2.5
    assert retry_after_s("Sun, 09 Sep 2001 01:46:43 GMT", now=now) == 3.0
    assert retry_after_s("Sun, 09 Sep 2001 01:46:00 GMT", now=now) == 0.0
    assert retry_after_s("-5", now=now) == 0.0
    assert retry_after_s("9e99", now=now) == 24 * 3600.0
    for nonsense in (None, "soon", "", "nan"):
        assert retry_after_s(nonsense, now=now) is None


def test_what_a_status_means_depends_on_it_and_on_what_it_says() -> None:
    def named(status: int, said: str = "", *sent: str, after: str | None = None) -> tuple[str, str]:
        headers = {} if after is None else {"retry-after": after}
        failed = refusal(status, headers, said, sent=frozenset(sent), now=0.0)
        assert failed.unpaid
        return failed.sort, failed.code if failed.sort == "refused" else ""

    assert named(429) == named(503) == named(529) == ("busy", "")
    assert named(500) == named(502) == named(408) == ("broken", "")
    assert named(500, after="2") == ("busy", "")
    assert named(401) == named(403) == ("refused", "unauthorized")
    assert named(404) == ("refused", "unknown_model")
    assert named(400, "maximum context length is 4096") == ("refused", "context_exceeded")
    assert named(400, "json_schema is not supported", "response_format") == (
        "refused",
        "unsupported",
    )
    assert named(400, "json_schema is not supported") == ("refused", "bad_request")
    assert named(404, "this model does not support tools", "tools") == ("refused", "unsupported")
