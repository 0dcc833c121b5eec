"""Going back: what the records and milestones are after a rollback or a reopening. Pure.

Numbers never go down: attempts keep counting, only the count toward `max_attempts` starts anew.
The newest plan stands: what it says differently now begins anew even where it was under way.
What people settled by hand holds: arguments always, results unless they go back themselves.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from surefoot.graph.index import container_of
from surefoot.graph.replanning import is_same
from surefoot.graph.state import Back
from surefoot.graph.values import JsonObject, MilestoneRecord, Record, StoredValue, life_of

START = "start"
"""The point before anything ran; it always exists."""

DONE = ("completed", "skipped")

KEPT_FOR_GOOD = ("args", "wishes")
"""What people asked for that a way back does not take away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A stable point: a plan's records as they were at a milestone, or before anything ran.

    Attributes:
        records: as they were.
        plan: as it was; None where nothing was under way that could mean something else now.
        groups: what was inside the groups that were under way, by their id.
        stale: what was reopened since: its records do not hold any more.
    """

    records: Mapping[str, Record] = field(default_factory=dict[str, Record])
    plan: JsonObject | None = None
    groups: Mapping[str, StoredValue] = field(default_factory=dict[str, StoredValue])
    stale: Collection[str] = ()


@dataclass(slots=True)
class WayBack:
    """What a way back changes.

    Attributes:
        records: all of them, as they are afterwards.
        taken: by id, the last attempt that stands: what later ones did is taken back. 0 = all of
            it; of containers and groups that begin anew, all that is inside as well.
        whole: those of `taken` that begin anew with all that is inside.
        entered: groups of which only a part is taken back: they go on from the middle.
        gone: ids of `taken` that a replan took out of the plan: nobody does them again.
        unfinished: by id, of what begins anew, the attempt that was under way at the point: what
            it had written until then lies in the workspace as it was.
    """

    records: dict[str, Record]
    taken: dict[str, int] = field(default_factory=dict[str, int])
    whole: set[str] = field(default_factory=set[str])
    entered: set[str] = field(default_factory=set[str])
    gone: set[str] = field(default_factory=set[str])
    unfinished: dict[str, int] = field(default_factory=dict[str, int])

    def takes(self, subtask: str, attempt: int) -> bool:
        """Whether what an attempt of a subtask (or of something inside it) did is taken back."""
        stands = self.taken.get(subtask)
        if stands is not None and attempt > stands:
            return True
        outer, slash, _ = subtask.rpartition("/")
        while slash:
            if outer in self.whole:
                return True
            outer, slash, _ = outer.rpartition("/")
        return False

    @property
    def redone(self) -> list[str]:
        """The subtasks that are done again, containers by their own id."""
        return [
            id
            for id in self.taken
            if self.records.get(id, Record()).get("state") not in DONE
            and id not in self.gone
            and container_of(id) not in self.whole
        ]


def back_to(
    point: Point, plan: JsonObject, records: Mapping[str, Record], *, by_person: bool = False
) -> WayBack:
    """Go back to a stable point.

    Args:
        point: where to.
        plan: as it is now.
        records: as they are now.
        by_person: a person goes back: results that people gave since are taken back too.
    """
    way = WayBack(records=dict(records))
    units = {subtask["id"]: subtask for subtask in plan["subtasks"]}
    olds = {subtask["id"]: subtask for subtask in (point.plan or plan)["subtasks"]}
    ids = dict.fromkeys((*records, *point.records))
    for id in sorted(ids, key=lambda id: id.count("/")):  # containers before their children
        top = container_of(id) or id
        now, then = records.get(id, Record()), point.records.get(id, Record())
        if now == then:
            continue
        if top not in units:
            way.taken[id] = 0  # what it did is taken back, its record stays
            way.whole.add(id)
            way.gone.add(id)
            continue
        means_the_same = top in olds and is_same(units[top], olds[top])
        if now.get("edited") and now.get("state") in DONE and not by_person:
            way.taken[id] = now.get("attempt", 0)
        elif container_of(id) in way.whole:
            _begin_anew(id, way, now, units, then)
        elif then.get("state") in DONE and id not in point.stale:
            way.records[id] = _numbered(then, now)
            way.taken[id] = then.get("attempt", 0)
        elif means_the_same and is_open_foreach(then) and id not in point.stale:
            way.records[id] = _numbered(then, now)
            way.taken[id] = then.get("attempt", 0)
        elif means_the_same and id in point.groups and id not in point.stale:
            way.records[id] = _entered(id, then, now, point, units)
            way.taken[id] = then.get("attempt", 0)
            way.entered.add(id)
        else:
            _begin_anew(id, way, now, units, then)
    return way


def reopened(ids: Iterable[str], plan: JsonObject, records: Mapping[str, Record]) -> WayBack:
    """Do these subtasks again, and nothing else; of a child its foreach is gathered again."""
    way = WayBack(records=dict(records))
    units = {subtask["id"]: subtask for subtask in plan["subtasks"]}
    wanted = sorted(dict.fromkeys(ids), key=lambda id: id.count("/"))
    for id in wanted:
        container = container_of(id)
        if container in way.whole:
            continue
        if container is not None:
            way.records[container] = _ungathered(way.records.get(container, Record()))
        _begin_anew(id, way, records.get(id, Record()), units)
        for child in _children(id, records):
            _begin_anew(child, way, records[child], units)
    return way


def afresh(record: Record) -> Record:
    """The record of something that is done again: numbers go on, the rest is gone."""
    again = Record(
        state="pending", attempt=record.get("attempt", 0), ended=record.get("ended", 0), tries=0
    )
    kept = {k: v for k, v in record.items() if k in KEPT_FOR_GOOD}
    return cast("Record", {**again, **kept, **life_of(record)})


def is_touched(record: Record) -> bool:
    """Whether anything was done about it."""
    plain = record.get("state", "pending") == "pending"
    return not plain or bool(record.get("attempt") or record.get("failure"))


def is_open_foreach(record: Record) -> bool:
    """Whether it is an expanded foreach whose children are under way."""
    return record.get("state") == "running" and "n" in record and not record.get("rung")


def is_open_group(record: Record) -> bool:
    """Whether a group is to go on from its middle (where the record is a group's)."""
    begun = bool(record.get("cut")) and "go" in record
    open_now = record.get("state") not in DONE and not record.get("rung")
    return open_now and (begun or "inside" in record)


# --- milestones ------------------------------------------------------------------------------


def standing_at(
    milestones: Mapping[str, MilestoneRecord], milestone: str | None
) -> dict[str, MilestoneRecord]:
    """The milestones after going back to one of them, or to the start (None).

    Those that passed later are passed no more.
    """
    last = _order(milestones[milestone]) if milestone is not None else (-1, float("-inf"))
    return {
        id: record
        if record["passed"] and milestone is not None and _order(record) <= last
        else unpassed(record)
        for id, record in milestones.items()
    }


def reopened_milestones(
    milestones: Mapping[str, MilestoneRecord],
    covers: Mapping[str, Collection[str]],
    ids: Collection[str],
) -> dict[str, MilestoneRecord]:
    """The milestones after some subtasks are reopened: passed no more where they cover one.

    The others remember that what their snapshots say of these does not hold any more.
    """
    tops = {container_of(id) or id for id in ids}
    changed: dict[str, MilestoneRecord] = {}
    for id, record in milestones.items():
        if not tops.isdisjoint(covers.get(id, ())):
            changed[id] = unpassed(record)
        else:
            stale = sorted({*record.get("stale", ()), *ids, *tops})
            changed[id] = {**record, "stale": stale}
    return changed


def unpassed(record: MilestoneRecord) -> MilestoneRecord:
    """The record of a milestone that is judged again."""
    return {**record, "passed": False}


def next_number(milestones: Mapping[str, MilestoneRecord]) -> int:
    """The number of the milestone that is judged now."""
    return 1 + max((record.get("number", 0) for record in milestones.values()), default=0)


def points_before(
    milestones: Mapping[str, MilestoneRecord], records_digest: str
) -> list[MilestoneRecord]:
    """The passed milestones that going back to would undo something, the newest first."""
    passed = [record for record in milestones.values() if record["passed"]]
    passed.sort(key=_order, reverse=True)
    return [record for record in passed if record["records_digest"] != records_digest]


def _order(record: MilestoneRecord) -> tuple[int, float]:
    return record.get("number", 0), record["at"]


# --- wishes ----------------------------------------------------------------------------------


def together(before: Back | None, more: Back) -> Back:
    """Two wishes as one: back to where the first said, and all that is to be reopened."""
    if before is None:
        return more
    both: Back = {**more, **before}
    ids = dict.fromkeys([*before.get("reopen", ()), *more.get("reopen", ())])
    if ids:
        both["reopen"] = list(ids)
    if before["reason"] != more["reason"]:
        both["reason"] = f"{before['reason']}; {more['reason']}"
    return both


# --- records ---------------------------------------------------------------------------------


def _begin_anew(
    id: str,
    way: WayBack,
    now: Record,
    units: Mapping[str, JsonObject],
    then: Record | None = None,
) -> None:
    """Nothing of it stands; what was never begun is not told of. `then`: at the point."""
    if then and (then.get("cut") or then.get("state") == "running"):
        way.unfinished[id] = then.get("attempt", 0)
    if is_touched(now):
        way.taken[id] = 0
    way.whole.add(id)
    way.records[id] = _anew(id, now, units)


def _anew(id: str, now: Record, units: Mapping[str, JsonObject]) -> Record:
    """Afresh; a group also leaves behind what is inside it by now."""
    again = afresh(now)
    if is_touched(now) and _is_group(id, units):
        again["taken_back"] = now.get("attempt", 0)
        again.pop("inside", None)
    return again


def _entered(
    id: str, then: Record, now: Record, point: Point, units: Mapping[str, JsonObject]
) -> Record:
    """A group that goes on from its middle."""
    record = _anew(id, now, units)
    record["inside"] = point.groups[id]
    if "started" in then:
        record["started"] = then["started"]
    return record


def _is_group(id: str, units: Mapping[str, JsonObject]) -> bool:
    container = container_of(id)
    unit = units.get(id) if container is None else (units.get(container) or {}).get("each")
    return bool(unit) and unit.get("kind") == "group"


def _numbered(then: Record, now: Record) -> Record:
    """As it was, but with the highest numbers."""
    record = Record(**then)
    for name in ("attempt", "ended"):
        highest = max(then.get(name, 0), now.get(name, 0))
        if highest:
            record[name] = highest
    return record


def _ungathered(container: Record) -> Record:
    """A foreach that waits for some of its children again."""
    if "n" not in container:
        return container
    kept = ("attempt", "ended", "n", "items", "serial", "started", *KEPT_FOR_GOOD)
    record = cast("Record", {k: v for k, v in container.items() if k in kept})
    record["state"] = "running"
    return record


def _children(id: str, records: Mapping[str, Record]) -> list[str]:
    return [child for child in records if container_of(child) == id]
