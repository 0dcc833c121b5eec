"""Waiting for a model inside a node, where nothing else of the task runs, without being deaf.

A cancel, a second stop signal, a lost lease or a deadline ends the wait at once; a pause lets the
one call in hand end. Used by planner and checkpoint_judge.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from surefoot.graph.errors import CallStopped, DatabaseUnavailable
from surefoot.graph.ports import Runner
from surefoot.nodes.context import TaskContext

T = TypeVar("T")

TELL_EVERY_S = 1.0
"""How long a wait may go on before readers are told of it."""


class Stopped(Exception):
    """The wait was given up: a stop was asked for, or `until` has come. Nothing was answered."""


async def heeding_stops(
    work: Coroutine[Any, Any, T],
    context: TaskContext,
    *,
    until: float | None = None,
    tells: bool = False,
) -> T:
    """Await a model call and give it up when the task must stop.

    Args:
        work: the call; it is cancelled when it is given up.
        context: of the task; its runner is woken by stop signals.
        until: POSIX seconds, the task's deadline.
        tells: what the call queues meanwhile (it waits, it asks another model) is told at once;
            only for nodes that have queued nothing but what calls before it told.

    Raises:
        Stopped: see the class.
    """
    asked = asyncio.ensure_future(work)
    try:
        while not asked.done():
            if _must_stop(context, until):
                raise Stopped
            await _either(asked, context.runner, _next_look(context, until) if tells else until)
            if tells and context.journal.pending() and not asked.done():
                with contextlib.suppress(DatabaseUnavailable):  # the rows stay queued
                    await context.journal.flush()
        return asked.result()
    except CallStopped:
        raise Stopped from None
    finally:
        if not asked.done():
            asked.cancel()
            await asyncio.wait({asked})


def _next_look(context: TaskContext, until: float | None) -> float:
    soon = context.clock() + TELL_EVERY_S
    return soon if until is None else min(soon, until)


def _must_stop(context: TaskContext, until: float | None) -> bool:
    late = until is not None and context.clock() >= until
    return late or context.control.lost() or context.control.stopping() in ("cancel", "now")


async def _either(asked: "asyncio.Future[Any]", runner: Runner, until: float | None) -> None:
    """Return when the call has ended, something woke the runner, or it is too late."""
    woken = asyncio.ensure_future(runner.wait(until=until))
    try:
        await asyncio.wait({asked, woken}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not woken.done():
            woken.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await woken
    if woken.done() and not woken.cancelled():
        woken.result()
