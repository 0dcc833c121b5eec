"""One answer from the models of a role: paid before it is sent, waited for, tried again.

Failures of the wire (busy, broken, silent) are waited out in here and are nobody's mistake; what a
server will never answer goes to the next model of the ladder. Cancelling is possible at any moment.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from surefoot.graph.errors import CallStopped, ModelUnavailable
from surefoot.graph.model_ports import Role
from surefoot.graph.ports import Clock, Draw
from surefoot.graph.spending import Cost, Spending, cost_of
from surefoot.graph.task import Price
from surefoot.graph.values import Json
from surefoot.models.calls import CallFailed, Received, Request
from surefoot.models.endpoint import Endpoint
from surefoot.models.ladder import patience_s, rungs_from

LONGEST_WAIT_S = 7 * 24 * 3600.0
MOST_SILENT = 4
"""So many tries of one call may pass a time limit in silence; a busy server is waited for."""

LOOK_S = 0.2
"""How long a pause may go unnoticed by a call that waits."""

GRACE_S = 8.0
"""So long a call that was sent may still end when the task pauses; then it is given up."""

SHORTEST_ANSWER = 256
"""Near the end of a budget a shorter answer is asked for, but none below so many tokens."""

BROKEN_S = 600.0
"""A server that cannot be reached, or fails at every try, is given up after so long."""

OPTIONAL_BROKEN_S = 30.0
OPTIONAL_S = 600.0
"""The same, and the longest wait of all, where the asker can go on without an answer."""


class Wire(Protocol):
    """Sends one request (`connection.Connection`)."""

    async def send(self, request: Request, endpoint: Endpoint, *, total_s: float) -> Received:
        """Raises CallFailed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A request for one model, with the tokens its prompt is thought to have."""

    request: Request
    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An answer that is wanted.

    Attributes:
        name: of the call: `plan`, `verdict` ... or `agent`.
        draft: puts the request together for a model; what its server cannot do is in the endpoint.
        until: POSIX seconds, when nobody waits for it any more.
        optional: the asker can go on without it.
        facts: for the event of the call (subtask, attempt, step ...).
    """

    name: str
    role: Role
    draft: Callable[[str, Endpoint], Draft]
    rung: int = 0
    until: float = math.inf
    optional: bool = False
    subtask: str | None = None
    facts: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """A whole answer, what it cost, and how it came."""

    received: Received
    model: str
    draft: Draft
    cost: Cost
    seconds: float
    tries: int


@dataclass(slots=True)
class _Try:
    """One model being asked: the time it is given and what has gone wrong so far."""

    model: str
    endpoint: Endpoint
    until: float
    last: bool
    broken_s: float = BROKEN_S
    tries: int = 0
    step: bool = True
    why: str = ""
    silent: int = 0
    broken_since: float | None = None

    def gives_up(self, failed: CallFailed, now: float) -> bool:
        """Note a failure that may pass; whether waiting for this model makes no sense any more."""
        self.silent += failed.sort == "silent"
        if failed.sort == "busy":
            self.broken_since = None
        elif self.broken_since is None:
            self.broken_since = now
        lost = self.broken_since is not None and now - self.broken_since >= self.broken_s
        return lost or self.silent >= MOST_SILENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Calls the models of one task."""

    wire: Wire
    ladders: Mapping[Role, tuple[str, ...]]
    prices: Mapping[str, Price]
    endpoint_of: Callable[[str], Endpoint]
    spending: Spending
    tell: Callable[[str, Wanted, Mapping[str, Json]], None]
    total_s: float
    stopping: Callable[[], bool]
    clock: Clock
    draw: Draw
    monotonic: Clock = time.monotonic

    async def call(self, wanted: Wanted) -> Got:
        """Get an answer.

        Raises:
            ModelUnavailable: no model of the role answers, or none did in time.
            CallStopped: somebody asked for a pause, and it would have to wait.
            BudgetExhausted: it may not be paid; nothing was sent.
            CallFailed: `unsupported`: the request must be put in another form (`endpoint` says so).
        """
        longest_s = OPTIONAL_S if wanted.optional else LONGEST_WAIT_S
        end = min(wanted.until, self.clock() + longest_s)
        rungs = rungs_from(self.ladders[wanted.role], wanted.rung)
        reasons: list[str] = []
        for place, (_, model) in enumerate(rungs):
            below = len(rungs) - place - 1
            left = end - self.clock()
            until = self.monotonic() + patience_s(below=below, left_s=left)
            asked = _Try(model, self.endpoint_of(model), until, last=below == 0)
            asked.broken_s = OPTIONAL_BROKEN_S if wanted.optional else BROKEN_S
            got = await self._ask(wanted, asked)
            if got is not None:
                return got
            reasons.append(f"{model}: {asked.why}")
            if below:
                following = rungs[place + 1][1]
                facts = {"from": model, "to": following, "reason": asked.why}
                self.tell("ModelSwitched", wanted, facts)
        raise ModelUnavailable(f"no {wanted.role} model answers ({'; '.join(reasons)})")

    async def _ask(self, wanted: Wanted, asked: _Try) -> Got | None:
        """Ask one model until it answers; None when the next one must be asked."""
        while True:
            if not await self._passes(asked):
                return None
            left_at = self.monotonic()
            try:
                got = await self._once(wanted, asked)
            except CallFailed as failed:
                asked.why = str(failed)
                if failed.sort == "refused":
                    if failed.code == "unsupported" and self._adapts(failed, asked.endpoint):
                        continue
                    return None
                wait = self._told(failed, asked, left_at)
                if asked.gives_up(failed, self.monotonic()) or self._hopeless(asked, wait):
                    return None
            else:
                return got
            finally:
                asked.endpoint.brake.leave()
            facts = {"model": asked.model, "reason": asked.why, "seconds": round(wait, 3)}
            self.tell("ModelWaits", wanted, facts)
            await self._sleep(min(wait, asked.until - self.monotonic()))

    async def _passes(self, asked: _Try) -> bool:
        """Wait until the brake lets this request leave; False when the time is up."""
        brake = asked.endpoint.brake
        while (wait := brake.enter(self.monotonic(), draw=self.draw())) > 0:
            now = self.monotonic()
            if self._hopeless(asked, wait) or now + wait > asked.until:
                asked.why = asked.why or "its server asks everybody to wait"
                if asked.last:
                    await self._sleep(asked.until - now)
                return False
            await self._sleep(wait)
        if self.monotonic() >= asked.until and asked.tries:
            brake.leave()
            return False
        return True

    def _hopeless(self, asked: _Try, wait_s: float) -> bool:
        """Whether another model should be asked rather than this one waited for."""
        left = asked.until - self.monotonic()
        stormy = asked.endpoint.brake.stormy_for(self.monotonic())
        return not asked.last and (wait_s > left or stormy > left)

    async def _sleep(self, wait_s: float) -> None:
        """Wait, but not through a pause.

        Raises:
            CallStopped: a pause was asked for.
        """
        end = self.monotonic() + wait_s
        while (left := end - self.monotonic()) > 0:
            if self.stopping():
                raise CallStopped("the task stops: the call was given up while it waited")
            await asyncio.sleep(min(left, LOOK_S))

    async def _once(self, wanted: Wanted, asked: _Try) -> Got:
        """Pay for, send and settle one request."""
        draft = wanted.draft(asked.model, asked.endpoint)
        price = self.prices.get(asked.model)
        draft, most = await self._paid(wanted, draft, price, step=asked.step)
        asked.step, asked.tries = False, asked.tries + 1
        started = self.monotonic()
        total_s = min(self.total_s, max(0.001, asked.until - started))
        try:
            received = await self._sent(draft.request, asked.endpoint, total_s)
        except CallFailed as failed:
            await self.spending.settle(most, Cost(tokens=0) if failed.unpaid else most)
            raise
        except BaseException:
            self.spending.forfeit(most)
            raise
        used = most
        if received.prompt_tokens is not None and received.answer_tokens is not None:
            used = cost_of(price, prompt=received.prompt_tokens, answer=received.answer_tokens)
        await self.spending.settle(most, used)
        return Got(
            received=received,
            model=asked.model,
            draft=draft,
            cost=used,
            seconds=self.monotonic() - started,
            tries=asked.tries,
        )

    async def _paid(
        self, wanted: Wanted, draft: Draft, price: Price | None, *, step: bool
    ) -> tuple[Draft, Cost]:
        """Reserve a request, with a shorter answer where the budget has no room for the longest.

        Raises:
            BudgetExhausted: there is no room even for a short one.
        """
        answers = _answers(draft.request.max_tokens)
        costs = [cost_of(price, prompt=draft.prompt_tokens, answer=answer) for answer in answers]
        most = await self.spending.reserve(
            costs[0], subtask=wanted.subtask, step=step, smaller=costs[1:]
        )
        answer = answers[costs.index(most)]
        return replace(draft, request=replace(draft.request, max_tokens=answer)), most

    async def _sent(self, request: Request, endpoint: Endpoint, total_s: float) -> Received:
        """Send a request and wait for its answer, but not long through a pause.

        Raises:
            CallStopped: a pause was asked for, and no answer came in the grace.
        """
        sending = asyncio.ensure_future(self.wire.send(request, endpoint, total_s=total_s))
        given_up = math.inf
        try:
            while not sending.done():
                await asyncio.wait({sending}, timeout=LOOK_S)
                if self.stopping():
                    given_up = min(given_up, self.monotonic() + GRACE_S)
                if self.monotonic() >= given_up and not sending.done():
                    raise CallStopped("the task stops: a call that was not answered was given up")
            return sending.result()
        finally:
            if not sending.done():
                sending.cancel()
                await asyncio.wait({sending})

    def _told(self, failed: CallFailed, asked: _Try, left_at: float) -> float:
        """Tell the brake of a failure that may pass; returns the seconds to wait at least."""
        return asked.endpoint.brake.failed(
            self.monotonic(),
            left_at=left_at,
            busy=failed.sort == "busy",
            counts=failed.sort != "silent",
            retry_after_s=failed.retry_after_s,
            draw=self.draw(),
        )

    def _adapts(self, failed: CallFailed, endpoint: Endpoint) -> bool:
        """Leave out what the server does not know; False where it was left out already."""
        new = failed.field not in endpoint.unsupported
        endpoint.unsupported.add(failed.field)
        return new


def _answers(longest: int) -> list[int]:
    """Lengths of an answer that may be asked for, in tokens, the longest first."""
    found = [longest]
    while found[-1] // 2 >= SHORTEST_ANSWER:
        found.append(found[-1] // 2)
    return found
