"""The brief of a request, from the task's state: the head, the decisions, the board.

Asked for with every order that a model works on: what does not change is made once.
"""

from collections.abc import Mapping

from surefoot.graph.errors import InconsistentState
from surefoot.graph.head import check_pin, pin
from surefoot.graph.model_ports import Brief
from surefoot.graph.state import TaskState
from surefoot.graph.values import Decision, JsonObject, PinnedHead, TaskFailure
from surefoot.nodes.board import Board, Briefing
from surefoot.nodes.context import TaskContext, Views, limits_of


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
    briefing = _briefing(state, context, seen)
    above, head = context.above, pinned_head(state)
    board = briefing.board.text(
        limits=limits_of(state, context, seen),
        usage=context.usage,
        seconds=context.seconds(),
        subtask=subtask,
    )
    return Brief(
        head=above.head if above else head["text"],
        head_digest=above.head_digest if above else head["sha256"],
        decisions=_ordered(state.get("decisions") or {}, context, briefing),
        board=board,
    )


def pinned_head(state: TaskState) -> PinnedHead:
    """The head that was pinned; made from the goal in threads from before there were heads."""
    head: PinnedHead | None = state.get("head")
    return head or pin(state.get("goal") or {})["head"]


def pin_fault(state: TaskState, context: TaskContext) -> TaskFailure | None:
    """The failure of a task whose goal and pinned head do not belong together; None = they do."""
    head: PinnedHead | None = state.get("head")
    goal: JsonObject = state.get("goal") or {}
    kept = context.pinned
    if head is None or (kept is not None and kept[0] is goal and kept[1] is head):
        return None
    try:
        check_pin(head, goal)
    except InconsistentState as error:
        return TaskFailure(code="inconsistent_state", message=str(error), subtask=None)
    context.pinned = (goal, head)
    return None


def _briefing(state: TaskState, context: TaskContext, seen: Views) -> Briefing:
    kept = context.briefing
    if kept is None or kept.board.index is not seen.index:
        kept = context.briefing = Briefing(Board(seen.index, state.get("records") or {}))
    return kept


def _ordered(
    decisions: Mapping[str, Decision], context: TaskContext, briefing: Briefing
) -> tuple[Decision, ...]:
    before = context.above.decisions if context.above else ()
    if briefing.decisions is not decisions or briefing.before is not before:
        own = (decisions[number] for number in sorted(decisions, key=int))
        briefing.decisions, briefing.before = decisions, before
        briefing.ordered = (*before, *own)
    return briefing.ordered
