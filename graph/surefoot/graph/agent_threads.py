"""Whether an agent's thread is whole: who goes on with one that lost steps would not know them."""

from surefoot.graph.gone_snapshots import gone_of
from surefoot.graph.subtask_state import DELTAS, SubtaskState


def lost_steps(state: SubtaskState) -> str:
    """What is missing of a thread that is gone on with, in words; '' where it is whole.

    Every step has put its messages under its number; those up to `folded` stand in short under 0.
    """
    gone = gone_of(state, DELTAS)
    if gone:
        return f"the snapshot of its {gone[0]} is gone"
    steps = state.get("step", 0)
    if not steps and not state.get("history"):
        return "nothing of its thread is left"
    history = state.get("history") or {}
    folded = max(0, state.get("folded", 0))
    wanted = [*([0] if folded else []), *range(folded + 1, steps + 1)]
    missing = [step for step in wanted if str(step) not in history]
    if missing:
        return f"step {missing[0]} of {steps} is missing from its thread"
    calls = any(message.get("tool_calls") for said in history.values() for message in said)
    return "the calls that it wants are missing" if calls and "wanted" not in state else ""
