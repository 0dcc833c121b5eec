"""An agent's step: from what the server sent to a reply that may be kept in the history. Pure."""

import json
from collections.abc import Sequence

from surefoot.graph.model_ports import Message, Reply, ToolUse
from surefoot.graph.plain import clean_text
from surefoot.graph.shapes import is_object
from surefoot.models.answers import Unreadable, one_value, without_thoughts
from surefoot.models.calls import CalledTool, Received

KEPT_CHARS = 2000
"""So much of unreadable arguments is kept in the history."""

REFUSED = "(refused: {})"


def reply_of(received: Received, *, model: str, step: int, tokens: int) -> Reply:
    """The reply that an answer is.

    Calls keep the ids the server gave; a missing or repeated id gets one of ours. Arguments in the
    history are always a JSON object, or strict servers would refuse the next request.
    """
    text = without_thoughts(received.text)
    if received.refusal and not text:
        text = REFUSED.format(clean_text(received.refusal)[:KEPT_CHARS])
    cut = received.finish == "length"
    uses = () if cut else tuple(_uses(received.tools, step))
    return Reply(
        message=_message(text, uses, received.tools),
        uses=uses,
        text=text,
        model=model,
        tokens=tokens,
        cut=cut,
    )


def _uses(calls: Sequence[CalledTool], step: int) -> list[ToolUse]:
    found: list[ToolUse] = []
    for place, call in enumerate(calls):
        taken = {use.id for use in found}
        id = clean_text(call.id)
        if not id or id in taken:
            id = f"call_{step}_{place}"
        found.append(_use(id, call))
    return found


def _use(id: str, call: CalledTool) -> ToolUse:
    name = call.name.strip().removeprefix("functions.")
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


def _message(text: str, uses: Sequence[ToolUse], calls: Sequence[CalledTool]) -> Message:
    if not uses:
        return {"role": "assistant", "content": text}
    return {
        "role": "assistant",
        "content": text or None,
        "tool_calls": [
            {
                "id": use.id,
                "type": "function",
                "function": {"name": use.name, "arguments": _arguments(use, call)},
            }
            for use, call in zip(uses, calls, strict=True)
        ],
    }


def _arguments(use: ToolUse, call: CalledTool) -> str:
    args = use.args
    if args is None:
        args = {"unreadable": clean_text(call.arguments)[:KEPT_CHARS]}
    return json.dumps(args, ensure_ascii=False)
