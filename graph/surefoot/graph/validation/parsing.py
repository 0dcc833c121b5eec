"""From a mapping to the task file's models, saving what can be saved.

When the mapping does not fit its schema, every misfit is noted as a fault, and what is left
without the misfits is parsed all the same, so that one run finds the other faults too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from surefoot.graph.plan import Plan
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.task import Goal, TaskFile
from surefoot.graph.validation.places import Step, at, ids_at
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.schema_faults import Located, note_schema_faults
from surefoot.graph.values import Json, JsonObject

MAX_ROUNDS = 8
"""Taking a misfit out may show another one above it; deeper than this nothing is saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A task file, whole or what was saved of it.

    Attributes:
        task: the models; misfits are left out.
        whole: nothing was left out.
        damaged: full ids of subtasks that lost something: what they lack is no evidence.
        lost: ids of items that could not be kept at all: naming them is no further fault.
        goal_damaged: part of the goal was left out.
        plan_damaged: part of the plan was left out.
    """

    task: TaskFile
    whole: bool = True
    damaged: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    goal_damaged: bool = False
    plan_damaged: bool = False


def parse_task(mapping: JsonObject, findings: Findings) -> Parsed:
    """Parse a task mapping, noting `schema` faults; always gives something to go on with."""
    try:
        return Parsed(task=TaskFile.model_validate(mapping))
    except ValidationError as exc:
        first = note_schema_faults(mapping, exc.errors(include_url=False), findings)
    return _salvage(mapping, first)


def _salvage(mapping: JsonObject, errors: Sequence[Located]) -> Parsed:
    damaged: set[str] = set()
    lost: set[str] = set()
    touched: set[str] = set()
    current = mapping
    quiet = Findings()
    for _ in range(MAX_ROUNDS):
        pruner = _Pruner(current)
        for one in errors:
            damaged.update(ids_at(current, one.place.path))
            touched.update(str(step) for step in one.place.path[:1])
            pruner.take_out(one)
        lost |= pruner.lost
        current = pruner.pruned()
        try:
            task = TaskFile.model_validate(current)
        except ValidationError as exc:
            errors = note_schema_faults(current, exc.errors(include_url=False), quiet)
            continue
        return Parsed(
            task=task,
            whole=False,
            damaged=frozenset(damaged),
            lost=frozenset(lost),
            goal_damaged="goal" in touched or "goal" not in mapping,
            plan_damaged="plan" in touched,
        )
    return Parsed(task=TaskFile(goal=Goal()), whole=False, goal_damaged=True, plan_damaged=True)


class _Pruner:
    """Takes misfits out of a mapping, copying only what lies on the way to them."""

    def __init__(self, mapping: JsonObject) -> None:
        self.lost: set[str] = set()
        self._root: JsonObject = dict(mapping)
        self._copied: dict[tuple[Step, ...], Json] = {(): self._root}
        self._gone: set[tuple[Step, ...]] = set()
        self._stubs: dict[tuple[Step, ...], JsonObject] = {}

    def take_out(self, one: Located) -> None:
        """Take out the value the error is about; a missing key takes its mapping with it."""
        path = one.place.path
        if not path:
            if one.place.missing == "goal":
                self._root["goal"] = {}
            return
        if any(path[:n] in self._gone for n in range(1, len(path) + 1)):
            return
        if _is_subtask(path) and (stub := _stub(at(self._root, path))) is not None:
            self._stubs[path] = stub
            return
        self._gone.add(path)
        self._lose(path)

    def pruned(self) -> JsonObject:
        """The mapping without what was taken out; indexes stay valid until here."""
        for path, stub in self._stubs.items():
            self._writable(path[:-1])[path[-1]] = stub
        for path in sorted(self._gone, key=_place_order, reverse=True):
            if any(path[:n] in self._stubs for n in range(len(path))):
                continue
            container = self._writable(path[:-1])
            if is_object(container):
                container.pop(str(path[-1]), None)
            elif is_array(container):
                container.pop(int(path[-1]))
        return self._root

    def _lose(self, path: tuple[Step, ...]) -> None:
        item = at(self._root, path)
        if path[-1:] == ("id",) and isinstance(item, str):
            self.lost.add(item)
        elif is_object(item) and isinstance(item.get("id"), str):
            self.lost.add(item["id"])

    def _writable(self, path: tuple[Step, ...]) -> Json:
        """The container at a path, copied once so that the input stays as it was."""
        if path in self._copied:
            return self._copied[path]
        above = self._writable(path[:-1])
        value = above[path[-1]]
        copy: Json = dict(value) if is_object(value) else list(value)
        above[path[-1]] = copy
        self._copied[path] = copy
        return copy


def _stub(item: Json) -> JsonObject | None:
    """A subtask's name and needs, where the rest of it cannot be kept."""
    if not is_object(item) or not isinstance(item.get("id"), str) or "kind" in item:
        return None
    needs = item.get("depends_on")
    kept = [need for need in needs if isinstance(need, str)] if is_array(needs) else []
    return {"id": item["id"], "kind": "group", "depends_on": kept}


def _place_order(path: Sequence[Step]) -> list[str]:
    return [str(step).rjust(12, "0") for step in path]


def _is_subtask(path: Sequence[Step]) -> bool:
    return len(path) >= 2 and path[-2] == "subtasks" and isinstance(path[-1], int)


def plan_of(task: TaskFile) -> Plan:
    """The task's plan, an empty one where it has none."""
    return task.plan or Plan(subtasks=[])
