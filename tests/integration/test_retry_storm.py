"""D11: many callers, and a server that says "later": how they come back, over real HTTP."""

import asyncio
import random
import time
from email.utils import formatdate

import pytest
from model_client import Client, client_of, verdict_ask
from model_server import ModelServer, Said, Seen, refuse, say_json

from surefoot.graph.errors import ModelUnavailable
from surefoot.models.brake import SPREAD_S
from surefoot.models.endpoint import Endpoints

CALLERS = 20
STORM_S = 2.5
AFTER_S = 1.0
YES = say_json({"pass": True})


class Storm:
    """429 to everybody until some time after the first request, then answers."""

    def __init__(self, *, form: str, ends_after_s: float = STORM_S) -> None:
        self.form = form
        self.ends_after_s = ends_after_s
        self.began: float | None = None
        self.announced: list[tuple[float, float]] = []
        """(when the 429 was sent, the time it announced), both on the monotonic clock"""

    def __call__(self, seen: Seen) -> Said:
        self.began = self.began or seen.at
        if seen.at - self.began > self.ends_after_s:
            return YES
        told: float | str = AFTER_S
        announced = seen.at + AFTER_S
        if self.form == "date":
            moment = int(time.time() + AFTER_S) + 1
            told, announced = formatdate(moment, usegmt=True), seen.at + moment - time.time()
        self.announced.append((seen.at, announced))
        return refuse(429, retry_after=told)


async def ask_all(client: Client, *, until: float | None = None) -> list[object]:
    asked = [client.models.ask(verdict_ask(until=until)) for _ in range(CALLERS)]
    return list(await asyncio.gather(*asked, return_exceptions=True))


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_nobody_comes_before_the_announced_time_and_all_get_their_answer(form: str) -> None:
    storm = Storm(form=form)
    with ModelServer().always("any", storm) as server:
        async with client_of(server, draw=random.random, idle_s=5.0, total_s=20.0) as client:
            answers = await ask_all(client)
    assert not [one for one in answers if isinstance(one, BaseException)]
    arrivals = [seen.at for seen in server.seen]
    first_wave = [at for at in arrivals if at - arrivals[0] < 0.5]
    for sent, announced in storm.announced:
        early = [at for at in arrivals if sent + 0.3 < at < announced - 0.05]
        assert not early
    # After the first wave one probe at a time, one for each announced second.
    in_storm = [at for at in arrivals if 0.5 <= at - arrivals[0] <= STORM_S]
    assert len(in_storm) <= STORM_S / AFTER_S + 1
    assert len(arrivals) <= len(first_wave) + len(in_storm) + CALLERS
    # Those who waited are let go one, two, four ... at a time.
    after = [at for at in arrivals if at - arrivals[0] > STORM_S]
    assert after[4] - after[0] > SPREAD_S / 50
    assert client.spending.steps == CALLERS


async def test_an_endless_storm_ends_by_the_callers_time_with_a_reason() -> None:
    storm = Storm(form="seconds", ends_after_s=1e9)
    with ModelServer().always("any", storm) as server:
        async with client_of(server, draw=random.random) as client:
            started = time.monotonic()
            answers = await ask_all(client, until=time.time() + 3.0)
            took = time.monotonic() - started
    assert all(isinstance(one, ModelUnavailable) for one in answers)
    assert "429" in str(answers[0]) or "wait" in str(answers[0])
    assert 2.5 < took < 5.0
    assert len(server.seen) <= CALLERS + 4
    assert client.spending.account.usage["tokens"] == 0


async def test_waiting_can_be_cancelled_at_once() -> None:
    with ModelServer().always("any", refuse(429, retry_after=3600)) as server:
        async with client_of(server) as client:
            asked = asyncio.create_task(ask_all(client))
            while not client.journal.of("ModelWaits"):
                await asyncio.sleep(0.01)
            started = time.monotonic()
            asked.cancel()
            await asyncio.wait({asked})
            assert time.monotonic() - started < 0.5
            assert client.endpoints.of(server.url, "m").brake.under_way == 0


async def test_where_only_one_of_two_models_is_stormy_the_other_one_does_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("surefoot.models.ladder.PATIENCE_S", 0.5)

    def by_model(seen: Seen) -> Said:
        return refuse(429, retry_after=30) if seen.model == "busy" else YES

    with ModelServer().always("any", by_model) as server:
        ladder = {"judge": ["busy", "free"]}
        async with client_of(server, model=ladder, draw=random.random) as client:
            started = time.monotonic()
            answers = await ask_all(client)
            again = await client.models.ask(verdict_ask())
            took = time.monotonic() - started
    assert not [one for one in answers if isinstance(one, BaseException)]
    assert again.model == "free"
    assert took < 3.0
    assert len([seen for seen in server.seen if seen.model == "busy"]) <= CALLERS
    assert len(client.journal.of("ModelSwitched")) == CALLERS + 1


async def test_two_tasks_of_a_process_step_on_the_same_brake() -> None:
    endpoints = Endpoints()
    with ModelServer().on("verdict", refuse(429, retry_after=1)).always("any", YES) as server:
        async with (
            client_of(server, endpoints=endpoints) as one,
            client_of(server, endpoints=endpoints) as other,
        ):
            first = asyncio.create_task(one.models.ask(verdict_ask()))
            while not one.journal.of("ModelWaits"):
                await asyncio.sleep(0.01)
            await other.models.ask(verdict_ask())
            await first
    assert server.seen[1].at - server.seen[0].at > 0.95
