"""One answer from a ladder of models: who is waited for, and how long, on a scripted wire."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from model_client import FreeSpending

from surefoot.graph.errors import CallStopped, ModelUnavailable
from surefoot.graph.spending import Cost
from surefoot.models import calling
from surefoot.models.calling import Caller, Draft, Wanted
from surefoot.models.calls import CallFailed, Received, Request
from surefoot.models.endpoint import Endpoint, Endpoints

DONE = Received(text="{}", tools=(), finish="stop", prompt_tokens=5, answer_tokens=1)
DOWN = CallFailed("broken", "503", "HTTP 503")


class FakeWire:
    """Answers by model; what is a number of seconds is silent for so long."""

    def __init__(self, by_model: Mapping[str, Received | CallFailed | float]) -> None:
        self.by_model = by_model
        self.sent: list[str] = []
        self.torn = 0

    async def send(self, request: Request, endpoint: Endpoint, *, total_s: float) -> Received:
        del endpoint, total_s
        self.sent.append(request.model)
        answer = self.by_model[request.model]
        if isinstance(answer, CallFailed):
            raise answer
        if isinstance(answer, Received):
            return answer
        try:
            await asyncio.sleep(answer)
        except asyncio.CancelledError:
            self.torn += 1
            raise
        return DONE


def caller(wire: FakeWire, *ladder: str, stopping: Callable[[], bool] = lambda: False) -> Caller:
    endpoints = Endpoints()
    spending: Any = FreeSpending()
    return Caller(
        wire=wire,
        ladders={"executor": ladder},
        prices={},
        endpoint_of=lambda model: endpoints.of("", model),
        spending=spending,
        tell=lambda type, wanted, facts: None,
        total_s=60.0,
        stopping=stopping,
        clock=lambda: 0.0,
        draw=lambda: 0.5,
    )


def wanted() -> Wanted:
    def draft(model: str, endpoint: Endpoint) -> Draft:
        del endpoint
        return Draft(request=Request(model=model, messages=[], max_tokens=10), prompt_tokens=5)

    return Wanted(name="agent", role="executor", draft=draft)


async def test_a_model_known_to_be_down_is_tried_once_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("surefoot.models.ladder.PATIENCE_S", 1.0)
    wire = FakeWire({"down": DOWN, "good": DONE})
    models = caller(wire, "down", "good")
    await models.call(wanted())
    loop, tried = asyncio.get_running_loop(), len(wire.sent)
    started = loop.time()
    got = await models.call(wanted())
    assert got.model == "good"
    assert wire.sent[tried:] in (["good"], ["down", "good"])
    assert loop.time() - started < 0.5


async def test_a_pause_gives_a_silent_call_up_after_its_grace_and_pays_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calling, "GRACE_S", 0.0)
    wire = FakeWire({"m": 30.0})
    models = caller(wire, "m", stopping=lambda: bool(wire.sent))
    with pytest.raises(CallStopped):
        await models.call(wanted())
    assert wire.torn == 1
    spending: Any = models.spending
    assert spending.account.usage["tokens"] == 15
    assert spending.account.under_way == 0


async def test_near_the_end_of_a_budget_a_shorter_answer_is_asked_for() -> None:
    class Narrow(FreeSpending):
        async def reserve(
            self,
            most: Cost,
            *,
            subtask: str | None,
            step: bool = True,
            smaller: Sequence[Cost] = (),
        ) -> Cost:
            fitting = next(cost for cost in (most, *smaller) if cost.tokens <= 2000)
            return await super().reserve(fitting, subtask=subtask, step=step)

    def draft(model: str, endpoint: Endpoint) -> Draft:
        del endpoint
        return Draft(request=Request(model=model, messages=[], max_tokens=8192), prompt_tokens=100)

    wire = FakeWire({"m": DONE})
    spending: Any = Narrow()
    models = replace(caller(wire, "m"), spending=spending)
    got = await models.call(replace(wanted(), draft=draft))
    assert got.draft.request.max_tokens == 1024
    assert spending.account.reserved.tokens == 0


async def test_a_call_that_ends_within_the_grace_of_a_pause_is_kept() -> None:
    wire = FakeWire({"m": 0.3})
    got = await caller(wire, "m", stopping=lambda: bool(wire.sent)).call(wanted())
    assert (got.received, wire.torn) == (DONE, 0)


@pytest.mark.parametrize("fault", [DOWN, CallFailed("busy", "429", "HTTP 429")])
async def test_who_can_go_on_without_an_answer_does_not_wait_long_for_one(
    fault: CallFailed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "OPTIONAL_BROKEN_S", 0.2)
    monkeypatch.setattr(calling, "OPTIONAL_S", 0.6)
    wire = FakeWire({"m": fault})
    async with asyncio.timeout(30):
        with pytest.raises(ModelUnavailable):
            await caller(wire, "m").call(replace(wanted(), optional=True))
