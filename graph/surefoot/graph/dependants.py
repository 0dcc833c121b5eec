"""Who used what a subtask made: whose work says so, not whose work merely came later. Pure.

A value is used by what looks it up, and by agents, who see all they depend on. What is done again
may have left files as well (artifacts, workspace paths): those are open to everything that
depends on it. What a person gave by hand came from nobody.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from surefoot.graph.index import PlanIndex, container_of
from surefoot.graph.ports import ToolSpec
from surefoot.graph.references import RESERVED_HEADS, find_references
from surefoot.graph.shapes import is_object
from surefoot.graph.values import Json, JsonObject, Record

LOOKED_UP = ("args", "for_each", "instructions", "writes", "inputs", "success")
"""Fields in which a subtask may look up what others made; a group's `outputs` see its inside."""


class Dependants:
    """Users of a subtask of one plan, followed to the end; ids are those of the plan.

    Args:
        index: of the plan.
        records: as they are now.
        specs: of the tools, by name.
    """

    def __init__(
        self,
        index: PlanIndex,
        records: Mapping[str, Record],
        specs: Mapping[str, ToolSpec],
    ) -> None:
        self._index = index
        self._records = records
        self._specs = specs
        self._referring: dict[str, set[str]] = {}
        """Who looks up whom, at any distance: a reference may reach further than a dependency."""
        for id in index.raw:
            self._note(id, heads_of(self._stated(id)))
        for id, record in records.items():
            if "args" in record:
                self._note(container_of(id) or id, _heads(record["args"]))

    def using(self, id: str, *, files: bool) -> list[str]:
        """All whose work began with what this one made before, in plan order.

        Args:
            id: a subtask of the plan (no child); it is not among them itself.
            files: not its value alone has changed, but what it left in files.
        """
        found: set[str] = set()
        waiting = [(id, files)]
        while waiting:
            maker, left_files = waiting.pop()
            for user in self._direct(maker, files=left_files):
                if user not in found and user != id and self._has_begun(user):
                    found.add(user)
                    waiting.append((user, self.leaves_files(user)))
        return sorted(found, key=lambda user: self._index.position[user])

    def _direct(self, maker: str, *, files: bool) -> Iterator[str]:
        yield from self._referring.get(maker, ())
        for user in self._index.dependants.get(maker, ()):
            if files or _shown_to_a_model(self._index.raw[user]):
                yield user

    def _note(self, user: str, makers: set[str]) -> None:
        for maker in makers & self._index.raw.keys():
            self._referring.setdefault(maker, set()).add(user)

    def _stated(self, id: str) -> JsonObject:
        """What the plan says, without arguments that a person has replaced."""
        raw = self._index.raw[id]
        replaced = "args" in (self._records.get(id) or Record())
        return {k: v for k, v in raw.items() if k != "args"} if replaced else raw

    def _has_begun(self, id: str) -> bool:
        """Whether something of it was done that is not a person's word."""
        record = self._records.get(id) or Record()
        if record.get("edited"):
            return False
        return record.get("state", "pending") != "pending" or bool(record.get("attempt"))

    def leaves_files(self, id: str) -> bool:
        """Whether doing it again may leave other files: artifacts, or paths in the workspace."""
        record = self._records.get(id) or Record()
        return bool(record.get("artifacts")) or self._may_write(self._index.raw[id])

    def _may_write(self, unit: Mapping[str, Any]) -> bool:
        writes = unit.get("writes")
        if writes is not None:
            return bool(writes)
        match unit.get("kind"):
            case "foreach":
                return self._may_write(unit.get("each") or {})
            case "tool":
                spec = self._specs.get(unit.get("tool") or "")
                return spec is None or spec.effect != "read"
            case _:
                return True


def heads_of(unit: Mapping[str, Any]) -> set[str]:
    """The subtasks that a subtask's own references name, its children's and rungs' included."""
    found = {head for name in LOOKED_UP for head in _heads(unit.get(name))}
    below = [unit.get("each"), *(unit.get("on_failure") or ()), unit.get("undo")]
    for work in below:
        if is_object(work):
            found |= heads_of(work)
    return found


def _heads(value: Json) -> set[str]:
    return {one.head for one in find_references(value) if one.head not in RESERVED_HEADS}


def _shown_to_a_model(unit: Mapping[str, Any]) -> bool:
    """Whether a model sees the results of what it depends on."""
    works = [unit, unit.get("each"), *(unit.get("on_failure") or ())]
    return any(is_object(work) and work.get("kind") == "agent" for work in works)
