"""The brief of a request, from the task's state: the head, the decisions, the board."""

from surefoot.graph.head import pin
from surefoot.graph.model_ports import Brief
from surefoot.graph.state import TaskState
from surefoot.nodes.context import TaskContext, Views


def brief_of(
    state: TaskState, context: TaskContext, seen: Views, *, subtask: str | None = None
) -> Brief:
    """What every request says first.

    Args:
        state: of the task.
        context: of the task.
        seen: the derived views of `state`.
        subtask: whose request it is, None for the task's own.
    """
    del context, seen, subtask
    decisions = state.get("decisions") or {}
    ordered = tuple(decisions[number] for number in sorted(decisions, key=int))
    head = state.get("head") or pin(state.get("goal") or {})["head"]
    return Brief(head=head["text"], head_digest=head["sha256"], decisions=ordered)
