"""Which model of a role is asked next, and how long the present one is waited for. Pure."""

from collections.abc import Sequence

PATIENCE_S = 20.0
"""With another model below it, one that is away is waited for at most so long."""


def rungs_from(ladder: Sequence[str], rung: int) -> list[tuple[int, str]]:
    """(position, model) to be tried, in order: from `rung`, or the last one where it is beyond."""
    first = min(max(0, rung), max(0, len(ladder) - 1))
    return [(place, ladder[place]) for place in range(first, len(ladder))]


def patience_s(*, below: int, left_s: float) -> float:
    """Seconds that a model which is away is waited for.

    Args:
        below: models that can still be tried after it.
        left_s: seconds until nobody waits for the answer any more.

    Returns:
        All there is for the last one; else an equal share, at most `PATIENCE_S`.
    """
    if below == 0:
        return max(0.0, left_s)
    return max(0.0, min(PATIENCE_S, left_s / (below + 1)))
