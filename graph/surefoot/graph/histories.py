"""Histories of an agent: what strict servers accept, whatever happened between call and answer."""

from collections.abc import Mapping, Sequence
from typing import cast

from surefoot.graph.model_ports import Message

NOT_CARRIED_OUT = "This call was not carried out: the work was interrupted before it began."


def in_order(history: Mapping[str, Sequence[Message]] | None) -> list[Message]:
    """The messages of a history that is stored by step, in the order they were written."""
    return [message for step in (history or {}).values() for message in step]


def call_ids(message: Message) -> list[str]:
    """The ids of the tool calls of an assistant message, in its order."""
    calls = cast("list[Message]", message.get("tool_calls") or [])
    return [str(call.get("id") or "") for call in calls]


def repaired(messages: Sequence[Message]) -> list[Message]:
    """The history with exactly one answer behind every call, in the order of the calls.

    A call without an answer gets one that says that it was not carried out; an answer without a
    call, or a second one, is dropped. A sound history comes back as it is. Applying it twice
    changes nothing.
    """
    mended: list[Message] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if message.get("role") == "tool":
            continue  # not behind its call, or a second answer
        mended.append(message)
        ids = call_ids(message)
        answers: list[Message] = []
        while ids and at < len(messages) and messages[at].get("role") == "tool":
            answers.append(messages[at])
            at += 1
        mended += _answered(ids, answers)
    return mended


def _answered(ids: Sequence[str], answers: Sequence[Message]) -> list[Message]:
    left = list(answers)
    found: list[Message] = []
    for id in ids:
        answer = next((one for one in left if one.get("tool_call_id") == id), None)
        if answer is not None:
            left.remove(answer)
        found.append(answer or {"role": "tool", "tool_call_id": id, "content": NOT_CARRIED_OUT})
    return found
