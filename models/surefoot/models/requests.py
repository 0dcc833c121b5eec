"""The one place where a request to a model is put together, whatever the role.

Always the same order: the goal head as system message (its bytes checked against what was
pinned), then as one user message the decisions, the board and the matter, then recent messages.
What is not ours is fenced as data; the whole is bounded by the model's window, always. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.graph.decision_record import READ_DECISIONS_SCHEMA, shown_decisions
from surefoot.graph.errors import RequestTooLarge
from surefoot.graph.fencing import fence, fence_rest
from surefoot.graph.head import check_head
from surefoot.graph.model_ports import Brief, Message
from surefoot.graph.plain import clean_text
from surefoot.graph.reading import READ_MORE
from surefoot.graph.values import JsonObject
from surefoot.models.counting import (
    content_text,
    estimate_tokens,
    message_tokens,
    messages_tokens,
    tools_tokens,
)
from surefoot.models.history import call_names, fit
from surefoot.models.shortening import cut_end, shorten

LEAST_ROOM = 500
"""Tokens that must be left beside head and tools, or nothing sensible can be asked."""

DECISION_SHARE = 4
"""Decisions take at most one part in this many of the window."""

BOARD_SHARE = 8
_KEPT_KEYS = ("role", "content", "tool_calls", "tool_call_id", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How much a request may hold.

    Attributes:
        tokens: the model's window.
        answer: tokens kept free for the answer (`max_tokens`).
        ratio: counted by the server over estimated (`TokenMeter.ratio`).
    """

    tokens: int
    answer: int
    ratio: float = 1.0

    @property
    def prompt(self) -> int:
        """Estimated tokens that the request may have."""
        return int((self.tokens - self.answer) / self.ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What goes onto the wire, and its estimated size in tokens.

    `room`: tokens that the recent messages may take; where they needed more (`overflow`), they
    were made shorter here. A client folds the history before that happens.
    """

    messages: list[Message]
    tools: list[JsonObject]
    tokens: int
    room: int
    overflow: int


def build_request(
    brief: Brief,
    matter: str,
    recent: Sequence[Message] = (),
    *,
    window: Window,
    tools: Sequence[JsonObject] = (),
) -> Request:
    """Put a request together.

    Args:
        brief: head, decisions and board of the task.
        matter: what is asked or to be done, made by our own code; foreign text in it is fenced.
        recent: what was said since, oldest first; tool results raw, they are fenced here.
        window: of the model that is asked.
        tools: function schemas offered; `read_decisions` is added where decisions are hidden.

    Raises:
        InconsistentState: the head is not the pinned one. Nothing may be sent.
        RequestTooLarge: the window has no room beside head and tools.
    """
    check_head(brief.head, brief.head_digest)
    system: Message = {"role": "system", "content": brief.head}
    offered = list(tools)
    room = window.prompt - message_tokens(system) - tools_tokens(offered)
    said, hidden = _decisions(brief, min(window.tokens // DECISION_SHARE, room // 2 - 100))
    if hidden and offered:
        offered.append(READ_DECISIONS_SCHEMA)
        room -= tools_tokens([READ_DECISIONS_SCHEMA])
    if room < LEAST_ROOM:
        raise RequestTooLarge(window.tokens - room, window.tokens)
    readable = any(_name(tool) == READ_MORE for tool in offered)
    before = [said, _board(brief, room // BOARD_SHARE)]
    fenced = as_data(recent)
    first = _first(before, matter, room, messages_tokens(fenced), readable)
    left = room - message_tokens(first)
    messages = [system, *_merged([first, *fit(fenced, left, readable=readable)])]
    size = messages_tokens(messages) + tools_tokens(offered)
    over = max(0, messages_tokens(fenced) - left)
    return Request(messages=messages, tools=offered, tokens=size, room=left, overflow=over)


def _decisions(brief: Brief, budget: int) -> tuple[str, int]:
    """The decision record, and how many lines are left out of it."""
    if not brief.decisions:
        return "", 0
    shown = shown_decisions(brief.decisions, budget=max(0, budget - 60), count=estimate_tokens)
    return f"# Decisions so far\n{fence('decisions', shown.text)}", shown.hidden


def _board(brief: Brief, most: int) -> str:
    if not brief.board:
        return ""
    return f"# Where the task stands\n{fence('board', cut_end(clean_text(brief.board), most))}"


def _first(
    before: Sequence[str], matter: str, room: int, recent_tokens: int, readable: bool
) -> Message:
    """Decisions, board and matter; the matter has what recent messages leave, half at least."""
    lead = "".join(f"{part}\n\n" for part in before if part) + "# Now\n"
    left = room - estimate_tokens(lead) - message_tokens({"content": ""})
    most = max(left - recent_tokens, left // 2)
    return {"role": "user", "content": lead + shorten(clean_text(matter), most, readable=readable)}


def as_data(recent: Sequence[Message]) -> list[Message]:
    """The messages as they are sent: tool results fenced, nothing in a role of ours."""
    names = call_names(recent)
    return [_as_data(message, names) for message in recent]


def _as_data(message: Message, names: dict[str, str]) -> Message:
    """A message as it may be sent: only known keys, results and odd roles fenced."""
    kept = {key: message[key] for key in _KEPT_KEYS if key in message}
    role = message.get("role")
    if role == "tool":
        name = names.get(str(message.get("tool_call_id")), "a tool")
        return {**kept, "content": fence_rest(f"result of {name}", content_text(message))}
    if role == "assistant":
        text = clean_text(content_text(message))
        return {**kept, "content": text or (None if message.get("tool_calls") else "")}
    if role == "user":
        return {**kept, "content": clean_text(content_text(message))}
    return {"role": "user", "content": fence(f"message of role {role}", content_text(message))}


def _merged(messages: Sequence[Message]) -> list[Message]:
    """Neighbouring user messages as one: some servers take only alternating roles."""
    found: list[Message] = []
    for message in messages:
        if found and message["role"] == "user" == found[-1]["role"]:
            text = f"{found[-1]['content']}\n\n{message['content']}"
            found[-1] = {"role": "user", "content": text}
        else:
            found.append(message)
    return found


def _name(tool: JsonObject) -> str:
    function: JsonObject = tool.get("function") or {}
    return str(function.get("name"))
