"""Exit codes of the command line (contract §3)."""

from collections.abc import Mapping
from typing import Any

from surefoot.graph.errors import LeaseHeld, LeaseLost, TransientError, UsageError

DONE = 0
FAILED = 1
WRONG_USAGE = 2
STOPPED = 3
"""Paused, waiting for a person, or the database or a store was gone too long: it can be resumed."""

CANCELLED = 4
HELD = 5
"""Another live worker holds the task."""

_BY_STATUS = {"completed": DONE, "failed": FAILED, "cancelled": CANCELLED}


class StoppedBySignal(Exception):
    """A signal came before the task ran; there may be a task that can be resumed."""


def of_task(status: Mapping[str, Any]) -> int:
    """What `run` and `resume` end with: they mirror the task."""
    return _BY_STATUS.get(status["status"], STOPPED)


def of_error(error: BaseException, *, runs: bool) -> int:
    """What a command ends with after an error.

    Args:
        error: that ended it.
        runs: for `run` and `resume`, which a lost database or store leaves resumable.
    """
    if isinstance(error, UsageError):
        return WRONG_USAGE
    if isinstance(error, LeaseHeld | LeaseLost):
        return HELD
    if isinstance(error, StoppedBySignal):
        return STOPPED
    if isinstance(error, TransientError):
        return STOPPED if runs else WRONG_USAGE
    return FAILED if runs else WRONG_USAGE
