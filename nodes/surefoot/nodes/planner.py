"""planner: takes the plan of the task file. It never runs anything."""

from typing import Any

from surefoot.graph.state import TaskState
from surefoot.nodes.context import TaskContext


async def draft_plan(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """Adopt the plan that the task file gives as version 1.

    The plan then lives in its own channel alone: the task file's copy is dropped, or every
    restart would read it twice. Without a plan there is nothing to adopt, and the validator
    refuses.
    """
    task = state.get("task") or {}
    rounds = (state.get("planning") or {"rounds": 0})["rounds"] + 1
    if not task.get("plan"):
        return {"planning": {"rounds": rounds, "faults": []}}
    plan = {**task["plan"], "version": 1}
    context.journal.plan(1, plan, "given in the task file")
    return {
        "plan": plan,
        "task": {**task, "plan": None},
        "planning": {"rounds": rounds, "faults": []},
    }
