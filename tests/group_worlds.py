"""A task with groups over stand-ins in memory: one saver for all threads, rows kept in a list."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fakes import Bench, ok
from graph_world import answering
from langgraph.checkpoint.memory import InMemorySaver

from surefoot.checkpointing.group_journal import GroupJournal
from surefoot.checkpointing.journal import TaskJournal
from surefoot.checkpointing.outbox import Outbox
from surefoot.graph.assembly import OneContext, assemble
from surefoot.graph.control import TaskControl
from surefoot.graph.errors import DatabaseUnavailable
from surefoot.graph.nesting import Groups
from surefoot.graph.ports import ToolReply
from surefoot.graph.values import Json, JsonObject, Usage
from surefoot.nodes.context import TaskContext


class Flushing(OneContext):
    """The context of a saver that carries no rows: they leave after every node."""

    rides_on_saver = False


class Rows:
    """What left an outbox, merged as the tables would."""

    def __init__(self) -> None:
        self.events: list[JsonObject] = []
        self.subtasks: dict[str, JsonObject] = {}
        self.questions: dict[str, JsonObject] = {}
        self.artifacts: list[JsonObject] = []
        self.task: JsonObject = {}

    async def write(self, outbox: Outbox, *, notify: bool = True) -> None:
        del notify
        self.events += outbox.events
        self.artifacts += outbox.artifacts
        self.task.update(outbox.task)
        for own, more in ((self.subtasks, outbox.subtasks), (self.questions, outbox.questions)):
            for id, row in more.items():
                own.setdefault(id, {}).update(row)

    def told(self, *types: str) -> list[tuple[str, str | None]]:
        """(type, subtask) of the events of these types."""
        return [(e["type"], e.get("subtask")) for e in self.events if e["type"] in types]


class MemoryThreads:
    """`GroupThreads` in memory; a lost connection is none here."""

    rides_on_saver = False

    def __init__(self, saver: InMemorySaver, journal: TaskJournal) -> None:
        self.saver = saver
        self.journal = journal

    def begin(
        self, thread: str, group: str, on_plan: Callable[[JsonObject], None] | None
    ) -> GroupJournal:
        del thread
        return GroupJournal(self.journal, group, on_plan=on_plan, clock=time.time)

    async def has_begun(self, thread: str) -> bool:
        return await self.saver.aget_tuple({"configurable": {"thread_id": thread}}) is not None

    async def earlier(self, thread: str) -> str | None:
        del thread

    async def recover(self, thread: str, error: DatabaseUnavailable) -> None:
        raise AssertionError(thread)

    def leave(self, thread: str) -> None:
        del thread


class GroupWorld:
    """One task's surroundings that outlive a worker: tools, ledger, store, saved state."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder)
        self.saver = InMemorySaver()
        self.usage = Usage(steps=0, tokens=0, cost_usd=0.0, seconds=0.0, failures=0)
        self.host = self.bench.host
        self.host.add("echo", lambda call: ok(call.args))
        self.host.add("fails", lambda call: ToolReply(status="error", message="no"))
        self.rows = Rows()
        self.control = TaskControl()

    def worker(self, task: JsonObject, *, slots: int = 4, **changed: Any) -> TaskContext:
        """A new worker's context, as after a restart."""
        journal = TaskJournal("t1")
        journal.writer = self.rows
        given = {k: v for k, v in task.items() if k != "plan"}
        groups = Groups(MemoryThreads(self.saver, journal), task=given, task_dir=".")
        runner = self.bench.runner(slots=slots, clock=time.time, nest=groups.run)
        control = self.control = TaskControl()
        control.on_change = runner.wake
        context = TaskContext(
            task_id="t1",
            runner=runner,
            journal=journal,
            control=control,
            store=self.bench.store,
            specs=self.host.specs,
            slots=slots,
            usage=self.usage,
            validated=True,
            insides=groups,
            **changed,
        )
        groups.serve(context, runner)
        return context

    async def run(self, task: JsonObject, *, again: bool = False, **changed: Any) -> JsonObject:
        """One go of a new worker, to its end."""
        context = self.worker(task, **changed)
        graph = assemble(Flushing(context)).compile(checkpointer=self.saver)
        given: Any = {"go": 1} if again else {"task": task}
        config: Any = {"configurable": {"thread_id": "t1"}}
        return await graph.ainvoke(given, config, durability="sync")

    async def answer(self, task: JsonObject, question: str, value: Json) -> JsonObject:
        """One go of a new worker that applies an answer and ends."""
        context = self.worker(task)
        context.only_commands = True
        self.control.ask(answering(question, value, self.rows.questions[question]["subtask"]))
        graph = assemble(Flushing(context)).compile(checkpointer=self.saver)
        config: Any = {"configurable": {"thread_id": "t1"}}
        return await graph.ainvoke({"go": 1}, config, durability="sync")

    def calls(self) -> list[str]:
        return [call.subtask for call in self.host.calls]


def tool(id: str, name: str = "echo", *needs: str, **more: Any) -> JsonObject:
    return {"id": id, "kind": "tool", "tool": name, "depends_on": list(needs), **more}


def group(id: str, *subtasks: JsonObject, needs: tuple[str, ...] = (), **more: Any) -> JsonObject:
    plan = {k: more.pop(k) for k in ("phases", "milestones") if k in more}
    inner = {"subtasks": list(subtasks), **plan}
    return {"id": id, "kind": "group", "plan": inner, "depends_on": list(needs), **more}


def task(*subtasks: JsonObject, **more: Any) -> JsonObject:
    plan = {k: more.pop(k) for k in ("phases", "milestones") if k in more}
    return {"goal": {"objective": "o"}, "plan": {"subtasks": list(subtasks), **plan}, **more}
