"""human: the only node with `interrupt()`; nothing with an effect happens in it before that."""

from typing import Any, Literal

from langgraph.types import interrupt

from surefoot.graph.index import PlanIndex
from surefoot.graph.state import TaskState
from surefoot.nodes.context import TaskContext
from surefoot.nodes.questions import close_questions


async def ask_people(state: TaskState, context: TaskContext) -> dict[str, Any]:
    """Put the open questions to people, and take them up again once the task is resumed."""
    questions = state.get("questions") or []
    interrupt({"questions": questions})
    index = PlanIndex(state.get("plan") or {"subtasks": []})
    changed = close_questions(questions, state.get("records") or {}, index, context)
    context.forget()
    return {"questions": [], "records": changed, "status": "running"}


def after_human(state: TaskState) -> Literal["dispatcher", "planner", "rollback", "end"]:
    """Back to work."""
    return "dispatcher" if state.get("plan") else "planner"
