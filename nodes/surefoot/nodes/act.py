"""act: makes one call that the model asked for, and keeps what came of it.

One call a superstep: a call that is over is never made again, and a pause waits for one at most.
Calls are made in the order of the reply; `finish` ends the go, and what follows it is not made.
"""

from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Command

from surefoot.graph.agent_ports import CallAnswer, Earlier
from surefoot.graph.loops import judged, loop_message, repetitions, warning
from surefoot.graph.model_ports import ToolUse
from surefoot.graph.subtask_state import SubtaskState, Wanted
from surefoot.graph.values import Failure
from surefoot.nodes.steps import StepContext, Way, eased, next_step, out_of_time


async def act(state: SubtaskState, runtime: Runtime[StepContext]) -> Command[Way]:
    """Make the next call of the newest reply.

    Raises:
        What ends an attempt without an answer: see `AgentCalls.make`. The thread stays as it is.
    """
    context = runtime.context
    late = out_of_time(context)
    if late is not None:
        return Command(update={"failure": late}, goto="__end__")
    wanted = (state.get("wanted") or [])[state.get("done", 0)]
    use = ToolUse(id=wanted["id"], name=wanted["name"], args=wanted["args"], fault=wanted["fault"])
    answer = await context.calls.make(
        use, _earlier(state, context), seconds_left=context.seconds_left()
    )
    update = _kept(state, wanted, answer)
    seen: Any = {**state, **update}
    return Command(update=update, goto=eased(next_step(seen), context))


def _earlier(state: SubtaskState, context: StepContext) -> Earlier:
    return Earlier(
        step=context.before + state.get("step", 0) + 1,
        made=state.get("made") or (),
        artifacts=state.get("artifacts") or {},
        long=state.get("long") or {},
    )


def _kept(state: SubtaskState, wanted: Wanted, answer: CallAnswer) -> dict[str, Any]:
    """What of an answer is saved: the message, what it put, and whether the go is over."""
    pairs = [(one["call"], one["result"]) for one in (*(state.get("made") or ()), answer.made)]
    verdict = "fresh" if answer.finished else judged(pairs)
    text = answer.text
    if verdict == "warn":
        text = f"{text}\n{warning(repetitions(pairs))}"
    step = state.get("step", 0) + 1
    update: dict[str, Any] = {
        "history": {str(step): [{"role": "tool", "tool_call_id": wanted["id"], "content": text}]},
        "made": [answer.made],
        "step": step,
        "done": state.get("done", 0) + 1,
    }
    if answer.artifacts:
        update["artifacts"] = {ref["name"]: ref for ref in answer.artifacts}
    if answer.long:
        update["long"] = dict(answer.long)
    if answer.finished is not None:
        update["finished"] = answer.finished
    elif verdict == "loop":
        message = loop_message([(wanted["name"], wanted["args"])], repetitions(pairs))
        update["failure"] = Failure(kind="loop", message=message, retryable=True)
    return update
