"""How an order ends, as the values that travel to the nodes.

Inside an attempt a failure is raised (`AttemptFailed`) and becomes a value here, at its border.
"""

from collections.abc import Sequence

from surefoot.graph.ports import WorkOrder
from surefoot.graph.values import Failure, JsonObject, Outcome, Question
from surefoot.tools.kept_values import KeptResult


class AttemptFailed(Exception):
    """The attempt ends here; never leaves the module that runs attempts."""

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        retryable: bool = True,
        null_reference: bool = False,
        checks: Sequence[JsonObject] = (),
    ) -> None:
        self.failure = Failure(kind=kind, message=message, retryable=retryable)
        self.null_reference = null_reference
        self.checks = checks
        super().__init__(message)


class PersonNeeded(Exception):
    """Only a person can decide how the attempt goes on."""

    def __init__(self, question: Question, *, checks: Sequence[JsonObject] = ()) -> None:
        self.question = question
        self.checks = checks
        super().__init__(question["text"])


def question(order: WorkOrder, kind: str, text: str) -> Question:
    """A question about an order; its id is the same whenever the same attempt asks the same."""
    if kind not in ("unknown_effect", "approve", "check"):
        raise ValueError(kind)
    # A dot is in no id: `a-b` and `a/b` ask questions of their own.
    name = f"{kind}-{order.subtask.replace('/', '.')}-{order.attempt}"
    return Question(id=name, subtask=order.subtask, kind=kind, text=text)


def accepted(order: WorkOrder, started: float, ended: float, kept: KeptResult) -> Outcome:
    """The outcome of an order that did what it should."""
    outcome = _outcome(order, started, ended, ok=True)
    outcome["result"] = kept.stored
    artifacts = kept.all_artifacts()
    if artifacts:
        outcome["artifacts"] = artifacts
    if kept.marks:
        outcome["marks"] = list(kept.marks)
    return outcome


def not_accepted(order: WorkOrder, started: float, ended: float, failed: AttemptFailed) -> Outcome:
    """The outcome of an order that failed; its artifacts vanish with it."""
    outcome = _outcome(order, started, ended, ok=False)
    outcome["failure"] = failed.failure
    if failed.null_reference:
        outcome["null_reference"] = True
    if failed.checks:
        outcome["checks"] = list(failed.checks)
    return outcome


def undecided(order: WorkOrder, started: float, ended: float, needed: PersonNeeded) -> Outcome:
    """The outcome of an order that only a person can take further."""
    outcome = _outcome(order, started, ended, ok=False)
    outcome["question"] = needed.question
    if needed.checks:
        outcome["checks"] = list(needed.checks)
    return outcome


def stopped(order: WorkOrder, started: float, ended: float) -> Outcome:
    """The outcome of an order that we stopped; it counts nowhere."""
    outcome = _outcome(order, started, ended, ok=False)
    outcome["cut"] = True
    return outcome


def _outcome(order: WorkOrder, started: float, ended: float, *, ok: bool) -> Outcome:
    return Outcome(
        subtask=order.subtask,
        action=order.action,
        attempt=order.attempt,
        ok=ok,
        started=started,
        ended=ended,
    )
