"""How an order ends, as the values that travel to the nodes.

Inside an attempt a failure is raised (`AttemptFailed`); it becomes a value at its border
(`all_or_nothing`).
"""

import hashlib
from collections.abc import Sequence

from surefoot.graph.ports import WorkOrder
from surefoot.graph.shapes import is_object
from surefoot.graph.values import Failure, JsonObject, Outcome, Question, QuestionKind
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

    @classmethod
    def of(cls, failure: Failure) -> "AttemptFailed":
        """The same failure, raised."""
        return cls(failure["kind"], failure["message"], retryable=failure["retryable"])


class PersonNeeded(Exception):
    """Only a person can decide how the attempt goes on.

    `failure`: the attempt has failed with it, and the question is how what it did is undone.
    `kept`: what it came to, where the question is whether that is good.
    """

    def __init__(
        self,
        question: Question,
        *,
        checks: Sequence[JsonObject] = (),
        failure: Failure | None = None,
        kept: KeptResult | None = None,
    ) -> None:
        self.question = question
        self.checks = checks
        self.failure = failure
        self.kept = kept
        super().__init__(question["text"])


Good = tuple[KeptResult, Sequence[JsonObject]]
"""What an attempt came to, and the evidence that it is good."""


def question(
    order: WorkOrder,
    kind: QuestionKind,
    text: str,
    *,
    about: str = "",
    choices: Sequence[str] = (),
    facts: JsonObject | None = None,
) -> Question:
    """A question about an order; its id is the same whenever the same attempt asks the same.

    Args:
        order: the attempt that asks.
        kind: what is asked.
        text: the question in full.
        about: digest of what it is about, where one attempt may ask several (`digest_of`).
        choices: the words that answer it.
        facts: what the answer is applied to.
    """
    asked = Question(
        id=f"{_name(order, kind, about)}{order.attempt}",
        subtask=order.subtask,
        kind=kind,
        text=text,
    )
    if choices:
        asked["choices"] = list(choices)
    if facts is not None:
        asked["facts"] = {**facts, "about": about}
    return asked


def said(order: WorkOrder, kind: QuestionKind, about: str) -> JsonObject:
    """What people answered to that question, normalised; the newest answer, {} without one."""
    attempt = asked_by(order, kind, about)
    answer = order.said.get(f"{_name(order, kind, about)}{attempt}")
    return answer if is_object(answer) else {}


def asked_by(order: WorkOrder, kind: QuestionKind, about: str) -> int:
    """The newest attempt that asked the question and was answered; 0: none."""
    begins = _name(order, kind, about)
    numbers = [id[len(begins) :] for id in order.said if id.startswith(begins)]
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def digest_of(*parts: str | int) -> str:
    """A short name for what a question is about; other parts, another name."""
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:10]


def _name(order: WorkOrder, kind: str, about: str) -> str:
    # A dot is in no id: `a-b` and `a/b` ask questions of their own.
    name = f"{kind}-{order.subtask.replace('/', '.')}-"
    return f"{name}{about}-" if about else name


def accepted(order: WorkOrder, started: float, ended: float, kept: KeptResult) -> Outcome:
    """The outcome of an order that did what it should."""
    return _with_kept(_outcome(order, started, ended, ok=True), kept)


def _with_kept(outcome: Outcome, kept: KeptResult) -> Outcome:
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
    if needed.kept is not None:
        _with_kept(outcome, needed.kept)
    if needed.failure is not None:
        outcome["failure"] = needed.failure
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
