"""The decisions of a task as a request shows them: verbatim, one line each, never summarised.

Plain accepts and retries are only counted. Where the lines are too many for the window, the
oldest go behind the tool `read_decisions`, with a note that says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from surefoot.graph.plain import clean_text
from surefoot.graph.values import Decision, DecisionKind, Json, JsonObject

COUNTED: tuple[DecisionKind, ...] = ("accept", "retry")
PAGE = 50
"""Lines that one call of `read_decisions` returns at most."""

MAX_PAGE_CHARS = 12_000
READ_DECISIONS = "read_decisions"

READ_DECISIONS_SCHEMA: JsonObject = {
    "type": "function",
    "function": {
        "name": READ_DECISIONS,
        "description": "Read decisions of this task that a request does not show in full.",
        "parameters": {
            "type": "object",
            "properties": {
                "first": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Number of the first decision wanted, counted from 1.",
                },
                "count": {"type": "integer", "minimum": 1, "maximum": PAGE},
                "about": {
                    "type": "string",
                    "description": "Only decisions that mention this text or subtask.",
                },
            },
            "additionalProperties": False,
        },
    },
}
"""The function schema of the tool; it is offered only where decisions are hidden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The decision record of one request. `hidden`: how many are behind the tool."""

    text: str
    hidden: int


def stays_verbatim(kind: DecisionKind) -> bool:
    """Whether decisions of this kind keep their line; the others become counts."""
    return kind not in COUNTED


def decision_line(number: int, decision: Decision) -> str:
    """One decision as one line: `17. skip extract/3: reason`; its words are not changed."""
    subject = f" {decision['subtask']}" if decision.get("subtask") else ""
    reason = " ".join(clean_text(decision["reason"]).split())
    return f"{number}. {decision['kind']}{subject}: {reason}"


def shown_decisions(
    decisions: Sequence[Decision], *, budget: int, count: Callable[[str], int]
) -> Shown:
    """As many of the newest lines as fit, with counts and a note on what is not shown.

    Args:
        decisions: in the order they were made; numbered from 1.
        budget: tokens (as `count` counts) that the lines may take; the note is extra.
        count: tokens of a text.
    """
    numbered = [
        decision_line(n, d) for n, d in enumerate(decisions, 1) if stays_verbatim(d["kind"])
    ]
    kept: list[str] = []
    left = budget
    for line in reversed(numbered):
        cost = count(line) + 1
        if cost > left:
            break
        left -= cost
        kept.append(line)
    hidden = len(numbered) - len(kept)
    lines = [*_counts(decisions), *_note(hidden), *reversed(kept)]
    return Shown(text="\n".join(lines), hidden=hidden)


def read_decisions(decisions: Sequence[Decision], args: JsonObject) -> JsonObject:
    """Answer the tool: a page of decisions in full. Pure; odd arguments get the nearest meaning.

    Returns:
        `{total, decisions: [lines], next}`; `next` is the number to go on from, or null.
    """
    first, most = _number(args.get("first"), 1), min(_number(args.get("count"), PAGE), PAGE)
    about = str(args.get("about") or "").casefold()
    lines: list[str] = []
    size = 0
    for number, decision in enumerate(decisions, 1):
        line = decision_line(number, decision)
        if number < first or about not in line.casefold():
            continue
        if lines and (len(lines) == most or size + len(line) > MAX_PAGE_CHARS):
            return {"total": len(decisions), "decisions": lines, "next": number}
        lines.append(line)
        size += len(line)
    return {"total": len(decisions), "decisions": lines, "next": None}


def _counts(decisions: Sequence[Decision]) -> list[str]:
    found = {kind: sum(1 for d in decisions if d["kind"] == kind) for kind in COUNTED}
    said = [f"{kind}: {n}" for kind, n in found.items() if n]
    return [f"(only counted: {', '.join(said)})"] if said else []


def _note(hidden: int) -> list[str]:
    if not hidden:
        return []
    return [f"({hidden} older decisions are not shown here; {READ_DECISIONS} returns them in full)"]


def _number(value: Json, default: int) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return int(value) if is_number else default
