"""What a tool declares about its effect on the world: the `@effect` decorator and `NotDone`.

Only declarations; who acts on them is the runner. Imported by users' modules, so it stays light:
no LangChain here.
"""

import difflib
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast, get_args

from surefoot.graph.tool_ports import EffectKind

_ATTRIBUTE = "__surefoot_effect__"
_KINDS: tuple[str, ...] = get_args(EffectKind)

ToolT = TypeVar("ToolT")

RetryOn = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]
"""Which exceptions are worth another attempt: types, or a predicate."""


class NotDone(Exception):
    """Raised by a tool that surely did nothing: the call failed, its outcome is not in doubt."""


class Refused(Exception):
    """A built-in tool will not do this, and another try would change nothing.

    `kind` is the failure's code: `prohibited`, `missing_resource`, `bad_arguments`.
    """

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The declaration of one tool. The default is the most careful: irreversible, no probe."""

    kind: EffectKind = "irreversible"
    key: Callable[..., Any] | None = None
    """`key(args) -> str`: one effect per task and key."""
    probe: Callable[..., Any] | None = None
    """`probe(args, context) -> result | None`: the call's result if it did happen."""
    compensate: Callable[..., Any] | None = None
    """`compensate(args, result | None, context)` takes the effect back."""
    timeout_seconds: float | None = None
    max_attempts: int | None = None
    retry_on: Callable[[BaseException], bool] | None = None
    in_process: bool = False

    def is_retryable(self, exc: BaseException) -> bool:
        """Whether another attempt may help after this exception; a broken predicate says yes."""
        if self.retry_on is None:
            return True
        try:
            return bool(self.retry_on(exc))
        except Exception:  # foreign code
            return True


def effect(
    kind: EffectKind,
    *,
    key: Callable[..., Any] | None = None,
    probe: Callable[..., Any] | None = None,
    compensate: Callable[..., Any] | None = None,
    timeout_seconds: float | None = None,
    max_attempts: int | None = None,
    retry_on: RetryOn | list[type[BaseException]] | None = None,
    in_process: bool = False,
) -> Callable[[ToolT], ToolT]:
    """Declare what a tool does to the world outside. Goes above (or below) `@tool`.

    Args:
        kind: `read` changes nothing; `idempotent` may be made again without harm; `reversible`
            can be taken back by `compensate`; `irreversible` can not.
        key: `key(args) -> str`, the meaning of a call: the same key is one effect per task.
        probe: `probe(args, context)` asks the world whether the call happened: its result if it
            did, None if it did not, a raise if that cannot be told.
        compensate: `compensate(args, result, context)`; the result is None where it is unknown.
        timeout_seconds: the call is killed after this time (default by kind).
        max_attempts: goes at the call, the first included (default by kind).
        retry_on: exception type(s), or a predicate; other exceptions are not tried again.
        in_process: run in the main process. A timeout can then only abandon the call.

    Each function may be sync or async.

    Raises:
        TypeError: the declaration contradicts itself or is not put on a tool; at import.
    """
    _check_kind(kind)
    _check_functions(kind, key, probe, compensate)
    _check_numbers(timeout_seconds, max_attempts)
    declared = Effect(
        kind=kind,
        key=key,
        probe=probe,
        compensate=compensate,
        timeout_seconds=timeout_seconds,
        max_attempts=max_attempts,
        retry_on=_retry_predicate(retry_on),
        in_process=_flag("in_process", in_process),
    )

    def declare(tool: ToolT) -> ToolT:
        if isinstance(tool, type) or not (callable(tool) or hasattr(tool, "args_schema")):
            raise TypeError(f"@effect belongs on a tool or a function, not on {tool!r}")
        if declared_effect(tool) is not None:
            raise TypeError(f"{_name_of(tool)}: @effect is declared twice")
        # A BaseTool is a pydantic model and refuses unknown attributes the usual way.
        object.__setattr__(tool, _ATTRIBUTE, declared)
        return tool

    return declare


def declared_effect(tool: object) -> Effect | None:
    """The declaration on a tool or on the function it wraps, None where there is none."""
    for holder in (tool, getattr(tool, "func", None), getattr(tool, "coroutine", None)):
        found = getattr(holder, "__dict__", {}).get(_ATTRIBUTE)
        if found is not None:
            return cast("Effect", found)
    return None


def effect_of(tool: object) -> Effect:
    """The declaration, or the careful default: irreversible, without a probe."""
    return declared_effect(tool) or Effect()


def _check_kind(kind: object) -> None:
    if callable(kind) or hasattr(kind, "args_schema"):
        raise TypeError('@effect needs the kind of effect: write @effect("read") above @tool')
    if kind not in _KINDS:
        near = difflib.get_close_matches(str(kind), _KINDS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"@effect: {kind!r} is none of {', '.join(_KINDS)}{hint}")


def _check_functions(
    kind: str,
    key: Callable[..., Any] | None,
    probe: Callable[..., Any] | None,
    compensate: Callable[..., Any] | None,
) -> None:
    if kind == "reversible" and compensate is None:
        raise TypeError("@effect('reversible') needs compensate=, the way back")
    if kind != "reversible" and compensate is not None:
        raise TypeError(f"@effect({kind!r}): compensate= belongs to 'reversible'")
    if kind == "read" and (key is not None or probe is not None):
        raise TypeError("@effect('read') has no effect to find again: no key=, no probe=")
    _check_takes("key", key, "args")
    _check_takes("probe", probe, "args", "context")
    _check_takes("compensate", compensate, "args", "result", "context")


def _check_takes(name: str, function: object, *parameters: str) -> None:
    if function is None:
        return
    if not callable(function):
        raise TypeError(f"@effect: {name}= must be a function, not {function!r}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have none
        return
    try:
        signature.bind(*parameters)
    except TypeError:
        wanted = ", ".join(parameters)
        raise TypeError(f"@effect: {name}= is called as {name}({wanted})") from None


def _check_numbers(timeout_seconds: object, max_attempts: object) -> None:
    if timeout_seconds is not None and not (
        isinstance(timeout_seconds, int | float)
        and not isinstance(timeout_seconds, bool)
        and math.isfinite(timeout_seconds)
        and timeout_seconds > 0
    ):
        raise TypeError(f"@effect: timeout_seconds={timeout_seconds!r} is no time above 0")
    if max_attempts is not None and not (type(max_attempts) is int and max_attempts >= 1):
        raise TypeError(f"@effect: max_attempts={max_attempts!r} is no whole number above 0")


def _retry_predicate(retry_on: object) -> Callable[[BaseException], bool] | None:
    if retry_on is None:
        return None
    if callable(retry_on) and not isinstance(retry_on, type):
        return cast("Callable[[BaseException], bool]", retry_on)
    given = cast("list[object]", retry_on if isinstance(retry_on, list | tuple) else [retry_on])
    types = tuple(one for one in given if isinstance(one, type) and issubclass(one, BaseException))
    if len(types) != len(given):
        raise TypeError(f"@effect: retry_on={retry_on!r} is no exception type or predicate")
    return lambda exc: isinstance(exc, types)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"@effect: {name}={value!r} is neither True nor False")
    return value


def _name_of(tool: object) -> str:
    return str(getattr(tool, "name", None) or getattr(tool, "__name__", repr(tool)))
