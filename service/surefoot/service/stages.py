"""A plan's subtasks by phase, as they stand in the tree."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from surefoot.graph.values import JsonObject
from surefoot.service.documents import inner_plan, plan_subtasks


@dataclass(slots=True, kw_only=True)
class Member:
    """One subtask of the plan as it stands in the tree."""

    id: str
    name: str
    kind: str
    phase: str | None = None
    children: int | None = None


@dataclass(slots=True)
class Stage:
    """A phase of the plan with its subtasks, in the order of the plan; None = in no phase."""

    id: str | None
    name: str
    members: list[Member] = field(default_factory=list[Member])


def stages_of(plan: JsonObject, made: Mapping[str, JsonObject]) -> list[Stage]:
    """The plan's subtasks by phase; phases in their order, what is in none comes last."""
    phases = cast("list[Mapping[str, Any]]", plan.get("phases") or [])
    stages = {p["id"]: Stage(p["id"], p.get("name") or p["id"]) for p in phases}
    loose = Stage(None, "")
    for name, subtask in plan_subtasks(plan):
        if "/" in name:
            continue
        member = Member(
            id=name,
            name=subtask.get("name") or name,
            kind=subtask.get("kind") or "tool",
            phase=subtask.get("phase"),
        )
        inner = inner_plan(name, subtask, made)
        if inner:
            member.children = len(inner["subtasks"])
        stages.get(member.phase or "", loose).members.append(member)
    found = [stage for stage in stages.values() if stage.members]
    return [*found, loose] if loose.members else found
