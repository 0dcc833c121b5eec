"""Tool calls for servers that know none: asked for in text, answered as one JSON object. Pure."""

import json
from collections.abc import Sequence

from surefoot.graph.model_ports import Message
from surefoot.graph.shapes import is_object
from surefoot.graph.values import JsonObject
from surefoot.models.answers import parse_answer
from surefoot.models.calls import CalledTool, Received


def in_text(messages: Sequence[Message], tools: Sequence[JsonObject]) -> list[Message]:
    """The same request without tool calls: what was called and what came back as plain text."""
    said = [_plain(message) for message in messages]
    listed = "\n".join(json.dumps(tool.get("function"), ensure_ascii=False) for tool in tools)
    how = (
        "You can call these functions (JSON Schema of each):\n"
        f"{listed}\n\n"
        'Answer with exactly one JSON object and nothing else: {"tool": NAME, "args": {...}}'
    )
    if said and said[-1]["role"] == "user":
        return [*said[:-1], {"role": "user", "content": f"{said[-1]['content']}\n\n{how}"}]
    return [*said, {"role": "user", "content": how}]


def called(received: Received, step: int) -> tuple[CalledTool, ...]:
    """The call that a text asks for; none where it is not exactly one."""
    value, faults = parse_answer(received.text)
    if faults or not is_object(value) or not isinstance(value.get("tool"), str):
        return ()
    arguments = json.dumps(value.get("args", {}), ensure_ascii=False)
    return (CalledTool(id=f"call_{step}_0", name=value["tool"], arguments=arguments),)


def _plain(message: Message) -> Message:
    if message["role"] == "tool":
        return {"role": "user", "content": message["content"]}
    calls: list[JsonObject] = message.get("tool_calls") or []
    if not calls:
        return {"role": message["role"], "content": message["content"]}
    texts = [json.dumps(_spoken(one["function"]), ensure_ascii=False) for one in calls]
    spoken = [message["content"]] if message.get("content") else []
    return {"role": "assistant", "content": "\n".join([*spoken, *texts])}


def _spoken(function: JsonObject) -> JsonObject:
    return {"tool": function["name"], "args": json.loads(function["arguments"])}
