"""Judges: what they are shown, what their verdict is worth, and what stays undecided."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import Bench, ok, tool_order

from surefoot.graph.errors import AnswerUnusable, BudgetExhausted, MissingModel, ModelUnavailable
from surefoot.graph.head import pin
from surefoot.graph.judging import (
    VERDICT_SCHEMA,
    JudgeCase,
    Verdict,
    faults_of_verdict,
    verdict_of,
)
from surefoot.graph.model_ports import Answer, Ask, Brief, NoModels
from surefoot.graph.values import JsonObject, Outcome
from surefoot.nodes.judging import fitted, judge_with, room_for

HEAD = pin({"objective": "see"})["head"]
BRIEF = Brief(head=HEAD["text"], head_digest=HEAD["sha256"])
JUDGED = {"type": "judge", "rubric": "it is friendly"}
GOOD = {"pass": True, "confidence": 0.9, "reasons": ["it greets"]}


class OneAnswer(NoModels):
    """A model that answers every question with the same, or raises."""

    def __init__(self, answer: JsonObject | Exception) -> None:
        self.answer = answer
        self.asked: list[Ask] = []

    def has(self, role: Any) -> bool:
        return True

    async def ask(self, ask: Ask) -> Answer:
        self.asked.append(ask)
        if isinstance(self.answer, Exception):
            raise self.answer
        faults = ask.review(self.answer)
        if faults:
            raise AnswerUnusable(ask.call, faults, "")
        return Answer(value=self.answer, model="m", raw="")


async def attempt(folder: Path, models: OneAnswer, **fields: Any) -> Outcome:
    """One attempt of a tool whose result is judged."""
    bench = Bench(folder)
    note = await bench.store.artifact("note.md", b"Hello <<<END there")
    bench.host.add("tool", lambda call: ok({"text": "hello"}, note))
    runner = bench.runner(judge=judge_with(models))
    given: dict[str, Any] = {"success": [JUDGED], **fields}
    order = replace(tool_order(**given), brief=BRIEF)
    await runner.submit([order])
    await runner.wait()
    (outcome,) = runner.finished()
    return outcome


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        (GOOD, True),
        ({**GOOD, "confidence": 0.5}, True),
        ({**GOOD, "confidence": 0.49}, False),
        ({**GOOD, "pass": False, "confidence": 1}, False),
    ],
)
def test_only_a_pass_that_the_judge_is_sure_of_is_one(answer: JsonObject, passes: bool) -> None:
    assert verdict_of(answer).ok is passes


def test_the_verdict_comes_before_its_reasons() -> None:
    assert list(VERDICT_SCHEMA["properties"]) == ["pass", "confidence", "reasons"]


@pytest.mark.parametrize(
    "odd",
    [
        {**GOOD, "pass": "true"},
        {**GOOD, "confidence": 7},
        {**GOOD, "confidence": True},
        {**GOOD, "reasons": 7},
        {},
    ],
)
def test_what_is_no_verdict_is_said_to_be_none(odd: JsonObject) -> None:
    assert faults_of_verdict(odd)


def test_reasons_may_be_one_text() -> None:
    answer = {**GOOD, "reasons": "it is there"}
    assert not faults_of_verdict(answer)
    assert verdict_of(answer).why == "it is there"


async def test_a_judge_sees_result_and_artifacts_fenced_and_not_the_chat(tmp_path: Path) -> None:
    models = OneAnswer(GOOD)
    outcome = await attempt(tmp_path, models)
    assert outcome["ok"]
    (asked,) = models.asked
    assert (asked.call, asked.role, asked.brief, asked.subtask) == ("verdict", "judge", BRIEF, "a")
    assert "it is friendly" in asked.matter
    assert '{"text":"hello"}' in asked.matter
    assert r"Hello <\<<END there" in asked.matter


@pytest.mark.parametrize(
    ("said", "kind", "retryable"),
    [
        ({**GOOD, "pass": False}, "check_failed", True),
        ({**GOOD, "confidence": 0.1}, "check_failed", True),
        ({"pass": "yes"}, "judge_unavailable", True),
        (ModelUnavailable("gone"), "judge_unavailable", True),
        (MissingModel("judge"), "missing_model", False),
        (BudgetExhausted("max_tokens", "no more"), "budget_exhausted", False),
    ],
)
async def test_anything_but_a_pass_fails_the_attempt(
    tmp_path: Path, said: Any, kind: str, retryable: bool
) -> None:
    outcome = await attempt(tmp_path, OneAnswer(said))
    failure = outcome.get("failure")
    assert failure is not None
    assert (failure["kind"], failure["retryable"]) == (kind, retryable)


async def test_no_judge_is_asked_when_a_program_says_no(tmp_path: Path) -> None:
    models = OneAnswer(GOOD)
    wrong = {"type": "result", "path": "text", "equals": "bye"}
    outcome = await attempt(tmp_path, models, success=[JUDGED, wrong])
    assert not outcome["ok"]
    assert models.asked == []


async def test_a_person_is_asked_only_after_the_judge(tmp_path: Path) -> None:
    person = {"type": "person", "question": "fine?"}
    passed = await attempt(tmp_path, OneAnswer(GOOD), success=[person, JUDGED])
    assert "question" in passed
    refused = await attempt(tmp_path, OneAnswer({**GOOD, "pass": False}), success=[person, JUDGED])
    assert "question" not in refused


def test_short_evidence_stays_whole_and_long_is_cut_with_a_note() -> None:
    pieces = [("a", "x" * 100), ("b", "y" * 5000), ("c", "z" * 5000)]
    shown = dict(fitted(pieces, 4100))
    assert shown["a"] == "x" * 100
    assert shown["b"].startswith("y" * 2000 + "\n[... 3000 more characters are not shown]")
    assert len(shown["c"]) < 2100


def test_a_small_window_gets_little_evidence() -> None:
    assert (room_for(4_000), room_for(128_000)) == (8_000, 48_000)


async def test_a_case_without_evidence_says_so() -> None:
    models = OneAnswer(GOOD)
    verdict = await judge_with(models)(JudgeCase(rubric="r", brief=BRIEF, pieces=()))
    assert verdict == Verdict(ok=True, why="it greets", confidence=0.9)
    assert "(there is none)" in models.asked[0].matter
