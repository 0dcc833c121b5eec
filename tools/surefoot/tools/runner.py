"""`LocalRunner`: the subtasks in flight in this process, behind the `Runner` protocol.

It works and never decides: order in, outcome out. An outcome is kept until the nodes say that it
is durable, so a superstep that is lost loses nothing. Retries, backoff and rungs are the nodes'.
"""

import asyncio
import contextvars
import copy
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from surefoot.graph.agent_ports import OnStep
from surefoot.graph.attempts import effect_of
from surefoot.graph.checks import Check
from surefoot.graph.errors import (
    CallStopped,
    DatabaseUnavailable,
    InconsistentState,
    LeaseLost,
    TransientError,
)
from surefoot.graph.judging import Judge
from surefoot.graph.model_ports import Brief
from surefoot.graph.ports import (
    ArtifactStore,
    Binding,
    Clock,
    EffectRow,
    Ledger,
    NoWorkspace,
    SubtaskWork,
    ToolHost,
    WorkOrder,
    Workspace,
)
from surefoot.graph.task import Goal, Prohibition
from surefoot.graph.values import (
    Action,
    ArtifactRef,
    Json,
    JsonObject,
    Outcome,
    Question,
    StoredValue,
)
from surefoot.tools.agent_work import AgentWork
from surefoot.tools.evidence import Evidence
from surefoot.tools.kept_values import KeptResult
from surefoot.tools.outcomes import AttemptFailed, not_accepted, stopped
from surefoot.tools.slots import Slots
from surefoot.tools.stopping import Cut, Stop
from surefoot.tools.workshop import Workshop

log = logging.getLogger(__name__)

CLOSE_GRACE_S = 10.0
"""How long `close` lets what was stopped write its last row."""

CUT_AGAIN_S = 0.25

Key = tuple[str, int, Action]

AgentOf = Callable[[AgentWork], Callable[[WorkOrder, Stop], Awaitable[Outcome]]]
"""Makes the work of agents from what the runner runs tools with; see `SubtaskWork`, but it is never
torn: it stops by the sign."""


@dataclass(slots=True)
class Flight:
    """An order that has started."""

    order: WorkOrder
    slot: bool
    stop: Stop = field(default_factory=Stop)
    task: "asyncio.Task[None] | None" = None


class LocalRunner:
    """Runs a task's orders as asyncio tasks, at most `slots` attempts at a time.

    Args:
        task_id: the task.
        slots: attempts at a time; containers take none.
        host: runs the tools. It stays the caller's: `close` does not close it.
        ledger: the effect ledger.
        store: where results and artifacts lie.
        workspace: where commands run and relative paths start.
        task_dir: the task file's folder.
        task_folder: read-only copies of artifacts go below it (`artifacts/SUBTASK/NAME`).
        inputs: the goal's inputs, with paths made absolute.
        prohibitions: the goal's; the typed ones are enforced at every call.
        clock: POSIX seconds.
        snapshots: remembers the workspace before attempts and puts it back; None: nobody does.
        on_step: told (subtask, attempt, step state, tool, step number) around every step.
        agent: makes what carries out `agent` work (the subtask graph) from our own parts.
        nest: a group's inner plan, for the action `nest`.
        reflect: a model's criticism, for the action `reflect`.
        judge: decides `judge` checks.
        stopping: whether a stop was asked for: nothing takes a slot from then on.

    Raises:
        ReferenceMissing: a prohibition names an input that does not exist.
    """

    def __init__(
        self,
        *,
        task_id: str,
        slots: int,
        host: ToolHost,
        ledger: Ledger,
        store: ArtifactStore,
        workspace: Path,
        task_dir: Path,
        task_folder: Path,
        inputs: JsonObject,
        prohibitions: Sequence[Prohibition],
        clock: Clock,
        snapshots: Workspace | None = None,
        on_step: OnStep | None = None,
        agent: "AgentOf | None" = None,
        nest: SubtaskWork | None = None,
        reflect: SubtaskWork | None = None,
        judge: Judge | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._slots, self._host, self._clock = Slots(slots, stopping), host, clock
        self._nest, self._reflect = nest, reflect
        self._shop = Workshop(
            task_id=task_id,
            host=host,
            ledger=ledger,
            store=store,
            workspace=workspace,
            task_dir=task_dir,
            task_folder=task_folder,
            inputs=inputs,
            prohibitions=prohibitions,
            clock=clock,
            snapshots=snapshots or NoWorkspace(),
            on_step=on_step,
            judge=judge,
        )
        self.compensations, self.groups = self._shop.compensations, self._shop.groups
        self._agent = agent(self._shop.agent_work) if agent else None
        self._empty()

    def _empty(self) -> None:
        self._waiting: deque[WorkOrder] = deque()
        self._flights: dict[Key, Flight] = {}
        self._finished: dict[Key, Outcome] = {}
        self._lost: dict[Key, WorkOrder] = {}
        self._taken = 0
        self._held = False
        self._closed = False
        self._fatal: LeaseLost | DatabaseUnavailable | None = None
        self._undo: Stop | None = None
        self._woken = asyncio.Event()

    def inner(self) -> "LocalRunner":
        """A runner for a group's plan: orders of its own, our slots and all that works for us."""
        pool = copy.copy(self)
        pool._empty()
        return pool

    def heed(self, goal: JsonObject) -> None:
        """Enforce the typed prohibitions of a goal from here on, in place of those before.

        Raises:
            ReferenceMissing: a prohibition names an input that does not exist.
        """
        self._shop.prohibit(Goal(prohibitions=goal.get("prohibitions") or []).prohibitions)

    # --- orders in ---------------------------------------------------------------------------

    async def submit(self, orders: Sequence[WorkOrder]) -> None:
        """See `Runner.submit`."""
        self._held = False
        waiting = {_key(order) for order in self._waiting}
        lost, self._lost = list(self._lost.values()), {}
        for order in (*lost, *orders):
            key = _key(order)
            if key in waiting or key in self._flights or key in self._finished or self._closed:
                continue
            if order.takes_slot:
                self._waiting.append(order)
                waiting.add(key)
            else:
                self._start(order)
        self._fill()

    def recall(self) -> list[tuple[str, int]]:
        """See `Runner.recall`."""
        taken_back = [(order.subtask, order.attempt) for order in self._waiting]
        self._waiting.clear()
        return taken_back

    def _fill(self) -> None:
        self._slots.fill(self)

    @property
    def wants_slot(self) -> bool:
        """See `Waiter.wants_slot`."""
        return bool(self._waiting) and not self._held and not self._closed

    def offer(self) -> bool:
        """See `Waiter.offer`."""
        if not self.wants_slot:
            return False
        self._start(self._waiting.popleft())
        return True

    def _start(self, order: WorkOrder) -> None:
        flight = Flight(order, slot=order.takes_slot)
        self._taken += flight.slot
        self._flights[_key(order)] = flight
        loop = asyncio.get_running_loop()
        # An empty context: a node's own (LangGraph's run, its callbacks) ends with its superstep.
        flight.task = loop.create_task(self._fly(flight), context=contextvars.Context())

    # --- in flight ---------------------------------------------------------------------------

    async def _fly(self, flight: Flight) -> None:
        outcome: Outcome | None = None
        try:
            outcome = await self._perform(flight)
        except (LeaseLost, DatabaseUnavailable) as fatal:
            # Without the ledger nothing is known of this order: it becomes a crashed attempt, and
            # is taken up again by the `submit` that follows once the database is back.
            self._fatal = self._fatal or fatal
            if isinstance(fatal, DatabaseUnavailable):
                self._lost[_key(flight.order)] = replace(flight.order, recovering=True)
        finally:
            self._land(flight, outcome)

    async def _perform(self, flight: Flight) -> Outcome:
        order, started = flight.order, self._clock()
        try:
            if order.action in ("expand", "gather"):
                return await self._shop.containers.run(order, flight.stop)
            if order.work.kind == "tool" and order.action != "reflect":
                return await self._shop.attempts.run(order, flight.stop)
            if order.work.kind == "group" and order.action != "reflect" and self._nest:
                return await self._nest(order, flight.stop)  # it ends in good order by itself
            if order.work.kind == "agent" and order.action != "reflect" and self._agent:
                return await self._agent(order, flight.stop)  # it guards what may be torn
            return await self._run_injected(order, flight.stop)
        except (Cut, CallStopped):
            return stopped(order, started, self._clock())
        except (LeaseLost, DatabaseUnavailable):
            raise
        except InconsistentState as ours:
            failure = AttemptFailed("inconsistent_state", str(ours), retryable=False)
            return not_accepted(order, started, self._clock(), failure)
        except TransientError as away:  # the object store does not answer
            failure = AttemptFailed("unavailable", str(away))
            return not_accepted(order, started, self._clock(), failure)
        except Exception as bug:  # ours: it must neither kill the pool nor pass for a result
            log.exception("attempt %s of %s ended unexpectedly", order.attempt, order.subtask)
            failure = AttemptFailed("internal", f"{type(bug).__name__}: {bug}")
            return not_accepted(order, started, self._clock(), failure)

    async def _run_injected(self, order: WorkOrder, stop: Stop) -> Outcome:
        ways = {"nest": self._nest, "reflect": self._reflect}
        work = ways.get(order.action)
        if work is None:
            why = f"{order.work.kind} work needs a model, and none is configured"
            failure = AttemptFailed("missing_model", why, retryable=False)
            now = self._clock()
            outcome = not_accepted(order, now, now, failure)
            outcome["calls"] = 0
            return outcome
        return await stop.guard(work(order, stop))

    def _land(self, flight: Flight, outcome: Outcome | None) -> None:
        key = _key(flight.order)
        del self._flights[key]
        if outcome is not None:
            self._finished[key] = outcome
        if outcome is None or not outcome["ok"]:
            self._held = True
        self._woken.set()
        if flight.slot:
            self._taken -= 1
            self._slots.give_back()
        self._fill()

    # --- outcomes out ------------------------------------------------------------------------

    async def wait(self, *, until: float | None = None) -> None:
        """See `Runner.wait`; returns at once while outcomes are unacknowledged.

        Raises:
            LeaseLost, DatabaseUnavailable: an order met it; nothing new was started since.
        """
        if not self._finished and self._fatal is None:
            await self._sleep(until)
        self._woken.clear()
        if self._fatal is not None:
            fatal, self._fatal = self._fatal, None
            raise fatal

    async def _sleep(self, until: float | None) -> None:
        if until is None:
            await self._woken.wait()
            return
        timer = asyncio.get_running_loop().call_later(
            max(0.0, until - self._clock()), self._woken.set
        )
        try:
            await self._woken.wait()
        finally:
            timer.cancel()

    def wake(self) -> None:
        """See `Runner.wake`."""
        self._woken.set()

    def finished(self) -> list[Outcome]:
        """See `Runner.finished`."""
        return list(self._finished.values())

    def acknowledge(self, outcomes: Sequence[Outcome]) -> None:
        """See `Runner.acknowledge`."""
        for outcome in outcomes:
            self._finished.pop((outcome["subtask"], outcome["attempt"], outcome["action"]), None)

    def known(self) -> set[tuple[str, int]]:
        """See `Runner.known`."""
        waiting = {(order.subtask, order.attempt) for order in self._waiting}
        keys = (*self._flights, *self._finished, *self._lost)
        return waiting.union(key[:2] for key in keys)

    def load(self) -> tuple[int, int]:
        """See `Runner.load`."""
        return self._taken, len(self._waiting)

    # --- stopping ----------------------------------------------------------------------------

    def ease(self, *, groups_only: bool = False) -> None:
        """See `Runner.ease`."""
        for flight in self._flights.values():
            if not groups_only or flight.order.work.kind == "group":
                flight.stop.ease()

    async def cut(self, *, only_safe: bool = False, subtasks: Sequence[str] | None = None) -> None:
        """See `Runner.cut`. Returns when what was stopped has ended."""
        flights = [
            flight
            for flight in self._flights.values()
            if (not only_safe or self._is_safe(flight.order))
            and (subtasks is None or flight.order.subtask in subtasks)
        ]
        for flight in flights:
            flight.stop.request()
        if self._undo is not None and not only_safe and subtasks is None:
            self._undo.request()
            await self._host.cut()
        for flight in self._flights.values() if only_safe else ():
            if flight.order.work.kind == "agent":
                flight.stop.wind_down()  # its tools run to their end, its model is not waited for
        stopped_ones = [flight.order.subtask for flight in flights]
        pending = {flight.task for flight in flights if flight.task is not None}
        while pending:
            # Again and again: a call may have been about to begin when the host looked.
            await self._host.cut(stopped_ones)
            _, pending = await asyncio.wait(pending, timeout=CUT_AGAIN_S)

    def _is_safe(self, order: WorkOrder) -> bool:
        """Whether making it again is harmless."""
        if order.action in ("expand", "gather"):
            return True
        spec = self._host.specs.get(order.work.tool or "")
        return spec is not None and effect_of(spec, order.work) in ("read", "idempotent")

    async def close(self) -> None:
        """See `Runner.close`. The tool host is left to its owner."""
        self._closed = True
        self._waiting.clear()
        self._lost.clear()
        self._slots.leave(self)
        try:
            async with asyncio.timeout(CLOSE_GRACE_S):
                await self.cut()
        except TimeoutError:
            log.warning("%d attempts did not stop in time and are cancelled", len(self._flights))
        tasks = [f.task for f in self._flights.values() if f.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- going back --------------------------------------------------------------------------

    async def undo(
        self,
        orders: Sequence[WorkOrder],
        rows: Sequence[EffectRow],
        *,
        said: Mapping[str, Json],
        number: int,
    ) -> list[Question]:
        """See `Runner.undo`."""
        stop = self._undo = Stop()
        try:
            return await self._shop.taking_back.take(
                orders, rows, said=said, number=number, stop=stop
            )
        except Cut:
            raise CallStopped("going back was stopped; it goes on from there") from None
        finally:
            self._undo = None

    # --- milestones and acceptance -----------------------------------------------------------

    async def shortfalls(
        self, order: WorkOrder, result: StoredValue, artifacts: Sequence[ArtifactRef]
    ) -> list[str]:
        """See `Runner.shortfalls`."""
        kept = KeptResult(stored=result, artifacts=tuple(artifacts))
        return await self._shop.attempts.shortfalls(order, kept)

    async def verify(
        self,
        checks: Sequence[Check],
        bindings: Mapping[str, Binding],
        *,
        result: StoredValue | None = None,
        artifacts: Mapping[str, Sequence[ArtifactRef]] | None = None,
        inputs: JsonObject | None = None,
        brief: Brief | None = None,
        results: Mapping[str, StoredValue] | None = None,
    ) -> list[JsonObject]:
        """See `Runner.verify`."""
        evidence = Evidence(
            scope=self._shop.requests.look_ups(bindings, inputs=inputs),
            result=result,
            artifacts=(artifacts or {}).get,
            names=tuple(artifacts or {}),
            fresh=True,
            brief=brief,
            results=results or {},
        )
        return await self._shop.verifier.evaluate(checks, evidence)


def _key(order: WorkOrder) -> Key:
    return order.subtask, order.attempt, order.action
