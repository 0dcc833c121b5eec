"""Tools that leave facts outside, and die where a test wants it.

A tool's result names the fact it made (`nonce`): a result that is not the first one's shows.
"""

import json
import os
import random
import subprocess
import sys
import time
from typing import Any

from crash import outside
from langchain_core.tools import tool

from surefoot.tools import NotDone, ToolContext, effect

STUBBORN = (
    "import os, signal, time; os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('up', flush=True); time.sleep(3600)"
)


def name(kind: str, id: str, context: ToolContext) -> str:
    return f"{context.task_id}/{kind}/{id}"


def act(kind: str, id: str, context: ToolContext, fact: str = "do") -> dict[str, Any]:
    """Do it, in a world where it takes some milliseconds and the process may die all around it."""
    outside.die("before")
    outside.passes("during")  # the worker dies, this process goes on until it is ended
    time.sleep(random.uniform(0, 0.01))
    done = outside.record(
        fact,
        name(kind, id, context),
        subtask=context.subtask_id,
        attempt=context.attempt,
        key=context.idempotency_key,
        root=os.getppid(),
    )
    outside.die("after")
    return answer(id, done)


def answer(id: str, done: dict[str, Any]) -> dict[str, Any]:
    return {"id": id, "nonce": done["nonce"]}


def standing(kind: str, id: str, context: ToolContext) -> list[dict[str, Any]]:
    """What was done and not undone."""
    mine = [f for f in outside.facts() if f["effect"] == name(kind, id, context)]
    undone = sum(1 for fact in mine if fact["fact"] == "undo")
    return [fact for fact in mine if fact["fact"] == "do"][undone:]


def find(kind: str, id: str, context: ToolContext) -> dict[str, Any] | None:
    outside.die("probing")
    found = standing(kind, id, context)
    return answer(id, found[0]) if found else None


def was_sent(args: dict[str, str], context: ToolContext) -> dict[str, Any] | None:
    return find("send", args["id"], context)


@effect("irreversible", probe=was_sent)
@tool
def send(id: str, context: ToolContext) -> dict[str, Any]:
    """Send something that cannot be taken back; the world can be asked."""
    return act("send", id, context)


def was_noted(args: dict[str, str], context: ToolContext) -> dict[str, Any] | None:
    found = find("note", args["id"], context)
    if found:
        context.artifacts.put("note.txt", found["nonce"])
    return found


@effect("irreversible", probe=was_noted)
@tool
def note(id: str, context: ToolContext) -> dict[str, Any]:
    """Send, and put an artifact about it."""
    done = act("note", id, context)
    context.artifacts.put("note.txt", done["nonce"])
    return done


def was_refused_or_sent(args: dict[str, str], context: ToolContext) -> dict[str, Any] | None:
    return find("insist", args["id"], context)


@effect("irreversible", probe=was_refused_or_sent)
@tool
def insist(id: str, context: ToolContext) -> dict[str, Any]:
    """Send; the other side refuses twice."""
    if context.failed_attempts < 2:
        raise NotDone("come back later")
    return act("insist", id, context)


def was_paid(args: dict[str, str], context: ToolContext) -> dict[str, Any] | None:
    return find("pay", args["order"], context)


def order_of(args: dict[str, str]) -> str:
    return args["order"]


@effect("irreversible", key=order_of, probe=was_paid)
@tool
def pay(order: str, purpose: str, context: ToolContext) -> dict[str, Any]:
    """Pay an order, once however many ask for it."""
    return act("pay", order, context)


def unbook(args: dict[str, str], result: object, context: ToolContext) -> None:
    outside.die("undoing")
    if standing("book", args["id"], context):
        outside.record("undo", name("book", args["id"], context))
    outside.die("undone")


@effect("reversible", compensate=unbook)
@tool
def book(id: str, context: ToolContext) -> dict[str, Any]:
    """Book something that can be given back."""
    return act("book", id, context)


@effect("idempotent")
@tool
def put(id: str, context: ToolContext) -> dict[str, Any]:
    """Set something to a value, which may be done again."""
    return act("put", id, context)


@effect("read")
@tool
def look(id: str, context: ToolContext) -> dict[str, Any]:
    """Look something up."""
    act("look", id, context, fact="looked")
    return {"id": id}


@effect("read")
@tool
def flaky(id: str, context: ToolContext) -> dict[str, Any]:
    """Fail twice, then work."""
    act("flaky", id, context, fact="tried")
    if context.failed_attempts < 2:
        raise RuntimeError("not yet")
    return {"id": id}


@effect("read")
@tool
def numbers(n: int, context: ToolContext) -> list[str]:
    """The items of a foreach."""
    act("numbers", str(n), context, fact="looked")
    return [f"i{i}" for i in range(n)]


@effect("idempotent")
@tool
def collect(notes: list[str], results: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Put an artifact that says what all subtasks before came to."""
    texts = [open(path, encoding="utf-8").read() for path in notes]
    context.artifacts.put("report.json", json.dumps({"notes": texts, "results": results}))
    return act("collect", "all", context)


@effect("irreversible")
@tool
def blind(id: str, context: ToolContext) -> dict[str, Any]:
    """Send something that cannot be taken back, to a world that cannot be asked."""
    return act("blind", id, context)


@effect("irreversible")
@tool
def odd(id: str, context: ToolContext) -> Any:
    """Send something, and return what is no JSON."""
    act("odd", id, context)
    return object()


@effect("idempotent")
@tool
def breed(id: str, context: ToolContext) -> dict[str, Any]:
    """Start processes that ignore SIGTERM and leave group and session; the first time, hang.

    `left`: of what earlier calls were and started, the processes that still run.
    """
    earlier = [f for f in outside.facts() if f["effect"] == name("breed", id, context)]
    left = [f["pid"] for f in earlier if outside.started(f["pid"]) == f["started"]]
    for _ in range(2):
        child = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        born = outside.started(child.pid)
        outside.record("bred", name("breed", id, context), pid=child.pid, started=born)
    act("breed", id, context)
    if not earlier:
        time.sleep(3600)
    return {"id": id, "left": left}


def verified(context: Any) -> bool:
    """The check of the milestones."""
    outside.die("check")
    outside.record("checked", f"{context.task_id}/check")
    return True


def verified_later(context: Any) -> bool:
    """The check of a milestone that does not hold the first time."""
    outside.die("check")
    refused = f"{context.task_id}/refused"
    if any(fact["effect"] == refused for fact in outside.facts()):
        return True
    outside.record("checked", refused)
    return False


TOOLS = [send, note, insist, pay, book, put, look, flaky, numbers, collect, blind, odd, breed]
