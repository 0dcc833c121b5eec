"""Planning without a task: the planner and the validator, round by round, and nothing kept.

For `--plan-only`: the same nodes as in a run, over stand-ins that keep no row. No database is
touched; the models are asked and paid for within the task file's limits.
"""

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from surefoot.checkpointing.artifacts import ObjectArtifacts
from surefoot.graph.budget import effective_limits
from surefoot.graph.control import TaskControl
from surefoot.graph.creation import InvalidTask, describe_tools, with_overrides
from surefoot.graph.errors import BudgetExhausted, UsageError
from surefoot.graph.head import pin
from surefoot.graph.model_roles import ModelRoles
from surefoot.graph.ports import Journal, Runner, ToolSpec
from surefoot.graph.settings import Settings
from surefoot.graph.spending import Account, Cost
from surefoot.graph.state import TaskState
from surefoot.graph.task import Budget
from surefoot.graph.validation import LocalWorld, validate_task
from surefoot.graph.values import (
    EffectiveLimits,
    Json,
    JsonObject,
    StoredValue,
    TaskFailure,
    Usage,
)
from surefoot.models.client import TaskModels
from surefoot.models.endpoint import Place
from surefoot.nodes.context import TaskContext
from surefoot.nodes.planner import after_planner, draft_plan
from surefoot.nodes.validator import after_validator, check_plan

if TYPE_CHECKING:  # its YAML parser is not needed to go on with a task
    from surefoot.graph.task_file import LoadedFile

Told = Callable[[str, JsonObject], None]
"""Hears of events: their type and facts."""


class PlanRefused(UsageError):
    """No plan came of it; the code says why, the message what the last answer lacked."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(failure["code"], failure["message"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAlone:
    """A task file with its accepted plan (and drafted criteria), and what it cost to make."""

    task: JsonObject
    usage: Usage


async def plan_alone(
    loaded: "LoadedFile",
    settings: Settings,
    *,
    extra_tools: Sequence[str] = (),
    model: str | None = None,
    told: Told = lambda type, facts: None,
) -> PlannedAlone:
    """Let a model make the plan of a task file that has none.

    Raises:
        InvalidTask: the file itself has faults, a missing model among them.
        PlanRefused: no answer held in the rounds there are, or nobody answered.
    """
    mapping = with_overrides(loaded.mapping, extra_tools=extra_tools, model=model)
    specs, faults = await describe_tools(mapping.get("tools") or [], (), loaded.task_dir)
    names = [settings.model] if settings.model else []
    report = await asyncio.to_thread(
        validate_task,
        mapping,
        tools=specs,
        tool_faults=faults,
        models=names,
        world=LocalWorld(task_dir=loaded.task_dir),
    )
    if report.task is None:
        raise InvalidTask(report)
    with tempfile.TemporaryDirectory(prefix="surefoot-") as folder:
        return await _planned(mapping, loaded.task_dir, specs, settings, Path(folder), told)


async def _planned(
    mapping: JsonObject,
    task_dir: Path,
    specs: Mapping[str, ToolSpec],
    settings: Settings,
    folder: Path,
    told: Told,
) -> PlannedAlone:
    usage = Usage(steps=0, tokens=0, cost_usd=0.0, seconds=0.0, failures=0)
    limits = effective_limits(Budget.model_validate(mapping.get("budget") or {}), leaves=0)
    journal, runner = cast("Journal", _Listener(told)), _Idle()
    store = ObjectArtifacts(folder.as_uri())
    models = TaskModels(
        ModelRoles.of(mapping, settings.model),
        Place.from_environment(),
        spending=_Purse(usage, limits),
        journal=journal,
        store=store,
    )
    context = TaskContext(
        task_id="plan",
        runner=cast("Runner", runner),
        journal=journal,
        control=TaskControl(),
        store=store,
        specs=specs,
        slots=1,
        usage=usage,
        models=models,
        model_names=(settings.model,) if settings.model else (),
    )
    try:
        state = await _rounds(mapping, task_dir, context)
    finally:
        await models.close()
    plan = state.get("plan")
    if plan is None:
        raise PlanRefused(state.get("ending") or TaskFailure(code="x", message="", subtask=None))
    written = {key: value for key, value in plan.items() if key != "version"}
    return PlannedAlone(task={**mapping, "goal": state.get("goal"), "plan": written}, usage=usage)


async def _rounds(mapping: JsonObject, task_dir: Path, context: TaskContext) -> TaskState:
    """Planner and validator in turn, as the graph leads, until a plan or an ending."""
    state: dict[str, Any] = {
        "task": mapping,
        "task_dir": str(task_dir),
        "planning": {"rounds": 0, "faults": []},
        "status": "running",
        **pin(mapping["goal"]),
    }
    now = cast("TaskState", state)
    while True:
        state.update(await draft_plan(now, context))
        if after_planner(now) == "end":
            return now
        state.update(await check_plan(now, context))
        if after_validator(now) != "planner":
            return now


class _Listener:
    """A journal that passes events on and keeps nothing (of `Journal` what planning uses)."""

    def __init__(self, told: Told) -> None:
        self._told = told

    def event(self, type: str, **facts: Json) -> None:
        self._told(type, facts)

    def task(self, **columns: Json) -> None:
        del columns

    def plan(self, version: int, plan: JsonObject, reason: str) -> None:
        del version, plan, reason

    def snapshot(self, tier: str, *, manifest: StoredValue, **columns: Json) -> None:
        del tier, manifest, columns

    def pending(self) -> bool:
        return False

    async def flush(self) -> None:
        pass


class _Idle:
    """A runner with nothing to run (of `Runner` what planning uses)."""

    def known(self) -> set[tuple[str, int]]:
        return set()

    async def wait(self, *, until: float | None = None) -> None:
        """Nothing ever finishes here; whoever waits is cancelled."""
        del until
        await asyncio.Event().wait()


class _Purse:
    """Pays for calls within limits, in memory (`Spending`)."""

    def __init__(self, usage: Usage, limits: EffectiveLimits) -> None:
        self._account = Account(usage)
        self._limits = limits

    async def reserve(
        self,
        most: Cost,
        *,
        subtask: str | None,
        step: bool = True,
        smaller: Sequence[Cost] = (),
    ) -> Cost:
        del subtask
        refusal: BudgetExhausted | None = None
        for cost in (most, *smaller):
            refusal = self._account.refusal(cost, self._limits)
            if refusal is None:
                self._account.reserve(cost)
                self._account.usage["steps"] += step
                return cost
        raise refusal or AssertionError("a reservation names a cost")

    async def settle(self, most: Cost, used: Cost) -> None:
        self._account.settle(most, used)

    def forfeit(self, most: Cost) -> None:
        self._account.settle(most, most)
