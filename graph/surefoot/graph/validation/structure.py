"""Ids, phases, milestones and nesting: whether the plan's names name something, and once."""

from collections import Counter
from collections.abc import Iterable, Sequence

from surefoot.graph.plan import Milestone
from surefoot.graph.references import RESERVED_HEADS
from surefoot.graph.validation.outline import Case, Scope
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.wording import did_you_mean, listed


def check_structure(case: Case, findings: Findings) -> None:
    """Note `duplicate_id`, unknown phases and milestone places, empty and too deep plans."""
    goal = case.task.goal
    criteria = [o.id for o in goal.objectives] + [c.id for c in goal.acceptance if c.id]
    _once(criteria, "objective or acceptance criterion", "", findings)
    if not (goal.objective or goal.objectives) and not case.parsed.goal_damaged:
        findings.note(
            "schema",
            "goal: say what the task is for, as `objective: text` or as `objectives:`",
            (),
            fatal=case.task.plan is None,
        )
    for scope in case.scopes:
        _check_ids(scope, findings)
        _check_phases(scope, findings)
        for milestone in scope.plan.milestones:
            _check_milestone(case, scope, milestone, findings)
        _check_extent(case, scope, findings)


def _check_ids(scope: Scope, findings: Findings) -> None:
    plan = scope.plan
    _once((s.id for s in plan.subtasks), "subtask", scope.prefix, findings)
    _once((p.id for p in plan.phases), "phase", scope.prefix, findings)
    _once((m.id for m in plan.milestones), "milestone", scope.prefix, findings)
    for phase in plan.phases:
        if phase.id in scope.index:
            full = scope.full(phase.id)
            findings.fault(
                "duplicate_id",
                f"{full!r} is a phase and a subtask; rename one of them",
                [full],
            )
    for reserved in RESERVED_HEADS:
        if reserved in scope.index:
            findings.fault(
                "schema",
                f"a subtask may not be called {reserved!r}: ${{{reserved}}} means something else",
                [scope.full(reserved)],
            )
    if any(milestone.id == "start" for milestone in plan.milestones):
        findings.fault(
            "duplicate_id",
            "the milestone 'start' always exists; call yours something else",
            [scope.full("start")],
        )


def _once(ids: Iterable[str], what: str, prefix: str, findings: Findings) -> None:
    for name, times in Counter(ids).items():
        if times > 1:
            findings.fault(
                "duplicate_id",
                f"the id {prefix + name!r} is given to {times} {what}s; ids must be unique",
                [prefix + name],
            )


def _check_phases(scope: Scope, findings: Findings) -> None:
    phases = [phase.id for phase in scope.plan.phases]
    known = set(phases)
    used: set[str] = set()
    for subtask in scope.plan.subtasks:
        if subtask.phase is None:
            continue
        used.add(subtask.phase)
        if subtask.phase not in known and not scope.damaged:
            full = scope.full(subtask.id)
            hint = did_you_mean(subtask.phase, known) or "; declare it under `phases:`"
            findings.fault(
                "schema",
                f"subtask {full!r} is in phase {subtask.phase!r}, which does not exist{hint}",
                [full],
            )
    for phase in phases:
        if phase not in used:
            full = scope.full(phase)
            findings.warn("schema", f"no subtask is in phase {full!r}", [full])


def _check_milestone(case: Case, scope: Scope, milestone: Milestone, findings: Findings) -> None:
    phases = {phase.id for phase in scope.plan.phases}
    after = milestone.after
    if after in scope.index or after in phases or after in case.parsed.lost or scope.damaged:
        return
    full = scope.full(milestone.id)
    container = after.split("/")[0]
    if "/" in after and container in scope.index:
        hint = f"; what is inside {container!r} cannot be named, name {container!r}"
    else:
        hint = did_you_mean(after, [*phases, *scope.index])
    findings.fault(
        "unknown_dependency",
        f"milestone {full!r} comes after {after!r}, which is neither a subtask nor a phase{hint}",
        [full],
    )


def _check_extent(case: Case, scope: Scope, findings: Findings) -> None:
    owner: Sequence[str] = [] if scope.owner is None else [scope.owner.id]
    given = scope.owner is not None or case.task.plan is not None
    damaged = scope.damaged or (scope.owner is None and case.parsed.plan_damaged)
    if given and not scope.plan.subtasks and not damaged:
        where = f"the plan of {listed(owner)}" if owner else "the plan"
        findings.fault("schema", f"{where} has no subtasks; give it at least one", owner)
    limit, groups = case.task.limits.depth, scope.depth - 1
    if groups == limit + 1:
        findings.fault(
            "over_budget",
            f"groups are nested {groups} deep at {listed(owner)}, "
            f"`limits.depth` allows {limit}; flatten them or raise the limit",
            owner,
        )
