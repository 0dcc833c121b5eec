"""The two doors of the validator: a whole task file, or a plan for a task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from surefoot.graph.plan import Plan
from surefoot.graph.ports import ToolSpec
from surefoot.graph.shapes import is_object
from surefoot.graph.task import TaskFile
from surefoot.graph.validation.arguments import check_arguments
from surefoot.graph.validation.check_shapes import check_shapes
from surefoot.graph.validation.criteria import check_criteria
from surefoot.graph.validation.dependencies import check_dependencies
from surefoot.graph.validation.effects import check_effects
from surefoot.graph.validation.estimates import check_estimates
from surefoot.graph.validation.kinds import check_kinds
from surefoot.graph.validation.lookups import check_lookups
from surefoot.graph.validation.model_plans import check_model_plan
from surefoot.graph.validation.outline import Case, outline
from surefoot.graph.validation.outputs import check_outputs
from surefoot.graph.validation.parsing import parse_task
from surefoot.graph.validation.plainness import check_plain, fits_64_bits
from surefoot.graph.validation.report import Fault, Findings, Report
from surefoot.graph.validation.resources import check_resources
from surefoot.graph.validation.restrictions import check_restrictions
from surefoot.graph.validation.structure import check_structure
from surefoot.graph.validation.world import World
from surefoot.graph.values import Json, JsonObject

CHECKS: tuple[Callable[[Case, Findings], None], ...] = (
    check_structure,
    check_model_plan,
    check_kinds,
    check_shapes,
    check_dependencies,
    check_arguments,
    check_lookups,
    check_outputs,
    check_criteria,
    check_effects,
    check_restrictions,
    check_resources,
    check_estimates,
)
"""All of them run, whatever the others find."""


def validate_task(
    mapping: JsonObject,
    *,
    tools: Mapping[str, ToolSpec],
    world: World,
    tool_faults: Sequence[Fault] = (),
    models: Sequence[str] = (),
    seconds: Mapping[str, float] | None = None,
) -> Report:
    """Find everything that is wrong with a task file.

    Args:
        mapping: the file as read, with paths made absolute (see `task_file`).
        tools: every tool there is, by name: built-in ones and those of the file's modules.
        world: answers for the machine the task would run on.
        tool_faults: what went wrong in loading the modules (`bad_tools_module`).
        models: models configured outside the file (`--model`, SUREFOOT_MODEL).
        seconds: seconds a call of a tool took so far, by tool, where a history is at hand.

    Returns:
        The report; never raises for what is in the mapping.
    """
    around = _Around(tools, world, tuple(models), seconds or {})
    return _validate(mapping, around, tool_faults, by_model=False)


def validate_plan(
    plan: Plan | JsonObject,
    task: TaskFile | JsonObject,
    *,
    tools: Mapping[str, ToolSpec],
    world: World,
    models: Sequence[str] = (),
    seconds: Mapping[str, float] | None = None,
    by_model: bool = True,
) -> Report:
    """Find everything that is wrong with a plan for a task, as one that a model made.

    Args:
        plan: parsed, or as the model answered it.
        task: what it is for; its own plan is ignored.
        tools: as `validate_task`.
        world: as `validate_task`.
        models: as `validate_task`.
        seconds: as `validate_task`.
        by_model: every field must be given, a label alone covers nothing, and wrong sizes and a
            history that says it takes too long are faults, not warnings.

    Returns:
        The report; its `task` is the task with this plan.
    """
    given = plan.model_dump(exclude_unset=True) if isinstance(plan, Plan) else plan
    stated = task.model_dump(exclude_unset=True) if isinstance(task, TaskFile) else task
    around = _Around(tools, world, tuple(models), seconds or {})
    return _validate({**stated, "plan": given}, around, (), by_model=by_model)


def plain_faults(value: Json) -> list[str]:
    """What of an answer cannot even be stored: nested too deeply, half characters, huge numbers."""
    findings = Findings()
    if check_plain(value, findings) and not fits_64_bits(value):
        findings.fault("schema", "it holds a whole number of more than 64 bits")
    return [fault.message for fault in findings.report(None).faults]


@dataclass(frozen=True, slots=True)
class _Around:
    """What a task file is judged against."""

    tools: Mapping[str, ToolSpec]
    world: World
    models: tuple[str, ...]
    seconds: Mapping[str, float]


def _validate(
    mapping: JsonObject,
    around: _Around,
    tool_faults: Sequence[Fault],
    *,
    by_model: bool,
) -> Report:
    findings = Findings()
    for fault in tool_faults:
        findings.fault(fault.code, fault.message, fault.subtasks)
    if not is_object(mapping):
        findings.fault("schema", "a task file is a mapping with `goal:` and perhaps `plan:`")
        return findings.report(None)
    if not check_plain(mapping, findings):
        return findings.report(None)
    parsed = parse_task(mapping, findings)
    case = outline(
        parsed,
        tools=around.tools,
        world=around.world,
        models=around.models,
        seconds=around.seconds,
        by_model=by_model,
    )
    for check in CHECKS:
        check(case, findings)
    return findings.report(parsed.task)
