"""The plan made quick to ask: positions, needs, dependants, members of phases.

Built from the plan's JSON-plain mapping without parsing every subtask: a plan of 10,000 is ready
in milliseconds after a restart, and only units that are touched are parsed.
"""

from collections.abc import Iterable

from surefoot.graph.plan import Each, Kind, Milestone, Subtask, Unit
from surefoot.graph.values import JsonObject


def container_of(subtask: str) -> str | None:
    """The foreach that a child id belongs to (`review` of `review/7`), None for a plan's own."""
    head, slash, _ = subtask.rpartition("/")
    return head if slash else None


class PlanIndex:
    """One version of a plan. Read-only; ids are those of the plan, children are derived."""

    def __init__(self, plan: JsonObject) -> None:
        self.version: int = plan.get("version", 1)
        self.raw: dict[str, JsonObject] = {s["id"]: s for s in plan["subtasks"]}
        self.position: dict[str, int] = {id: n for n, id in enumerate(self.raw)}
        self.dependants: dict[str, list[str]] = {}
        for id, subtask in self.raw.items():
            for need in self.needs(id):
                self.dependants.setdefault(need, []).append(id)
            del subtask
        self.phases: dict[str, list[str]] = {p["id"]: [] for p in plan.get("phases") or ()}
        for id, subtask in self.raw.items():
            if subtask.get("phase") is not None:
                self.phases.setdefault(subtask["phase"], []).append(id)
        self.milestones: dict[str, Milestone] = {
            m["id"]: Milestone.model_validate(m) for m in plan.get("milestones") or ()
        }
        self._subtasks: dict[str, Subtask] = {}

    def needs(self, id: str) -> Iterable[str]:
        """The ids a subtask depends on, each once."""
        return dict.fromkeys(self.raw[id].get("depends_on") or ())

    def kind(self, id: str) -> Kind:
        """The kind of a subtask, or of a child: that of its foreach's `each`."""
        container = container_of(id)
        return self.raw[id]["kind"] if container is None else self.raw[container]["each"]["kind"]

    def is_container(self, id: str) -> bool:
        """Whether what is inside is executed, and not it itself (as long as it is on no rung)."""
        return self.kind(id) in ("foreach", "group")

    def subtask(self, id: str) -> Subtask:
        """The parsed subtask of the plan (not a child)."""
        found = self._subtasks.get(id)
        if found is None:
            found = self._subtasks[id] = Subtask.model_validate(self.raw[id])
        return found

    def unit(self, id: str) -> Unit:
        """The unit to execute for an id: the subtask itself, or the `each` of a child's foreach."""
        container = container_of(id)
        if container is None:
            return self.subtask(id)
        each = self.subtask(container).each
        if each is None:
            raise KeyError(id)
        return each

    def each(self, container: str) -> Each:
        """The pattern of a foreach's children."""
        found = self.subtask(container).each
        if found is None:
            raise KeyError(container)
        return found

    def members(self, milestone: str) -> list[str]:
        """The plan's subtasks that must be done for a milestone to be reached."""
        after = self.milestones[milestone].after
        return [after] if after in self.raw else self.phases.get(after, [])

    def phase_of(self, id: str) -> str | None:
        """The phase of a subtask or of its container."""
        return self.raw[container_of(id) or id].get("phase")
