"""Idempotency keys: same meaning, same key; anything else, another."""

import pytest

from surefoot.graph.keys import CallCounter, call_digest, default_key, own_key


def test_order_of_arguments_does_not_change_the_digest() -> None:
    assert call_digest("send", {"to": "a", "body": "b"}) == call_digest(
        "send", {"body": "b", "to": "a"}
    )


@pytest.mark.parametrize(
    ("tool", "args"),
    [("post", {"to": "a"}), ("send", {"to": "b"}), ("send", {}), ("send", {"to": ["a"]})],
)
def test_another_tool_or_argument_is_another_call(tool: str, args: dict[str, object]) -> None:
    assert call_digest(tool, args) != call_digest("send", {"to": "a"})


def test_a_default_key_answers_its_subtask_only() -> None:
    call = call_digest("send", {"to": "a"})
    one, other = default_key("t1", "a", call), default_key("t1", "b", call)
    assert (one.key, one.scope) == (f"{call}#1", "a")
    assert one.key == other.key
    assert (one.scope, other.scope) == ("a", "b")
    assert one.idempotency_key == f"t1:a:{call[:16]}#1"
    assert one.idempotency_key != other.idempotency_key


def test_an_own_key_is_one_effect_for_the_whole_task() -> None:
    key = own_key("t1", "send", "ticket-7")
    assert key.scope == ""
    assert key.idempotency_key == "t1:ticket-7"
    assert key == own_key("t1", "send", "ticket-7")


def test_two_tools_with_the_same_own_key_are_two_effects() -> None:
    assert own_key("t1", "send", "7").key != own_key("t1", "charge", "7").key


def test_an_own_key_that_no_index_could_hold_is_cut_but_stays_distinct() -> None:
    long, longer = own_key("t1", "send", "x" * 10_000), own_key("t1", "send", "x" * 10_001)
    assert len(long.key) < 600
    assert long.key != longer.key


def test_odd_text_gives_a_stable_storable_key() -> None:
    key = own_key("t1", "send", "a\x00\ud83d")
    assert key == own_key("t1", "send", "a\x00\ud83d")
    key.key.encode()
    assert "\x00" not in key.key
    call_digest("send", {"body": "a\x00\ud83d"})


def test_identical_calls_of_one_attempt_are_counted_apart() -> None:
    counter, call = CallCounter(), call_digest("send", {})
    assert [counter.next(call), counter.next("other"), counter.next(call)] == [1, 1, 2]
    assert CallCounter().next(call) == 1
    assert default_key("t1", "a", call, 2).key.endswith("#2")
