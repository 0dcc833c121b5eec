"""The commands that check: validate, schema, doctor."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from surefoot.graph.values import JsonObject
from surefoot.service import exits
from surefoot.service.carrying import carry_out
from surefoot.service.options import (
    DebugOption,
    JsonOption,
    ModelOption,
    SetOption,
    ToolsOption,
)
from surefoot.service.output import Output
from surefoot.service.words import printable


def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The task file.")],
    *,
    sets: SetOption = None,
    tools: ToolsOption = None,
    model: ModelOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Check a task file: all faults at once. Touches no database and no network."""
    out = Output(json=json, debug=debug)

    async def work() -> int:
        from surefoot.graph.task_file import parse_set
        from surefoot.service.checking import show_validation
        from surefoot.service.running import RunRequest

        request = RunRequest(
            source=file,
            sets=dict(parse_set(text) for text in sets or ()),
            tools=tools or (),
            model=model,
        )
        return await show_validation(request, out)

    carry_out(work, out)


def schema(
    what: Annotated[Literal["task", "plan", "status"], typer.Argument(metavar="task|plan|status")],
    *,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Print the JSON Schema of a task file, a plan or the status document."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        from surefoot.service.schemas import schema_of

        out.document(schema_of(what))

    carry_out(work, out)


def doctor(
    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A task: is it what its state says?")
    ] = None,
    *,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Check the installation, the database and the artifact store; say which model is set.

    With a task: its consistency report, as a resume would find it. Nothing is changed.
    """
    out = Output(json=json, debug=debug)

    async def work() -> int:
        from surefoot.service.doctor import examine, examine_task

        if id is not None:
            _show_report(await examine_task(id), out)
            return exits.DONE
        checks = await examine()
        if out.json:
            out.document(checks)
        else:
            for check in checks:
                mark = "ok" if check["ok"] else "BAD" if check["needed"] else "-"
                out.line(f"{mark:3}  {check['check']:14} {check['why']}")
        good = all(check["ok"] for check in checks if check["needed"])
        return exits.DONE if good else exits.WRONG_USAGE

    carry_out(work, out)


def _show_report(found: JsonObject, out: Output) -> None:
    if out.json:
        out.document(found)
        return
    for check in found["checks"]:
        mark = "ok" if check["ok"] else "BAD"
        out.line(f"{mark:3}  {check['check']:14} {printable(check['detail'])}")
