"""How often, how long, and what next: the policy of attempts and rungs, as pure functions.

The contract's defaults live in `DEFAULTS`. Random draws come from the caller.
"""

from dataclasses import dataclass
from typing import Literal

from surefoot.graph.plan import Retries, RungWork, Unit, Work, rung_work
from surefoot.graph.ports import EffectKind, ToolSpec
from surefoot.graph.values import FAILS_ONCE, Failure, Record

DEFAULTS: dict[str, tuple[float, int]] = {
    "agent": (900.0, 3),
    "read": (30.0, 5),
    "idempotent": (120.0, 3),
    "reversible": (120.0, 2),
    "irreversible": (300.0, 1),
}
"""(timeout in seconds, attempts) of agents, and of tools by their effect."""

IMPORTANCE = {"core": 2, "normal": 0, "edge": -1}
BACKOFF_CAP_S = 60.0

INCONSISTENT = "inconsistent_state"
"""The failure that nothing mends: what is stored contradicts itself; no rung goes on from it."""


def effect_of(spec: ToolSpec, work: Work) -> EffectKind:
    """What a call does to the world; `run_command` is idempotent once its writes are stated."""
    if spec.name == "run_command" and spec.module == "builtin":
        return "idempotent" if work.writes is not None else "irreversible"
    return spec.effect


def _default(work: Work, spec: ToolSpec | None) -> tuple[float, int]:
    if work.kind == "agent" or spec is None:
        return DEFAULTS["agent"]
    return DEFAULTS[effect_of(spec, work)]


def max_attempts(unit: Unit, work: Work, *, rung: int, spec: ToolSpec | None) -> int:
    """Attempts allowed on one rung, the first go included.

    The subtask's own word goes before the decorator's, that before the default by effect and
    importance. A rung below the full version has one attempt unless it says otherwise.
    """
    stated = work.retries.max_attempts if work.retries else None
    if stated is not None:
        return stated
    if rung > 0:
        return 1
    if spec is not None and spec.max_attempts is not None:
        return spec.max_attempts
    attempts = _default(work, spec)[1]
    if spec is not None and effect_of(spec, work) == "irreversible":
        return attempts
    return max(1, attempts + IMPORTANCE[unit.importance])


def max_tries(spec: ToolSpec, effect: EffectKind) -> int:
    """How often a call that undoes something is tried, the first go included."""
    return spec.max_attempts or DEFAULTS[effect][1]


def timeout_s(work: Work, spec: ToolSpec | None) -> float:
    """Seconds one attempt may take."""
    if work.timeout_seconds is not None:
        return work.timeout_seconds
    if spec is not None and spec.timeout_s is not None:
        return spec.timeout_s
    return _default(work, spec)[0]


def full_jitter_delay_s(failed: int, *, backoff_s: float, draw: float) -> float:
    """Seconds to wait before the next try: ``draw * min(60, backoff * 2**failed)``.

    Args:
        failed: tries already failed before the last one, from 0.
        backoff_s: the base.
        draw: uniform in [0, 1).

    Source: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015.
    """
    return draw * min(BACKOFF_CAP_S, backoff_s * 2.0 ** min(failed, 64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What to do after a failed attempt. `rung` is the rung that comes next (degrade, ask)."""

    kind: Literal["retry", "degrade", "skip", "replan", "rollback", "ask", "fail"]
    rung: int
    delay_s: float = 0.0


def after_failure(
    unit: Unit,
    record: Record,
    failure: Failure,
    *,
    allowed: int,
    null_reference: bool,
    draw: float,
) -> Choice:
    """Choose what follows a failed attempt: try again, go down a rung, skip, ask or give up.

    Args:
        unit: the subtask or pattern with its ladder.
        record: as it was before this attempt ended (`tries` without it).
        failure: of this attempt.
        allowed: attempts on the present rung.
        null_reference: the arguments did not fit because a skipped subtask's value is null.
        draw: uniform in [0, 1), for the jitter.
    """
    rung = record.get("rung", 0)
    if failure["kind"] == INCONSISTENT:
        return Choice(kind="fail", rung=rung)
    if null_reference and unit.skippable:
        return Choice(kind="skip", rung=rung)
    tries = record.get("tries", 0) + 1
    if failure["retryable"] and failure["kind"] not in FAILS_ONCE and tries < allowed:
        work = rung_work(unit, rung)
        retries = (work.retries if work else None) or Retries()
        delay = full_jitter_delay_s(tries - 1, backoff_s=retries.backoff_seconds, draw=draw)
        return Choice(kind="retry", rung=rung, delay_s=delay)
    return next_rung(unit, rung)


def next_rung(unit: Unit, rung: int) -> Choice:
    """The choice that the ladder offers below `rung`; no rung left means fail."""
    if rung >= len(unit.on_failure):
        return Choice(kind="fail", rung=rung)
    step = unit.on_failure[rung]
    if isinstance(step, RungWork):
        return Choice(kind="degrade", rung=rung + 1)
    return Choice(kind=step, rung=rung + 1)


def wants_improvement(unit: Unit, record: Record) -> bool:
    """Whether a degraded result is owed one more try of the full version."""
    rung = record.get("rung", 0)
    if record.get("state") != "completed" or rung == 0 or record.get("improved"):
        return False
    work = rung_work(unit, rung)
    return isinstance(work, RungWork) and work.improve_later


def failure_code(failure: Failure) -> str:
    """The task's failure code for a subtask that failed for good."""
    named = (
        *("bad_arguments", "bad_reference", "result_too_large", "missing_model"),
        INCONSISTENT,
    )
    return failure["kind"] if failure["kind"] in named else "attempts_exhausted"
