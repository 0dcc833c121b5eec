"""What may follow a failure besides the policy's own choice: what a reflection may choose from.

Evidence decides that something failed; policy decides what is allowed; a model only proposes one
of the allowed. "Accept" is no choice, so praise without evidence changes nothing. Pure.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from surefoot.graph.attempts import INCONSISTENT, Choice, after_failure, next_rung
from surefoot.graph.fingerprints import repeats
from surefoot.graph.plan import MilestoneChoice, Unit
from surefoot.graph.shapes import is_object
from surefoot.graph.values import FAILS_ONCE, Failure, Json, JsonObject, Record

ReflectionChoice = Literal["retry", "degrade", "skip", "replan", "rollback", "ask"]

CHOICES: tuple[ReflectionChoice, ...] = ("retry", "degrade", "skip", "replan", "rollback", "ask")

NOBODYS_FAULT = (
    *("model_unavailable", "judge_unavailable", "tool_unavailable", "unavailable"),
    *("missing_model", "budget_exhausted", "internal", "prompt_too_large", INCONSISTENT),
)
"""Failures of the wire or of ours: there is nothing in them that a model could criticise."""

CONTRADICTIONS = ("bad_reference", "not_a_list")
"""Failures that say: a result is not what the plan took it for."""

CRITICISM_CHARS = 2000

REFLECTION_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "choice": {"type": "string", "enum": list(CHOICES)},
        "criticism": {"type": "string"},
    },
    "required": ["choice", "criticism"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replans:
    """Whether the rest of the plan may be made anew.

    Attributes:
        possible: replans are left and a planner model is there.
        automatic: a model made the plan, so that a subtask failed for good asks for another one.
    """

    possible: bool = False
    automatic: bool = False


def allowed_choices(
    unit: Unit,
    record: Record,
    failure: Failure,
    *,
    attempts: int,
    replans: Replans,
    rollback: bool = False,
) -> tuple[ReflectionChoice, ...]:
    """What policy allows after a failed attempt, in the order of `CHOICES`.

    Args:
        unit: the subtask or pattern with its ladder.
        record: as it is now, the failed attempt counted in `tries` and `seen`.
        failure: of that attempt.
        attempts: allowed on the present rung.
        replans: whether the remainder may be planned anew.
        rollback: whether a point is there to go back to, and a rollback is left.
    """
    ladder = unit.on_failure[record.get("rung", 0) :]
    below = next_rung(unit, record.get("rung", 0)).kind
    allowed: set[ReflectionChoice] = set()
    if _may_retry(unit, record, failure, attempts, replans):
        allowed.add("retry")
    if below == "degrade":
        allowed.add("degrade")
    if below == "skip" or unit.skippable:
        allowed.add("skip")
    if replans.possible:
        allowed.add("replan")
    if rollback and failure["kind"] != INCONSISTENT:
        allowed.add("rollback")
    if "ask" in ladder:
        allowed.add("ask")
    return tuple(choice for choice in CHOICES if choice in allowed)


def own_choice(
    unit: Unit,
    record: Record,
    failure: Failure,
    *,
    attempts: int,
    replans: Replans,
    draw: float = 0.0,
    null_reference: bool = False,
) -> Choice:
    """The policy's own choice: `after_failure`, but out of circles, and with a replan as last way.

    Args:
        unit: as `allowed_choices`.
        record: as it is now, the failed attempt counted in `tries` and `seen`.
        failure: as `allowed_choices`.
        attempts: as `allowed_choices`.
        replans: as `allowed_choices`.
        draw: uniform in [0, 1), for the jitter.
        null_reference: see `after_failure`.
    """
    before = Record(**record)
    before["tries"] = record.get("tries", 1) - 1
    choice = after_failure(
        unit, before, failure, allowed=attempts, null_reference=null_reference, draw=draw
    )
    if choice.kind == "retry" and _in_circles(unit, record, replans):
        choice = next_rung(unit, record.get("rung", 0))
    may_replan = replans.automatic and replans.possible and failure["kind"] != INCONSISTENT
    if choice.kind == "fail" and may_replan:
        return Choice(kind="replan", rung=choice.rung)
    return choice


def applied(
    proposed: str | None,
    allowed: Sequence[ReflectionChoice],
    unit: Unit,
    record: Record,
    own: Choice,
) -> Choice:
    """A reflection's proposal as a choice; the policy's own where it is not allowed or absent.

    Args:
        proposed: what the model said, None where it said nothing usable.
        allowed: see `allowed_choices`.
        unit: the subtask with its ladder.
        record: of the failed attempt.
        own: the policy's choice; its delay is kept for a retry.
    """
    rung = record.get("rung", 0)
    if proposed not in allowed or proposed == own.kind:
        return own
    match proposed:
        case "retry":
            return Choice(kind="retry", rung=rung)
        case "degrade":
            return Choice(kind="degrade", rung=rung + 1)
        case "skip":
            return Choice(kind="skip", rung=rung)
        case "replan" | "rollback":
            return Choice(kind=proposed, rung=rung)
        case _:
            return Choice(kind="ask", rung=_rung_of_ask(unit, rung))


def worth_reflecting(kind: str, failure: Failure, allowed: Collection[str]) -> bool:
    """Whether a model is asked: a failed agent attempt, or a result that contradicts the plan.

    Args:
        kind: of the work that failed.
        failure: what it failed with; transport errors are nobody's fault.
        allowed: what policy leaves; with fewer than two there is nothing to choose.
    """
    if len(allowed) < 2 or failure["kind"] in NOBODYS_FAULT:
        return False
    return kind == "agent" or failure["kind"] in CONTRADICTIONS


def at_milestone(
    on_failure: Sequence[MilestoneChoice], *, replans: Replans, rollback: bool = False
) -> list[MilestoneChoice]:
    """A failed milestone's choices that can be taken, in its own order, up to `fail`.

    A rollback or a replan falls to the next choice where none is left.
    """
    can = {"rollback": rollback, "replan": replans.possible, "ask": True}
    possible: list[MilestoneChoice] = []
    for choice in on_failure:
        if choice == "fail":
            break
        if can[choice]:
            possible.append(choice)
    return [*possible, "fail"]


def evidence_text(failure: Failure, checks: Sequence[JsonObject] = ()) -> str:
    """What programs saw of a failure, in words that a model can act on."""
    lines = [f"{failure['kind']}: {failure['message']}"]
    for check in checks:
        held = "holds" if check.get("ok") else "does not hold"
        name = check.get("id") or check.get("name") or check.get("type")
        lines.append(f"- check {name} ({check.get('type')}) {held}: {check.get('why')}")
    return "\n".join(lines)[:CRITICISM_CHARS]


def criticism_in(reflection: Json) -> tuple[str | None, str]:
    """(choice, criticism) of an accepted `reflection` answer; (None, '') of anything else."""
    if not is_object(reflection):
        return None, ""
    choice, criticism = reflection.get("choice"), str(reflection.get("criticism") or "")
    return (choice if choice in CHOICES else None), criticism.strip()[:CRITICISM_CHARS]


def _may_retry(
    unit: Unit, record: Record, failure: Failure, attempts: int, replans: Replans
) -> bool:
    if not failure["retryable"] or failure["kind"] in FAILS_ONCE:
        return False
    return record.get("tries", 0) < attempts and not _in_circles(unit, record, replans)


def _in_circles(unit: Unit, record: Record, replans: Replans) -> bool:
    """The same again and again, and there is another way: without one the attempts are used up."""
    other = next_rung(unit, record.get("rung", 0)).kind != "fail"
    return repeats(record.get("seen") or ()) and (other or (replans.automatic and replans.possible))


def _rung_of_ask(unit: Unit, rung: int) -> int:
    below = [n for n, step in enumerate(unit.on_failure) if n >= rung and step == "ask"]
    return below[0] + 1 if below else rung
