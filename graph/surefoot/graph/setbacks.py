"""Database failures in a row: how long to pause before the next take-up, and when to give up.

A server that answers a ping and refuses every write (its disk is full, it is read-only) would
otherwise be asked again without a pause, for ever. Pure.
"""

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0


class Setbacks:
    """Counts failures between which nothing was saved.

    Args:
        give_up_s: seconds of failures without anything saved after which to give up.
    """

    def __init__(self, give_up_s: float) -> None:
        self._give_up_s = give_up_s
        self._saved: int | None = None
        self._since = 0.0
        self._number = 0

    def pause_s(self, *, saved: int, now: float) -> float | None:
        """Seconds to wait after one more failure; None means give up.

        Args:
            saved: how many checkpoints were written so far.
            now: seconds of a monotonic clock.
        """
        if saved != self._saved:
            self._saved, self._since, self._number = saved, now, 0
        if now - self._since >= self._give_up_s:
            return None
        self._number += 1
        if self._number == 1:
            return 0.0  # most often a connection was cut and the next one is good
        return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._number - 2, 16))

    def left_s(self, *, now: float) -> float:
        """Seconds until it is time to give up; nothing counts before the first failure."""
        return max(0.0, self._since + self._give_up_s - now)
