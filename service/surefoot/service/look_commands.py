"""The commands that look: status, list, plan, history, events, logs, result, artifacts, effects."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from surefoot.graph.values import JsonObject
from surefoot.service.carrying import carry_out
from surefoot.service.client import Surefoot
from surefoot.service.options import (
    DebugOption,
    FollowOption,
    JsonOption,
    NewestArgument,
    TaskArgument,
)
from surefoot.service.output import Output, dumps, write
from surefoot.service.words import printable

TELLING = ("stage", "round", "milestone", "call", "model", "tokens")
"""Facts that an event's plain line shows with their names."""

WatchOption = Annotated[bool, typer.Option("--watch", help="Stay until the task rests.")]


def status(
    id: NewestArgument = None,
    *,
    watch: WatchOption = False,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say where a task is."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        from surefoot.service.showing import show_status

        async with Surefoot() as surefoot:
            await show_status(surefoot, id, out, watch=watch)

    carry_out(work, out)


def list_tasks(
    *, watch: WatchOption = False, json: JsonOption = False, debug: DebugOption = False
) -> None:
    """List the tasks, newest first."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        from surefoot.service.showing import show_list

        async with Surefoot() as surefoot:
            await show_list(surefoot, out, watch=watch)

    carry_out(work, out)


def plan(
    id: TaskArgument,
    *,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", min=1, help="Not the newest.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Write the plan (YAML, or JSON by name)."),
    ] = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show a task's plan and the state of its subtasks."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        from surefoot.service.exporting import export_plan

        async with Surefoot() as surefoot:
            entries = await surefoot.plan(id, version=version)
            if export is not None:
                looker = await surefoot.looker()
                written = await looker.plan_of(await looker.task(id), version)
                export_plan(written, export)
                out.note(f"wrote {export}")
            columns = ["phase", "subtask", "kind", "tool", "state", "attempts", "reason"]
            if entries and "round" in entries[0]:
                columns = ["stage", "round", "code", "message"]
                out.note("there is no plan; this is what was refused (--json shows the answers)")
            out.rows(entries, columns, none="the task has no plan")

    carry_out(work, out)


def history(id: TaskArgument, *, json: JsonOption = False, debug: DebugOption = False) -> None:
    """Show every decision and turn of a task, with its strategy and reason."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        async with Surefoot() as surefoot:
            entries = await surefoot.history(id)
            columns = ["time", "type", "subtask", "attempt", "strategy", "by", "reason"]
            if not out.json:  # a long question would push its answer out of the row
                for entry in entries:
                    if entry["answer"]:
                        entry["strategy"] = f"answer {entry['answer']}"
            out.rows(entries, columns, none="nothing has happened yet")

    carry_out(work, out)


def events(
    id: TaskArgument,
    *,
    follow: FollowOption = False,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the events of a task, oldest first."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        async with Surefoot() as surefoot:
            columns = ["time", "type", "subtask", "attempt", "reason", *TELLING]
            await _stream(surefoot.events(id, follow=follow), out, columns, follow=follow)

    carry_out(work, out)


def logs(
    id: TaskArgument,
    subtask: Annotated[str | None, typer.Argument(metavar="[SUBTASK]")] = None,
    *,
    follow: FollowOption = False,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what the tools of a task logged."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        async with Surefoot() as surefoot:
            lines = surefoot.logs(id, subtask, follow=follow)
            columns = ["time", "subtask", "attempt", "text"]
            none = "no tool has logged anything"
            await _stream(lines, out, columns, follow=follow, none=none)

    carry_out(work, out)


def result(
    id: TaskArgument,
    subtask: Annotated[str | None, typer.Argument(metavar="[SUBTASK]")] = None,
    *,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Print a subtask's result as JSON, or the results of the plan's last subtasks."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        async with Surefoot() as surefoot:
            out.document(await surefoot.result(id, subtask))

    carry_out(work, out)


def artifacts(
    id: TaskArgument,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="SUBTASK/NAME, or a name alone.")
    ] = None,
    *,
    version: Annotated[int | None, typer.Option("--version", metavar="N", min=1)] = None,
    to: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write it here.")
    ] = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the artifacts of a task, or read one."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        from surefoot.service.exporting import deliver_artifact

        async with Surefoot() as surefoot:
            if name is not None:
                entry, content = await surefoot.artifact(id, name, version=version)
                deliver_artifact(entry, content, to, out)
                return
            entries = await surefoot.artifacts(id)
            columns = ["name", "version", "size", "media_type", "attempt", "time", "withdrawn"]
            out.rows(entries, columns, none="the task has no artifacts")

    carry_out(work, out)


def effects(id: TaskArgument, *, json: JsonOption = False, debug: DebugOption = False) -> None:
    """Show what a task's tools did outside, and what of it stands."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        async with Surefoot() as surefoot:
            entries = await surefoot.effects(id)
            columns = ["when", "subtask", "attempt", "tool", "effect", "state", "args", "note"]
            out.rows(entries, columns, none="no tool with an effect was called")

    carry_out(work, out)


async def _stream(
    entries: AsyncGenerator[JsonObject],
    out: Output,
    columns: Sequence[str],
    *,
    follow: bool,
    none: str = "",
) -> None:
    """Write entries as they come: JSON lines when following, one JSON list else, or plain lines."""
    if out.json and not follow:
        out.document([entry async for entry in entries])
        return
    empty = True
    async for entry in entries:
        empty = False
        if out.json:
            write(dumps(entry) + "\n")
        else:
            write("  ".join(_cells(entry, columns)) + "\n")
    if empty and none:
        out.note(none)


def _cells(entry: JsonObject, columns: Sequence[str]) -> Iterator[str]:
    """What there is of some columns, in a plain line; those of `TELLING` with their names."""
    for column in columns:
        value = entry.get(column)
        # Only the rounds of planning: a call counts its own, by another measure.
        if value is None or (column == "round" and "stage" not in entry):
            continue
        text = printable(str(value))
        yield f"{column} {text}" if column in TELLING else text
