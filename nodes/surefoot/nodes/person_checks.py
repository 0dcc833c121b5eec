"""Checks that people decide: how they are asked, and what an answer makes of the evidence.

Programs were first, then models: a person is asked about nothing that has failed already.
"""

from collections.abc import Sequence

from surefoot.graph.questions import check_text
from surefoot.graph.values import JsonObject, Question


def next_question(checks: Sequence[JsonObject]) -> Question | None:
    """The question about the first check that is left to people; its id and subtask are missing.

    A judge's doubts come before what was people's from the start.
    """
    order = sorted(range(len(checks)), key=lambda n: (checks[n]["type"] == "person", n))
    for n in order:
        if checks[n].get("undecided"):
            kind = "check" if checks[n]["type"] == "person" else "verdict"
            return Question(
                id="", subtask=None, kind=kind, text=check_text(checks[n]), facts={"n": n}
            )
    return None


def decided(
    checks: Sequence[JsonObject], n: int, answer: JsonObject, *, by: str
) -> list[JsonObject]:
    """The evidence with what a person said of the n-th check."""
    ok = answer["choice"] == "pass"
    why = f"{by} says that it {'holds' if ok else 'does not hold'}"
    if answer.get("reason"):
        why = f"{why}: {answer['reason']}"
    said = {k: v for k, v in checks[n].items() if k not in ("undecided", "shown")}
    return [*checks[:n], {**said, "ok": ok, "why": why, "by": by}, *checks[n + 1 :]]
