"""The plan as the checks walk it: scopes (one per plan, inner ones too) and their units.

Built once from the parsed models; holds no opinion about them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from surefoot.graph.plan import Plan, RungWork, Subtask, Unit, Work
from surefoot.graph.ports import ToolSpec
from surefoot.graph.task import TaskFile
from surefoot.graph.validation.parsing import Parsed, plan_of
from surefoot.graph.validation.reachability import components
from surefoot.graph.validation.world import World
from surefoot.graph.values import JsonObject


@dataclass(eq=False, slots=True)
class Node:
    """A subtask, or the pattern of a foreach's children.

    Attributes:
        id: the full id; a pattern carries its foreach's.
        in_each: `${item}` and `${index}` mean something here.
        damaged: part of it was left out by the parser: what it lacks is no evidence.
        each: a foreach's pattern.
        inner: a group's plan.
    """

    id: str
    unit: Unit
    scope: "Scope"
    in_each: bool = False
    damaged: bool = False
    each: "Node | None" = None
    inner: "Scope | None" = None

    @property
    def is_leaf(self) -> bool:
        """Whether it does work itself."""
        return self.unit.kind in ("tool", "agent")

    def works(self) -> Iterator[tuple[str, Work]]:
        """Its own work and that of its rungs, each with where it stands ('' or `on_failure[n]`)."""
        yield "", self.unit
        for n, rung in enumerate(self.unit.on_failure):
            if isinstance(rung, RungWork):
                yield f"on_failure[{n}]", rung


@dataclass(eq=False, slots=True)
class Scope:
    """One plan and what its references may see.

    Attributes:
        prefix: what full ids begin with: '' or `outer/`.
        depth: 1 for the task's own plan.
        inputs: what `${inputs.x}` may name here.
        owner: the group whose plan this is; None for the task's own.
        repeated: it is inside a foreach.
        nodes: its subtasks, in order.
        members: its subtasks and the patterns of its foreach.
        index: position by id; of a repeated id the first.
        needs: for each position, the positions it depends on (known ones, not itself).
        order: the components of `needs`.
    """

    plan: Plan
    prefix: str
    depth: int
    inputs: JsonObject
    owner: Node | None = None
    damaged: bool = False
    repeated: bool = False
    nodes: list[Node] = field(default_factory=list[Node])
    members: list[Node] = field(default_factory=list[Node])
    index: dict[str, int] = field(default_factory=dict[str, int])
    needs: list[list[int]] = field(default_factory=list[list[int]])
    order: list[list[int]] = field(default_factory=list[list[int]])

    def subtask(self, position: int) -> Subtask:
        """The subtask at a position."""
        return self.plan.subtasks[position]

    def full(self, name: str) -> str:
        """The full id of one of its own ids."""
        return self.prefix + name


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything the checks may look at.

    Attributes:
        by_model: the plan comes from a model, not from a file: some warnings become faults.
        models: model names configured outside the task file.
        seconds: what a call of a tool took so far, by tool.
    """

    parsed: Parsed
    top: Scope
    scopes: Sequence[Scope]
    nodes: Sequence[Node]
    tools: Mapping[str, ToolSpec]
    world: World
    models: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    by_model: bool = False

    @property
    def task(self) -> TaskFile:
        """The parsed task."""
        return self.parsed.task

    @property
    def leaves(self) -> list[Node]:
        """What counts as a leaf: tools, agents, a foreach (as one), a group yet to be planned."""
        return [
            node
            for node in self.nodes
            if isinstance(node.unit, Subtask)
            and not node.scope.repeated
            and (node.unit.kind != "group" or node.inner is None)
        ]


def outline(
    parsed: Parsed,
    *,
    tools: Mapping[str, ToolSpec],
    world: World,
    models: Sequence[str] = (),
    seconds: Mapping[str, float] | None = None,
    by_model: bool = False,
) -> Case:
    """Lay a parsed task out for the checks."""
    scopes: list[Scope] = []
    top = Scope(plan_of(parsed.task), "", 1, parsed.task.goal.inputs)
    waiting = [top]
    while waiting:
        scope = waiting.pop()
        scopes.append(scope)
        for subtask in scope.plan.subtasks:
            node = Node(scope.full(subtask.id), subtask, scope)
            node.damaged = scope.damaged or node.id in parsed.damaged
            scope.index.setdefault(subtask.id, len(scope.nodes))
            scope.nodes.append(node)
            scope.members.append(node)
            waiting += _inside(node)
        _link(scope)
    return Case(
        parsed=parsed,
        top=top,
        scopes=scopes,
        nodes=[node for scope in scopes for node in scope.members],
        tools=tools,
        world=world,
        models=tuple(name for name in models if name),
        seconds=seconds or {},
        by_model=by_model,
    )


def _inside(node: Node) -> list[Scope]:
    """Attach a foreach's pattern and a group's plan; returns the plans found."""
    if node.unit.kind == "foreach" and node.unit.each is not None:
        node.each = Node(node.id, node.unit.each, node.scope, in_each=True, damaged=node.damaged)
        node.scope.members.append(node.each)
        return _inside(node.each) if node.unit.each.kind == "group" else []
    if node.unit.kind == "group" and node.unit.plan is not None:
        prefix = f"{node.id}/*/" if node.in_each else f"{node.id}/"
        node.inner = Scope(
            node.unit.plan,
            prefix,
            node.scope.depth + 1,
            node.unit.inputs or {},
            owner=node,
            damaged=node.damaged,
            repeated=node.scope.repeated or node.in_each,
        )
        return [node.inner]
    return []


def _link(scope: Scope) -> None:
    for position, subtask in enumerate(scope.plan.subtasks):
        needs = {scope.index[name] for name in subtask.depends_on if name in scope.index}
        scope.needs.append(sorted(needs - {position}))
    scope.order = components(scope.needs)
