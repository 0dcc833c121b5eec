"""Declarations of effects, and what comes out of a tool's code."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.tools import tool

from surefoot.graph.errors import ToolArgumentsInvalid
from surefoot.tools import NotDone, effect
from surefoot.tools.answers import answer_error, answer_value
from surefoot.tools.effects import Effect, Refused, effect_of
from surefoot.tools.limits import MAX_ERROR_CHARS
from surefoot.tools.registry import register

anything: Any = effect


def spec_of(entry: object):
    return register(entry, module="m", digest="").spec


def test_a_tool_without_a_declaration_is_irreversible_without_a_probe():
    @tool
    def plain(x: int) -> int:
        """Do."""
        return x

    spec = spec_of(plain)
    assert (spec.effect, spec.has_probe, spec.has_key) == ("irreversible", False, False)


def test_a_declaration_counts_above_and_below_the_tool_and_on_a_function():
    declare = effect("read", timeout_seconds=5, max_attempts=2)

    @declare
    @tool
    def above(x: int) -> int:
        """Do."""
        return x

    @tool
    @effect("idempotent")
    def below(x: int) -> int:
        """Do."""
        return x

    @effect("idempotent", in_process=True)
    async def bare(x: int) -> int:
        return x

    assert (spec_of(above).effect, spec_of(above).timeout_s) == ("read", 5)
    assert spec_of(above).max_attempts == 2
    assert spec_of(below).effect == "idempotent"
    assert spec_of(bare).in_process


def test_a_declared_tool_can_still_be_called_by_langchain():
    @effect("read")
    @tool
    def double(x: int) -> int:
        """Do."""
        return 2 * x

    assert double.invoke({"x": 3}) == 6


def _one(_args: object) -> str:
    return ""


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: anything("raed"), "did you mean 'read'"),
        (lambda: anything(lambda: None), "needs the kind"),
        (lambda: anything("reversible"), "needs compensate="),
        (lambda: anything("irreversible", compensate=print), "belongs to 'reversible'"),
        (lambda: anything("read", key=_one), "no effect to find again"),
        (lambda: anything("irreversible", probe=_one), r"probe\(args, context\)"),
        (lambda: anything("irreversible", key="ticket"), "must be a function"),
        (lambda: anything("read", timeout_seconds=0), "no time above 0"),
        (lambda: anything("read", timeout_seconds=True), "no time above 0"),
        (lambda: anything("read", max_attempts=0), "no whole number"),
        (lambda: anything("read", retry_on=["x"]), "no exception type"),
        (lambda: anything("read", in_process="yes"), "neither True nor False"),
        (lambda: anything("read")(3), "belongs on a tool"),
        (lambda: anything("read")(anything("read")(lambda: None)), "declared twice"),
    ],
)
def test_a_wrong_declaration_is_refused_at_import(declare: Callable[[], object], said: str):
    with pytest.raises(TypeError, match=said):
        declare()


def _says_again(exc: BaseException) -> bool:
    return "again" in str(exc)


def _breaks(exc: BaseException) -> bool:
    raise exc


@pytest.mark.parametrize(
    ("retry_on", "exc", "retryable"),
    [
        (None, KeyError(), True),
        (OSError, TimeoutError(), True),
        (OSError, KeyError(), False),
        ((OSError, KeyError), KeyError(), True),
        (_says_again, ValueError("try again"), True),
        (_breaks, ValueError(), True),
    ],
)
def test_retry_on_decides_what_is_tried_again(retry_on: Any, exc: Exception, retryable: bool):
    @effect("read", retry_on=retry_on)
    def reader() -> None: ...

    assert answer_error(exc, effect_of(reader)).retryable is retryable


@pytest.mark.parametrize(
    ("exc", "status", "kind", "message"),
    [
        (NotDone("no such ticket"), "not_done", "", "no such ticket"),
        (NotDone(), "not_done", "", "the tool raised NotDone"),
        (Refused("prohibited", "no"), "not_done", "prohibited", "no"),
        (ToolArgumentsInvalid("a: missing"), "not_done", "bad_arguments", "a: missing"),
        (ValueError("a\x00b\ud83d"), "error", "", r"ValueError: a\u0000b\ud83d"),
        (SystemExit(3), "error", "", "the tool called sys.exit(3)"),
        (KeyError(), "error", "", "KeyError"),
    ],
)
def test_exceptions_become_answers(exc: BaseException, status: str, kind: str, message: str):
    answer = answer_error(exc, Effect())
    assert (answer.status, answer.kind, answer.message) == (status, kind, message)


def test_error_texts_are_bounded():
    message = answer_error(ValueError("x" * 10**6), Effect()).message
    assert len(message) < MAX_ERROR_CHARS + 100
    assert "characters left out" in message


@pytest.mark.parametrize(
    ("value", "kind"), [({1}, "not_json"), (["x" * 2**26], "result_too_large")]
)
def test_results_that_cannot_be_kept_fail_once(value: object, kind: str):
    answer = answer_value(value)
    assert (answer.status, answer.kind, answer.retryable) == ("bad_result", kind, False)
