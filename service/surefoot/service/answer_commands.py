"""The commands about what waits for a person: questions, answer."""

from typing import Annotated

import typer

from surefoot.service.carrying import carry_out
from surefoot.service.options import DebugOption, JsonOption, TaskArgument
from surefoot.service.output import Output
from surefoot.service.words import printable


def questions(
    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A task's id; all tasks without one.")
    ] = None,
    *,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List what waits for a person, of one task or of all."""
    out = Output(json=json, debug=debug)

    async def work() -> None:
        from surefoot.service.client import Surefoot

        async with Surefoot() as surefoot:
            found = await surefoot.questions(id)
            if out.json:
                out.document(list(found))
                return
            for question in found:
                about = f" {question['subtask']}" if question["subtask"] else ""
                out.line(f"{question['task']}  {question['id']}  {question['kind']}{about}")
                for line in question["text"].splitlines():
                    out.line(f"    {printable(line)}")
            if not found:
                out.note("nothing waits for a person")

    carry_out(work, out)


def answer(
    id: TaskArgument,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question's id.")],
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="The answer: JSON, else it is a text.")
    ],
    *,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Answer a question, by its id.

    It is applied when this returns. A task that nobody runs is paused afterwards (waiting, while
    other questions are open): resume it. An answer that was given is not changed any more.
    """
    out = Output(json=json, debug=debug)

    async def work() -> None:
        from surefoot.graph.task_file import parse_value
        from surefoot.service.client import Surefoot

        async with Surefoot() as surefoot:
            status = await surefoot.answer(id, question, parse_value(value))
            if out.json:
                out.document(dict(status))
                return
            out.line(f"{id}: {question} is answered ({status['status']})")
            out.next_step(status)

    carry_out(work, out)
