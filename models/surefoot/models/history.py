"""An agent's messages as units that belong together, and how few of them fit a window.

A unit is an assistant message with its tool results, or one message alone. Units are never
split: strict servers refuse a call without its result and a result without its call.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.graph.fencing import fence, unfenced
from surefoot.graph.model_ports import Message
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.values import Json
from surefoot.models.counting import (
    MESSAGE_TOKENS,
    content_text,
    estimate_tokens,
    message_tokens,
    messages_tokens,
)
from surefoot.models.shortening import cut_end, shorten, shorten_call

SUMMARY_MARK = "Summary of earlier messages"
"""How the message begins that stands for older ones."""

SUMMARY_SHARE = 4
"""A summary takes at most one part in this many of the room for messages."""

FEW = 24
"""Tokens below which nothing useful can be shown of a message."""

Unit = tuple[Message, ...]


def units(messages: Sequence[Message]) -> list[Unit]:
    """The messages in order, each tool result with the assistant message that asked for it.

    A result that nobody asked for is left out: it could not be sent anyway.
    """
    found: list[list[Message]] = []
    open_ids: set[str] = set()
    for message in messages:
        if message.get("role") == "tool":
            if found and str(message.get("tool_call_id")) in open_ids:
                found[-1].append(message)
            continue
        open_ids = set(_called(message))
        found.append([message])
    return [tuple(unit) for unit in found]


def flat(parts: Sequence[Unit]) -> list[Message]:
    """The messages of several units."""
    return [message for unit in parts for message in unit]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Older units and the newest ones that stay as they are."""

    old: tuple[Unit, ...]
    kept: tuple[Unit, ...]


def split(messages: Sequence[Message], most: int) -> Split:
    """Keep the newest units that have at most `most` tokens together, one at least."""
    every = units(messages)
    left, first = most, len(every)
    while first > 0:
        cost = messages_tokens(every[first - 1])
        if cost > left and first < len(every):
            break
        left -= cost
        first -= 1
        if left <= 0:
            break
    return Split(old=tuple(every[:first]), kept=tuple(every[first:]))


def fit(messages: Sequence[Message], most: int, *, readable: bool = False) -> list[Message]:
    """The messages in at most `most` tokens: the newest whole, the oldest as a program's summary.

    Args:
        messages: tool results fenced already.
        most: tokens.
        readable: the tool `read_more` is offered.
    """
    whole = flat(units(messages))
    if messages_tokens(whole) <= most:
        return whole
    parts = split(whole, most - most // SUMMARY_SHARE)
    kept = flat(parts.kept)
    room = most - (most // SUMMARY_SHARE if parts.old else 0)
    if messages_tokens(kept) > room:
        kept = _shortened(kept, room, readable)
    if messages_tokens(kept) > room:
        parts, kept = Split(old=(*parts.old, *parts.kept), kept=()), []
    if not parts.old:
        return kept
    return [program_summary(flat(parts.old), most - messages_tokens(kept)), *kept]


def program_summary(messages: Sequence[Message], most: int) -> Message:
    """What can be said of old messages without a model: each call with a short result."""
    lines = [line for message in messages for line in _lines(message)]
    while (
        len(lines) > 1 and message_tokens(summary_message("\n".join(lines), len(messages))) > most
    ):
        lines = [
            f"(of {len(messages)} messages the oldest are left out)",
            *lines[2 + len(lines) // 8 :],
        ]
    text = cut_end("\n".join(lines), max(FEW, most - 3 * FEW))
    return summary_message(text, len(messages))


def summary_message(text: str, count: int) -> Message:
    """The user message that stands for `count` older ones; its text is data like any other."""
    return {
        "role": "user",
        "content": f"{SUMMARY_MARK} ({count}), made shorter:\n{fence('summary', text)}",
    }


def is_summary(message: Message) -> bool:
    """Whether the message stands for older ones."""
    return message.get("role") == "user" and content_text(message).startswith(SUMMARY_MARK)


def transcript(messages: Sequence[Message], most: int) -> str:
    """Old messages as text for the model that summarises them, each cut to its share."""
    each = max(FEW, most // max(1, len(messages)) - MESSAGE_TOKENS)
    return "\n".join(
        f"[{message.get('role')}] {cut_end(_said(message), each)}" for message in messages
    )


def _shortened(messages: Sequence[Message], room: int, readable: bool) -> list[Message]:
    """One unit in `room` tokens if it can be: long arguments first, then each text to its share.

    The shortest are looked at first, so that what they leave goes to the longer ones.
    """
    short = [shorten_call(message, 200) for message in messages]
    bare = messages_tokens([{**message, "content": ""} for message in short])
    spare = room - bare
    order = sorted(range(len(short)), key=lambda n: message_tokens(short[n]))
    for place, n in enumerate(order):
        text = content_text(short[n])
        if not text:
            continue
        cut = shorten(text, max(FEW, spare // (len(order) - place)), readable=readable)
        short[n] = {**short[n], "content": cut}
        spare -= estimate_tokens(cut)
    return short


def _lines(message: Message) -> list[str]:
    if is_summary(message):
        return _said(message).splitlines()[2:-1]
    role = message.get("role")
    if role == "tool":
        return [f"  -> {_start(message, 160)}"]
    lines = [f"{role}: {_start(message, 120)}"] if content_text(message) else []
    return lines + [
        f"called {name}({' '.join(args.split())[:120]})" for name, args in calls(message)
    ]


def _start(message: Message, chars: int) -> str:
    text = " ".join(unfenced(content_text(message)).split())
    return text if len(text) <= chars else f"{text[:chars]}... ({len(text)} characters)"


def _said(message: Message) -> str:
    asked = "".join(f"\ncalls {name}({args})" for name, args in calls(message))
    return f"{unfenced(content_text(message))}{asked}"


def calls(message: Message) -> list[tuple[str, str]]:
    """(name, arguments as text) of the tool calls of an assistant message."""
    functions = [call.get("function") for call in _calls(message)]
    return [(str(f.get("name")), str(f.get("arguments") or "")) for f in functions if is_object(f)]


def call_names(messages: Sequence[Message]) -> dict[str, str]:
    """Tool call id -> name of the tool."""
    found: dict[str, str] = {}
    for message in messages:
        for call in _calls(message):
            function = call.get("function")
            name = function.get("name") if is_object(function) else None
            found[str(call.get("id"))] = str(name)
    return found


def _called(message: Message) -> list[str]:
    return [str(call.get("id")) for call in _calls(message)]


def _calls(message: Message) -> list[dict[str, Json]]:
    listed = message.get("tool_calls")
    return [call for call in listed if is_object(call)] if is_array(listed) else []
