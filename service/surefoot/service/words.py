"""How numbers are said to a person: durations, sizes, intervals, and what to do next."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from surefoot.graph.values import JsonObject
from surefoot.service.thinking import used_by

if TYPE_CHECKING:
    from surefoot.service.status import Eta

RAISABLE = ("deadline", "too_many_failures", "budget_exhausted")
"""Ends that a raised limit undoes."""

LIMITS = ("max_steps", "max_tokens", "max_cost_usd", "max_seconds", "max_failures")


def one_line(text: object, *, most: int = 300) -> str:
    """A text in one line; what a terminal might obey (escape sequences) is shown, not sent."""
    line = printable(" ".join(str(text).split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def printable(text: str) -> str:
    """A text with everything that is no printable character shown as an escape."""
    return text if text.isprintable() else "".join(map(_shown, text))


def percent(progress: float) -> float:
    """Progress in per cent, to one decimal, rounded down: 100 means that the task is completed."""
    return math.floor(progress * 1000 + 1e-9) / 10


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{round(whole / 60)} min"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def eta_text(eta: "Eta | None") -> str:
    """`about 40 s to 1 min 35 s left`, or that nothing is known yet."""
    if eta is None:
        return "time left not known yet"
    low, high = duration(eta["low"]), duration(eta["high"])
    return f"{low} left" if low == high else f"{low} to {high} left"


def size(n: int) -> str:
    """`812 B`, `4.1 kB`, `12 MB`."""
    if n < 1000:
        return f"{n} B"
    for unit, scale in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if n < 1000 * scale or unit == "GB":
            return f"{n / scale:.1f} {unit}" if n < 10 * scale else f"{n / scale:.0f} {unit}"
    return f"{n} B"


def result_line(status: Mapping[str, Any]) -> str:
    """The one line that says how a task stands."""
    counts, usage = status["subtasks"], status["usage"]
    facts = [f"{counts['completed']} of {counts['total']} subtasks"]
    facts += [f"{counts[s]} {s}" for s in ("failed", "skipped") if counts[s]]
    facts.append(number(status["attempts"], "attempt"))
    if status["retry_rate"]:
        facts.append(f"retry rate {status['retry_rate']}")
    facts.append(duration(usage["seconds"]))
    facts += used_by(usage)
    state = f"{status['status']} (stopping)" if status["stopping"] else status["status"]
    line = f"{state}  {status['id']}  {', '.join(facts)}"
    failure = status["failure"]
    return f"{line}: {failure['code']}: {failure['message']}" if failure else line


def next_step(status: Mapping[str, Any]) -> str | None:
    """What a person can do now, None where nothing is to be done."""
    id, state = status["id"], status["status"]
    if state == "failed":
        failure: dict[str, Any] = status["failure"] or {}
        code = failure.get("code")
        if code in ("model_unavailable", "missing_model"):
            return f"when a model answers, go on with: surefoot resume {id}"
        if code in RAISABLE:
            return f"go on with a raised limit: surefoot resume {id} {_option(failure)}"
        about = failure.get("subtask")
        mended = f"; mend it with: surefoot retry {id} {about} (or edit, skip)" if about else ""
        return f"see what happened: surefoot history {id}{mended}"
    if state == "waiting":
        return f"answer what waits (surefoot questions {id}), then go on with: surefoot resume {id}"
    if state in ("paused", "running", "queued"):
        return f"go on with: surefoot resume {id}"
    return None


def waiting_lines(status: Mapping[str, Any]) -> Iterator[str]:
    """What waits for a person, with the command that answers it."""
    for question in status["questions"]:
        first, *rest = str(question["text"]).splitlines() or [""]
        yield f"waits: {printable(first)}"
        yield from (f"       {printable(line)}" for line in rest)


def fault_lines(found: JsonObject) -> list[str]:
    """A validation document for a person: one line for each fault and warning, then a verdict."""
    lines = [f"fault    {_fault(fault)}" for fault in found["faults"]]
    lines += [f"warning  {_fault(warning)}" for warning in found["warnings"]]
    faults = number(len(found["faults"]), "fault")
    verdict = "valid" if found["valid"] else f"not valid: {faults}"
    if found["warnings"]:
        verdict += f", {number(len(found['warnings']), 'warning')}"
    return [*lines, verdict]


def _option(failure: Mapping[str, Any]) -> str:
    """The option of `resume` that raises the limit which a failure names."""
    passed = [name for name in LIMITS if name in str(failure.get("message"))]
    return f"--{(passed or ['max_seconds'])[0].replace('_', '-')} N"


def _fault(fault: JsonObject) -> str:
    return f"{fault['code']}: {' '.join(fault['message'].split())}"


def number(n: int, noun: str) -> str:
    """`1 attempt`, `2 attempts`."""
    return f"{n} {noun}{'s' if n != 1 else ''}"


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
