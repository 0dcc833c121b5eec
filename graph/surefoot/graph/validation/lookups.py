"""References: whether what they name exists, and exists early enough.

`unknown_reference` and `forward_reference`, in arguments, instructions, checks and everywhere else
a value may hold `${...}`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from surefoot.graph.checks import ArtifactCheck, Check
from surefoot.graph.errors import ReferenceMissing
from surefoot.graph.plan import Milestone, Work
from surefoot.graph.references import Reference, dig, find_references, reference_faults
from surefoot.graph.shapes import is_object
from surefoot.graph.validation.outline import Case, Node, Scope
from surefoot.graph.validation.reachability import unordered
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.result_types import check_result_key, declared_artifacts
from surefoot.graph.validation.wording import did_you_mean, listed
from surefoot.graph.values import Json


def check_lookups(case: Case, findings: Findings) -> None:
    """Note what references get wrong, in the whole task file."""
    for scope in case.scopes:
        reader = _Reader(case, scope, findings)
        for node in scope.members:
            reader.read_node(node)
        reader.read_milestones()
        reader.settle()
    _check_goal(case, findings)


@dataclass(eq=False, slots=True)
class _Reader:
    """Reads the values of one scope; questions about order are collected and asked at once."""

    case: Case
    scope: Scope
    findings: Findings
    questions: dict[tuple[int, int], list[str]] = field(
        default_factory=dict[tuple[int, int], list[str]]
    )
    """(who looks, at whom) -> the look-ups as written."""

    def read_node(self, node: Node) -> None:
        """Read the values of a subtask or pattern."""
        position = self.scope.index.get(node.id.removeprefix(self.scope.prefix))
        values = list(_values_of(node))
        for problem in reference_faults(values):
            self._unknown(f"subtask {node.id!r}", node.id, problem)
        for reference in find_references(values):
            self._read(node, position, reference)
        outputs = node.unit.outputs
        if is_object(outputs) and node.inner is not None:  # looks inside, when all of it is done
            self.read_free(f"subtask {node.id!r}", node.id, node.inner, outputs)

    def read_milestones(self) -> None:
        """A milestone's checks see what is surely done by then: see `settle`."""
        makers = _makers(self.scope)
        for n, milestone in enumerate(self.scope.plan.milestones):
            full = self.scope.full(milestone.id)
            position = len(self.scope.nodes) + n
            for check in milestone.checks:
                value = check_values(check)
                self.read_free(f"milestone {full!r}", full, self.scope, value)
                for reference in find_references(value):
                    self._ask(position, reference.head, f"${{{reference.text}}}")
                if isinstance(check, ArtifactCheck) and check.name in makers:
                    self._ask(position, makers[check.name], f"the check of {check.name!r}")

    def settle(self) -> None:
        """Ask all questions about order at once and note the answers.

        A milestone stands behind all others as one more node that needs what it comes after.
        """
        needs = [*self.scope.needs, *(_after(self.scope, m) for m in self.scope.plan.milestones)]
        order = [*self.scope.order, *([n] for n in range(len(self.scope.nodes), len(needs)))]
        late = unordered(needs, order, self.questions)
        for pair, written in self.questions.items():
            if pair in late:
                for text in written:
                    self._note_late(pair, text)

    def read_free(self, who: str, name: str, scope: Scope, value: Json) -> None:
        """Read a value that may look at all of `scope`; `who` and `name` call its owner."""
        for problem in reference_faults(value):
            self._unknown(who, name, problem)
        for reference in find_references(value):
            if reference.head == "inputs":
                self._read_input(who, name, scope, reference)
            elif reference.head not in scope.index:
                self._unknown_subtask(who, name, scope, reference)
            else:
                node = scope.nodes[scope.index[reference.head]]
                check_result_key(self.case, node, reference, name, self.findings)

    def _read(self, node: Node, position: int | None, reference: Reference) -> None:
        who = f"subtask {node.id!r}"
        head = reference.head
        if head in ("item", "index"):
            if not node.in_each:
                why = "means something only inside the `each` of a foreach"
                self._unknown(who, node.id, f"${{{reference.text}}} {why}")
        elif head == "inputs":
            self._read_input(who, node.id, self.scope, reference)
        elif head not in self.scope.index:
            self._unknown_subtask(who, node.id, self.scope, reference)
        else:
            if position is not None:
                self._ask(position, head, f"${{{reference.text}}}")
            target = self.scope.nodes[self.scope.index[head]]
            check_result_key(self.case, target, reference, node.id, self.findings)

    def _ask(self, position: int, head: str, written: str) -> None:
        target = self.scope.index.get(head)
        if target is not None:
            self.questions.setdefault((position, target), []).append(written)

    def _read_input(self, who: str, name: str, scope: Scope, reference: Reference) -> None:
        why = input_fault(self.case, scope, reference)
        if why is not None:
            self._unknown(who, name, why)

    def _unknown_subtask(self, who: str, name: str, scope: Scope, reference: Reference) -> None:
        head = reference.head
        if scope.damaged or head in self.case.parsed.lost:
            return
        hint = did_you_mean(head, scope.index)
        if any(phase.id == head for phase in scope.plan.phases):
            hint = "; that is a phase, and only subtasks have results"
        elif not hint and head in ("item", "index"):
            hint = "; that means something only inside the `each` of a foreach"
        elif not hint and scope.owner is not None:
            hint = f"; inside {scope.owner.id!r} only its own subtasks and `inputs` are seen"
        elif not hint:
            hint = "; a literal '${' is written '$${'"
        self._unknown(who, name, f"${{{reference.text}}}: there is no subtask {head!r}{hint}")

    def _unknown(self, who: str, name: str, message: str) -> None:
        self.findings.fault("unknown_reference", f"{who}: {message}", [name])

    def _note_late(self, pair: tuple[int, int], written: str) -> None:
        position, target = pair[0], self.scope.nodes[pair[1]]
        if position >= len(self.scope.nodes):
            milestone = self.scope.plan.milestones[position - len(self.scope.nodes)]
            name = self.scope.full(milestone.id)
            why = f"{target.id!r} may not be done when the milestone is reached"
            message = f"milestone {name!r}: {written}: {why}; let it come later"
        else:
            name = self.scope.nodes[position].id
            local = target.id.removeprefix(self.scope.prefix)
            why = (
                f"{name!r} does not depend on {target.id!r}, so its result may not be there yet; "
                f"add {local!r} to the depends_on of {name!r}"
            )
            message = f"subtask {name!r}: {written}: {why}"
            if name == target.id:
                message = f"subtask {name!r}: {written}: a subtask cannot look up its own result"
        self.findings.fault("forward_reference", message, dict.fromkeys([name, target.id]))


def input_fault(case: Case, scope: Scope, reference: Reference) -> str | None:
    """Why `${inputs...}` names nothing in a scope, or None."""
    if not reference.path or scope.damaged:
        return None
    if scope.owner is None and case.parsed.goal_damaged:
        return None
    name = reference.path[0]
    if name not in scope.inputs:
        where = "goal.inputs" if scope.owner is None else f"the inputs of {scope.owner.id!r}"
        known = f"; there are {listed(list(scope.inputs))}" if scope.inputs else ""
        hint = did_you_mean(name, scope.inputs) or known
        return f"${{{reference.text}}}: {where} has no {name!r}{hint}"
    if scope.owner is not None and find_references(scope.inputs[name]):
        return None
    try:
        dig(scope.inputs, reference.path, reference=reference.text)
    except ReferenceMissing as missing:
        return str(missing)
    return None


def check_values(check: Check) -> Json:
    """A check's values that may hold references."""
    values = check.model_dump(exclude_unset=True)
    return [value for key, value in values.items() if key not in ("type", "id")]


def work_values(work: Work) -> Iterator[Json]:
    """The values of one work that may hold references, a foreach's list apart."""
    yield work.args
    yield work.instructions
    yield list(work.writes or [])
    yield work.inputs
    if work.undo is not None:
        yield work.undo.args
    for check in work.success:
        yield check_values(check)


def _values_of(node: Node) -> Iterator[Json]:
    for _, work in node.works():
        yield from work_values(work)
    yield node.unit.for_each


def _after(scope: Scope, milestone: Milestone) -> list[int]:
    """The positions a milestone comes after; everything where its place is unknown."""
    if milestone.after in scope.index:
        return [scope.index[milestone.after]]
    inside = [n for n, s in enumerate(scope.plan.subtasks) if s.phase == milestone.after]
    known = any(phase.id == milestone.after for phase in scope.plan.phases)
    return inside if known else list(range(len(scope.nodes)))


def _makers(scope: Scope) -> dict[str, str]:
    """Artifact name -> the one subtask of the scope that declares it, also under its full name."""
    found: dict[str, str] = {}
    several: set[str] = set()
    for node in scope.nodes:
        local = node.id.removeprefix(scope.prefix)
        for name in declared_artifacts(node):
            if name in found:
                several.add(name)
            found[name] = local
            found[f"{local}/{name}"] = local
    return {name: maker for name, maker in found.items() if name not in several}


def _check_goal(case: Case, findings: Findings) -> None:
    """Acceptance and prohibitions look up results and inputs; inputs are where look-ups end."""
    goal = case.task.goal
    reader = _Reader(case, case.top, findings)
    for n, check in enumerate(goal.acceptance):
        name = check.id or f"acceptance[{n}]"
        reader.read_free(f"acceptance {name!r}", name, case.top, check_values(check))
    for prohibition in goal.prohibitions:
        value = None if isinstance(prohibition, str) else prohibition.model_dump()
        problems = reference_faults(value)
        for reference in find_references(value):
            if reference.head != "inputs":
                problems.append(f"${{{reference.text}}}: a prohibition may look up inputs only")
            elif (why := input_fault(case, case.top, reference)) is not None:
                problems.append(why)
        for problem in problems:
            findings.fault("unknown_reference", f"goal.prohibitions: {problem}")
    for name in dict.fromkeys(reference.text for reference in find_references(goal.inputs)):
        says = f"goal.inputs holds the text ${{{name}}}; inputs are taken as they are"
        findings.warn("unknown_reference", f"{says}, nothing is looked up in them")
