"""The brake of one endpoint (server and model), shared by everybody in this process who calls it.

Pure decisions: the clock and the draws come as arguments, nothing sleeps here. While the server
says "later" nobody calls before the announced time; then one request at a time probes, and each
one that is accepted doubles how many may be under way: those who waited do not come all at once.
"""

from dataclasses import dataclass

FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 60.0
SPREAD_S = 1.0
"""Requests that may leave are spread over this time."""

LEAST_WAIT_S = 0.05
STORM_AFTER = 3
"""So many broken answers in a row are a storm; a server that says so itself is one at once."""

CALM_WINDOW = 64
"""With so many under way there is no storm left."""


def full_jitter_s(failures: int, *, draw: float) -> float:
    """Wait before the next try: `min(longest, first * 2**failures) * draw`, in seconds.

    Args:
        failures: tries already failed in a row, before this one.
        draw: uniform in [0, 1).

    Source: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015 (full jitter).
    """
    return min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(failures, 30)) * draw


@dataclass(slots=True)
class Brake:
    """When may the next request leave?

    Attributes:
        blocked_until: nobody calls before (monotonic seconds).
        window: how many may be under way in a storm; None = calm, no limit.
        under_way: how many are.
        failures: in a row, those of one wave counted once.
        stormy_since: when the storm began, None = calm.
    """

    blocked_until: float = 0.0
    window: int | None = None
    under_way: int = 0
    failures: int = 0
    stormy_since: float | None = None
    _last_failure: float = -1.0

    def enter(self, now: float, *, draw: float) -> float:
        """Ask to send a request.

        Returns:
            0.0: go (call `leave` when it is over); else seconds to wait before asking again.
        """
        if now < self.blocked_until:
            return self.blocked_until - now + draw * SPREAD_S
        if self.window is not None and self.under_way >= self.window:
            return LEAST_WAIT_S + draw * SPREAD_S / 4
        self.under_way += 1
        return 0.0

    def leave(self) -> None:
        """A request is over, however it ended."""
        self.under_way -= 1

    def accepted(self) -> None:
        """The server began to answer."""
        self.failures = 0
        if self.window is None:
            return
        self.window *= 2
        if self.window >= CALM_WINDOW:
            self.window = self.stormy_since = None

    def failed(
        self,
        now: float,
        *,
        left_at: float,
        busy: bool,
        retry_after_s: float | None,
        draw: float,
        counts: bool = True,
    ) -> float:
        """A request failed for a reason that may pass.

        Args:
            now: the present time.
            left_at: when that request was sent: of one wave only the first makes the wait longer.
            busy: the server itself asked to come back later.
            retry_after_s: when, if it said so.
            draw: uniform in [0, 1).
            counts: False for one silent call among others: it says nothing about the server.

        Returns:
            Seconds that the one who failed waits at least.
        """
        if counts and left_at >= self._last_failure:
            self.failures += 1
        if counts:
            self._last_failure = max(self._last_failure, now)
        backoff = full_jitter_s(self.failures - 1 if self.failures else 0, draw=draw)
        wait = backoff if retry_after_s is None else retry_after_s
        if busy or (counts and self.failures >= STORM_AFTER):
            self.window = 1
            if self.stormy_since is None:
                self.stormy_since = now
            self.blocked_until = max(self.blocked_until, now + wait)
        return wait

    def stormy_for(self, now: float) -> float:
        """Seconds since the storm began; 0.0 in calm."""
        return 0.0 if self.stormy_since is None else now - self.stormy_since
