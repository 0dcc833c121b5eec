"""The flow of `run` and `resume`: make or find the task, run it in view, say how it ended."""

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surefoot.graph.errors import DatabaseUnavailable, UsageError
from surefoot.graph.values import Json, JsonObject
from surefoot.service import exits
from surefoot.service.client import Status, Surefoot
from surefoot.service.output import Output
from surefoot.service.signals import How, StopSignals
from surefoot.service.words import next_step, result_line, size, waiting_lines

if TYPE_CHECKING:
    from surefoot.graph.task_file import LoadedFile
    from surefoot.service.sources import TaskSource

MOST_ARTIFACTS = 8

AGAIN = ("model_unavailable", "missing_model")
"""Failures after which a plain resume goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What `surefoot run` was asked for."""

    source: "TaskSource"
    """A task file, or a task as a mapping (a goal in words)."""
    id: str | None = None
    sets: Mapping[str, Json] | None = None
    tools: Sequence[str] = ()
    concurrency: int | None = None
    workspace: str | None = None
    model: str | None = None


async def run_file(request: RunRequest, out: Output) -> int:
    """Run a task file to its end; returns the exit code."""
    from surefoot.service.sources import load

    loaded = load(request.source, request.sets)
    async with Surefoot() as surefoot:
        with StopSignals() as signals:
            await signals.before_running(surefoot.engine())
            if signals.asked:
                raise exits.StoppedBySignal("stopped before the task was made; nothing was changed")
            id = await signals.before_running(_create(surefoot, request, loaded))
            return await _go(surefoot, id, {}, out, signals)


async def resume_task(id: str, limits: Mapping[str, float], out: Output) -> int:
    """Continue a task to the end of this go; returns the exit code."""
    async with Surefoot() as surefoot:
        with StopSignals() as signals:
            await signals.before_running(surefoot.engine())
            # The row alone: a whole status document of a large plan takes longer than its resume.
            before = await (await surefoot.looker()).task(id)
            failure: JsonObject = before["failure"] or {}
            if before["status"] == "failed" and not limits and failure.get("code") not in AGAIN:
                out.note(
                    f"surefoot: task {id!r} has failed and goes on only with a raised limit"
                    " (`surefoot resume --help` lists them), or after retry, edit, skip, replan or"
                    " rollback"
                )
            return await _go(surefoot, before["id"], limits, out, signals)


async def _create(surefoot: Surefoot, request: RunRequest, loaded: "LoadedFile") -> str:
    try:
        created = await surefoot.create(
            loaded,
            id=request.id,
            tools=request.tools,
            concurrency=request.concurrency,
            workspace=request.workspace,
            model=request.model,
        )
    except DatabaseUnavailable as exc:
        raise UsageError("database_unavailable", f"{exc}; no task was made") from exc
    return created.id


async def _go(
    surefoot: Surefoot,
    id: str,
    limits: Mapping[str, float],
    out: Output,
    signals: StopSignals,
) -> int:
    """Run the task unless a signal came first, and say how this go ended."""

    def on_stop(how: How) -> None:
        surefoot.stop(id, how)
        if how == "pause":
            out.note(f"surefoot: stopping after the work in hand; again stops task {id} at once")

    if signals.asked is None:
        async with AsyncExitStack() as stack:
            if not out.json and not out.quiet:
                from surefoot.service.view import watching

                await stack.enter_async_context(watching(await surefoot.database(), id))
            signals.tell(on_stop)
            try:
                status = await surefoot.resume(id, limits=limits, on_ready=signals.repeat)
            except DatabaseUnavailable:
                out.note(f"surefoot: nothing is lost; later go on with: surefoot resume {id}")
                raise
    else:
        status = await surefoot.status(id)
    # A reader of stdout that went away changes nothing of how the task ended.
    with contextlib.suppress(OSError):
        await report(surefoot, status, out)
    return exits.of_task(status)


async def report(surefoot: Surefoot, status: Status, out: Output) -> None:
    """Say how a go ended: the status document, or a line, what it made and what can be done."""
    if out.json:
        out.document(dict(status))
        return
    out.line(result_line(status))
    if out.quiet:
        return
    for line in waiting_lines(status):
        out.line(line)
    for line in await _made(surefoot, status):
        out.line(line)
    step = next_step(status)
    if step:
        out.line(step)


async def _made(surefoot: Surefoot, status: Status) -> list[str]:
    """The newest artifacts of what the plan leads to."""
    if not status.completed:
        return []
    looker = await surefoot.looker()
    task = await looker.task(status["id"])
    from surefoot.service.documents import ends_of

    ends = set(ends_of(await looker.plan_of(task)))
    newest: dict[str, JsonObject] = {}
    for entry in await looker.artifacts(status["id"]):
        if entry["subtask"] in ends:
            newest[entry["name"]] = entry
    shown = list(newest.values())[:MOST_ARTIFACTS]
    lines = [f"made {e['name']} ({size(e['size'])})" for e in shown]
    if shown:
        lines.append(f"read one with: surefoot artifacts {status['id']} {shown[0]['name']}")
    return lines
