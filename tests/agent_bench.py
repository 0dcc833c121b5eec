"""An agent over stand-ins: orders, and a subtask graph whose threads live in memory."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fakes import Bench, FakeHost
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from scripted import ScriptedModel

from surefoot.graph.model_ports import Brief
from surefoot.graph.plan import Subtask
from surefoot.graph.ports import WorkOrder
from surefoot.graph.subtask import SubtaskAgent
from surefoot.graph.values import Outcome
from surefoot.tools.agent_work import AgentWork, CountStep
from surefoot.tools.runner import LocalRunner
from surefoot.tools.stopping import Stop

BRIEF = Brief(head="# Goal\n\nSee.\n", head_digest="")


def agent_order(subtask: str = "a", *, attempt: int = 1, **fields: Any) -> WorkOrder:
    """An order for one `agent` subtask; fields of the order itself may be given too."""
    own = {name: fields.pop(name) for name in WorkOrder.__slots__ if name in fields}
    mapping = {"id": subtask.partition("/")[0], "kind": "agent", "instructions": "Do it.", **fields}
    unit = Subtask.model_validate(mapping)
    order = WorkOrder(
        task_id="t1",
        subtask=subtask,
        action="attempt",
        attempt=attempt,
        failed_attempts=attempt - 1,
        unit=unit,
        work=unit,
        timeout_s=900.0,
        brief=BRIEF,
        go=attempt,
    )
    return replace(order, **own)


@dataclass
class AgentBench:
    """A bench with a model and threads that outlive a runner."""

    bench: Bench
    model: ScriptedModel = field(default_factory=ScriptedModel)
    saver: BaseCheckpointSaver[Any] = field(default_factory=InMemorySaver)
    steps: list[tuple[str, int, str, str, int]] = field(
        default_factory=list[tuple[str, int, str, str, int]]
    )
    work: AgentWork | None = None
    count_step: CountStep | None = None

    @classmethod
    def at(cls, folder: Path) -> "AgentBench":
        return cls(Bench(folder))

    @property
    def host(self) -> FakeHost:
        return self.bench.host

    def runner(self, **changed: Any) -> LocalRunner:
        return self.bench.runner(agent=self.agent, on_step=self.told, **changed)

    def agent(self, work: AgentWork) -> SubtaskAgent:
        self.work = work
        forget: Any = getattr(self.saver, "leave", str)
        return SubtaskAgent(
            work,
            models=self.model,
            saver=self.saver,
            on_step=self.told,
            forget=forget,
            count_step=self.count_step,
        )

    def told(self, subtask: str, attempt: int, state: str, tool: str, step: int) -> None:
        self.steps.append((subtask, attempt, state, tool, step))

    async def run(self, order: WorkOrder, *, stop: Stop | None = None, **changed: Any) -> Outcome:
        """One attempt, apart from the pool."""
        self.runner(**changed)
        assert self.work is not None
        return await self.agent(self.work)(order, stop or Stop())

    async def state(self, thread: str) -> dict[str, Any]:
        """What a thread holds."""
        assert self.work is not None
        graph: Any = self.agent(self.work)._graph  # pyright: ignore[reportPrivateUsage] - a look inside
        return (await graph.aget_state({"configurable": {"thread_id": thread}})).values
