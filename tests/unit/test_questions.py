"""What may be answered to a question, in which words, and what is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.graph.questions import (
    AnswerRefused,
    answer_words,
    completed,
    decided,
    next_question,
    parse_answer,
    question_id,
)
from surefoot.graph.values import Question, QuestionKind

KINDS: tuple[QuestionKind, ...] = (
    *("unknown_effect", "ask", "inconsistent_state", "approve", "check"),
    *("verdict", "milestone", "other_effect", "undo_failed"),
)


def asked(kind: QuestionKind, *choices: str) -> Question:
    question = Question(id="q-1", subtask="a", kind=kind, text="Well?")
    return completed(question, "t1", choices=choices or None)


@pytest.mark.parametrize(
    ("kind", "value", "means"),
    [
        ("approve", True, {"choice": "yes"}),
        ("approve", "Yes", {"choice": "yes"}),
        ("approve", " approved ", {"choice": "yes"}),
        ("approve", "no: too dear", {"choice": "no", "reason": "too dear"}),
        ("approve", {"result": False, "reason": "why?"}, {"choice": "no", "reason": "why?"}),
        ("approve", {"approved": True}, {"choice": "yes"}),
        ("check", "ok", {"choice": "pass"}),
        ("check", {"pass": False, "reason": "bad"}, {"choice": "fail", "reason": "bad"}),
        ("verdict", False, {"choice": "fail"}),
        ("verdict", {"choice": "reject"}, {"choice": "fail"}),
        ("unknown_effect", True, {"choice": "done"}),
        ("unknown_effect", "not done", {"choice": "not_done"}),
        ("unknown_effect", {"result": {"id": 7}}, {"choice": "done", "result": {"id": 7}}),
        ("unknown_effect", {"done": True, "result": 1}, {"choice": "done", "result": 1}),
        ("unknown_effect", {"done": {"id": 7}}, {"choice": "done", "result": {"id": 7}}),
        ("unknown_effect", {"done": False}, {"choice": "not_done"}),
        ("unknown_effect", 'done: {"id": 7}', {"choice": "done", "result": {"id": 7}}),
        ("unknown_effect", "done: sent at noon", {"choice": "done", "result": "sent at noon"}),
        ("unknown_effect", "give-up", {"choice": "fail"}),
        ("ask", "again", {"choice": "retry"}),
        ("ask", "retry: use b.txt", {"choice": "retry", "hint": "use b.txt"}),
        ("ask", {"hint": "use b.txt"}, {"choice": "retry", "hint": "use b.txt"}),
        ("ask", "fail: no use", {"choice": "fail", "reason": "no use"}),
        ("milestone", "judge again", {"choice": "judge"}),
        ("milestone", {"rollback": "m1"}, {"choice": "rollback", "milestone": "m1"}),
        ("milestone", "replan: in blue", {"choice": "replan", "require": "in blue"}),
        ("inconsistent_state", "accept", {"choice": "accept"}),
        ("other_effect", "do", {"choice": "do"}),
        ("undo_failed", "done", {"choice": "undone"}),
    ],
)
def test_answers_are_understood_in_many_words(kind: QuestionKind, value: Any, means: Any) -> None:
    assert parse_answer(asked(kind), value) == means


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("approve", 1),
        ("approve", None),
        ("approve", ["yes"]),
        ("approve", "perhaps"),
        ("approve", "perhaps: not"),
        ("approve", {"reason": "no choice"}),
        ("approve", {"choice": "yes", "reason": 3}),
        ("approve", {"choice": "yes", "colour": "blue"}),
        ("check", {"pass": "perhaps"}),
        ("ask", {"retry": 3}),
        ("milestone", {"choice": "rollback", "milestone": 3}),
        ("unknown_effect", {"choice": "not_done", "result": 1}),
        ("undo_failed", True),
    ],
)
def test_another_type_is_refused_with_what_is_possible(kind: QuestionKind, value: Any) -> None:
    with pytest.raises(AnswerRefused) as refused:
        parse_answer(asked(kind), value)
    text = str(refused.value)
    assert "'q-1'" in text and refused.value.code == "bad_answer"
    for word in asked(kind).get("choices", []):
        assert word in text


def test_what_is_not_possible_here_is_refused() -> None:
    question = asked("ask", "retry", "fail")
    with pytest.raises(AnswerRefused):
        parse_answer(question, "skip")
    assert parse_answer(asked("ask"), "skip") == {"choice": "skip"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_choice_is_an_answer_and_means_itself_twice(kind: QuestionKind) -> None:
    question = asked(kind)
    for word in question.get("choices", []):
        once = parse_answer(question, word)
        assert once == {"choice": word}
        assert parse_answer(question, once) == once


@given(
    kind=st.sampled_from(KINDS),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=12),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
        max_leaves=4,
    ),
)
def test_whatever_is_answered_is_understood_or_refused(kind: QuestionKind, value: Any) -> None:
    question = asked(kind)
    try:
        parsed = parse_answer(question, value)
    except AnswerRefused:
        return
    assert parsed["choice"] in question.get("choices", [])
    assert parse_answer(question, parsed) == parsed


def test_the_text_ends_with_the_command_that_answers_it() -> None:
    question = asked("check")
    assert question["text"] == "Well? Answer with `surefoot answer t1 q-1 pass` (or fail)."
    words = answer_words(question, {"choice": "fail", "reason": "it is empty"}, "t1")
    assert words == "Well? -> fail (reason: it is empty)"


def test_ids_of_questions_about_other_things_differ() -> None:
    names = ["a", "a/b", "a.b", "a-1"]
    ids = {question_id("check", name, n) for name in names[:2] for n in (1, 2, 11)}
    ids |= {question_id("check", "a-1", n) for n in (1, 2)}
    assert len(ids) == 8
    assert question_id("check", "a", 1, about="2") != question_id("check", "a", 2)


def test_doubts_of_a_judge_are_asked_about_before_what_was_peoples_from_the_start() -> None:
    person = {"type": "person", "ok": False, "undecided": True, "question": "Fine?", "why": ""}
    doubt = {"type": "judge", "ok": False, "undecided": True, "rubric": "good", "why": "hm"}
    question = next_question([{"type": "result", "ok": True}, person, doubt])
    assert question is not None
    assert (question["kind"], question.get("facts")) == ("verdict", {"n": 2})
    after = decided([{"type": "result", "ok": True}, person, doubt], 2, {"choice": "pass"}, by="p")
    assert (after[2]["ok"], "undecided" in after[2]) == (True, False)
    following = next_question(after)
    assert following is not None and following["kind"] == "check"
    last = decided(after, 1, {"choice": "fail", "reason": "no"}, by="Ada")
    assert last[1]["why"] == "Ada says that it does not hold: no"
    assert next_question(last) is None
