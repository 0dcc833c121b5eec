"""think: asks the model for the next step of an agent, and keeps its reply.

A reply is saved before anything of it is carried out, so it is never paid twice. What cannot be
used (cut at the token limit, no call in it) is answered with a word, a few times in a row.
"""

import asyncio
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Command, Overwrite

from surefoot.graph.agent_ports import FINISH
from surefoot.graph.errors import CallStopped, ModelUnavailable
from surefoot.graph.histories import in_order, repaired
from surefoot.graph.model_ports import Message, Reply, Turn
from surefoot.graph.subtask_state import SubtaskState, Wanted
from surefoot.graph.values import Failure
from surefoot.nodes.steps import (
    MAX_IN_A_ROW,
    MAX_REPLIES,
    MODEL,
    StepContext,
    Way,
    eased,
    out_of_time,
)

TORN_AFTER_S = 2.0
"""A client that knows the time limit gives up by itself, with a reason; others are torn."""

GO_ON = (
    f"Your last message called no function. Call a tool to go on, or {FINISH}(result) if "
    "everything that was asked for is done."
)
TOO_LONG = (
    "Your last message was cut at the token limit, and nothing of it was used. Say the same in "
    "fewer words, or do it in several smaller calls."
)


async def think(state: SubtaskState, runtime: Runtime[StepContext]) -> Command[Way]:
    """Ask for the next step.

    Raises:
        BudgetExhausted, MissingModel: nothing was sent; the thread stays as it is.
    """
    context = runtime.context
    failure = _no_further(state) or out_of_time(context)
    if failure is not None:
        return Command(update={"failure": failure}, goto="__end__")
    turn = _turn(state, context)
    context.tell("retrying" if _again(state) else "calling", MODEL, turn.step)
    try:
        async with asyncio.timeout(context.seconds_left() + TORN_AFTER_S):
            shorter = await _shortened(state, turn, context)
            if shorter is not None:
                update = {"history": Overwrite({"0": shorter}), "folded": state.get("step", 0)}
                return Command(update=update, goto=eased("think", context))
            reply = await context.guard(context.models.step(turn))
    except CallStopped:
        return Command(update={}, goto="__end__")
    except (TimeoutError, ModelUnavailable) as away:
        context.tell("failed", MODEL, turn.step)
        return Command(update={"failure": _unavailable(away, context)}, goto="__end__")
    context.tell("succeeded", MODEL, turn.step)
    update, way = _kept(state, reply)
    return Command(update=update, goto=eased(way, context))


def _turn(state: SubtaskState, context: StepContext) -> Turn:
    order = context.order
    if order.brief is None:
        raise AssertionError("work of models is ordered with a brief")
    return Turn(
        brief=order.brief,
        matter=context.calls.matter,
        messages=repaired(in_order(state.get("history"))),
        tools=context.calls.schemas,
        subtask=order.subtask,
        attempt=order.attempt,
        step=state.get("step", 0) + 1,
        sample=context.sample,
        until=context.deadline,
    )


async def _shortened(state: SubtaskState, turn: Turn, context: StepContext) -> list[Message] | None:
    """The history folded, in a superstep of its own: a summary is paid once. Once a step."""
    if state.get("folded", -1) == state.get("step", 0):
        return None
    folded = await context.guard(context.models.fold(turn))
    return None if folded is None else repaired(folded)


def _kept(state: SubtaskState, reply: Reply) -> tuple[dict[str, Any], Way]:
    """What of a reply is saved, and the way on."""
    step = state.get("step", 0) + 1
    update: dict[str, Any] = {
        "step": step,
        "replies": state.get("replies", 0) + 1,
        "longest": max(state.get("longest", 0), reply.tokens),
        "wanted": [],
        "done": 0,
        "idle": 0,
        "cut": 0,
    }
    if reply.cut:
        return update | _says(step, _user(TOO_LONG)) | {"cut": state.get("cut", 0) + 1}, "think"
    if not reply.uses:
        said = [reply.message] if reply.text.strip() else []
        idle = state.get("idle", 0) + 1
        return update | _says(step, *said, _user(GO_ON)) | {"idle": idle}, "think"
    wanted = [Wanted(id=u.id, name=u.name, args=u.args, fault=u.fault) for u in reply.uses]
    return update | _says(step, reply.message) | {"wanted": wanted}, "act"


def _says(step: int, *messages: Message) -> dict[str, Any]:
    return {"history": {str(step): list(messages)}}


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _again(state: SubtaskState) -> bool:
    return bool(state.get("idle") or state.get("cut"))


def _no_further(state: SubtaskState) -> Failure | None:
    """The bound that a go has reached, if any."""
    if state.get("idle", 0) >= MAX_IN_A_ROW:
        message = f"the model called neither a tool nor {FINISH} in {MAX_IN_A_ROW} replies"
        return Failure(kind="no_finish", message=message, retryable=True)
    if state.get("cut", 0) >= MAX_IN_A_ROW:
        message = f"{MAX_IN_A_ROW} replies in a row were cut at the token limit"
        return Failure(kind="reply_cut", message=message, retryable=True)
    if state.get("replies", 0) >= MAX_REPLIES:
        message = f"it did not call {FINISH} within {MAX_REPLIES} model calls"
        return Failure(kind="steps_exhausted", message=message, retryable=True)
    return None


def _unavailable(away: Exception, context: StepContext) -> Failure:
    message = str(away) or f"no answer within the attempt's {context.order.timeout_s:g} s"
    return Failure(kind="model_unavailable", message=message, retryable=True)
