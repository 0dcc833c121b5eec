"""The plan against the limits that the user set: time by estimates, steps by leaves.

The shortest possible time is the larger of the critical path and the sum over the concurrency
(R. Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math., 1969). Work without
an estimate counts as nothing, so a fault here is a proof, silence is none. Where a history of tools
is at hand it fills in for missing estimates: a fault for a model's plan, a warning for a file.
"""

from dataclasses import dataclass, replace
from typing import Any

from surefoot.graph.shapes import is_array
from surefoot.graph.validation.arguments import substituted
from surefoot.graph.validation.outline import Case, Node, Scope
from surefoot.graph.validation.partial_values import Unknown
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.wording import chain


@dataclass(frozen=True, slots=True)
class Cost:
    """Least seconds and work of something: its longest path, and the sum of its leaves."""

    path_s: float
    sum_s: float
    leaves: int
    critical: tuple[str, ...] = ()


def check_estimates(case: Case, findings: Findings) -> None:
    """Note `over_budget` for the task and for every group with a budget of its own."""
    limits = case.task.budget
    _check_scope(case, case.top, limits.max_steps, limits.max_seconds, findings)
    for scope in case.scopes:
        if scope.owner is not None and scope.owner.unit.budget:
            budget = scope.owner.unit.budget
            steps, seconds = _number(budget.get("max_steps")), _number(budget.get("max_seconds"))
            _check_scope(case, scope, steps, seconds, findings)


def _check_scope(
    case: Case,
    scope: Scope,
    max_steps: float | None,
    max_seconds: float | None,
    findings: Findings,
) -> None:
    """Compare with the estimates, and where those fit, with the history as well."""
    owner = "" if scope.owner is None else scope.owner.id
    budget = f"the budget of {owner!r}" if owner else "the budget"
    proven = replace(case, seconds={})
    cost = _of_scope(proven, scope)
    if max_steps is not None and cost.leaves > max_steps:
        findings.fault(
            "over_budget",
            f"the plan has {cost.leaves} subtasks, each at least one step, but {budget} allows "
            f"max_steps {max_steps:g}; raise it or plan less",
            [owner] if owner else [],
        )
    if max_seconds is None:
        return
    fits = not _too_long(case, cost, max_seconds, owner, findings, fatal=True)
    if fits and case.seconds:
        likely = _of_scope(case, scope)
        _too_long(case, likely, max_seconds, owner, findings, fatal=case.by_model)


def _too_long(
    case: Case,
    cost: Cost,
    max_seconds: float,
    owner: str,
    findings: Findings,
    *,
    fatal: bool,
) -> bool:
    """Note it where the shortest possible time is above the limit."""
    budget = f"the budget of {owner!r}" if owner else "the budget"
    ids = [owner] if owner else []
    at_once = cost.sum_s / case.task.concurrency
    needed = max(cost.path_s, at_once)
    over = needed > max_seconds * (1 + 1e-9)
    if over:
        if cost.path_s >= at_once:
            why = f"the longest chain is estimated at {cost.path_s:g} s: {chain(cost.critical)}"
            ids = ids or list(cost.critical)
        else:
            why = (
                f"all estimates are {cost.sum_s:g} s, at {case.task.concurrency} at a time "
                f"{at_once:g} s"
            )
        findings.note(
            "over_budget",
            f"{why}; {budget} allows max_seconds {max_seconds:g}; raise it or plan less",
            ids,
            fatal=fatal,
        )
    return over


def _of_scope(case: Case, scope: Scope) -> Cost:
    """Longest path in the order of needs, sum and leaves; cycles are cut where they close."""
    ends = [0.0] * len(scope.nodes)
    costs: list[Cost] = [Cost(0, 0, 0)] * len(scope.nodes)
    before = [-1] * len(scope.nodes)
    for position in (member for component in scope.order for member in component):
        costs[position] = _of_node(case, scope.nodes[position])
        latest = max(scope.needs[position], key=ends.__getitem__, default=-1)
        before[position] = latest if latest >= 0 and ends[latest] > 0 else -1
        ends[position] = costs[position].path_s + (ends[latest] if latest >= 0 else 0.0)
    last = max(range(len(ends)), key=ends.__getitem__, default=-1)
    return Cost(
        path_s=ends[last] if last >= 0 else 0.0,
        sum_s=sum(cost.sum_s for cost in costs),
        leaves=sum(cost.leaves for cost in costs),
        critical=tuple(scope.nodes[n].id for n in _back(before, last)),
    )


def _back(before: list[int], last: int) -> list[int]:
    path: list[int] = []
    while last >= 0 and len(path) <= len(before):
        path.append(last)
        last = before[last]
    return path[::-1]


def _of_node(case: Case, node: Node) -> Cost:
    estimate = node.unit.estimated_seconds
    if estimate is None and node.unit.kind == "tool":
        estimate = case.seconds.get(node.unit.tool or "")
    if node.inner is not None:
        inner = _of_scope(case, node.inner)
        return Cost(inner.path_s, max(inner.sum_s, estimate or 0.0), inner.leaves)
    if node.each is not None:
        return _of_foreach(case, node, node.each)
    return Cost(estimate or 0.0, estimate or 0.0, 1)


def _of_foreach(case: Case, node: Node, each: Node) -> Cost:
    """A foreach's own estimate is that of all its children; else theirs times the known list."""
    whole = node.unit.estimated_seconds
    items: Any = substituted(case, node, node.unit.for_each)
    n = len(items) if is_array(items) and not isinstance(items, Unknown) else None
    child = _of_node(case, each)
    if n == 0:
        return Cost(0.0, 0.0, 1)
    if whole is not None:
        return Cost(whole / n if n else 0.0, whole, n or 1)
    return Cost(child.path_s if n else 0.0, child.sum_s * (n or 0), (n or 1) * child.leaves)


def _number(value: Any) -> float | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number else None
