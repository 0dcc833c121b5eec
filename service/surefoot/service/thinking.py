"""What models do for a task beside the attempts of its agents, as the live view shows it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surefoot.graph.values import JsonObject
from surefoot.service.rows import Row, posix


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """A planner is being asked. `stage`: goal, plan or replan."""

    stage: str
    round: int
    since: float


@dataclass(slots=True)
class Thinking:
    """Plans in the making, and what calls have used so far.

    Attributes:
        planning: by the group that the plan is for, "" = the task.
        tokens: settled calls.
        cost_usd: likewise; 0 where no model has a price.
    """

    planning: dict[str, Planning] = field(default_factory=dict[str, Planning])
    tokens: int = 0
    cost_usd: float = 0.0

    def spend(self, task: Row) -> None:
        """Take over what the task's row says: it is exact, events may come twice."""
        self.tokens, self.cost_usd = task.get("tokens") or 0, task.get("cost_usd") or 0.0

    def apply(self, event: Row) -> None:
        """Move on by one event."""
        type, group = event["type"], event["subtask"] or ""
        if type == "PlanningAsked":
            facts: JsonObject = event["facts"] or {}
            self.planning[group] = Planning(
                stage=str(facts.get("stage") or "plan"),
                round=int(facts.get("round") or 1),
                since=posix(event["time"]) or 0.0,
            )
        elif type in _ANSWERED or type.startswith("Subtask"):
            self.planning.pop(group, None)
        elif type.startswith("Task"):
            self.planning.clear()

    def below(self, subtask: str) -> dict[str, Planning]:
        """Plans in the making for a group, or for groups that a foreach has made."""
        return {
            group: planning
            for group, planning in self.planning.items()
            if group == subtask or group.startswith(f"{subtask}/")
        }


_ANSWERED = frozenset(
    "PlanDrafted PlanAccepted PlanRejected PlanReplaced ReplanRejected GroupPlanned".split()
)


def used(tokens: float, cost_usd: float) -> list[str]:
    """`32,554 tokens`, `$0.12`: what calls of models used, nothing where there were none."""
    said = [f"{tokens:,.0f} tokens"] if tokens else []
    if cost_usd:
        said.append(f"${cost_usd:.2f}" if cost_usd >= 0.01 else f"${cost_usd:.4f}")
    return said


def used_by(usage: Mapping[str, Any]) -> list[str]:
    """The same of a status document's `usage`."""
    return used(usage.get("tokens") or 0, usage.get("cost_usd") or 0.0)
