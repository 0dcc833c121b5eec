"""What comes out of a tool's code, made plain: values, exceptions, things still to be awaited.

The same for the worker process and for tools in this one.
"""

import asyncio
import inspect
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Literal, cast

from surefoot.graph.errors import ToolArgumentsInvalid
from surefoot.graph.plain import NotJson, TooLarge, clean_json, compact_json
from surefoot.graph.values import MAX_RESULT_BYTES, Json
from surefoot.tools.effects import Effect, NotDone, Refused
from surefoot.tools.limits import bounded_text

Status = Literal["ok", "not_done", "error", "bad_result"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of running a tool's code; `text` is the compact JSON of `value`."""

    status: Status
    value: Json = None
    text: str = "null"
    message: str = ""
    kind: str = ""
    retryable: bool = True
    marks: tuple[str, ...] = ()


def answer_value(value: object) -> Answer:
    """A returned value as a plain, bounded answer: `ok` or `bad_result`."""
    try:
        plain, marks = clean_json(value)
        text = compact_json(plain)
    except NotJson as exc:
        return _bad_result("not_json", f"the result is not JSON: {exc}")
    except (TooLarge, MemoryError):
        return _too_large()
    if len(text) > MAX_RESULT_BYTES or len(text.encode()) > MAX_RESULT_BYTES:
        return _too_large()
    return Answer(status="ok", value=plain, text=text, marks=tuple(marks))


def answer_error(exc: BaseException, effect: Effect) -> Answer:
    """What an exception from a tool's code means for the call."""
    message = describe(exc)
    if isinstance(exc, ToolArgumentsInvalid):
        return _not_done("bad_arguments", bounded_text(str(exc)))
    if isinstance(exc, Refused):
        return _not_done(exc.kind, bounded_text(str(exc)))
    if isinstance(exc, NotDone):
        text = bounded_text(str(exc)) or "the tool raised NotDone"
        return Answer(status="not_done", message=text, retryable=effect.is_retryable(exc))
    return Answer(status="error", message=message, retryable=effect.is_retryable(exc))


def describe(exc: BaseException) -> str:
    """An exception as one bounded, clean text: its type and what it says."""
    name = type(exc).__name__
    try:
        said = str(exc)
    except Exception:  # a foreign __str__
        said = ""
    if isinstance(exc, SystemExit):
        return f"the tool called sys.exit({exc.code!r})"
    return bounded_text(f"{name}: {said}" if said else name)


async def settle(returned: object) -> object:
    """Await until what is left is a value."""
    while inspect.isawaitable(returned):
        returned = await cast("Awaitable[object]", returned)
    return returned


def run_to_end(runner: asyncio.Runner, returned: object) -> object:
    """Await an awaitable on a loop kept for it, and cancel what it left behind there."""
    if not inspect.isawaitable(returned):
        return returned
    return runner.run(_settle_alone(returned))


async def _settle_alone(returned: object) -> object:
    try:
        return await settle(returned)
    finally:
        await _cancel_others()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.gather(*others, return_exceptions=True)


def _not_done(kind: str, message: str) -> Answer:
    return Answer(status="not_done", kind=kind, message=message, retryable=False)


def _bad_result(kind: str, message: str) -> Answer:
    return Answer(status="bad_result", kind=kind, message=bounded_text(message), retryable=False)


def _too_large() -> Answer:
    limit = f"{MAX_RESULT_BYTES // 1024**2} MiB"
    return _bad_result(
        "result_too_large", f"the result is larger than {limit} of JSON: put it as an artifact"
    )
