"""What a way back takes back, down through the groups: one segment for each plan it reaches into.

A group that begins anew is taken back whole, one that was under way goes back to its own middle;
both may have groups inside of which the same holds.
"""

from dataclasses import dataclass

from surefoot.graph.going_back import Point, WayBack, back_to
from surefoot.graph.state import TaskState
from surefoot.graph.values import ArtifactRef, Record
from surefoot.nodes.context import TaskContext, Views, views
from surefoot.nodes.stable_points import context_inside, is_group, point_inside, state_inside


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A plan of which something is taken back.

    Attributes:
        state: as it is now.
        context: of that plan; of a group's inside it is for looking alone.
        seen: its derived views.
        way: what is taken back, by the plan's own ids.
        local: what its ids begin with where the way back was wished for; '' there itself.
    """

    state: TaskState
    context: TaskContext
    seen: Views
    way: WayBack
    local: str = ""

    def record(self, id: str) -> Record:
        """A record as it is now."""
        return (self.state.get("records") or {}).get(id, Record())

    def changed(self) -> dict[str, Record]:
        """The records that are others afterwards."""
        return {id: after for id, after in self.way.records.items() if after != self.record(id)}


async def segments_of(
    way: WayBack, state: TaskState, context: TaskContext, *, local: str = ""
) -> list[Segment]:
    """The plan itself and all that is taken back inside its groups, outer ones first.

    Raises:
        PermanentError: what was inside a group at the milestone is gone or damaged.
    """
    seen = views(state, context)
    found = [Segment(state=state, context=context, seen=seen, way=way, local=local)]
    records = state.get("records") or {}
    for id in way.taken:
        if not is_group(id, seen.index):
            continue
        inner = await state_inside(id, records.get(id, Record()), context)
        if inner is None:
            continue
        point = Point()
        if id in way.entered:
            point, _ = await point_inside(way.records[id].get("inside"), context)
        plan = inner.get("plan") or {"subtasks": []}
        below = back_to(point, plan, inner.get("records") or {})
        around = context_inside(id, inner, context)
        found += await segments_of(below, inner, around, local=f"{local}{id}/")
    return found


def takes(segments: list[Segment], subtask: str, attempt: int) -> bool:
    """Whether what an attempt of a subtask (by its full id) did is taken back."""
    return any(
        segment.way.takes(subtask.removeprefix(segment.context.prefix), attempt)
        for segment in segments
        if subtask.startswith(segment.context.prefix)
    )


def kept_artifacts(segments: list[Segment], segment: Segment, id: str) -> list[ArtifactRef]:
    """What stays good of a subtask, its children and what is inside it."""
    below = f"{segment.local}{id}/"
    return [
        ref
        for one in segments
        for name, record in one.way.records.items()
        if f"{one.local}{name}".startswith(below) or (one is segment and name == id)
        for ref in record.get("artifacts", ())
    ]
