"""`judge` checks: what a judge is asked, what its verdict is worth, and the port to one.

A judge sees the rubric and the evidence, never the worker's chat. It is asked only when all
programs hold, and its pass can turn no failed check into a pass.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from surefoot.graph.model_ports import Brief
from surefoot.graph.shapes import is_array
from surefoot.graph.values import Json, JsonObject

PASSES_FROM = 0.5
"""A verdict the judge is less sure of decides nothing: a pass does not count as one."""

VERDICT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "pass": {"type": "boolean"},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "reasons": {"type": ["array", "string"], "items": {"type": "string"}},
    },
    "required": ["pass", "confidence", "reasons"],
    "additionalProperties": False,
}
"""The verdict stands before its reasons, so that they cannot talk the judge into one."""

REASONS_CHARS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCase:
    """One question to a judge.

    Attributes:
        rubric: what must hold.
        brief: the goal head goes with every request.
        pieces: the evidence, (name, text) each; cut to the judge's window by whoever asks it.
        subtask: whose attempt is judged, '' at milestones and acceptance.
    """

    rubric: str
    brief: Brief
    pieces: Sequence[tuple[str, str]]
    subtask: str = ""
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a case.

    `kind` names why there is no verdict (`judge_unavailable`, `missing_model`, `budget_exhausted`),
    '' where the judge decided. `unsure`: it decided, but is not sure enough of that.
    """

    ok: bool
    why: str
    confidence: float | None = None
    kind: str = ""
    unsure: bool = False


Judge = Callable[[JudgeCase], Awaitable[Verdict]]
"""Asks a model; raises nothing for what the model does. Cancelled when the attempt must stop.

Raises CallStopped when the task pauses while it waits, InconsistentState when nothing may be sent.
"""


def verdict_of(answer: JsonObject) -> Verdict:
    """What an accepted `verdict` answer means."""
    confidence = float(answer["confidence"])
    why = (reasons_of(answer) or "no reason given")[:REASONS_CHARS]
    if answer["pass"] is True and confidence < PASSES_FROM:
        return Verdict(
            ok=False,
            why=f"the judge passes it, but with a confidence of {confidence:g} only: {why}",
            confidence=confidence,
            unsure=True,
        )
    unsure = confidence < PASSES_FROM
    return Verdict(ok=answer["pass"] is True, why=why, confidence=confidence, unsure=unsure)


def reasons_of(answer: JsonObject) -> str:
    """The reasons of a verdict in one text; '' where it has none."""
    reasons = answer.get("reasons")
    if is_array(reasons):
        return "; ".join(map(str, reasons))
    return reasons if isinstance(reasons, str) else ""


def faults_of_verdict(answer: JsonObject) -> list[str]:
    """What is wrong with an answer that should be a verdict; its schema may not be enforced."""
    faults: list[str] = []
    if not isinstance(answer.get("pass"), bool):
        faults.append("pass must be true or false")
    if not _is_share(answer.get("confidence")):
        faults.append("confidence must be a number from 0 to 1")
    reasons = answer.get("reasons")
    if not is_array(reasons) and not isinstance(reasons, str):
        faults.append("reasons must be a list of texts, or one")
    return faults


def _is_share(value: Json) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= 1
