"""Surefoot in Python: run tasks and look at them, from scripts, apps and notebooks.

The command line stands on this class. Everything is async; `*_sync` twins exist for plain scripts.
"""

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from surefoot.graph.errors import UsageError
from surefoot.graph.settings import Settings
from surefoot.graph.values import Json, JsonObject
from surefoot.service.collector import collector_at_rest
from surefoot.service.shown_status import Status
from surefoot.service.sources import (
    TaskSource,
    UnreadableTask,
    absolute,
    load,
    tool_modules,
    tool_objects,
)
from surefoot.service.stepping_in import SteppingIn

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from surefoot.checkpointing.database import Database
    from surefoot.graph.control import Stop
    from surefoot.graph.creation import Created
    from surefoot.graph.ports import ArtifactStore
    from surefoot.graph.session import Engine
    from surefoot.service.look import Looker

P = ParamSpec("P")
R = TypeVar("R")


class SyncInLoop(UsageError):
    """A `*_sync` method was called while an event loop runs in this thread: await its twin."""

    def __init__(self, method: str) -> None:
        super().__init__(
            "running_loop",
            f"an event loop is running here, so {method}_sync() cannot: use"
            f" `await surefoot.{method}(...)`",
        )


def _in_own_loop(
    method: "Callable[Concatenate[Surefoot, P], Coroutine[Any, Any, R]]",
) -> "Callable[Concatenate[Surefoot, P], R]":
    """The twin of an async method for plain scripts: a loop and connections of its own."""

    @functools.wraps(method)
    def run(self: "Surefoot", /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise SyncInLoop(method.__name__)

        async def alone() -> R:
            async with Surefoot(self.settings) as fresh:
                return await method(fresh, *args, **kwargs)

        return asyncio.run(alone())

    return run


class Surefoot(SteppingIn):
    """Runs and shows tasks. An async context manager; opens the database on first use.

    Settings come from the environment (`SUREFOOT_*`) unless they are given.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings.from_environment()
        self._engine: Engine | None = None
        self._database: Database | None = None
        self._opening: asyncio.Lock | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections; the last user of an embedded server stops it."""
        engine, self._engine = self._engine, None
        database, self._database = self._database, None
        if engine is not None:
            await engine.close()
        if database is not None:
            await database.close()

    # --- running -------------------------------------------------------------------------------

    async def run(
        self,
        source: TaskSource,
        *,
        id: str | None = None,
        sets: Mapping[str, Json] | None = None,
        tools: "Sequence[BaseTool | str | Path]" = (),
        concurrency: int | None = None,
        workspace: Path | str | None = None,
        model: str | None = None,
    ) -> Status:
        """Run a task to its end and return its status.

        Args:
            source: path of a task file, or its content as a mapping (relative paths in it start
                from the current folder).
            id: of the task; the same id again with the same content goes on with that task.
            sets: as `--set`: an input by its name, anything else by its dotted place.
            tools: further tools: objects, or modules by path or dotted name.
            concurrency: instead of the file's.
            workspace: instead of the default under the home folder.
            model: instead of the file's.

        Raises:
            InvalidTask: the task file has faults; its `report` lists all of them.
            UsageError: an unreadable file, an id taken by another content, no database.
            LeaseHeld: a live worker runs this task.
            DatabaseUnavailable: the database was gone for five minutes.
        """
        created = await self.create(
            source,
            id=id,
            sets=sets,
            tools=tools,
            concurrency=concurrency,
            workspace=workspace,
            model=model,
        )
        return await self.resume(created.id, tools=tool_objects(tools))

    async def create(
        self,
        source: TaskSource,
        *,
        id: str | None = None,
        sets: Mapping[str, Json] | None = None,
        tools: "Sequence[BaseTool | str | Path]" = (),
        concurrency: int | None = None,
        workspace: Path | str | None = None,
        model: str | None = None,
    ) -> "Created":
        """Validate and store a task without running it; arguments and errors as `run`."""
        from surefoot.graph.creation import with_overrides

        loaded = load(source, sets)
        mapping = with_overrides(loaded.mapping, extra_tools=tool_modules(tools), model=model)
        engine = await self.engine()
        return await engine.create(
            {"task": mapping, "task_dir": str(loaded.task_dir)},
            task_id=id,
            workspace=None if workspace is None else absolute(workspace),
            concurrency=concurrency,
            objects=tool_objects(tools),
        )

    async def resume(
        self,
        id: str,
        *,
        limits: Mapping[str, float] | None = None,
        tools: "Sequence[BaseTool]" = (),
        on_ready: Callable[[], None] | None = None,
    ) -> Status:
        """Continue a task (or start a stored one) and return its status when this go ends.

        Args:
            id: of the task. A completed or cancelled one is left as it is.
            limits: raised limits, as `{"max_steps": 500}`; a failed task goes on only with them.
            tools: the tool objects that the task was made with.
            on_ready: called once the task is held and its tools are started.

        Raises:
            UsageError, LeaseHeld, DatabaseUnavailable: as `run`.
        """
        engine = await self.engine()
        await engine.run(id, raise_limits=dict(limits or {}), objects=tools, on_ready=on_ready)
        return await self.status(id)

    def stop(self, id: str, how: "Stop" = "pause") -> None:
        """Ask a task that this object runs to stop: `pause` saves first, `now` stops at once."""
        if self._engine is not None:
            self._engine.stop(id, how)

    async def cancel(self, id: str, *, wait: bool = True) -> Status:
        """Cancel a task for good and return its status; what it has done stays.

        Args:
            id: of the task, run by anybody or nobody.
            wait: until nothing of it runs any more.

        Raises:
            UsageError: there is no such task, or it has ended already.
        """
        engine = await self.engine(warm_up=False)
        await engine.cancel(id, wait=wait, by="person")
        return await self.status(id)

    async def pause(self, id: str, *, wait: bool = True) -> Status:
        """Pause a task until `resume`, and return its status; what is in hand is saved first.

        Args:
            id: of the task, run by anybody or nobody.
            wait: until nothing of it runs any more; it is `stopping` until then.

        Raises:
            UsageError: there is no such task, or it has ended.
        """
        engine = await self.engine(warm_up=False)
        await engine.pause(id, wait=wait, by="person")
        return await self.status(id)

    async def validate(
        self,
        source: TaskSource,
        *,
        sets: Mapping[str, Json] | None = None,
        tools: Sequence[str | Path] = (),
        model: str | None = None,
    ) -> JsonObject:
        """Check a task file without a database: `{"valid", "faults", "warnings"}`."""
        from surefoot.graph.creation import validate_file

        try:
            loaded = load(source, sets)
        except UnreadableTask as error:
            return error.report.as_dict()
        report = await validate_file(
            loaded, self.settings, extra_tools=tool_modules(tools), model=model
        )
        return report.as_dict()

    async def gc(
        self,
        *,
        task: str | None = None,
        keep_milestones: int = 3,
        keep_finished: bool = False,
        older_than_hours: float = 24.0,
        dry_run: bool = False,
    ) -> JsonObject:
        """Remove what no resume, no rollback to a kept milestone and no history needs any more.

        Args:
            task: only this one's rows; absent: all tasks that no live worker holds.
            keep_milestones: so many of each task, the newest, besides its start.
            keep_finished: completed and cancelled tasks keep as much as others.
            older_than_hours: stored contents that are younger are kept.
            dry_run: nothing is removed, only counted.

        Returns:
            `{"dry_run", "checkpoints", "threads", "snapshots", "blobs", "folders", "bytes",
            "tasks": [...]}`.

        Raises:
            UsageError: there is no such task.
        """
        from surefoot.graph.housekeeping import HOUR_S, Policy, keep_house

        policy = Policy(
            keep_milestones=keep_milestones,
            keep_finished=keep_finished,
            older_than_s=older_than_hours * HOUR_S,
        )
        engine = await self.engine(warm_up=False)
        return await keep_house(engine, policy, task_id=task, dry_run=dry_run)

    # --- looking -------------------------------------------------------------------------------

    async def status(self, id: str | None = None) -> Status:
        """The status document of a task, of the newest one without an id."""
        return Status(await (await self.looker()).status(id))

    async def list(self) -> Sequence[JsonObject]:
        """All tasks, newest first."""
        return await (await self.looker()).tasks()

    async def plan(self, id: str, *, version: int | None = None) -> Sequence[JsonObject]:
        """The plan's subtasks with their states."""
        return await (await self.looker()).plan(id, version)

    async def history(self, id: str) -> Sequence[JsonObject]:
        """Decisions and turns, each with strategy and reason."""
        return await (await self.looker()).history(id)

    async def events(
        self, id: str | None = None, *, after: int = 0, follow: bool = False
    ) -> AsyncGenerator[JsonObject]:
        """Events, oldest first, newer than event number `after`.

        `follow` waits for more until the task has ended or nobody runs it.
        """
        async for event in (await self.looker()).events(id, after=after, follow=follow):
            yield event

    async def logs(
        self, id: str, subtask: str | None = None, *, follow: bool = False
    ) -> AsyncGenerator[JsonObject]:
        """What tools logged, of one subtask (and its children) or of all."""
        async for line in (await self.looker()).logs(id, subtask, follow=follow):
            yield line

    async def result(self, id: str, subtask: str | None = None) -> Json:
        """A subtask's result; without one the results of the plan's last subtasks, by id."""
        return await (await self.looker()).result(self._store(), id, subtask)

    async def questions(self, id: str | None = None) -> Sequence[JsonObject]:
        """What waits for a person, oldest first; of all tasks without an id."""
        return await (await self.looker()).questions(id)

    async def artifacts(self, id: str) -> Sequence[JsonObject]:
        """All visible artifact versions."""
        return await (await self.looker()).artifacts(id)

    async def effects(self, id: str) -> Sequence[JsonObject]:
        """What the task did outside, as the ledger has it, one flat object an effect."""
        return await (await self.looker()).effects(id)

    async def artifact(
        self, id: str, name: str, *, version: int | None = None
    ) -> tuple[JsonObject, bytes]:
        """One artifact (`SUBTASK/NAME`, or a bare name that one subtask has): entry and content."""
        return await (await self.looker()).artifact(self._store(), id, name, version)

    # --- the same for plain scripts ------------------------------------------------------------

    run_sync = _in_own_loop(run)
    resume_sync = _in_own_loop(resume)
    cancel_sync = _in_own_loop(cancel)
    pause_sync = _in_own_loop(pause)
    skip_sync = _in_own_loop(SteppingIn.skip)
    retry_sync = _in_own_loop(SteppingIn.retry)
    edit_sync = _in_own_loop(SteppingIn.edit)
    replan_sync = _in_own_loop(SteppingIn.replan)
    rollback_sync = _in_own_loop(SteppingIn.rollback)
    questions_sync = _in_own_loop(questions)
    answer_sync = _in_own_loop(SteppingIn.answer)
    validate_sync = _in_own_loop(validate)
    status_sync = _in_own_loop(status)
    list_sync = _in_own_loop(list)
    plan_sync = _in_own_loop(plan)
    history_sync = _in_own_loop(history)
    result_sync = _in_own_loop(result)
    artifacts_sync = _in_own_loop(artifacts)
    effects_sync = _in_own_loop(effects)
    artifact_sync = _in_own_loop(artifact)

    def events_sync(self, id: str | None = None) -> Sequence[JsonObject]:
        """All events so far (`events` in a loop of its own)."""
        return _in_own_loop(_all_events)(self, id)

    # --- what is open --------------------------------------------------------------------------

    async def engine(self, *, warm_up: bool = True) -> "Engine":
        """The engine of this process, opened on first use.

        Args:
            warm_up: tool processes will be needed: let them import their libraries while we
                import ours and open the database.
        """
        async with self._open_once():
            if self._engine is None:
                from surefoot.tools.root_process import WarmRoot

                warm = WarmRoot()
                if warm_up:
                    warm.warm()
                with collector_at_rest():
                    from surefoot.graph.session import Engine

                self._engine = await Engine.open(self.settings, warm)
            return self._engine

    async def database(self) -> "Database":
        """The database: the engine's where there is one, else opened for looking."""
        async with self._open_once():
            if self._engine is not None:
                return self._engine.database
            if self._database is None:
                from surefoot.checkpointing.database import Database

                self._database = await Database.open(self.settings)
            return self._database

    async def looker(self) -> "Looker":
        """Reads documents from the tables."""
        from surefoot.service.look import Looker

        return Looker(await self.database())

    def _open_once(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._loop is None or (self._engine is None and self._database is None):
            self._loop, self._opening = loop, self._opening or asyncio.Lock()
        if self._loop is not loop or self._opening is None:
            raise UsageError(
                "other_loop",
                "this Surefoot was opened in another event loop: make one for each loop",
            )
        return self._opening

    def _store(self) -> "ArtifactStore":
        from surefoot.checkpointing.artifacts import ObjectArtifacts

        return ObjectArtifacts(self.settings.artifacts_url)


async def _all_events(surefoot: Surefoot, id: str | None) -> list[JsonObject]:
    return [event async for event in surefoot.events(id)]
