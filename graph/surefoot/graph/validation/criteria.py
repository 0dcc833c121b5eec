"""The goal against the plan: what covers each criterion, and whether leaves have a fit size."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from surefoot.graph.checks import ArtifactCheck, Check, FileCheck
from surefoot.graph.plan import Subtask
from surefoot.graph.validation.evidence import has_evidence, touches
from surefoot.graph.validation.outline import Case, Node, Scope
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.result_types import declared_artifacts
from surefoot.graph.validation.wording import did_you_mean, listed

MAX_OUTPUTS = 5
"""A leaf with more outputs than this does several things."""

PUTTING_TOOLS = frozenset(["write_artifact"])
"""Built-in tools that put artifacts."""

SOLE_OBJECTIVE = ("objective", "o1")
"""How `covers` may name a goal's single `objective:` text, which has no id of its own."""


def check_criteria(case: Case, findings: Findings) -> None:
    """Note `uncovered_criterion`, `unverifiable`, `granularity` and unknown `covers`."""
    if not case.task.goal.acceptance and not case.parsed.goal_damaged:
        says = "goal.acceptance is empty: the task counts as done when every subtask is verified"
        findings.warn("uncovered_criterion", says)
    for node in case.nodes:
        _check_leaf(case, node, findings)
    if case.task.plan is None:
        return
    coverage = _Coverage.of(case)
    coverage.check_names(case, findings)
    if not case.parsed.plan_damaged and not case.parsed.goal_damaged:
        coverage.check_covered(case, findings)
        coverage.check_sizes(case, findings)


def _check_leaf(case: Case, node: Node, findings: Findings) -> None:
    unit = node.unit
    if not node.is_leaf or node.damaged:
        return
    _check_own_artifacts(case, node, findings)
    if not unit.success and not unit.outputs:
        where = ", each," if node.in_each else ""
        findings.fault(
            "unverifiable",
            f"subtask {node.id!r}{where} states neither `success` nor `outputs`, so nothing shows "
            "that it is done; add a check or the artifacts it must produce",
            [node.id],
        )


def _check_own_artifacts(case: Case, node: Node, findings: Findings) -> None:
    """A check of an artifact that nobody declares.

    A tool of the user's may put it all the same, so that is only a warning in a file, unless it
    looks like a slip or the tool is a built-in one that puts none.
    """
    declared = {name for _, work in node.works() for name in work.artifact_names()}
    spec = case.tools.get(node.unit.tool or "")
    puts_none = spec is not None and spec.module == "builtin" and spec.name not in PUTTING_TOOLS
    for check in node.unit.success:
        if not isinstance(check, ArtifactCheck) or "${" in check.name:
            continue
        bare = check.name.rpartition("/")[2]
        if bare in declared or any(bare in declared_artifacts(one) for one in case.nodes):
            continue
        hint = did_you_mean(check.name, declared)
        findings.note(
            "unknown_reference",
            f"subtask {node.id!r} checks the artifact {check.name!r}, which no subtask has among "
            f"its outputs{hint or '; add it to the outputs of the subtask that makes it'}",
            [node.id],
            fatal=bool(hint) or puts_none or case.by_model,
        )


@dataclass(slots=True)
class _Coverage:
    """Who covers what.

    Attributes:
        by_id: criterion id -> ids of the subtasks and phases that name it in `covers`.
        makers: artifact name, bare or full, -> ids of subtasks that declare or check it.
    """

    by_id: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    makers: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @classmethod
    def of(cls, case: Case) -> "_Coverage":
        """Gather it from every plan, inner ones too."""
        self = cls()
        for scope in case.scopes:
            for name, covers in _covers(scope):
                for criterion in covers:
                    self.by_id.setdefault(criterion, []).append(name)
        for node in case.nodes:
            for name in _made_by(node, declared_only=case.by_model):
                for key in (name, f"{node.id}/{name}"):
                    self.makers.setdefault(key, []).append(node.id)
        return self

    def check_names(self, case: Case, findings: Findings) -> None:
        """`covers` must name something of the goal."""
        if case.parsed.goal_damaged:
            return
        known = _criteria(case)
        sole = SOLE_OBJECTIVE if case.task.goal.objective else ()
        for name, coverers in self.by_id.items():
            if name not in known and name not in sole:
                ids = list(dict.fromkeys(coverers))
                hint = did_you_mean(name, known) or f"; there are {listed(known)}" * bool(known)
                findings.fault(
                    "unknown_reference",
                    f"{listed(ids)} covers {name!r}, but the goal has no such objective or "
                    f"criterion{hint}",
                    ids,
                )

    def check_covered(self, case: Case, findings: Findings) -> None:
        """Every objective and acceptance criterion must be covered by somebody."""
        goal = case.task.goal
        labelled = bool(self.by_id) or (case.by_model and bool(goal.objectives))
        if not labelled and (goal.objectives or goal.objective):
            says = (
                "nothing in the plan has `covers`: the whole plan counts as covering all objectives"
            )
            findings.warn("uncovered_criterion", says)
        else:
            for objective in goal.objectives:
                if objective.id not in self.by_id:
                    findings.fault(
                        "uncovered_criterion",
                        f"no subtask or phase covers the objective {objective.id!r}; add it to "
                        "the `covers` of what achieves it, or add that subtask",
                        [objective.id],
                    )
        for n, check in enumerate(goal.acceptance):
            self._check_criterion(case, check, check.id or f"acceptance[{n}]", findings)
        if case.by_model:
            self._check_labels(case, findings)
        for scope in case.scopes:
            for milestone in scope.plan.milestones:
                for check in milestone.checks:
                    self._check_milestone(check, scope.full(milestone.id), findings)

    def _check_labels(self, case: Case, findings: Findings) -> None:
        """A label alone covers nothing: somebody who carries it must produce or check something."""
        carriers: dict[str, list[Node]] = {}
        for scope in case.scopes:
            phases = {phase.id: phase.covers for phase in scope.plan.phases}
            for node, subtask in zip(scope.nodes, scope.plan.subtasks, strict=True):
                for name in {*subtask.covers, *phases.get(subtask.phase or "", ())}:
                    carriers.setdefault(name, []).append(node)
        for name in self.by_id:
            nodes = carriers.get(name, [])
            if not any(has_evidence(node) for node in nodes):
                who = listed([node.id for node in nodes]) if nodes else "an empty phase"
                findings.fault(
                    "uncovered_criterion",
                    f"{name!r} is covered by {who} in name only: nothing produced or checked there "
                    "shows it; declare the artifact or add a check that a program can evaluate",
                    [name],
                )

    def _check_criterion(self, case: Case, check: Check, name: str, findings: Findings) -> None:
        covered = check.id in self.by_id
        if isinstance(check, ArtifactCheck):
            if self._is_made(check):
                return
            hint = did_you_mean(check.name, self.makers)
            findings.note(
                "uncovered_criterion",
                f"acceptance {name!r} needs the artifact {check.name!r}, but no subtask declares "
                f"it{hint or '; add it to the `outputs` of the subtask that makes it'}",
                [name],
                fatal=not covered or case.by_model,
            )
            return
        if isinstance(check, FileCheck) and case.by_model and check.exists:
            if not touches(case, check):
                findings.fault(
                    "uncovered_criterion",
                    f"acceptance {name!r} needs the file {check.path!r}, but no subtask writes or "
                    "checks it; add it to the `writes` of the subtask that makes it",
                    [name],
                )
                return
        if (self.by_id or case.by_model) and check.id is not None and not covered:
            findings.fault(
                "uncovered_criterion",
                f"no subtask or phase covers the acceptance criterion {name!r}; add it to the "
                "`covers` of what fulfils it",
                [name],
            )

    def _check_milestone(self, check: Check, name: str, findings: Findings) -> None:
        if isinstance(check, ArtifactCheck) and not self._is_made(check):
            hint = did_you_mean(check.name, self.makers)
            findings.fault(
                "uncovered_criterion",
                f"milestone {name!r} checks the artifact {check.name!r}, but no subtask declares "
                f"it{hint or '; add it to the `outputs` of the subtask that makes it'}",
                [name],
            )

    def _is_made(self, check: ArtifactCheck) -> bool:
        return "${" in check.name or check.name in self.makers

    def check_sizes(self, case: Case, findings: Findings) -> None:
        """A leaf should do one thing."""
        criteria = set(_criteria(case))
        several = len(case.leaves) > 1 and len(criteria) > 1
        artifacts = {
            c.name: c.id for c in case.task.goal.acceptance if isinstance(c, ArtifactCheck)
        }
        for node in case.nodes:
            if not node.is_leaf:
                continue
            names = node.unit.artifact_names()
            if len(names) > MAX_OUTPUTS:
                says = (
                    f"subtask {node.id!r} has {len(names)} outputs, at most {MAX_OUTPUTS}; split it"
                )
                findings.note("granularity", says, [node.id], fatal=case.by_model)
            covered = set(node.unit.covers) if isinstance(node.unit, Subtask) else set[str]()
            covered |= {c for name in names if (c := artifacts.get(name)) is not None}
            if several and criteria <= covered:
                says = (
                    f"subtask {node.id!r} alone covers every criterion; split it into smaller ones"
                )
                findings.note("granularity", says, [node.id], fatal=case.by_model)


def _criteria(case: Case) -> list[str]:
    goal = case.task.goal
    return [o.id for o in goal.objectives] + [c.id for c in goal.acceptance if c.id is not None]


def _covers(scope: Scope) -> Iterator[tuple[str, list[str]]]:
    for phase in scope.plan.phases:
        yield scope.full(phase.id), phase.covers
    for subtask in scope.plan.subtasks:
        yield scope.full(subtask.id), subtask.covers


def _made_by(node: Node, *, declared_only: bool) -> Iterator[str]:
    """Artifact names a unit declares, or checks in its `success`: it must have made those too."""
    for _, work in node.works():
        yield from work.artifact_names()
        if declared_only:
            continue
        yield from (check.name for check in work.success if isinstance(check, ArtifactCheck))
