"""The models of one task, behind `graph.model_ports.ModelClient`.

Composes what the other modules of this package decide: the request, the call, the reading of the
answer. Leaves an event for every call, and the raw text of every answer that could not be used.
"""

import asyncio
import importlib
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from surefoot.graph.errors import AnswerUnusable, MissingModel, ModelUnavailable
from surefoot.graph.model_ports import Answer, Ask, Message, Reply, Role, Turn
from surefoot.graph.model_roles import ModelRoles
from surefoot.graph.plain import clean_json, clean_text
from surefoot.graph.ports import ArtifactStore, Clock, Draw, Journal
from surefoot.graph.spending import Spending
from surefoot.graph.values import Json, JsonObject
from surefoot.models.calling import Caller, Draft, Got, Wanted, Wire
from surefoot.models.calls import Received, Request
from surefoot.models.counting import TokenMeter
from surefoot.models.endpoint import ENDPOINTS, Endpoint, Endpoints, Place
from surefoot.models.folding import fold_of, folded, summary_ask
from surefoot.models.requests import Window, build_request
from surefoot.models.stepping import reply_of
from surefoot.models.structured import again, asked_matter, faults_of, raw_of, response_format
from surefoot.models.text_tools import called, in_text

ANSWER_TOKENS = {"goal": 8192, "plan": 16384, "agent": 8192}
"""The longest answer of a call; others have `SHORT_ANSWER`. Never above a quarter of the window."""

SHORT_ANSWER = 2048
LEAST_ANSWER = 64
SHOWN_RAW = 2000


class TaskModels:
    """`ModelClient` of one open task. Close it: it may hold connections."""

    def __init__(
        self,
        roles: ModelRoles,
        place: Place,
        *,
        spending: Spending,
        journal: Journal,
        store: ArtifactStore,
        clock: Clock = time.time,
        draw: Draw = random.random,
        endpoints: Endpoints = ENDPOINTS,
        deadline: Callable[[], float] = lambda: math.inf,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.deadline = deadline
        self.roles = roles
        self.place = place
        self.journal = journal
        self.store = store
        self.meter = TokenMeter()
        self._wire = _LazyWire(place)
        self._caller = Caller(
            wire=self._wire,
            ladders=roles.ladders,
            prices=roles.prices,
            endpoint_of=lambda model: endpoints.of(place.base_url, model),
            spending=spending,
            tell=self._tell,
            total_s=place.total_s,
            stopping=stopping,
            clock=clock,
            draw=draw,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    def has(self, role: Role) -> bool:
        """Whether the role has a model."""
        return bool(self.roles.ladders.get(role))

    async def ask(self, ask: Ask) -> Answer:
        """See `ModelClient`."""
        self._need(ask.role)
        recent: list[Message] = []
        faults: Sequence[str] = ()
        raw = ""
        for number in range(1, max(1, ask.rounds) + 1):
            got = await self._caller.call(self._wanted_answer(ask, recent, number))
            value, faults = faults_of(got.received, ask)
            raw = raw_of(got.received)
            self._called(ask.call, got, ask.role, subtask=ask.subtask, round=number)
            if value is not None:
                return Answer(value=value, model=got.model, raw=raw)
            await self._keep_unusable(ask, got, faults, raw)
            recent = again(raw, faults)
        raise AnswerUnusable(ask.call, faults, raw)

    async def step(self, turn: Turn) -> Reply:
        """See `ModelClient`."""
        self._need("executor")

        def draft(model: str, endpoint: Endpoint) -> Draft:
            window = self._window(model, "agent")
            request = build_request(
                turn.brief, turn.matter, turn.messages, window=window, tools=turn.tools
            )
            spoken = "tools" in endpoint.unsupported
            made = Request(
                model=model,
                messages=in_text(request.messages, request.tools) if spoken else request.messages,
                max_tokens=window.answer,
                tools=() if spoken else request.tools,
            )
            return Draft(request=made, prompt_tokens=self._counted(model, request.tokens))

        facts = {"attempt": turn.attempt, "step": turn.step, "sample": turn.sample or None}
        wanted = Wanted(
            name="agent",
            role="executor",
            draft=draft,
            rung=turn.rung,
            until=self._until(turn.until),
            subtask=turn.subtask,
            facts=facts,
        )
        got = await self._caller.call(wanted)
        self._called("agent", got, "executor", subtask=turn.subtask, **facts)
        received = got.received if got.draft.request.tools else _spoken(got.received, turn.step)
        tokens = got.received.answer_tokens
        tokens = tokens or len(got.received.text) // 3
        return reply_of(received, model=got.model, step=turn.step, tokens=tokens, turn=turn)

    async def fold(self, turn: Turn) -> list[Message] | None:
        """See `ModelClient`."""
        self._need("executor")
        ladder = self.roles.ladders["executor"]
        window = self._window(ladder[min(turn.rung, len(ladder) - 1)], "agent")
        fold = fold_of(turn, window)
        if fold is None:
            return None
        try:
            answer = await self.ask(summary_ask(turn, fold, window))
        except (AnswerUnusable, ModelUnavailable):
            return folded(fold, None)
        return folded(fold, str(answer.value["text"]))

    def _wanted_answer(self, ask: Ask, recent: Sequence[Message], number: int) -> Wanted:
        def draft(model: str, endpoint: Endpoint) -> Draft:
            window = self._window(model, ask.call)
            request = build_request(ask.brief, asked_matter(ask), recent, window=window)
            plain = "response_format" in endpoint.unsupported
            made = Request(
                model=model,
                messages=request.messages,
                max_tokens=window.answer,
                response_format=None if plain else response_format(ask),
            )
            return Draft(request=made, prompt_tokens=self._counted(model, request.tokens))

        return Wanted(
            name=ask.call,
            role=ask.role,
            draft=draft,
            until=self._until(ask.until),
            optional=ask.optional,
            subtask=ask.subtask,
            facts={"attempt": ask.attempt or None, "round": number},
        )

    def _until(self, asked: float | None) -> float:
        """When nobody waits any more: the asker, or the task whose time is up."""
        deadline = self.deadline()
        return deadline if asked is None else min(asked, deadline)

    def _window(self, model: str, call: str) -> Window:
        tokens = self.roles.context_tokens
        most = min(ANSWER_TOKENS.get(call, SHORT_ANSWER), tokens // 4)
        answer = max(LEAST_ANSWER, most)
        return Window(tokens=tokens, answer=answer, ratio=self.meter.ratio(model))

    def _counted(self, model: str, estimated: int) -> int:
        return math.ceil(estimated * self.meter.ratio(model))

    def _need(self, role: Role) -> None:
        if not self.has(role):
            raise MissingModel(role)

    # --- the trace ---------------------------------------------------------------------------

    def _called(
        self, call: str, got: Got, role: Role, *, subtask: str | None, **more: Json
    ) -> None:
        prompt = got.received.prompt_tokens
        if prompt is not None:
            # What is reserved was the estimate times the ratio so far.
            estimated = round(got.draft.prompt_tokens / self.meter.ratio(got.model))
            self.meter.note(got.model, estimated=estimated, counted=prompt)
        facts: JsonObject = {
            "call": call,
            "role": role,
            "model": got.model,
            "tokens": got.cost.tokens,
            "cost_usd": got.cost.cost_usd,
            "ms": round(got.seconds * 1000),
            "finish": clean_text(got.received.finish)[:40],
            "retries": got.tries - 1,
            **more,
        }
        self._event("ModelCalled", subtask, facts)

    async def _keep_unusable(self, ask: Ask, got: Got, faults: Sequence[str], raw: str) -> None:
        content = raw.encode("utf-8", "backslashreplace")
        facts: JsonObject = {
            "call": ask.call,
            "model": got.model,
            "faults": list(faults),
            "raw": clean_text(raw[:SHOWN_RAW]),
            "sha256": await self.store.put_bytes(content),
            "size": len(content),
            "attempt": ask.attempt or None,
        }
        self._event("AnswerUnusable", ask.subtask, facts)

    def _tell(self, type: str, wanted: Wanted, facts: Mapping[str, Json]) -> None:
        self._event(type, wanted.subtask, {"call": wanted.name, **wanted.facts, **facts})

    def _event(self, type: str, subtask: str | None, facts: Mapping[str, Json]) -> None:
        left: dict[str, Any] = {k: v for k, v in facts.items() if v is not None}
        attempt = left.pop("attempt", None)
        safe, _ = clean_json(left)
        if "reason" in safe:
            safe["reason"] = self.place.scrubbed(safe["reason"])
        self.journal.event(type, subtask=subtask, attempt=attempt, **safe)


class _LazyWire:
    """The connection, made at the first call: the client library takes a second to import."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._made: Any = None

    async def send(self, request: Request, endpoint: Endpoint, *, total_s: float) -> Received:
        """See `Wire`."""
        if self._made is None:
            room = await asyncio.to_thread(importlib.import_module, "surefoot.models.connection")
            self._made = self._made or room.Connection(self.place)
        wire: Wire = self._made
        return await wire.send(request, endpoint, total_s=total_s)

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._made is not None:
            await self._made.close()
            self._made = None


def _spoken(received: Received, step: int) -> Received:
    tools = called(received, step)
    return Received(
        text="" if tools else received.text,
        tools=tools,
        finish=received.finish,
        refusal=received.refusal,
        prompt_tokens=received.prompt_tokens,
        answer_tokens=received.answer_tokens,
    )
