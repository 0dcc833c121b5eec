"""Carrying out a command: one event loop, errors in one line, the exit code."""

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import typer

from surefoot.graph.errors import AgentError
from surefoot.service import exits
from surefoot.service.output import Output

INTERRUPTED = 130


def carry_out(
    work: Callable[[], Coroutine[Any, Any, int | None]], out: Output, *, runs: bool = False
) -> NoReturn:
    """Run a command's coroutine and leave with its exit code (0 when it returns None).

    Args:
        work: makes the coroutine.
        out: how the command speaks.
        runs: for `run` and `resume`, whose exit codes mirror the task.
    """
    ended: list[int] = []

    async def to_its_end() -> None:
        ended.append(await work() or exits.DONE)

    try:
        asyncio.run(to_its_end())
        code = ended[0]
    except KeyboardInterrupt:
        # A signal after the end changes nothing of how it ended.
        code = ended[0] if ended else INTERRUPTED
    except OSError as error:
        if not _nobody_reads(error):
            raise
        code = exits.DONE
    except (AgentError, exits.StoppedBySignal) as error:
        code = say(error, out, runs=runs)
    raise typer.Exit(code)


def say(error: Exception, out: Output, *, runs: bool) -> int:
    """Say an error as this command speaks, and return the exit code."""
    if out.debug:
        traceback.print_exception(error)
    report = getattr(error, "report", None)
    try:
        if report is None:
            out.error(error)
        else:
            out.invalid(error, report.as_dict())
    except OSError as gone:
        if not _nobody_reads(gone):
            raise
    return exits.of_error(error, runs=runs)


def _nobody_reads(error: OSError) -> bool:
    """Whether it is only that stdout was closed (`| head`) or its terminal went away."""
    return isinstance(error, BrokenPipeError) or error.errno == 5
