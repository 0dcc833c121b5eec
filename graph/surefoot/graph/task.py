"""The task file: a goal, its limits, its tools and models, and perhaps a plan.

`surefoot schema task` prints the JSON Schema of `TaskFile`. Defaults of limits that
depend on the plan are worked out in `budget`.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from surefoot.graph.checks import Check
from surefoot.graph.plan import Id, Model, Plan


class Objective(Model):
    """One thing the task must achieve."""

    id: Id
    text: str = Field(min_length=1)


class PathProhibition(Model):
    """Nothing may write (or read) below a path."""

    path: str = Field(min_length=1)
    deny: Literal["read", "write"] = "write"

    @field_validator("path")
    @classmethod
    def _no_pattern(cls, path: str) -> str:
        if "*" in path or "?" in path:
            raise ValueError(
                "a prohibition names a folder or a file, no pattern: all below a folder is meant"
            )
        return path


class ToolProhibition(Model):
    """A tool that may not be called."""

    tool: str


class HostProhibition(Model):
    """Hosts (a glob) that may not be contacted."""

    host: str


Prohibition = (
    Annotated[str, Field(min_length=1)] | PathProhibition | ToolProhibition | HostProhibition
)


class Goal(Model):
    """What the user asked for. Prohibitions in words are for models; typed ones are enforced."""

    objective: str | None = None
    objectives: list[Objective] = Field(default_factory=list[Objective])
    acceptance: list[Check] = Field(default_factory=list[Check])
    prohibitions: list[Prohibition] = Field(default_factory=list[Prohibition])
    inputs: dict[str, Any] = Field(default_factory=dict)


class Budget(Model):
    """Limits the user set. N means exactly N are allowed, 0 none; absent means the default."""

    max_steps: int | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=0)
    max_cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    max_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    max_failures: int | None = Field(default=None, ge=0)


class Limits(Model):
    """Bounds on the loops that a model drives."""

    plan_rounds: int = Field(default=4, ge=0)
    replans: int = Field(default=3, ge=0)
    rollbacks: int = Field(default=2, ge=0)
    depth: int = Field(default=8, ge=0)


class Price(Model):
    """USD per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)


class Models(Model):
    """Which model plays which role; a list is a ladder, tried in order."""

    planner: str | list[str] | None = None
    executor: str | list[str] | None = None
    judge: str | list[str] | None = None
    context_tokens: int = Field(default=128_000, ge=1)
    prices: dict[str, Price] = Field(default_factory=dict[str, Price])


class TaskFile(Model):
    """A task file as written, after `--set`, with every key checked."""

    name: Annotated[str, Field(min_length=1, max_length=200)] = "task"
    goal: Goal
    budget: Budget = Field(default_factory=Budget)
    limits: Limits = Field(default_factory=Limits)
    concurrency: int = Field(default=4, ge=1, le=1000)
    tools: list[str] = Field(default_factory=list[str])
    model: str | Models | None = None
    plan: Plan | None = None
