"""Whether anything in a plan could write to the workspace. Pure."""

from collections.abc import Mapping
from typing import Any, cast

from surefoot.graph.ports import ToolSpec
from surefoot.graph.values import JsonObject


def can_write(plan: JsonObject, specs: Mapping[str, ToolSpec]) -> bool:
    """Whether a subtask, a rung or something inside could; what is not known could."""
    return any(_unit_can(unit, specs) for unit in plan["subtasks"])


def _unit_can(unit: JsonObject, specs: Mapping[str, ToolSpec]) -> bool:
    stated = cast("list[Any]", unit.get("on_failure") or [])
    rungs = [cast("JsonObject", rung) for rung in stated if isinstance(rung, dict)]
    undo = unit.get("undo")
    return (
        _work_can(unit, specs)
        or any(_work_can(rung, specs) for rung in rungs)
        or (undo is not None and _tool_can(undo.get("tool"), specs))
    )


def _work_can(work: JsonObject, specs: Mapping[str, ToolSpec]) -> bool:
    if work.get("writes") == []:
        return False
    match work.get("kind"):
        case "tool":
            return _tool_can(work.get("tool"), specs)
        case "agent":
            return any(_tool_can(name, specs) for name in work.get("tools") or ())
        case "foreach":
            return _unit_can(cast("JsonObject", work.get("each") or {}), specs)
        case _:
            plan = work.get("plan")
            return plan is None or can_write(plan, specs)


def _tool_can(name: Any, specs: Mapping[str, ToolSpec]) -> bool:
    spec = specs.get(str(name))
    return spec is None or spec.effect != "read"
