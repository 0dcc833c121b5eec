"""What the task needs and the world does not have: inputs, commands, modules, models, prices."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from surefoot.graph.checks import Check, CommandCheck, JudgeCheck, PythonCheck
from surefoot.graph.model_roles import ModelRoles
from surefoot.graph.references import find_references
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.task import Models
from surefoot.graph.validation.effects import RUN_COMMAND
from surefoot.graph.validation.outline import Case
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.wording import listed
from surefoot.graph.values import Json

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SHELL_WORDS = frozenset(
    "! . : [ [[ { ( alias break case cd command continue echo eval exec exit export false for "
    "function if local printf pwd read return set shift source test time trap true type ulimit "
    "umask unset until wait while".split()
)
"""What a shell understands without a program of that name."""

_COMMAND_ARGUMENTS = ("command", "run", "cmd", "argv", "args")


def check_resources(case: Case, findings: Findings) -> None:
    """Note `missing_resource`, `missing_permission`, `missing_model` and `missing_price`."""
    _check_inputs(case, findings)
    _check_workspace(case, findings)
    for name, checks in _all_checks(case):
        for check in checks:
            _check_program(case, check, name, findings)
    _check_commands(case, findings)
    _check_models(case, findings)


def _check_inputs(case: Case, findings: Findings) -> None:
    for name, path in _paths(case.task.goal.inputs):
        if not case.world.exists(path):
            findings.fault(
                "missing_resource",
                f"the input {name!r} is the path {path}, and there is nothing; correct it in the "
                f"task file or give it with --set {name.split('.')[0]}=...",
            )
        elif not case.world.readable(path):
            findings.fault(
                "missing_permission",
                f"the input {name!r} ({path}) may not be read; give this user the right to read it",
            )


def _paths(inputs: Json) -> Iterator[tuple[str, str]]:
    stack: list[tuple[str, Json]] = [("", inputs)]
    while stack:
        name, value = stack.pop()
        if isinstance(value, str) and value.startswith(("/", "./", "../")):
            yield name, value
        elif is_object(value):
            stack += [(f"{name}.{key}".lstrip("."), inner) for key, inner in value.items()][::-1]
        elif is_array(value):
            stack += [(f"{name}.{n}", inner) for n, inner in enumerate(value)][::-1]


def _check_workspace(case: Case, findings: Findings) -> None:
    folder = case.world.workspace
    if folder is not None and not case.world.writable(folder):
        findings.fault(
            "missing_permission",
            f"the workspace {folder} cannot be written; choose another one with --workspace",
        )


def _all_checks(case: Case) -> Iterator[tuple[tuple[str, ...], Sequence[Check]]]:
    """Every list of checks with the ids it belongs to."""
    yield (), case.task.goal.acceptance
    for scope in case.scopes:
        for milestone in scope.plan.milestones:
            yield (scope.full(milestone.id),), milestone.checks
    for node in case.nodes:
        for _, work in node.works():
            if work.success:
                yield (node.id,), work.success


def _check_program(case: Case, check: Check, ids: tuple[str, ...], findings: Findings) -> None:
    owner = repr(ids[0]) if ids else "goal.acceptance"
    if isinstance(check, CommandCheck):
        _check_command(case, check.run, owner, ids, findings)
    if isinstance(check, PythonCheck):
        module, _, function = check.call.partition(":")
        if not case.world.module(module):
            findings.fault(
                "missing_resource",
                f"{owner}: the check {check.call!r} needs the Python module {module!r}, which is "
                "neither in the task file's folder nor installed",
                ids,
            )
        elif not case.world.defines(module, function):
            findings.fault(
                "missing_resource",
                f"{owner}: the check {check.call!r} needs the function {function!r}, which the "
                f"module {module!r} does not define",
                ids,
            )


def _check_commands(case: Case, findings: Findings) -> None:
    """Commands that subtasks run with the built-in tool."""
    for node in case.nodes:
        for _, work in node.works():
            if work.kind == "tool" and work.tool == RUN_COMMAND:
                run = command_of(work.args)
                if run is not None:
                    _check_command(case, run, repr(node.id), (node.id,), findings)


def command_of(args: Mapping[str, Json]) -> str | list[str] | None:
    """What a call of the built-in tool runs; None where its arguments name nothing."""
    for name in _COMMAND_ARGUMENTS:
        value = args.get(name)
        if isinstance(value, str):
            return value
        if is_array(value):
            return [str(word) for word in value]
    return None


def _check_command(
    case: Case, run: str | list[str], owner: str, ids: Sequence[str], findings: Findings
) -> None:
    if not run or (isinstance(run, str) and not run.strip()):
        findings.fault("schema", f"{owner}: the command to run is empty", ids)
        return
    program = program_of(run)
    if program is not None and not case.world.executable(program):
        findings.fault(
            "missing_resource",
            f"{owner} runs the command {program!r}, which is not installed here; install it or "
            "use another one",
            ids,
        )


def program_of(run: str | list[str]) -> str | None:
    """The program a command starts, None where that is not plain to see."""
    if isinstance(run, str):
        try:
            words = shlex.split(run, comments=False)
        except ValueError:
            return None
        while words and _ASSIGNMENT.match(words[0]):
            words = words[1:]
    else:
        words = run
    first = words[0] if words else ""
    if isinstance(run, str) and (first in _SHELL_WORDS or re.search(r"[;&|<>()`*?]", first)):
        return None
    if not first or "$" in first or find_references(first):
        return None
    return None if "/" in first and not first.startswith("/") else first


# --- models ----------------------------------------------------------------------------------


def _check_models(case: Case, findings: Findings) -> None:
    stated = models_of(case.task.model)
    users = _model_users(case)
    if users and not stated and not case.models:
        ids = [name for name in dict.fromkeys(users) if name]
        who = (
            f"{listed(ids)} {'needs' if len(ids) == 1 else 'need'} a model"
            if ids
            else "the task needs a model"
        )
        if "" in users and case.task.plan is None:
            who = "there is no plan, so a model must make one"
        findings.fault(
            "missing_model",
            f"{who}, and none is configured; set `model:` in the task file, --model or "
            "SUREFOOT_MODEL",
            ids,
        )
    if case.task.budget.max_cost_usd is None:
        return
    prices = case.task.model.prices if isinstance(case.task.model, Models) else {}
    used = _used_models(case) if users else stated
    unpriced = [name for name in dict.fromkeys(used) if name not in prices]
    if unpriced:
        findings.fault(
            "missing_price",
            f"the budget limits the cost, but {listed(unpriced)} has no price; add it under "
            "`model.prices` (USD per million tokens) or take `max_cost_usd` out",
        )


def _used_models(case: Case) -> list[str]:
    """Every model of every role; roles that the file leaves open play the configured one."""
    model = case.task.model
    stated = model.model_dump(exclude_unset=True) if isinstance(model, Models) else model
    roles = ModelRoles.of({"model": stated}, case.models[0] if case.models else None)
    return [name for ladder in roles.ladders.values() for name in ladder]


def models_of(model: str | Models | None) -> list[str]:
    """The names a task file's `model:` states, each once."""
    if model is None or isinstance(model, str):
        return [model] if model else []
    roles = (model.planner, model.executor, model.judge)
    names = [name for role in roles for name in ([role] if isinstance(role, str) else role or [])]
    return [name for name in dict.fromkeys(names) if name]


def _model_users(case: Case) -> list[str]:
    """Ids of what cannot do without a model; '' for the task as a whole."""
    users = [] if case.task.plan is not None or case.parsed.plan_damaged else [""]
    for node in case.nodes:
        asks = node.unit.kind == "group" and node.unit.goal is not None
        if asks or any(work.kind == "agent" for _, work in node.works()):
            users.append(node.id)
    for ids, checks in _all_checks(case):
        if any(isinstance(check, JudgeCheck) for check in checks):
            users.append(ids[0] if ids else "")
    return users
