"""Does an agent go round in circles? Judged by what it called and what came back, nothing else.

A loop is a stretch of one to four calls that comes back to back with the same results. Polling
whose result changes is none.
"""

from collections.abc import Sequence
from typing import Literal

from surefoot.graph.plain import compact_json
from surefoot.graph.values import Json

WARN_AT = 3
"""The model is told when a stretch has come so often."""

STOP_AT = 5
"""The attempt ends when a stretch has come so often."""

LONGEST_STRETCH = 4

Pair = tuple[str, str]
"""(fingerprint of tool and arguments, fingerprint of the result)."""


def repetitions(calls: Sequence[Pair]) -> int:
    """How often the newest stretch of calls has come back to back, itself included.

    Args:
        calls: oldest first.

    Returns:
        The largest count over stretches of 1 to `LONGEST_STRETCH` calls; 0 without any call.
    """
    return max(_back_to_back(calls, length) for length in range(1, LONGEST_STRETCH + 1))


def judged(calls: Sequence[Pair]) -> Literal["fresh", "warn", "loop"]:
    """What the newest call is: progress, worth a warning, or the end of the attempt."""
    times = repetitions(calls)
    if times >= STOP_AT:
        return "loop"
    return "warn" if times >= WARN_AT else "fresh"


def warning(times: int) -> str:
    """What a model is told that has begun to repeat itself."""
    return (
        f"Note: you have now made the same calls {times} times in a row and got the same results. "
        f"Repeating them changes nothing, and at {STOP_AT} times this attempt ends. Do something "
        "else, or call finish."
    )


def loop_message(calls: Sequence[tuple[str, Json]], times: int) -> str:
    """Why an attempt ended in a loop: which calls, how often.

    Args:
        calls: (tool, arguments) of the newest calls, oldest first; the last ones are shown.
        times: how often they came.
    """
    shown = ", ".join(f"{tool}({_cut(compact_json(args))})" for tool, args in calls)
    return f"the same calls with the same results came {times} times in a row: {shown}"


def _back_to_back(calls: Sequence[Pair], length: int) -> int:
    newest = list(calls[-length:])
    if len(newest) < length:
        return 0
    times = 1
    end = len(calls) - length
    while end >= length and list(calls[end - length : end]) == newest:
        times += 1
        end -= length
    return times


def _cut(text: str, limit: int = 120) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."
