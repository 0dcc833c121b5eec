"""One task, opened to be run: its tool host, runner, journal and context, composed and closed.

The only place where execution (`tools`) and storage (`checkpointing`) are put together.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.outbox import Fence
from surefoot.checkpointing.readers import Readers
from surefoot.checkpointing.saver import TaskSaver
from surefoot.checkpointing.task_tables import TaskTables
from surefoot.checkpointing.workspace import WorkspaceSnapshots
from surefoot.graph.agent_ports import OnStep
from surefoot.graph.control import TaskControl
from surefoot.graph.errors import DatabaseUnavailable, LeaseLost, UsageError
from surefoot.graph.group_threads import SavedGroups
from surefoot.graph.manifest import declared_inputs, manifest
from surefoot.graph.model_roles import ModelRoles
from surefoot.graph.modelling import OpenModels, open_models
from surefoot.graph.nesting import Groups
from surefoot.graph.ports import ArtifactStore, Journal, Ledger, WorkOrder, Workspace
from surefoot.graph.settings import Settings
from surefoot.graph.subtask import OnLost, SubtaskAgent
from surefoot.graph.task import Goal
from surefoot.graph.tool_ports import Hold
from surefoot.graph.values import Json, JsonObject, Usage
from surefoot.nodes.context import InnerStates, TaskContext
from surefoot.nodes.criticising import criticise_with
from surefoot.nodes.judging import judge_with, room_for
from surefoot.nodes.steps import MODEL
from surefoot.tools.host import ChildToolHost
from surefoot.tools.root_process import WarmRoot
from surefoot.tools.runner import LocalRunner


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all tasks of a process share."""

    settings: Settings
    database: Database
    ledger: Ledger
    store: ArtifactStore
    warm: WarmRoot


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A task's row as far as running it needs it."""

    id: str
    spec: JsonObject
    workspace: Path
    concurrency: int
    usage: Usage
    """Calls that were under way when a holder died count as what was reserved for them."""
    call_steps: int
    reserved: bool
    expected: JsonObject
    milestones_failed: int
    row: Mapping[str, Json]
    """All of it."""

    @classmethod
    def from_row(cls, row: Mapping[str, Json]) -> "Stored":
        """Parse the row of `tasks`."""
        milestones: JsonObject = row["milestones"] or {}
        return cls(
            id=row["id"],
            spec=row["spec"],
            workspace=Path(row["workspace"]),
            concurrency=row["concurrency"],
            usage=Usage(
                steps=row["steps"],
                tokens=row["tokens"] + row["reserved_tokens"],
                cost_usd=row["cost_usd"] + row["reserved_cost_usd"],
                seconds=row["seconds"],
                failures=row["failures"],
            ),
            call_steps=row["call_steps"],
            reserved=row["reserved_tokens"] > 0 or row["reserved_cost_usd"] > 0,
            expected={
                "input": row["inputs_manifest"] or {},
                "tools module": row["tools_digest"] or {},
            },
            milestones_failed=milestones.get("failed", 0),
            row=row,
        )

    @property
    def begun(self) -> bool:
        """Whether a life of the task has saved anything."""
        return bool(self.row["graph_version"])

    @property
    def task(self) -> JsonObject:
        """The task file as a mapping."""
        return self.spec["task"]

    @property
    def task_dir(self) -> Path:
        """The task file's folder."""
        return Path(self.spec.get("task_dir") or ".")

    @property
    def inputs(self) -> JsonObject:
        """The goal's inputs."""
        return self.task["goal"].get("inputs") or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTask:
    """A task with everything that runs it. `close` leaves no child process and no pending call."""

    context: TaskContext
    control: TaskControl
    host: ChildToolHost
    runner: LocalRunner
    models: OpenModels

    async def close(self) -> None:
        """End the runner, then what it used: models and tool processes."""
        await self.runner.close()
        try:
            with contextlib.suppress(LeaseLost, DatabaseUnavailable):
                await self.models.close()
        finally:
            await self.host.close()


def make_workspace(folder: Path) -> None:
    """Make the folder that tools work in, with those above it.

    Raises:
        UsageError: `missing_permission`: it cannot be made, or is no folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or str(exc)
        raise UsageError(
            "missing_permission",
            f"the workspace {folder} cannot be made ({why}); choose another one with --workspace",
        ) from exc


async def start_host(
    stored: Stored,
    shared: Shared,
    objects: Sequence[BaseTool],
    on_log: Callable[[str, int, str], None],
    hold: Hold | None = None,
) -> ChildToolHost:
    """Start the tool processes of a task."""
    await asyncio.to_thread(make_workspace, stored.workspace)
    return await ChildToolHost.start(
        stored.task.get("tools") or [],
        objects,
        task_id=stored.id,
        workspace=stored.workspace,
        task_dir=stored.task_dir,
        store=shared.store,
        slots=stored.concurrency,
        staging=shared.settings.task_folder(stored.id) / "staging",
        on_log=on_log,
        inputs=list(declared_inputs(stored.inputs).values()),
        warm=shared.warm,
        hold=hold,
    )


async def open_task(
    stored: Stored,
    shared: Shared,
    *,
    saver: TaskSaver,
    control: TaskControl,
    steps: TaskSaver,
    hold: Hold,
    objects: Sequence[BaseTool] = (),
) -> OpenTask:
    """Compose a task's context: tool host, runner, digests of what it depends on.

    `saver` keeps its own thread and those of its groups, `steps` its agents' threads.
    """
    journal = saver.journal
    models = await _models(stored, shared, saver)
    groups = Groups(SavedGroups(saver), task=stored.task, task_dir=str(stored.task_dir))

    def on_log(subtask: str, attempt: int, text: str) -> None:
        told, id = groups.journal_of(subtask)
        (told or journal).event("Log", subtask=id, attempt=attempt, text=text)

    inner = await _inner_states(stored.id, shared.database)
    host = await start_host(stored, shared, objects, on_log, hold)
    try:
        found = await asyncio.to_thread(manifest, stored.inputs, host.specs)
        workspace = _workspace(stored, shared, saver)
        runner = _runner(
            *(stored, shared, host, groups),
            models=models,
            savers=(saver, steps),
            workspace=workspace,
            control=control,
        )
    except BaseException:
        with contextlib.suppress(Exception):
            await host.close()
        raise
    control.on_change = runner.wake
    context = TaskContext(
        task_id=stored.id,
        runner=runner,
        journal=journal,
        control=control,
        store=shared.store,
        specs=host.specs,
        slots=stored.concurrency,
        models=models.client,
        ledger=shared.ledger,
        workspace=workspace,
        usage=stored.usage,
        raised=stored.spec.get("raised") or {},
        manifest=found,
        expected=stored.expected,
        seconds_before=stored.usage["seconds"],
        milestones_failed=stored.milestones_failed,
        validated=bool(stored.spec.get("validated")),
        history=Readers(shared.database).typical_seconds,
        model_names=(shared.settings.model,) if shared.settings.model else (),
        on_goal=runner.heed,
        inner=inner,
        insides=groups,
        has_models=models.client.has("executor"),
        tables=TaskTables(shared.database, stored.row),
        task_file={"task": {**stored.task, "plan": None}, "task_dir": str(stored.task_dir)},
    )
    models.serve(context)
    groups.serve(context, runner)
    return OpenTask(context=context, control=control, host=host, runner=runner, models=models)


async def _models(stored: Stored, shared: Shared, saver: TaskSaver) -> OpenModels:
    return await open_models(
        stored.task,
        usage=stored.usage,
        call_steps=stored.call_steps,
        raised=stored.spec.get("raised") or {},
        reserved=stored.reserved,
        configured=shared.settings.model,
        database=shared.database,
        lease=saver.lease,
        journal=saver.journal,
        store=shared.store,
    )


async def _inner_states(task_id: str, database: Database) -> InnerStates:
    """What another life of the task has left inside its groups: progress goes on from there."""
    readers = Readers(database)
    rows = await readers.inner_rows(task_id)
    return InnerStates(
        states={row["id"]: row["state"] for row in rows},
        expanded={row["id"]: row["n"] for row in rows if row["n"] is not None},
        plans=await readers.group_plans(task_id) if rows else {},
        begun={row["id"].rpartition("/")[0] for row in rows},
    )


def _runner(
    stored: Stored,
    shared: Shared,
    host: ChildToolHost,
    groups: Groups,
    *,
    models: OpenModels,
    savers: tuple[TaskSaver, TaskSaver],
    workspace: Workspace,
    control: TaskControl,
) -> LocalRunner:
    goal = Goal.model_validate(stored.task["goal"])
    saver, steps = savers
    on_step = _step_writer(saver.journal, groups)
    return LocalRunner(
        task_id=stored.id,
        slots=stored.concurrency,
        host=host,
        ledger=shared.ledger,
        store=shared.store,
        workspace=stored.workspace,
        task_dir=stored.task_dir,
        task_folder=shared.settings.task_folder(stored.id),
        inputs=stored.inputs,
        prohibitions=goal.prohibitions,
        clock=time.time,
        snapshots=workspace,
        on_step=on_step,
        agent=partial(
            SubtaskAgent,
            models=models.client,
            saver=steps,
            on_step=on_step,
            forget=steps.leave,
            count_step=models.take_step,
            on_lost=_loss_writer(saver.journal, groups),
            has_stepped=partial(_has_stepped, Readers(shared.database)),
            begin_anew=steps.remove,
        ),
        nest=groups.run,
        reflect=criticise_with(models.client),
        judge=judge_with(models.client, room_chars=room_for(_window(stored))),
        stopping=lambda: control.stopping() is not None,
    )


def _workspace(stored: Stored, shared: Shared, saver: TaskSaver) -> WorkspaceSnapshots:
    return WorkspaceSnapshots(
        stored.workspace,
        store=shared.store,
        fence=Fence(shared.database, saver.lease),
        skip=own_folders(shared.settings),
    )


def own_folders(settings: Settings) -> list[Path]:
    """What is ours and no part of a workspace where it lies in it."""
    store = settings.local_artifacts
    return [settings.home, *([store] if store is not None else [])]


def _step_writer(task: Journal, groups: Groups) -> OnStep:
    """Rows that say what runs now: written when the runner really starts it, not when ordered.

    An attempt begins with a call as its first step, or (an agent that goes on) as `pending`. What
    is completed stays so while a full try of it runs: progress counts it.
    """

    def on_step(subtask: str, attempt: int, step_state: str, tool: str, step: int) -> None:
        now = time.time()
        improves = groups.is_completed(subtask)
        told, subtask = groups.journal_of(subtask)
        journal = told or task
        columns: dict[str, Any] = {
            "step": step,
            "step_state": step_state,
            "tool": tool,
            "since": now,
        }
        if step_state == "pending" or (step_state == "calling" and step == 1):
            columns |= {"attempt": attempt, "started_at": now}
            columns |= {} if improves else {"state": "running"}
            type = "ImprovementStarted" if improves else "SubtaskStarted"
            journal.event(type, subtask=subtask, attempt=attempt, tool=tool)
        journal.subtask(subtask, **columns)

    return on_step


def _loss_writer(task: Journal, groups: Groups) -> OnLost:
    """Tells of an agent's go that starts from scratch, because its thread is not whole."""

    def on_lost(order: WorkOrder, lost: str) -> None:
        told, subtask = groups.journal_of(order.subtask)
        (told or task).event(
            "AgentThreadLost",
            subtask=subtask,
            attempt=order.attempt,
            strategy="rerun the subtask",
            reason=f"{lost}: the go starts from scratch, and what it did outside answers it",
        )

    return on_lost


async def _has_stepped(readers: Readers, order: WorkOrder) -> bool:
    """Whether the row of an agent says that its first answer was saved: a later step runs."""
    row = await readers.subtask_row(order.task_id, order.subtask)
    return row is not None and ((row["step"] or 0) > 1 or row["tool"] != MODEL)


def _window(stored: Stored) -> int:
    """Tokens of the models' window: how much evidence a judge can be shown."""
    return ModelRoles.of(stored.task).context_tokens
