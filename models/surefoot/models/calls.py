"""What goes to a server and what comes back: one request, one whole answer, one failed try."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from surefoot.graph.model_ports import Message
from surefoot.graph.values import JsonObject

FailureSort = Literal["busy", "broken", "silent", "refused"]
"""`busy`: the server asks to come back later. `broken`: the connection or the server failed.
`silent`: a time limit passed. `refused`: it will never answer this request (a 4xx)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, JSON-plain. `max_tokens` is the most the answer may have."""

    model: str
    messages: Sequence[Message]
    max_tokens: int
    tools: Sequence[JsonObject] = ()
    response_format: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledTool:
    """A tool call as the model wrote it; nothing is parsed yet."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One whole answer, as it was sent. Token counts are None where the server told none."""

    text: str
    tools: tuple[CalledTool, ...]
    finish: str
    refusal: str = ""
    prompt_tokens: int | None = None
    answer_tokens: int | None = None

    @property
    def tokens(self) -> int | None:
        """Prompt and answer together."""
        if self.prompt_tokens is None or self.answer_tokens is None:
            return None
        return self.prompt_tokens + self.answer_tokens


class CallFailed(Exception):
    """One try brought no answer. Inside `models` only: callers see ModelUnavailable.

    Attributes:
        sort: what to do about it.
        code: the HTTP status as text, or a name (`timeout`, `connection`, `unknown_model` ...).
        retry_after_s: what the server asked for.
        unpaid: the server surely did no work; else the reservation counts as used.
        field: the request's field that this server does not know (code `unsupported`).
    """

    def __init__(
        self,
        sort: FailureSort,
        code: str,
        message: str,
        *,
        retry_after_s: float | None = None,
        unpaid: bool = False,
        field: str = "",
    ) -> None:
        self.sort: FailureSort = sort
        self.code = code
        self.retry_after_s = retry_after_s
        self.unpaid = unpaid
        self.field = field
        super().__init__(message)
