"""rollback: the node that goes back to a milestone. No choice leads to it yet.

It stands in the graph so that stored threads keep their node names when it is filled. Until then
a milestone's `rollback` falls to its next choice, with an event that says so.
"""

from typing import Any

from surefoot.graph.state import TaskState
from surefoot.nodes.context import TaskContext


async def roll_back(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """Change nothing and say so."""
    context.journal.event("RollbackUnavailable", reason="this version does not roll back")
    return {"orders": state.get("orders") or []}
