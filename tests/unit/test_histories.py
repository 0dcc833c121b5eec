"""Histories after a crash: every call has exactly one answer behind it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from surefoot.graph.histories import NOT_CARRIED_OUT, call_ids, in_order, repaired


def assistant(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": [{"id": id} for id in ids]}


def answer(id: str, text: str = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


IDS = st.sampled_from(["1", "2", "3"])
MESSAGE: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({"role": "user", "content": "go on"}),
    st.lists(IDS, max_size=3, unique=True).map(lambda ids: assistant(*ids)),
    IDS.map(answer),
)


def test_a_call_without_an_answer_gets_one_that_says_so() -> None:
    history = [assistant("1", "2"), answer("1")]
    assert repaired(history) == [assistant("1", "2"), answer("1"), answer("2", NOT_CARRIED_OUT)]


def test_answers_come_in_the_order_of_the_calls_and_strays_go() -> None:
    history = [answer("0"), assistant("1", "2"), answer("2"), answer("1"), answer("1"), answer("9")]
    assert repaired(history) == [assistant("1", "2"), answer("1"), answer("2")]


@given(st.lists(MESSAGE, max_size=12))
def test_a_strict_server_accepts_whatever_was_repaired(history: list[dict[str, Any]]) -> None:
    mended = repaired(history)
    waiting: list[str] = []
    for message in mended:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert not waiting
            waiting = call_ids(message)
    assert not waiting
    assert repaired(mended) == mended


def test_a_history_by_step_is_read_in_the_order_it_was_written() -> None:
    history = {"0": [answer("1"), answer("2")], "10": [], "9": [answer("3")]}
    assert in_order(history) == [answer("1"), answer("2"), answer("3")]
    assert in_order(None) == []
