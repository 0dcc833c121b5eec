"""The engine: creates tasks, runs them to an end, cancels them.

The command line, the client and (later) the service stand on it.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool
from pydantic import ValidationError

from surefoot.checkpointing.readers import Readers
from surefoot.checkpointing.tasks import bump_durations, withdraw_old_pauses
from surefoot.graph.build import build_task_graph
from surefoot.graph.creation import Created, InvalidTask, create_task, validate_file
from surefoot.graph.errors import AgentError, DatabaseUnavailable, LeaseHeld, UsageError
from surefoot.graph.halting import halt
from surefoot.graph.holding import Held, Holder
from surefoot.graph.opening import Stored
from surefoot.graph.setbacks import Setbacks
from surefoot.graph.state import TaskInput
from surefoot.graph.task import Budget, Limits
from surefoot.graph.values import JsonObject

__all__ = ["Created", "Engine", "InvalidTask", "validate_file"]

GONE_FOR_S = 300.0
"""A run gives up (and can be resumed) when the database is unreachable for this long."""

RAISED_LOOPS = ("replans", "rollbacks", "plan_rounds")
"""Bounds on loops that people may raise as well."""

FINISHED = ("completed", "cancelled")
UNDER_WAY = ("running", "paused", "waiting")

TRIED_AGAIN = ("model_unavailable", "missing_model")
"""Failures that a plain resume tries anew: they were about the world, not about the task."""


class Engine(Holder):
    """Creates, runs and cancels tasks in this process."""

    async def create(
        self,
        spec: JsonObject,
        *,
        task_id: str | None = None,
        workspace: Path | None = None,
        concurrency: int | None = None,
        objects: Sequence[BaseTool] = (),
    ) -> Created:
        """Validate a task and store it; the same content under the same id is taken as it is.

        Args:
            spec: `{"task": <task file as a mapping>, "task_dir": <its folder>}`.
            task_id: absent means a new one from the task's name.
            workspace: absent means the default under the home folder.
            concurrency: absent means the task file's.
            objects: tools passed as objects, beside the file's modules.

        Raises:
            InvalidTask: the task file has faults (all of them are in its report).
            UsageError: the id is taken by another content.
        """
        return await create_task(
            spec,
            self.shared,
            task_id=task_id,
            workspace=workspace,
            concurrency=concurrency,
            objects=objects,
        )

    async def run(
        self,
        task_id: str,
        *,
        raise_limits: Mapping[str, float | None] | None = None,
        objects: Sequence[BaseTool] = (),
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        """Run or resume a task until it is completed, failed, cancelled, paused or waiting.

        How it ended is in its row. A finished task, or a failed one without a raised limit, is
        left as it is.

        Raises:
            UsageError: there is no such task, or a raised limit is none.
            LeaseHeld: a live worker holds it.
            LeaseLost: another worker took it over meanwhile.
            DatabaseUnavailable: the database was gone for five minutes.
        """
        _check_limits(raise_limits or {})
        row = await self.row(task_id)
        if row["status"] in FINISHED or (not raise_limits and _has_failed(row)):
            if row["acquired_by"] is not None:
                await self._free(task_id)
            return
        await withdraw_old_pauses(self.database, task_id)
        async with self.hold(task_id, objects, raise_limits=raise_limits) as held:
            if on_ready:
                on_ready()
            await self.drive(held)

    async def _free(self, task_id: str) -> None:
        """Take a finished task out of the hands of a holder that died before it let go."""
        with contextlib.suppress(LeaseHeld):
            await self.leases.release(await self.leases.acquire(task_id))

    async def cancel(self, task_id: str, *, wait: bool = True, by: str = "person") -> None:
        """Cancel a task: through its holder, or under the lease when nobody holds it.

        Args:
            task_id: of the task.
            wait: until nothing of it runs any more.
            by: who asked, for the history.

        Raises:
            UsageError: there is no such task, or it is completed or failed.
        """
        first = partial(self._cancel_unheld, task_id, by)
        await halt(self, task_id, "cancel", wait=wait, by=by, first=first)

    async def _cancel_unheld(self, task_id: str, by: str) -> str:
        """Cancel a task that nobody holds in a go of its graph: what was begun is taken back.

        Returns:
            Why it cannot be opened any more, to be told: it is cancelled all the same.

        Raises:
            LeaseHeld: somebody holds it.
            DatabaseUnavailable: it is not cancelled.
        """
        if (await self.row(task_id))["status"] not in UNDER_WAY:
            return ""
        try:
            async with self.hold(task_id) as held:
                if await held.saver.has_begun(task_id):
                    held.opened.context.only_commands = True
                    held.opened.control.stop("cancel", by)
                    await self.drive(held, {"go": 1})
        except (LeaseHeld, DatabaseUnavailable):
            raise
        except AgentError as closed:
            return str(closed)
        return ""

    async def pause(self, task_id: str, *, wait: bool = True, by: str = "person") -> None:
        """Pause a task until it is resumed: what is in hand ends and is saved first.

        Args:
            task_id: of the task.
            wait: until nothing of it runs any more.
            by: who asked, for the history.

        Raises:
            UsageError: there is no such task, or it has ended.
        """
        await halt(self, task_id, "pause", wait=wait, by=by)

    async def drive(self, held: Held, first: TaskInput | None = None) -> None:
        """Run the graph to its end; across lost connections within the process.

        Args:
            held: the task.
            first: the input of this go; absent: the task itself, or a bare `go` to continue it.
        """
        graph = build_task_graph(context=held.opened.context).compile(checkpointer=held.saver)
        config: Any = {"configurable": {"thread_id": held.stored.id}}
        lost, setbacks = False, Setbacks(GONE_FOR_S)
        while True:
            try:
                given = await self._input(held, first, lost=lost)
                async for _ in graph.astream(
                    given, config, stream_mode="custom", durability="sync"
                ):
                    pass
                await held.journal.flush()
                held.opened.context.tell_senders()
                await bump_durations(self.database, held.opened.context.durations)
                return
            except DatabaseUnavailable as exc:
                # It may go away again while the task is taken up: that is no other case.
                lost = True
                if not await self.database.sit_out(setbacks, exc, saved=held.saver.saved):
                    raise

    async def _input(self, held: Held, first: TaskInput | None, *, lost: bool) -> TaskInput | None:
        if lost:
            return await self._take_up(held)
        return first or await self._first_input(held)

    async def _take_up(self, held: Held) -> TaskInput | None:
        """After a lost connection: forget what was queued, go on from what is saved."""
        held.saver.discard()
        held.opened.context.forget()
        row = await self.row(held.stored.id)
        stored = Stored.from_row(row)
        held.opened.context.account.reload(stored.usage, stored.call_steps)
        begun = await held.saver.has_begun(held.stored.id)
        return None if begun else await self._first_input(held)

    async def _first_input(self, held: Held) -> TaskInput:
        """The task itself for a new thread; a bare `go` for one that has begun."""
        if await held.saver.has_begun(held.stored.id):
            return {"go": 1}
        plan = await Readers(self.database).given_plan(held.stored.id)
        task = held.stored.task if plan is None else {**held.stored.task, "plan": plan}
        return {"task": task, "task_dir": str(held.stored.task_dir)}


def _has_failed(row: Mapping[str, Any]) -> bool:
    """Whether a task failed for a reason that does not go away by itself."""
    failure: JsonObject = row["failure"] or {}
    return row["status"] == "failed" and failure.get("code") not in TRIED_AGAIN


def _check_limits(limits: Mapping[str, float | None]) -> None:
    """Hold raised limits to what a task file's `budget` may say, and `limits` of replans.

    Raises:
        UsageError: `bad_limit`.
    """
    loops = {name: value for name, value in limits.items() if name in RAISED_LOOPS}
    try:
        Limits.model_validate(loops)
        Budget.model_validate({k: v for k, v in limits.items() if k not in loops})
    except ValidationError as exc:
        first = exc.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        known = ", ".join((*Budget.model_fields, *RAISED_LOOPS))
        raise UsageError(
            "bad_limit", f"the limit {name} cannot be {first['input']!r}: {first['msg']} ({known})"
        ) from exc
