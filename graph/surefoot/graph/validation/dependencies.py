"""`depends_on`: names that exist, none that is oneself, and no circle."""

from surefoot.graph.plan import Subtask
from surefoot.graph.validation.outline import Case, Scope
from surefoot.graph.validation.reachability import cycle_in
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.wording import chain, did_you_mean, listed


def check_dependencies(case: Case, findings: Findings) -> None:
    """Note `unknown_dependency`, `self_dependency` and `cycle`."""
    for scope in case.scopes:
        phases = {phase.id for phase in scope.plan.phases}
        for subtask in scope.plan.subtasks:
            for need in dict.fromkeys(subtask.depends_on):
                if need == subtask.id:
                    full = scope.full(subtask.id)
                    findings.fault(
                        "self_dependency",
                        f"subtask {full!r} depends on itself; take {need!r} out of its depends_on",
                        [full],
                    )
                elif need not in scope.index and need not in case.parsed.lost:
                    _note_unknown(scope, subtask, need, phases, findings)
        _check_cycles(scope, findings)


def _note_unknown(
    scope: Scope, subtask: Subtask, need: str, phases: set[str], findings: Findings
) -> None:
    if scope.damaged:
        return
    full = scope.full(subtask.id)
    container = need.split("/")[0]
    if "/" in need and container in scope.index:
        hint = f"; what is inside {container!r} cannot be named, depend on {container!r}"
    elif need in phases:
        hint = "; that is a phase, name its subtasks"
    elif scope.owner is not None:
        hint = did_you_mean(need, scope.index) or "; inside a group only its own subtasks count"
    else:
        hint = did_you_mean(need, scope.index)
    findings.fault(
        "unknown_dependency",
        f"subtask {full!r} depends on {need!r}, which does not exist{hint}",
        [full],
    )


def _check_cycles(scope: Scope, findings: Findings) -> None:
    for component in scope.order:
        if len(component) < 2:
            continue
        ids = [scope.full(scope.subtask(n).id) for n in cycle_in(component, scope.needs)]
        tangled = ""
        if len(component) > len(ids):
            members = [scope.full(scope.subtask(n).id) for n in sorted(component)]
            tangled = f" (altogether {len(members)} need each other: {listed(members)})"
        findings.fault(
            "cycle",
            f"these subtasks wait for each other: {chain([*ids, ids[0]])}{tangled}; "
            "take one of these depends_on out",
            ids,
        )
