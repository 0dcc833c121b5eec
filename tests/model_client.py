"""A model client over a scripted server, with everything around it in memory."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fakes import FakeStore
from model_server import ModelServer

from surefoot.graph.head import sha256_of
from surefoot.graph.model_ports import Ask, Brief, Turn
from surefoot.graph.model_roles import ModelRoles
from surefoot.graph.ports import Draw
from surefoot.graph.spending import Account, Cost
from surefoot.graph.values import JsonObject, Usage
from surefoot.models.client import TaskModels
from surefoot.models.endpoint import Endpoints, Place

VERDICT: JsonObject = {
    "type": "object",
    "properties": {"pass": {"type": "boolean"}, "why": {"type": "string"}},
    "required": ["pass"],
    "additionalProperties": False,
}
HEAD = "# Goal\n\nCount the ships.\n"


class FreeSpending:
    """Counts in memory and refuses nothing."""

    def __init__(self) -> None:
        usage = Usage(steps=0, tokens=0, cost_usd=0.0, seconds=0.0, failures=0)
        self.account = Account(usage)
        self.steps = 0

    async def reserve(
        self,
        most: Cost,
        *,
        subtask: str | None,
        step: bool = True,
        smaller: Sequence[Cost] = (),
    ) -> Cost:
        del subtask, smaller
        self.account.reserve(most)
        self.steps += step
        return most

    async def settle(self, most: Cost, used: Cost) -> None:
        self.account.settle(most, used)

    def forfeit(self, most: Cost) -> None:
        self.account.settle(most, most)


class EventList:
    """A journal of which only the events are kept."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def event(self, type: str, **facts: Any) -> None:
        self.events.append((type, facts))

    def of(self, type: str) -> list[dict[str, Any]]:
        """The facts of the events of one type."""
        return [facts for name, facts in self.events if name == type]


@dataclass
class Client:
    """The client under test and what it left behind."""

    models: TaskModels
    journal: EventList
    store: FakeStore
    spending: FreeSpending
    endpoints: Endpoints = field(default_factory=Endpoints)


@asynccontextmanager
async def client_of(
    server: ModelServer,
    *,
    model: str | JsonObject = "m",
    idle_s: float = 0.5,
    total_s: float = 2.0,
    endpoints: Endpoints | None = None,
    draw: Draw = lambda: 0.05,
) -> AsyncGenerator[Client]:
    """A client whose knowledge of endpoints is its own, unless some is given."""
    place = Place(base_url=server.url, key="sk-very-secret", idle_s=idle_s, total_s=total_s)
    journal, store, spending = EventList(), FakeStore(), FreeSpending()
    known = endpoints or Endpoints()
    events: Any = journal
    models = TaskModels(
        ModelRoles.of({"model": model}),
        place,
        spending=spending,
        journal=events,
        store=store,
        endpoints=known,
        draw=draw,
    )
    try:
        yield Client(models, journal, store, spending, known)
    finally:
        await models.close()


def brief() -> Brief:
    return Brief(head=HEAD, head_digest=sha256_of(HEAD))


def verdict_ask(**changed: Any) -> Ask:
    """A question for `{pass, why}`."""
    given: dict[str, Any] = {
        "call": "verdict",
        "role": "judge",
        "brief": brief(),
        "matter": "Is it so?",
        "schema": VERDICT,
    }
    return Ask(**{**given, **changed})


def turn(messages: Sequence[JsonObject] = (), **changed: Any) -> Turn:
    """A step with the tools `look` and `finish`."""
    given: dict[str, Any] = {
        "brief": brief(),
        "matter": "Look around.",
        "messages": messages,
        "tools": [function("look"), function("finish")],
        "subtask": "a",
        "attempt": 1,
        "step": 1,
    }
    return Turn(**{**given, **changed})


def function(name: str) -> JsonObject:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
