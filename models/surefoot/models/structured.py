"""A structured question: its words, its form on the wire, the words to a bad answer. Pure."""

import json
from collections.abc import Sequence

from surefoot.graph.model_ports import Ask, Message
from surefoot.graph.plain import clean_text
from surefoot.graph.values import JsonObject
from surefoot.models.answers import parse_answer
from surefoot.models.calls import Received

SHOWN_RAW = 6000
"""So much of an unusable answer goes back to the model with its faults."""


def asked_matter(ask: Ask) -> str:
    """The matter with the shape of the answer: small servers do not show a schema to the model."""
    shape = ask.outline or json.dumps(ask.schema, ensure_ascii=False, separators=(",", ":"))
    like = "made like this" if ask.outline else "that fits this JSON Schema"
    return (
        f"{ask.matter}\n\n# Your answer\nExactly one JSON object and nothing else, "
        f"{like} ({ask.call}):\n{shape}"
    )


def response_format(ask: Ask) -> JsonObject:
    """The `response_format` of the request; not strict, since arguments of tools are free."""
    form = {"name": ask.call, "schema": ask.schema, "strict": False}
    return {"type": "json_schema", "json_schema": form}


def faults_of(received: Received, ask: Ask) -> tuple[JsonObject | None, list[str]]:
    """The value of an answer, or everything that is wrong with it."""
    ended = _badly_ended(received)
    if ended:
        return None, [ended]
    value, faults = parse_answer(received.text, ask.schema if ask.shape_binds else None)
    if faults:
        return None, faults
    found = [clean_text(fault) for fault in ask.review(value)]
    return (None, found) if found else (value, [])


def again(raw: str, faults: Sequence[str]) -> list[Message]:
    """What is added to the conversation after an unusable answer."""
    said = clean_text(raw)
    if len(said) > SHOWN_RAW:
        said = f"{said[:SHOWN_RAW]}\n[... {len(said) - SHOWN_RAW} more characters left out]"
    listed = "\n".join(f"- {fault}" for fault in faults)
    return [
        {"role": "assistant", "content": said or "(nothing)"},
        {
            "role": "user",
            "content": (
                "That answer cannot be used, and nothing of it was:\n"
                f"{listed}\nAnswer again in full, with these faults mended: exactly one JSON "
                "object."
            ),
        },
    ]


def raw_of(received: Received) -> str:
    """What the model said, for the trace: its text, else its refusal, else its tool calls."""
    if received.text or received.refusal:
        return received.text or received.refusal
    calls = [{"name": call.name, "arguments": call.arguments} for call in received.tools]
    return json.dumps(calls) if calls else ""


def _badly_ended(received: Received) -> str:
    if received.finish == "length":
        return "the answer was cut at the token limit: answer shorter, and whole"
    if received.refusal:
        return f"the model refused: {clean_text(received.refusal)[:300]}"
    if received.finish == "content_filter":
        return "the answer was held back by a content filter"
    if not received.text.strip() and received.tools:
        return "a function was called instead of an answer: answer with the JSON object itself"
    return ""
