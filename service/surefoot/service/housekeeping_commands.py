"""The command that keeps house: gc."""

from typing import Annotated

import typer

from surefoot.graph.values import JsonObject
from surefoot.service.carrying import carry_out
from surefoot.service.options import DebugOption, JsonOption
from surefoot.service.output import Output
from surefoot.service.words import number, size


def gc(
    *,
    task: Annotated[
        str | None, typer.Option("--task", metavar="ID", help="Only this task's rows.")
    ] = None,
    keep_milestones: Annotated[
        int,
        typer.Option(
            "--keep-milestones", metavar="N", min=0, help="Of each task, besides its start."
        ),
    ] = 3,
    keep_finished: Annotated[
        bool,
        typer.Option("--keep-finished", help="Completed and cancelled tasks keep as much."),
    ] = False,
    older_than: Annotated[
        float,
        typer.Option(
            "--older-than", metavar="HOURS", min=0, help="Younger stored contents are kept."
        ),
    ] = 24.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Remove nothing; say what would be.")
    ] = False,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Remove what no resume, no rollback to a kept milestone and no history needs any more."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        from surefoot.service.client import Surefoot

        async with Surefoot() as surefoot:
            done = await surefoot.gc(
                task=task,
                keep_milestones=keep_milestones,
                keep_finished=keep_finished,
                older_than_hours=older_than,
                dry_run=dry_run,
            )
        if out.json:
            out.document(done)
        else:
            for line in said(done):
                out.line(line)

    carry_out(work, out)


def said(done: JsonObject) -> list[str]:
    """What was removed, in lines."""
    verb = "would remove" if done["dry_run"] else "removed"
    lines = [
        f"{verb} {number(done['checkpoints'], 'checkpoint')}, {number(done['threads'], 'thread')},"
        f" {number(done['snapshots'], 'snapshot')}, {number(done['blobs'], 'content')} and"
        f" {number(done['folders'], 'folder')}: {size(done['bytes'])}"
    ]
    lines += [f"{t['task']}: left alone, {t['skipped']}" for t in done["tasks"] if t["skipped"]]
    lines += [
        f"{t['task']}: no way back any more to {', '.join(t['milestones'])}"
        for t in done["tasks"]
        if t["milestones"]
    ]
    if done["skipped"]:
        lines.append(f"stored contents were left alone: {done['skipped']}")
    return lines
