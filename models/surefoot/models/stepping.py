"""An agent's step: from what the server sent to a reply that may be kept in the history. Pure."""

import json
import re
from collections.abc import Collection, Sequence

from surefoot.graph.histories import call_ids
from surefoot.graph.model_ports import Message, Reply, ToolUse, Turn
from surefoot.graph.plain import clean_text
from surefoot.graph.shapes import is_object
from surefoot.models.answers import Unreadable, one_value, without_thoughts
from surefoot.models.calls import CalledTool, Received

KEPT_CHARS = 2000
"""So much of unreadable arguments is kept in the history."""

REFUSED = "(refused: {})"

LONGEST_NAME = 64
"""Of a function, on the wire."""

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")


def reply_of(
    received: Received, *, model: str, step: int, tokens: int, turn: Turn | None = None
) -> Reply:
    """The reply that an answer is.

    Calls keep the ids the server gave; one that is missing, or that another call in the answer or
    in the turn's messages has, gets one of ours. In the history arguments are always a JSON object
    and names are names: strict servers would refuse every next request otherwise.
    """
    earlier = {id for message in (turn.messages if turn else ()) for id in call_ids(message)}
    offered = {str(tool["function"]["name"]) for tool in (turn.tools if turn else ())}
    text = without_thoughts(received.text)
    if received.refusal and not text:
        text = REFUSED.format(clean_text(received.refusal)[:KEPT_CHARS])
    cut = received.finish == "length"
    uses = () if cut else tuple(_uses(received.tools, step, earlier))
    return Reply(
        message=_message(text, uses, received.tools, offered),
        uses=uses,
        text=text,
        model=model,
        tokens=tokens,
        cut=cut,
    )


def _uses(calls: Sequence[CalledTool], step: int, earlier: Collection[str]) -> list[ToolUse]:
    found: list[ToolUse] = []
    taken = set(earlier)
    for place, call in enumerate(calls):
        id = clean_text(call.id)
        while not id or id in taken:
            id = f"call_{step}_{place}"
            place += len(calls)  # its number is a server's id already
        taken.add(id)
        found.append(_use(id, call))
    return found


def _use(id: str, call: CalledTool) -> ToolUse:
    name = clean_text(call.name.strip().removeprefix("functions."))[:KEPT_CHARS]
    if not call.arguments.strip():
        return ToolUse(id=id, name=name, args={})
    try:
        value = one_value(call.arguments)
    except Unreadable as wrong:
        return ToolUse(id=id, name=name, args=None, fault=f"the arguments of {name}: {wrong}")
    if not is_object(value):
        why = f"the arguments of {name} must be a JSON object"
        return ToolUse(id=id, name=name, args=None, fault=why)
    return ToolUse(id=id, name=name, args=value)


def _message(
    text: str, uses: Sequence[ToolUse], calls: Sequence[CalledTool], offered: Collection[str]
) -> Message:
    if not uses:
        return {"role": "assistant", "content": text}
    return {
        "role": "assistant",
        "content": text or None,
        "tool_calls": [
            {
                "id": use.id,
                "type": "function",
                "function": {
                    "name": _wire_name(use.name, offered),
                    "arguments": _arguments(use, call),
                },
            }
            for use, call in zip(uses, calls, strict=True)
        ],
    }


def _wire_name(name: str, offered: Collection[str]) -> str:
    """The name as it may stand in a request."""
    return name if name in offered else _NO_NAME.sub("_", name)[:LONGEST_NAME] or "unknown"


def _arguments(use: ToolUse, call: CalledTool) -> str:
    args = use.args
    if args is None:
        args = {"unreadable": clean_text(call.arguments)[:KEPT_CHARS]}
    return json.dumps(args, ensure_ascii=False)
