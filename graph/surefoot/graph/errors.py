"""Every error that Surefoot raises on purpose.

One root, five families, named by what the catcher should do. Errors that are a
*result* (a tool failed, a check did not hold) travel as `Failure` values in
`ports`, never as exceptions across a checkpoint.
"""

from collections.abc import Sequence


class AgentError(Exception):
    """The root: everything Surefoot raises on purpose derives from it."""


class TransientError(AgentError):
    """The same thing may work a moment later: wait and try again."""


class DatabaseUnavailable(TransientError):
    """PostgreSQL cannot be reached. Check the server or SUREFOOT_DATABASE_URL, then resume."""


class ToolUnavailable(TransientError):
    """The process that runs tools ended unexpectedly. It is started anew; try the call again."""


class ModelUnavailable(TransientError):
    """No model of the role answered in the time there was; the message names the last reason."""


class CallStopped(TransientError):
    """The task pauses: a call that had to wait for its server was given up. Go on at the step."""


class RejectedError(AgentError):
    """A model (or a plan) made a mistake; the text goes back to it as a result."""


class ToolArgumentsInvalid(RejectedError):
    """The arguments do not fit the tool's schema; the message lists every mismatch."""


class AnswerUnusable(RejectedError):
    """A model's answer cannot be used: nothing of it is executed; `raw` is kept for the trace."""

    def __init__(self, call: str, faults: Sequence[str], raw: str) -> None:
        self.call = call
        self.faults = tuple(faults)
        self.raw = raw
        super().__init__(f"the {call} answer cannot be used: {'; '.join(faults)}")


class PermanentError(AgentError):
    """This attempt or this task is over, for a reason that does not go away by itself."""


class ReferenceMissing(PermanentError):
    """A `${...}` names a key that the value does not have."""

    def __init__(self, reference: str, why: str) -> None:
        self.reference = reference
        self.why = why
        super().__init__(f"${{{reference}}}: {why}")


class BudgetExhausted(PermanentError):
    """A reservation was refused: the call would pass a limit. Nothing was sent."""

    def __init__(self, limit: str, message: str) -> None:
        self.limit = limit
        super().__init__(message)


class InconsistentState(PermanentError):
    """What is stored contradicts itself: an error of ours. Nothing was sent; the task ends."""


class MissingModel(PermanentError):
    """A model is needed and none is configured; the message says where to name one."""

    def __init__(self, role: str) -> None:
        self.role = role
        super().__init__(
            f"a model is needed as {role}, and none is configured: name one with `model:` in the "
            "task file, --model or SUREFOOT_MODEL"
        )


class RequestTooLarge(MissingModel):
    """No model has a window for this: the goal and the tools alone fill it. Nothing was sent."""

    def __init__(self, needed: int, window: int) -> None:
        self.role = "any role"
        self.needed = needed
        self.window = window
        PermanentError.__init__(
            self,
            f"the goal, the tools and the room for an answer take about {needed} tokens of a "
            f"window of {window}: raise model.context_tokens, or shorten the goal",
        )


class LeaseLost(AgentError):
    """Another worker owns the task now: stop, write nothing more."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(f"the lease of task {task_id!r} was taken by another worker")


class LeaseHeld(AgentError):
    """A live worker holds the task (exit code 5): wait for it, or cancel the task."""

    def __init__(self, task_id: str, holder: str) -> None:
        self.task_id = task_id
        self.holder = holder
        super().__init__(f"task {task_id!r} is held by a live worker ({holder})")


class UsageError(AgentError):
    """The caller asked for something that cannot be done (exit code 2); nothing was changed.

    `code` is the machine-readable name (`unknown_task`, `schema`, `database_unreachable` ...),
    the message one line that says what is wrong and what to do.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)
