"""What nodes and runner may ask of models; implemented by `surefoot.models`, injected by the roof.

A request is always brief (head, decisions, board), matter, then recent messages; the client
builds it in one place, so that no role can forget the goal. Messages are JSON-plain, in OpenAI's
chat form.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from surefoot.graph.errors import MissingModel
from surefoot.graph.values import Decision, JsonObject

Role = Literal["planner", "executor", "judge"]
CallName = Literal["goal", "plan", "reflection", "verdict", "summary"]
"""The structured answers, by the name of their schema on the wire (contract §6)."""

Message: TypeAlias = JsonObject
"""`{role, content, tool_calls?, tool_call_id?}`, as OpenAI's chat API has it."""


def no_faults(value: JsonObject) -> Sequence[str]:
    """The review of an answer of which its schema says enough."""
    del value
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What every request of a task says before its own matter (design §6).

    Attributes:
        head: objectives, acceptance, prohibitions and amendments, verbatim (`head.head_text`).
        head_digest: sha256 (hex) that was pinned for it; a request with another head is refused.
        decisions: in the order they were made; the client decides how many are shown in full.
        board: where the task stands: phases, this subtask's place, failures, what is left.
    """

    head: str
    head_digest: str
    decisions: tuple[Decision, ...] = ()
    board: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One structured question.

    Attributes:
        call: the schema's name on the wire.
        schema: JSON Schema of the answer.
        matter: what is asked, as the user message.
        outline: the answer's shape as the prompt shows it; '' shows the schema itself.
        review: what a program finds wrong with an answer that fits the schema; sent back.
        rounds: answers asked for at most, the first one included.
        shape_binds: an answer that does not fit `schema` is refused. False: the schema only guides,
            and any one JSON object goes to the asker, who finds all that is wrong with it.
        subtask: on whose behalf, None for the task's own.
        until: POSIX seconds, when nobody waits for the answer any more; None = no such time.
        optional: whoever asks can go on without an answer, and does not wait long for one.
    """

    call: CallName
    role: Role
    brief: Brief
    matter: str
    schema: JsonObject
    outline: str = ""
    review: Callable[[JsonObject], Sequence[str]] = no_faults
    rounds: int = 3
    shape_binds: bool = True
    subtask: str | None = None
    attempt: int = 0
    until: float | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An accepted structured answer: exactly what the model said, parsed."""

    value: JsonObject
    model: str
    raw: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One step of an agent: the request for the next assistant message.

    Attributes:
        matter: the subtask and its inputs.
        messages: what was said since, oldest first.
        tools: function schemas that may be called, `finish` among them.
        rung: position in the model ladder to begin with.
        sample: which independent sample this is (votes), 0 without votes.
        until: POSIX seconds, when nobody waits for the reply any more; None = no such time.
    """

    brief: Brief
    matter: str
    messages: Sequence[Message]
    tools: Sequence[JsonObject]
    subtask: str
    attempt: int
    step: int
    rung: int = 0
    sample: int = 0
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """One tool call that an assistant message asks for. `args` None: unusable, `fault` says why."""

    id: str
    name: str
    args: JsonObject | None
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One assistant message, cleaned and ready to be kept in the history.

    Attributes:
        message: in chat form, to be appended to the history as it is.
        uses: the tool calls in it.
        text: its text, think tags removed.
        cut: it ended at the token limit: nothing of it may be used.
    """

    message: Message
    uses: tuple[ToolUse, ...]
    text: str
    model: str
    tokens: int
    cut: bool = False


class ModelClient(Protocol):
    """The models of one task. Every call is paid for before it is made (`Spending`).

    All methods raise: MissingModel (the role has none), ModelUnavailable (nobody answered in the
    time there is), CallStopped (a pause came while it waited), BudgetExhausted (the reservation was
    refused; nothing was sent), InconsistentState (the head is not the pinned one; nothing was
    sent).
    """

    def has(self, role: Role) -> bool:
        """Whether the role has a model."""
        ...

    async def ask(self, ask: Ask) -> Answer:
        """Put a structured question; an answer is accepted whole or not at all.

        Raises:
            AnswerUnusable: no round brought an answer that fits schema and review.
        """
        ...

    async def step(self, turn: Turn) -> Reply:
        """The next assistant message of an agent."""
        ...

    async def fold(self, turn: Turn) -> list[Message] | None:
        """The shortened history where the next request would pass the window; None while it fits.

        Old messages become one summary (`summary` call); decisions and the brief are no messages.
        """
        ...


class NoModels:
    """The client of a task for which no model is configured."""

    def has(self, role: Role) -> bool:
        """No."""
        del role
        return False

    async def ask(self, ask: Ask) -> Answer:
        """Refuse."""
        raise MissingModel(ask.role)

    async def step(self, turn: Turn) -> Reply:
        """Refuse."""
        del turn
        raise MissingModel("executor")

    async def fold(self, turn: Turn) -> list[Message] | None:
        """Nothing to fold."""
        del turn
        return None
