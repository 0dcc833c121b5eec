"""The consistency report: each check by itself, the summary, the choices, the question's id."""

from typing import Any

import pytest

from surefoot.graph.consistency import Blobs, Facts, report
from surefoot.graph.recovery import choose

SHA = "a" * 64
LOST = Blobs(
    wanted={SHA: [("a", "artifact a/x.txt"), ("b", "result of b")]}, missing=frozenset({SHA})
)
BAD = Blobs(wanted={SHA: [("a", "artifact a/x.txt")]}, damaged=frozenset({SHA}), read=1)
FAULTS: list[tuple[dict[str, Any], str, str, list[str]]] = [
    ({"versions": (1, 2)}, "graph_version", "graph version 1, the program's is 2", []),
    ({"head_fault": "the goal was changed"}, "state", "the goal was changed", []),
    (
        {"plan_versions": (1, 2)},
        "state",
        "the state has plan version 1, the tables have 2",
        [],
    ),
    ({"behind": ["a"]}, "state", "the tables know more than the state of 'a'", ["a"]),
    ({"milestones": ["m"]}, "state", "the records stored at 'm' are not those judged", ["m"]),
    (
        {"artifacts": LOST},
        "artifacts",
        "artifact a/x.txt is missing; result of b is missing",
        ["a", "b"],
    ),
    ({"results": BAD}, "results", "artifact a/x.txt does not match its hash", ["a"]),
    (
        {"workspace": ["out.txt is missing"]},
        "workspace",
        "workspace: out.txt is missing",
        ["out.txt is missing"],
    ),
    (
        {"expected": {"input": {"/d": "1", "/e": "1"}}, "found": {"input": {"/e": "2"}}},
        "inputs",
        "input /d is missing; input /e has changed",
        ["/d", "/e"],
    ),
    (
        {"expected": {"tools module": {"t": "1"}}, "found": {"tools module": {"t": "2"}}},
        "tools",
        "tools module t has changed",
        ["t"],
    ),
    ({"commands": {"jq": ["a", "b"]}}, "commands", "the command 'jq' is not installed", ["a", "b"]),
    ({"modelless": ["a"]}, "models", "'a' needs a model, and none is named", ["a"]),
]


def test_a_world_that_is_as_it_was_holds_in_every_check() -> None:
    found = report(Facts(expected={"input": {"/d": "1"}}, found={"input": {"/d": "1"}}))
    assert found.consistent
    assert found.world() == "holds"
    assert [check.check for check in found.checks] == (
        "graph_version state artifacts results workspace inputs tools commands models".split()
    )


@pytest.mark.parametrize(("facts", "check", "detail", "ids"), FAULTS)
def test_each_fault_fails_its_own_check_and_no_other(
    facts: dict[str, Any], check: str, detail: str, ids: list[str]
) -> None:
    found = report(Facts(**facts))
    (failed,) = found.failed
    assert failed.as_dict() == {"check": check, "ok": False, "detail": detail, "ids": ids}
    assert not found.consistent
    assert found.summary() == detail


@pytest.mark.parametrize(
    ("facts", "choices"),
    [
        ({"workspace": ["x has changed"]}, ["recheck", "restore", "accept"]),
        ({"expected": {"input": {"/d": "1"}}}, ["recheck", "accept"]),
        (
            {"workspace": ["x has changed"], "expected": {"input": {"/d": "1"}}},
            ["recheck", "accept"],
        ),
        ({"artifacts": LOST}, ["recheck", "redo"]),
        ({"artifacts": LOST, "standing": ["a"]}, ["recheck"]),
        ({"artifacts": LOST, "workspace": ["x has changed"]}, ["recheck"]),
        ({"commands": {"jq": ["a"]}}, ["recheck"]),
        ({"head_fault": "the goal was changed"}, ["recheck"]),
    ],
)
def test_what_may_be_answered_depends_on_what_is_wrong(
    facts: dict[str, Any], choices: list[str]
) -> None:
    assert report(Facts(**facts)).choices() == choices


def test_what_is_lost_is_done_again_by_all_who_need_it() -> None:
    assert report(Facts(artifacts=LOST)).redo() == ["a", "b"]


def test_the_same_report_asks_the_same_question() -> None:
    def asked(**facts: Any) -> str:
        return report(Facts(**facts)).question("t")["id"]

    changed = {"expected": {"input": {"/d": "1"}}}
    assert asked(**changed, found={"input": {"/d": "2"}}) == asked(
        **changed, found={"input": {"/d": "2"}}
    )
    assert asked(**changed, found={"input": {"/d": "2"}}) != asked(
        **changed, found={"input": {"/d": "3"}}
    )
    assert asked(workspace=["a has changed"]) != asked(workspace=["b has changed"])


def test_an_effect_that_stands_names_the_way_by_hand() -> None:
    text = report(Facts(artifacts=LOST, standing=["a"])).question("t")["text"]
    assert "`surefoot edit t a`" in text


def test_many_faults_are_counted_and_not_all_spelled_out() -> None:
    lines = [f"f{n} has changed" for n in range(25)]
    found = report(Facts(workspace=lines))
    assert found.summary().endswith("f9 has changed; and 15 more")
    assert len(found.failed[0].ids) == 25


@pytest.mark.parametrize(
    ("facts", "strategy"),
    [
        ({}, "resume at the step"),
        ({"workspace": ["x has changed"]}, "ask a person"),
        ({"behind": ["a"]}, "roll back to the stable point"),
    ],
)
def test_the_recovery_choice_follows_the_report(facts: dict[str, Any], strategy: str) -> None:
    world = report(Facts(**facts)).world()
    assert choose("cut", effect="read", world=world).strategy == strategy
