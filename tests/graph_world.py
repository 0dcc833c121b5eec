"""The task graph over stand-ins in memory: one task's surroundings, and short ways to plan."""

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fakes import Bench, ok
from langgraph.checkpoint.memory import InMemorySaver

from surefoot.graph.build import build_task_graph
from surefoot.graph.control import TaskControl
from surefoot.graph.ports import Command, ToolReply
from surefoot.graph.values import Json, JsonObject, StoredValue, Usage
from surefoot.nodes.context import TaskContext


class ListJournal:
    """A journal that keeps what was queued."""

    def __init__(self) -> None:
        self.events: list[tuple[str, JsonObject]] = []
        self.rows: dict[str, JsonObject] = {}
        self.columns: JsonObject = {}
        self.questions: dict[str, JsonObject] = {}
        self.withdrawn: list[str] = []
        self.snapshots: list[JsonObject] = []

    def event(
        self, type: str, *, subtask: str | None = None, attempt: int | None = None, **facts: Json
    ) -> None:
        self.events.append((type, {"subtask": subtask, "attempt": attempt, **facts}))

    def subtask(self, id: str, **columns: Json) -> None:
        self.rows.setdefault(id, {}).update(columns)

    def artifact(self, subtask: str, attempt: int, ref: Any) -> None:
        del subtask, attempt, ref

    def withdraw(self, subtask: str, kept: Sequence[str] = ()) -> None:
        del kept
        self.withdrawn.append(subtask)

    def snapshot(self, tier: str, *, manifest: StoredValue, **columns: Json) -> None:
        self.snapshots.append({"tier": tier, "manifest": manifest, **columns})

    def plan(self, version: int, plan: JsonObject, reason: str) -> None:
        del version, plan, reason

    def question(self, id: str, **columns: Json) -> None:
        self.questions.setdefault(id, {}).update(columns)

    def task(self, **columns: Json) -> None:
        self.columns.update(columns)

    def pending(self) -> bool:
        return False

    def discard(self) -> None:
        self.events.clear()

    async def flush(self) -> None:
        pass

    def types(self) -> list[str]:
        return [type for type, _ in self.events]


class World:
    """One task's surroundings that outlive a worker: tools, ledger, store, saved state."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder)
        self.saver = InMemorySaver()
        self.usage = Usage(steps=0, tokens=0, cost_usd=0.0, seconds=0.0, failures=0)
        self.host = self.bench.host
        self.host.add("echo", lambda call: ok(call.args))
        self.host.add("fails", lambda call: ToolReply(status="error", message="no"))
        self.journal = ListJournal()
        self.control = TaskControl()

    def worker(self, *, slots: int = 4, **changed: Any) -> TaskContext:
        """A new worker's context, as after a restart."""
        runner = self.bench.runner(slots=slots, clock=time.time)
        control = self.control = TaskControl()
        control.on_change = runner.wake
        return TaskContext(
            task_id="t1",
            runner=runner,
            journal=self.journal,
            control=control,
            store=self.bench.store,
            specs=self.host.specs,
            slots=slots,
            usage=self.usage,
            validated=True,
            **changed,
        )

    async def run(self, task: JsonObject | None, **changed: Any) -> JsonObject:
        """One go of a new worker, to its end."""
        context = self.worker(**changed)
        graph = build_task_graph(context=context).compile(checkpointer=self.saver)
        given: Any = {"task": task} if task else {"go": 1}
        config: Any = {"configurable": {"thread_id": "t1"}}
        return await graph.ainvoke(given, config, durability="sync")

    async def answer(self, question: str, value: Json, **changed: Any) -> JsonObject:
        """One go of a new worker that applies an answer and ends."""
        context = self.worker(**changed)
        context.only_commands = True
        self.control.ask(answering(question, value))
        graph = build_task_graph(context=context).compile(checkpointer=self.saver)
        config: Any = {"configurable": {"thread_id": "t1"}}
        return await graph.ainvoke({"go": 1}, config, durability="sync")

    def calls(self) -> list[str]:
        return [call.subtask for call in self.host.calls]


_commands = itertools.count(1)


def answering(question: str, value: Json, subtask: str | None = None) -> Command:
    """The command that answers a question."""
    args = {"question": question, "value": value, "subtask": subtask}
    return Command(id=next(_commands), name="answer", args=args, by="person")


def tool(id: str, name: str = "echo", *needs: str, **more: Any) -> JsonObject:
    return {"id": id, "kind": "tool", "tool": name, "depends_on": list(needs), **more}


def task(*subtasks: JsonObject, **more: Any) -> JsonObject:
    plan = {k: more.pop(k) for k in ("phases", "milestones") if k in more}
    return {"goal": {"objective": "o"}, "plan": {"subtasks": list(subtasks), **plan}, **more}
