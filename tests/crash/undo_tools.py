"""Tools whose failed attempts are taken back, in a world where the worker dies all around it."""

from typing import Any

from crash import outside
from crash.crash_tools import act, book, name
from langchain_core.tools import tool

from surefoot.tools import ToolContext, effect


def was_wiped(args: dict[str, str], context: ToolContext) -> str | None:
    mine = name("wipe", args["id"], context)
    wiped = [fact for fact in outside.facts() if fact["effect"] == mine]
    rounds = [fact for fact in wiped if fact["key"] == context.idempotency_key]
    return "wiped" if rounds else None


@effect("irreversible", probe=was_wiped)
@tool
def wipe(id: str, context: ToolContext) -> str:
    """Clear what a failed attempt left."""
    outside.die("wiping")
    outside.record("wiped", name("wipe", id, context), key=context.idempotency_key)
    outside.die("wiped")
    return "wiped"


@effect("irreversible")
@tool
def blind(id: str, context: ToolContext) -> dict[str, Any]:
    """Do what nobody can look for afterwards."""
    return act("blind", id, context)


def done_twice(context: Any) -> bool:
    """A check that the first go never passes."""
    done = [fact for fact in outside.facts() if fact["fact"] == "do"]
    return len(done) >= 2


TOOLS = [book, blind, wipe]
