"""Options and arguments that several commands share."""

from typing import Annotated

import typer

TaskArgument = Annotated[str, typer.Argument(metavar="ID", help="The task's id.")]
NewestArgument = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="The task's id; the newest task without one.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document.")]
SubtaskArgument = Annotated[
    str, typer.Argument(metavar="SUBTASK", help="Its id: list, review/7, group/list ...")
]
NoWaitOption = Annotated[
    bool, typer.Option("--no-wait", help="Return at once, not when nothing runs any more.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print the result line only.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
FollowOption = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on until the task rests (JSON: one per line).")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="K=V", help="Set an input (V is JSON, else a text). Repeatable."),
]
ToolsOption = Annotated[
    list[str] | None,
    typer.Option("--tools", metavar="FILE", help="A further tools module. Repeatable."),
]
ModelOption = Annotated[str | None, typer.Option("--model", metavar="M", help="Model to use.")]
