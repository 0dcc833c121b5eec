"""The plan: phases, subtasks and milestones, as they stand in a task file.

Frozen models that parse once at the border. In the graph's state a plan is their
JSON-plain dump. What is *wrong* with a plan is found by the validator, not here.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from surefoot.graph.checks import Check

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"
"""Ids of tasks, phases, subtasks and milestones."""

Id = Annotated[str, Field(pattern=ID_PATTERN, max_length=200)]
Kind = Literal["tool", "agent", "foreach", "group"]
Importance = Literal["core", "normal", "edge"]


KIND_FIELDS: Mapping[str, tuple[str, ...]] = {
    "tool": ("tool", "args"),
    "agent": ("instructions", "tools", "votes"),
    "foreach": ("for_each", "each"),
    "group": ("plan", "goal", "inputs", "budget"),
}
"""The fields that belong to one kind alone."""


class Model(BaseModel):
    """The base of all task file models: unknown keys and wrong types are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Retries(Model):
    """How often to go at the same work. `max_attempts` includes the first go."""

    max_attempts: int | None = Field(default=None, ge=1)
    backoff_seconds: float = Field(default=0.5, ge=0)


class Undo(Model):
    """A tool call that clears what a failed attempt left outside."""

    tool: str
    args: dict[str, Any] = Field(default_factory=dict)


class Votes(Model):
    """First-to-ahead-by-k over independent samples (agent subtasks)."""

    ahead_by: int = Field(ge=1)
    max_samples: int = Field(ge=1)
    red_flags: dict[str, Any] | None = None


class Work(Model):
    """What is executed: one tool call, one agent, a foreach over a list, or a nested plan."""

    kind: Kind
    tool: str | None = None
    args: dict[str, Any] = Field(default_factory=dict)
    instructions: str | None = None
    tools: list[str] | None = None
    for_each: Any = None
    each: "Each | None" = None
    plan: "Plan | None" = None
    goal: dict[str, Any] | None = None
    inputs: dict[str, Any] | None = None
    outputs: list[str] | dict[str, Any] | None = None
    budget: dict[str, Any] | None = None
    writes: list[str] | None = None
    success: list[Check] = Field(default_factory=list[Check])
    retries: Retries | None = None
    timeout_seconds: float | None = Field(default=None, gt=0)
    undo: Undo | None = None
    approve: Literal["always", "never", "unknown"] = "unknown"
    votes: Votes | None = None

    def artifact_names(self) -> list[str]:
        """The names this work must produce as artifacts (a group's `outputs` map is not one)."""
        return self.outputs if isinstance(self.outputs, list) else []


class RungWork(Work):
    """A rung of the degrade ladder that does something simpler."""

    improve_later: bool = False


Rung = Literal["skip", "ask", "fail"] | RungWork


class Unit(Work):
    """Work with a policy: what a subtask and a foreach's `each` share."""

    name: str | None = None
    description: str | None = None
    importance: Importance = "normal"
    resumable: bool = True
    skippable: bool = False
    on_failure: list[Rung] = Field(default_factory=list[Rung])
    estimated_seconds: float | None = Field(default=None, ge=0)


class Each(Unit):
    """The pattern of a foreach's children."""


class Subtask(Unit):
    """A node of the plan: the unit that is scheduled, retried, degraded and skipped."""

    id: Id
    phase: str | None = None
    depends_on: list[str] = Field(default_factory=list[str])
    covers: list[str] = Field(default_factory=list[str])
    weight: float = Field(default=1, ge=0, allow_inf_nan=False)


class Phase(Model):
    """A stage of the work: a name, an objective, and what of the goal it covers."""

    id: Id
    name: str | None = None
    objective: str | None = None
    covers: list[str] = Field(default_factory=list[str])


MilestoneChoice = Literal["rollback", "replan", "ask", "fail"]


class Milestone(Model):
    """A place where the task stops and verifies: after a subtask or a whole phase."""

    id: Id
    after: str
    checks: list[Check] = Field(default_factory=list[Check])
    on_failure: list[MilestoneChoice] = Field(
        default_factory=lambda: list[MilestoneChoice](["rollback", "ask", "fail"])
    )


class Plan(Model):
    """The goal tree of a task: phases, their subtasks (leaves and containers), milestones."""

    phases: list[Phase] = Field(default_factory=list[Phase])
    subtasks: list[Subtask]
    milestones: list[Milestone] = Field(default_factory=list[Milestone])


def rung_work(unit: Unit, rung: int) -> Work | None:
    """The work of one rung of a unit's ladder, or None where the rung is a word.

    Args:
        unit: the subtask, or a foreach's `each`.
        rung: 0 is the full version, n the n-th entry of `on_failure`.

    Returns:
        The unit itself for rung 0; a rung's work with `success`, `outputs`, `writes` and
        `timeout_seconds` inherited where it states none of its own.
    """
    if rung == 0:
        return unit
    step = unit.on_failure[rung - 1]
    if isinstance(step, str):
        return None
    inherited = ("success", "outputs", "timeout_seconds", "writes")
    absent = {k: getattr(unit, k) for k in inherited if k not in step.model_fields_set}
    return step.model_copy(update=absent)


for _model in (Work, RungWork, Unit, Each, Subtask, Plan):
    _model.model_rebuild()
