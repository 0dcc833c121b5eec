"""Folding a long history: one summary for the old, the newest as they were, pairs never split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.graph.head import pin
from surefoot.graph.model_ports import Brief, Message, Turn
from surefoot.models.counting import message_tokens, messages_tokens
from surefoot.models.folding import SUMMARY_SCHEMA, fold_of, folded, summary_ask
from surefoot.models.history import is_summary, split, units
from surefoot.models.requests import Window, build_request

HEAD = pin({"objective": "Count the ships."})["head"]
WINDOW = Window(tokens=4000, answer=800)


def turn(messages: list[Message], matter: str = "Count them.") -> Turn:
    brief = Brief(head=HEAD["text"], head_digest=HEAD["sha256"])
    return Turn(
        brief=brief, matter=matter, messages=messages, tools=[], subtask="s", attempt=1, step=1
    )


def step(n: int, text: str = "") -> list[Message]:
    function = {"name": "look", "arguments": f'{{"place": {n}}}'}
    asked = {"id": f"c{n}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {
            "role": "tool",
            "tool_call_id": f"c{n}",
            "content": text or f"{n} ships " + "at sea " * 20,
        },
    ]


def steps(count: int) -> list[Message]:
    return [message for n in range(count) for message in step(n)]


def test_a_history_that_fits_is_left_alone() -> None:
    assert fold_of(turn(steps(3)), WINDOW) is None


def test_old_messages_become_one_summary_and_the_newest_stay_as_they_were() -> None:
    history = steps(60)
    fold = fold_of(turn(history), WINDOW)
    assert fold is not None
    assert [*fold.old, *fold.kept] == history
    made = folded(fold, "All places up to 40 were looked at; 820 ships.")
    assert made[1:] == list(fold.kept)
    assert is_summary(made[0])
    assert "820 ships" in made[0]["content"]
    assert fold_of(turn(made), WINDOW) is None
    assert build_request(turn([]).brief, "m", made, window=WINDOW).overflow == 0


@pytest.mark.parametrize("text", [None, "", "  ", "word " * 4000])
def test_without_a_usable_summary_the_program_makes_one(text: str | None) -> None:
    fold = fold_of(turn(steps(60)), WINDOW)
    assert fold is not None
    first = folded(fold, text)[0]
    assert message_tokens(first) <= fold.most
    assert "called look(" in first["content"]
    assert "ships" in first["content"]


def test_the_summary_call_is_a_request_like_any_other_and_fits() -> None:
    fold = fold_of(turn(steps(60), matter="Count " * 300), WINDOW)
    assert fold is not None
    ask = summary_ask(turn(steps(60)), fold, WINDOW)
    request = build_request(ask.brief, ask.matter, window=WINDOW)
    assert (ask.call, ask.schema) == ("summary", SUMMARY_SCHEMA)
    assert request.tokens <= WINDOW.prompt
    assert request.messages[0]["content"] == HEAD["text"]


def test_a_thousand_steps_are_folded_now_and_then_not_at_every_step() -> None:
    history: list[Message] = []
    folds = 0
    for n in range(1000):
        fold = fold_of(turn(history), WINDOW)
        if fold:
            folds += 1
            history = folded(fold, f"{n} places seen" if n % 2 else None)
        request = build_request(turn([]).brief, "m", history, window=WINDOW)
        assert request.tokens <= WINDOW.prompt
        history = [*history, *step(n)]
    assert folds < 200


def test_one_huge_output_is_no_reason_to_fold() -> None:
    assert fold_of(turn(step(1, "x y " * 50_000)), WINDOW) is None


@given(st.lists(st.integers(1, 3), max_size=20), st.integers(0, 3000))
def test_splitting_loses_nothing_and_parts_no_call_from_its_results(
    shapes: list[int], most: int
) -> None:
    history: list[Message] = []
    for n, results in enumerate(shapes):
        asked = [step(10 * n + k)[0]["tool_calls"][0] for k in range(results)]
        history.append({"role": "assistant", "content": None, "tool_calls": asked})
        history += [step(10 * n + k)[1] for k in range(results)]
    parts = split(history, most)
    assert [m for unit in (*parts.old, *parts.kept) for m in unit] == history
    assert all(unit[0]["role"] == "assistant" for unit in units(history))
    if len(parts.kept) > 1:
        assert messages_tokens([m for unit in parts.kept for m in unit]) <= most
