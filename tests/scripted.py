"""A model that says what a test has written down, without a wire."""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from surefoot.graph.model_ports import Answer, Ask, Message, Reply, Role, ToolUse, Turn
from surefoot.graph.shapes import is_object

Said = Reply | BaseException
Script = Said | Callable[[Turn], Said]

_ids = itertools.count(1)


def says(text: str, *, tokens: int = 10, cut: bool = False) -> Reply:
    """A reply of text alone."""
    message: Message = {"role": "assistant", "content": text}
    return Reply(message=message, uses=(), text=text, model="scripted", tokens=tokens, cut=cut)


def wants(*calls: tuple[str, Any], tokens: int = 10) -> Reply:
    """A reply that asks for calls: (tool, arguments); arguments that are text are unusable."""
    uses = tuple(_use(name, args) for name, args in calls)
    wire = [
        {
            "id": use.id,
            "type": "function",
            "function": {"name": use.name, "arguments": json.dumps(use.args)},
        }
        for use in uses
    ]
    message: Message = {"role": "assistant", "content": "", "tool_calls": wire}
    return Reply(message=message, uses=uses, text="", model="scripted", tokens=tokens)


def finishes(result: Any, **more: Any) -> Reply:
    """A reply that ends the work."""
    return wants(("finish", {"result": result}), **more)


def _use(name: str, args: Any) -> ToolUse:
    id = f"call-{next(_ids)}"
    if is_object(args):
        return ToolUse(id=id, name=name, args=args)
    return ToolUse(id=id, name=name, args=None, fault="its arguments are no JSON")


@dataclass
class ScriptedModel:
    """Says its script, one entry a turn; `turns` are the requests it got."""

    script: list[Script] = field(default_factory=list[Script])
    folds: list[list[Message] | None] = field(default_factory=list[list[Message] | None])
    turns: list[Turn] = field(default_factory=list[Turn])

    def has(self, role: Role) -> bool:
        del role
        return True

    async def ask(self, ask: Ask) -> Answer:
        raise AssertionError(f"nobody wrote an answer to {ask.call}")

    async def step(self, turn: Turn) -> Reply:
        self.turns.append(turn)
        assert self.script, "the script is over"
        said = self.script.pop(0)
        said = said(turn) if callable(said) else said
        if isinstance(said, BaseException):
            raise said
        return said

    async def fold(self, turn: Turn) -> list[Message] | None:
        del turn
        return self.folds.pop(0) if self.folds else None


def told(turn: Turn) -> list[str]:
    """The texts of the tool results in a request."""
    return [str(m["content"]) for m in turn.messages if m["role"] == "tool"]


def roles(messages: Sequence[Message]) -> str:
    """The roles of messages by their first letters, for a look at a history's shape."""
    return "".join(str(message["role"])[0] for message in messages)
