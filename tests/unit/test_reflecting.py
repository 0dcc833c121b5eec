"""What a failure is told apart by, what may follow it, and what a model's word can change."""

from typing import Any

import pytest

from surefoot.graph.attempts import Choice
from surefoot.graph.fingerprints import blocker, fingerprint, normalised, repeats
from surefoot.graph.plan import Subtask
from surefoot.graph.reflecting import (
    Replans,
    allowed_choices,
    applied,
    at_milestone,
    criticism_in,
    evidence_text,
    own_choice,
    worth_reflecting,
)
from surefoot.graph.values import Failure, Record

WRONG = Failure(kind="check_failed", message="a1: it has 3 bytes, fewer than 20", retryable=True)
FATAL = Failure(kind="bad_reference", message="no key x", retryable=False)
SIMPLER = {"kind": "tool", "tool": "simple"}
ANEW = Replans(possible=True, automatic=False)
BY_MODEL = Replans(possible=True, automatic=True)


def agent(**fields: Any) -> Subtask:
    return Subtask.model_validate({"id": "s", "kind": "agent", "instructions": "do", **fields})


def failed(tries: int = 1, *, rung: int = 0, seen: tuple[str, ...] = ()) -> Record:
    return Record(state="pending", tries=tries, rung=rung, seen=list(seen))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("it has 3 bytes, fewer than 20", "It has 17 bytes,  fewer than 20", True),
        ("no file /tmp/a1/x.txt", "no file /tmp/b2/y.txt", True),
        ("sha deadbeef12 differs", "sha 0123abcdef differs", True),
        ("title is missing", "author is missing", False),
    ],
)
def test_messages_are_the_same_but_for_chance(one: str, other: str, same: bool) -> None:
    assert (normalised(one) == normalised(other)) is same


def test_a_fingerprint_tells_kinds_and_failed_checks_apart_and_not_those_that_hold() -> None:
    other_kind = Failure(kind="timeout", message=WRONG["message"], retryable=True)
    holds = {"type": "result", "id": "r", "ok": True, "why": "it is 5"}
    missing = {"type": "artifact", "name": "a.md", "ok": False, "why": "there is none"}
    assert fingerprint(WRONG) != fingerprint(other_kind)
    assert fingerprint(WRONG, [holds]) == fingerprint(WRONG)
    assert fingerprint(WRONG, [missing]) != fingerprint(WRONG)


@pytest.mark.parametrize(
    ("seen", "circle"),
    [
        ("", False),
        ("aa", False),
        ("aaa", True),
        ("baaa", True),
        ("aab", False),
        ("aba", False),
        ("abab", True),
        ("cabab", True),
        ("abba", False),
        ("abcabc", False),
    ],
)
def test_circles_are_three_in_a_row_or_a_b_a_b(seen: str, circle: bool) -> None:
    assert repeats(list(seen)) is circle


def test_a_blocker_is_known_again_whatever_the_model_calls_it() -> None:
    work = {"id": "a", "kind": "agent", "instructions": "Write it", "outputs": ["r.md"]}
    again = {**work, "id": "a2", "instructions": "Please write the report now"}
    assert blocker(work, WRONG) == blocker(again, WRONG)
    assert blocker(work, WRONG) != blocker({**work, "outputs": ["s.md"]}, WRONG)


@pytest.mark.parametrize(
    ("fields", "record", "failure", "replans", "choices"),
    [
        ({}, failed(1), WRONG, Replans(), ("retry",)),
        ({}, failed(1), WRONG, ANEW, ("retry", "replan")),
        ({}, failed(3), WRONG, ANEW, ("replan",)),
        ({}, failed(1), FATAL, ANEW, ("replan",)),
        ({"skippable": True}, failed(1), WRONG, Replans(), ("retry", "skip")),
        ({"on_failure": ["skip"]}, failed(1), WRONG, Replans(), ("retry", "skip")),
        ({"on_failure": [SIMPLER, "ask"]}, failed(3), WRONG, Replans(), ("degrade", "ask")),
        ({"on_failure": [SIMPLER]}, failed(1, rung=1), WRONG, Replans(), ("retry",)),
        ({"on_failure": ["fail"]}, failed(3), WRONG, Replans(), ()),
        (
            {"on_failure": ["skip"]},
            failed(3, seen=("a", "a", "a")),
            WRONG,
            ANEW,
            ("skip", "replan"),
        ),
    ],
)
def test_policy_leaves_these_choices(
    fields: dict[str, Any], record: Record, failure: Failure, replans: Replans, choices: Any
) -> None:
    found = allowed_choices(agent(**fields), record, failure, attempts=3, replans=replans)
    assert found == choices


@pytest.mark.parametrize(
    ("fields", "tries", "seen", "replans", "kind"),
    [
        ({}, 1, "a", ANEW, "retry"),
        ({}, 3, "aaa", ANEW, "fail"),
        ({}, 3, "aaa", BY_MODEL, "replan"),
        ({}, 3, "aaa", Replans(automatic=True), "fail"),
        ({"on_failure": ["skip"]}, 3, "aaa", BY_MODEL, "skip"),
    ],
)
def test_policy_chooses_itself_where_no_model_is_asked(
    fields: dict[str, Any], tries: int, seen: str, replans: Replans, kind: str
) -> None:
    record = failed(tries, seen=tuple(seen))
    choice = own_choice(agent(**fields), record, WRONG, attempts=3, replans=replans)
    assert choice.kind == kind


def test_circles_leave_attempts_unused_only_where_there_is_another_way() -> None:
    record = failed(3, seen=("a", "a", "a"))
    with_rung = agent(on_failure=["skip"])
    assert own_choice(with_rung, record, WRONG, attempts=5, replans=Replans()).kind == "skip"
    assert own_choice(agent(), record, WRONG, attempts=5, replans=Replans()).kind == "retry"


@pytest.mark.parametrize("word", ["accept", "rollback", "replan", "", None])
def test_what_is_not_allowed_is_the_policys_own_choice(word: str | None) -> None:
    own = Choice(kind="retry", rung=0, delay_s=0.3)
    unit = agent(on_failure=[SIMPLER])
    assert applied(word, ("retry", "degrade"), unit, failed(), own) == own


def test_an_allowed_proposal_is_taken() -> None:
    own = Choice(kind="retry", rung=0, delay_s=0.3)
    unit = agent(on_failure=[SIMPLER, "ask"])
    allowed: Any = ("retry", "degrade", "replan", "ask")
    assert applied("retry", allowed, unit, failed(), own) == own
    assert applied("degrade", allowed, unit, failed(), own) == Choice(kind="degrade", rung=1)
    assert applied("replan", allowed, unit, failed(), own) == Choice(kind="replan", rung=0)
    assert applied("ask", allowed, unit, failed(), own) == Choice(kind="ask", rung=2)


@pytest.mark.parametrize(
    ("kind", "failure", "asked"),
    [
        ("agent", "check_failed", True),
        ("agent", "model_unavailable", False),
        ("agent", "judge_unavailable", False),
        ("agent", "budget_exhausted", False),
        ("tool", "tool_error", False),
        ("tool", "bad_reference", True),
        ("foreach", "not_a_list", True),
    ],
)
def test_a_model_is_asked_about_agents_and_contradictions_only(
    kind: str, failure: str, asked: bool
) -> None:
    why = Failure(kind=failure, message="", retryable=True)
    assert worth_reflecting(kind, why, ("retry", "replan")) is asked
    assert worth_reflecting(kind, why, ("retry",)) is False


def test_a_milestones_choices_end_at_fail_and_pass_over_what_cannot_be_done() -> None:
    order: Any = ["rollback", "replan", "ask", "fail", "ask"]
    assert at_milestone(order, replans=Replans()) == ["ask", "fail"]
    assert at_milestone(order, replans=ANEW) == ["replan", "ask", "fail"]


@pytest.mark.parametrize("odd", [None, "retry", [], {"choice": "accept", "criticism": 3}])
def test_odd_reflections_say_nothing(odd: Any) -> None:
    assert criticism_in(odd)[0] is None


def test_evidence_comes_as_words() -> None:
    check = {"type": "artifact", "name": "r.md", "ok": False, "why": "there is none"}
    assert evidence_text(WRONG, [check]).splitlines() == [
        "check_failed: a1: it has 3 bytes, fewer than 20",
        "- check r.md (artifact) does not hold: there is none",
    ]
