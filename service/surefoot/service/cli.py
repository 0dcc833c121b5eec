"""The command line's door: finds the command, turns every error into one line and an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

# Before anything of LangGraph is imported, which reads it then.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

import typer
from typer.exceptions import Abort, Exit, TyperException

from surefoot.graph.errors import AgentError, UsageError
from surefoot.service import (
    answer_commands,
    check_commands,
    housekeeping_commands,
    look_commands,
    run_commands,
    step_commands,
)
from surefoot.service.carrying import INTERRUPTED, say
from surefoot.service.logs import log_in_lines
from surefoot.service.output import Output, write

app = typer.Typer(
    name="surefoot",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Run long tasks that finish: checked plans, durable state, effects that happen once.",
)

_COMMANDS = {
    "run": run_commands.run,
    "resume": run_commands.resume,
    "status": look_commands.status,
    "list": look_commands.list_tasks,
    "plan": look_commands.plan,
    "history": look_commands.history,
    "events": look_commands.events,
    "logs": look_commands.logs,
    "result": look_commands.result,
    "artifacts": look_commands.artifacts,
    "effects": look_commands.effects,
    "cancel": run_commands.cancel,
    "pause": step_commands.pause,
    "skip": step_commands.skip,
    "retry": step_commands.retry,
    "edit": step_commands.edit,
    "replan": step_commands.replan,
    "rollback": step_commands.rollback,
    "questions": answer_commands.questions,
    "answer": answer_commands.answer,
    "validate": check_commands.validate,
    "schema": check_commands.schema,
    "doctor": check_commands.doctor,
    "gc": housekeeping_commands.gc,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    out = Output(json="--json" in words, debug="--debug" in words)
    log_in_lines(debug=out.debug)
    sys.exit(_carried_out(words, out))


def _carried_out(words: list[str], out: Output) -> int:
    runs = words[:1] in (["run"], ["resume"])
    try:
        return int(app(words, prog_name="surefoot", standalone_mode=False) or 0)
    except Exit as left:
        return left.exit_code
    except TyperException as error:
        return say(UsageError("usage", _usage(error)), out, runs=runs)
    except (Abort, KeyboardInterrupt):
        return INTERRUPTED
    except AgentError as error:
        return say(error, out, runs=runs)
    except Exception as error:  # the door: whatever it is, it is said in one line
        return say(error, out, runs=runs)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        write(f"surefoot {version('surefoot')}\n")
        raise Exit


@app.callback()
def surefoot(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it."),
    ] = False,
) -> None:
    """Run long tasks that finish: checked plans, durable state, effects that happen once."""


def _usage(error: TyperException) -> str:
    """A parser's complaint in one line, with where to look."""
    words = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "surefoot"
    return f"{words}; `{path} --help` shows the usage"
