"""One attempt to its outcome: it is good, or nothing of it is left, or a person is asked.

Whatever ends an attempt without a result, expected or not, it is taken back before that is told.
Where taking back itself ends in something that nobody foresaw, a person is asked: what may still be
there must never count as undone.
"""

import logging
from collections.abc import Awaitable, Callable

from surefoot.graph.errors import (
    AgentError,
    CallStopped,
    DatabaseUnavailable,
    LeaseLost,
    PermanentError,
    TransientError,
)
from surefoot.graph.ports import Clock, WorkOrder
from surefoot.graph.values import Failure, Outcome
from surefoot.tools.effect_questions import ask_undo, undo_of, what_about_undo
from surefoot.tools.outcomes import (
    AttemptFailed,
    Good,
    PersonNeeded,
    accepted,
    not_accepted,
    stopped,
    undecided,
)
from surefoot.tools.stopping import Cut

log = logging.getLogger("surefoot")

NOTHING_IS_KNOWN = (LeaseLost, DatabaseUnavailable, CallStopped, Cut)
"""What ends neither well nor badly: the next life takes it up."""


async def outcome_of(
    order: WorkOrder,
    clock: Clock,
    work: Callable[[], Awaitable[Good]],
    take_back: Callable[[Failure], Awaitable[None]],
) -> Outcome:
    """Run one attempt to its outcome; of a failed one nothing is left when it is told.

    Args:
        order: the attempt.
        clock: POSIX seconds.
        work: does it; raises AttemptFailed, PersonNeeded or Cut.
        take_back: undoes what the failed attempt did; may raise the same.

    Raises:
        LeaseLost, DatabaseUnavailable: what happened is not known here.
    """
    started = clock()
    try:
        kept, checks = await _or_nothing(order, work, take_back)
        outcome = accepted(order, started, clock(), kept)
        if checks:
            outcome["checks"] = list(checks)
        return outcome
    except Cut:
        return stopped(order, started, clock())
    except AttemptFailed as failure:
        return not_accepted(order, started, clock(), failure)
    except PersonNeeded as needed:
        return undecided(order, started, clock(), needed)


async def _or_nothing(
    order: WorkOrder,
    work: Callable[[], Awaitable[Good]],
    take_back: Callable[[Failure], Awaitable[None]],
) -> Good:
    try:
        return await _foreseen(order, work)
    except AttemptFailed as failed:
        try:
            await _taken_back(order, failed.failure, take_back)
        except PersonNeeded as needed:
            needed.failure = failed.failure
            raise
        raise


async def _foreseen(order: WorkOrder, work: Callable[[], Awaitable[Good]]) -> Good:
    """The work, where every way that it can fail is a failed attempt."""
    try:
        return await work()
    except (AttemptFailed, PersonNeeded, *NOTHING_IS_KNOWN):
        raise
    except PermanentError as lost:  # what is stored is missing, damaged, or contradicts itself
        raise AttemptFailed("inconsistent_state", str(lost), retryable=False) from None
    except TransientError as away:  # the object store does not answer
        raise AttemptFailed("unavailable", str(away)) from None
    except Exception as bug:  # ours: it must neither kill the pool nor pass for a result
        log.exception("attempt %s of %s ended unexpectedly", order.attempt, order.subtask)
        raise AttemptFailed("internal", f"{type(bug).__name__}: {bug}") from bug


async def _taken_back(
    order: WorkOrder, failure: Failure, take_back: Callable[[Failure], Awaitable[None]]
) -> None:
    about = undo_of("attempt", order.subtask, 0)
    # An answer is about work that goes on from where it was asked, whatever its number is now.
    goes_on = order.recovering or order.undoing is not None
    if goes_on and what_about_undo(order, about) == "undone":
        return
    try:
        await take_back(failure)
    except (AttemptFailed, PersonNeeded, *NOTHING_IS_KNOWN):
        raise
    except Exception as blocked:
        if not isinstance(blocked, AgentError):
            log.exception("what %s did cannot be taken back", order.subtask)
        raise _blocked(order, about, blocked) from blocked


def _blocked(order: WorkOrder, about: str, error: Exception) -> AttemptFailed | PersonNeeded:
    why = str(error) if isinstance(error, AgentError) else f"{type(error).__name__}: {error}"
    if order.work.approve == "never":
        text = f"what the attempt did could not be undone: {why}"
        return AttemptFailed("undo_failed", text, retryable=False)
    what, facts = "What the attempt did", {"attempt": order.attempt}
    return PersonNeeded(ask_undo(order, what=what, why=why, about=about, facts=facts))
