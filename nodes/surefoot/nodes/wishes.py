"""Wishes for a new remainder: whether one may be uttered, and what it says."""

from collections.abc import Mapping
from typing import Any, cast

from surefoot.graph.reflecting import Replans
from surefoot.graph.state import Replan, TaskState
from surefoot.graph.task import Limits
from surefoot.graph.values import JsonObject, TaskFailure
from surefoot.nodes.context import TaskContext
from surefoot.nodes.questions import why_blocked


def limits_on_replans(state: TaskState, context: TaskContext) -> Limits:
    """The loops' bounds: the task file's, replans and rounds raised by people where they did."""
    stated = cast("JsonObject", (state.get("task") or {}).get("limits") or {})
    raised = {k: v for k, v in context.raised.items() if k in Limits.model_fields and v is not None}
    return Limits.model_validate({**stated, **{k: int(v) for k, v in raised.items()}})


def replans_left(state: TaskState, context: TaskContext) -> int:
    """Replans that may still be made without a person asking for them, at least 0."""
    used = (state.get("replans") or {}).get("used", 0)
    return max(0, limits_on_replans(state, context).replans - used)


def is_made_by_model(state: TaskState) -> bool:
    """Whether a model made the first version of the plan, not a file."""
    return bool((state.get("planning") or {}).get("model"))


def replans_for(state: TaskState, context: TaskContext, blocker: str) -> Replans:
    """Whether a replan may be made about this blocker: the same one twice is a stall."""
    stalled = blocker in ((state.get("replans") or {}).get("blockers") or ())
    possible = replans_left(state, context) > 0 and context.models.has("planner") and not stalled
    return Replans(possible=possible, automatic=is_made_by_model(state))


def why_no_replan(state: TaskState, context: TaskContext, blocker: str) -> str:
    """Why a plan that a model made is not made anew, as the end of a sentence; '' for others."""
    if not is_made_by_model(state) or not context.models.has("planner"):
        return ""
    if blocker in ((state.get("replans") or {}).get("blockers") or ()):
        return "; a new plan met the same obstacle again"
    left = replans_left(state, context)
    limit = limits_on_replans(state, context).replans
    return f"; no replan is left (limits.replans is {limit})" if left == 0 else ""


def wish(
    by: str,
    reason: str,
    *,
    ending: TaskFailure | None,
    blocker: str = "",
    subtask: str | None = None,
    **more: Any,
) -> Replan:
    """A wish for a new remainder.

    Args:
        by: `policy`, `reflection`, `milestone`, `acceptance` or `person`.
        reason: for the history and the planner.
        ending: how the task ends where no new plan comes of it.
        blocker: fingerprint of what stands in the way.
        subtask: that failed for good, if any.
        more: `require`, `plan`, `command` (see `state.Replan`).
    """
    return Replan(
        by=by,
        reason=reason,
        subtask=subtask,
        blocker=blocker,
        ending=ending,
        rounds=0,
        faults=[],
        candidate=None,
        **more,
    )


def next_wish(state: TaskState, context: TaskContext) -> Replan | None:
    """The oldest `replan` command that was not settled yet, as a wish: it means the task's plan.

    While a way back waits for an answer it is refused, as every other command is.
    """
    if context.outer is not None:
        return None
    settled = (state.get("replans") or {}).get("commands") or ()
    blocked = why_blocked(state, context.task_id)
    for command in context.control.asked():
        if command.name != "replan" or command.id in settled:
            continue
        if blocked is None:
            return wish_of_command(command.args, command.by, command.id)
        context.control.settle(command.id, {"error": {"code": "wrong_state", "message": blocked}})
    return None


def settle_wishes(state: TaskState, context: TaskContext) -> None:
    """Tell the senders of `replan` commands what became of them, now that it is saved."""
    replans = state.get("replans") or {}
    for command in context.control.asked():
        if command.id in replans.get("commands", ()):
            refused = replans.get("refused") or {}
            mine = refused.get("command") == command.id
            version = (state.get("plan") or {}).get("version")
            outcome = {"faults": refused["faults"]} if mine else {"version": version}
            context.control.settle(command.id, outcome)


def wish_of_command(args: Mapping[str, Any], by: str, command: int = 0) -> Replan:
    """The wish that `surefoot replan` is: `{require}` or `{plan}`."""
    given = {key: args[key] for key in ("require", "plan") if args.get(key)}
    words = f"required: {args['require']}" if args.get("require") else "a plan was given"
    return wish("person", f"{by}: {words}", ending=None, command=command, **given)
