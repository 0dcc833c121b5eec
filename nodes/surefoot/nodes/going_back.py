"""The command `rollback`: a person goes back to a milestone, or to the start."""

from surefoot.graph.errors import PermanentError
from surefoot.graph.going_back import START
from surefoot.graph.ports import Command
from surefoot.graph.state import Back, TaskState
from surefoot.graph.values import JsonObject
from surefoot.nodes.change import Change, Refused
from surefoot.nodes.context import TaskContext, Views
from surefoot.nodes.rollback import way_of
from surefoot.nodes.stable_points import point_at


async def rollback(
    command: Command, state: TaskState, context: TaskContext, seen: Views, change: Change
) -> JsonObject:
    """Wish to go back to `milestone`; the rollback node does it before the sender is told.

    Raises:
        Refused: the task runs, or there is no way back to that milestone.
    """
    del seen
    if not context.only_commands:
        raise Refused(
            "wrong_state",
            f"task {context.task_id!r} is running: pause it first "
            f"(`surefoot pause {context.task_id}`)",
        )
    name = str(command.args.get("milestone") or "")
    await _check(name, state, context)
    wish = Back(
        by="person",
        reason=f"{command.by} went back to {name!r}",
        milestone=name,
        command=command.id,
    )
    target = await way_of(wish, state, context)
    change.back = wish
    change.ends = False
    change.keeps_wish = False
    return {
        "applied": "rollback",
        "milestone": name,
        "reopened": [context.full(id) for id in target.way.redone],
    }


async def _check(name: str, state: TaskState, context: TaskContext) -> None:
    """That the point is there and its snapshot can be read."""
    milestones = state.get("milestones") or {}
    passed = [id for id, record in milestones.items() if record["passed"]]
    left = ", ".join([*(id for id in passed if not milestones[id].get("pruned")), START])
    known = ", ".join([*passed, START])
    if name != START and name not in passed:
        why = "has not passed" if name in (state.get("milestones") or {}) else "is not known"
        raise Refused("unknown_milestone", f"milestone {name!r} {why}; there are: {known}")
    if name == START:
        return
    try:
        await point_at(milestones[name], context)
    except PermanentError as gone:
        raise Refused(
            "unknown_milestone",
            f"what was kept at milestone {name!r} is gone ({gone}); there are: {left}",
        ) from None
