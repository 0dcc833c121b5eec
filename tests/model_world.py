"""A world with models: what they say is scripted, and agents do what a function tells."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from graph_world import World

from surefoot.graph.errors import AnswerUnusable, ModelUnavailable
from surefoot.graph.model_ports import Answer, Ask, NoModels, Role
from surefoot.graph.ports import StopSign, WorkOrder
from surefoot.graph.values import Failure, JsonObject, Outcome
from surefoot.nodes.context import TaskContext
from surefoot.nodes.criticising import criticise_with
from surefoot.nodes.judging import judge_with

Said = JsonObject | Exception | Callable[[Ask], JsonObject]


class FakeModels(NoModels):
    """Answers by the kind of question; the last answer of a kind is repeated."""

    def __init__(self, **said: Said | list[Said]) -> None:
        self.said: dict[str, list[Said]] = {
            kind: [*one] if isinstance(one, list) else [one] for kind, one in said.items()
        }
        self.asked: list[Ask] = []

    def has(self, role: Role) -> bool:
        return True

    async def ask(self, ask: Ask) -> Answer:
        self.asked.append(ask)
        queue = self.said.get(ask.call) or [ModelUnavailable(f"nobody answers {ask.call}")]
        said = queue.pop(0) if len(queue) > 1 else queue[0]
        if isinstance(said, Exception):
            raise said
        value = said(ask) if callable(said) else said
        faults = ask.review(value)
        if faults:
            raise AnswerUnusable(ask.call, faults, str(value))
        return Answer(value=value, model="fake", raw=str(value))

    def calls(self, kind: str) -> list[Ask]:
        return [ask for ask in self.asked if ask.call == kind]


class ModelWorld(World):
    """A world with models, in which agents do what a function of their order says."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.models = FakeModels()
        self.orders: list[WorkOrder] = []
        self.agent: Callable[[WorkOrder], Any] = lambda order: {"done": order.subtask}

    def worker(self, *, slots: int = 4, **changed: Any) -> TaskContext:
        context = super().worker(slots=slots, **changed)
        context.models = self.models
        runner = self.bench.runner(
            slots=slots,
            clock=time.time,
            agent=self._agent_of,
            reflect=criticise_with(self.models),
            judge=judge_with(self.models),
        )
        self.control.on_change = runner.wake
        return replace(context, runner=runner, model_names=("fake",))

    def _agent_of(self, parts: Any) -> Any:
        del parts
        return self._work

    async def _work(self, order: WorkOrder, stop: StopSign) -> Outcome:
        del stop
        self.orders.append(order)
        said = self.agent(order)
        now = time.time()
        outcome = Outcome(
            subtask=order.subtask,
            action=order.action,
            attempt=order.attempt,
            ok=not isinstance(said, str),
            started=now,
            ended=now,
        )
        if isinstance(said, str):
            kind, _, message = said.partition(": ")
            outcome["failure"] = Failure(kind=kind, message=message, retryable=True)
        else:
            outcome["result"] = {"value": said}
        return outcome

    def events(self, type: str) -> list[JsonObject]:
        return [facts for name, facts in self.journal.events if name == type]


def agent(id: str, *needs: str, **more: Any) -> JsonObject:
    return {
        "id": id,
        "kind": "agent",
        "instructions": f"do {id}",
        "depends_on": list(needs),
        "success": [{"type": "result"}],
        "retries": {"max_attempts": 2, "backoff_seconds": 0},
        **more,
    }


def says(choice: str, criticism: str = "look again") -> JsonObject:
    return {"choice": choice, "criticism": criticism}
