"""Planning the remainder anew: what of a plan stands for good, and what a new plan may say.

The finished prefix is immutable: same ids, same records; it is not redone, renamed or depended
away. The program puts it into the new plan itself; an answer that says otherwise is a fault that
goes back to whoever made it. What holds for any plan is the validator's. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from surefoot.graph.plain import digest
from surefoot.graph.values import Json, JsonObject, Record, life_of

UNWORKED = ("id", "name", "description", "phase", "depends_on", "covers", "weight", "importance")
"""Fields of a subtask that do not say what is done."""

DEFAULTS: JsonObject = {
    "args": {},
    "depends_on": [],
    "covers": [],
    "success": [],
    "on_failure": [],
    "weight": 1,
    "importance": "normal",
    "resumable": True,
    "skippable": False,
    "approve": "unknown",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What of a plan is settled.

    Attributes:
        kept: ids that stand as they are: finished, skipped, or children of them under way.
        failed: ids that failed for good: gone, and their names with them.
        closed: phases that a milestone passed.
        passed: milestones that were passed.
    """

    kept: frozenset[str]
    failed: frozenset[str]
    closed: frozenset[str]
    passed: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A new plan (without its version) and what contradicts the finished prefix."""

    plan: JsonObject
    faults: tuple[JsonObject, ...] = ()


def standing(
    plan: JsonObject, records: Mapping[str, Record], passed: Iterable[str], failing: str | None
) -> Standing:
    """What of a plan stands, now that nothing runs.

    Args:
        plan: the present version.
        records: of subtasks and children.
        passed: ids of passed milestones.
        failing: the subtask (or child) that the replan is about, if any.
    """
    gone = {id.partition("/")[0] for id, r in records.items() if r.get("state") == "failed"}
    if failing is not None and not _done(records.get(failing.partition("/")[0])):
        gone.add(failing.partition("/")[0])
    ids = [subtask["id"] for subtask in plan["subtasks"]]
    kept = {
        id
        for id in ids
        if id not in gone and (records.get(id) or Record()).get("state") in _SETTLED
    }
    won = frozenset(passed)
    phases = {phase["id"] for phase in plan.get("phases") or ()}
    after = {m["after"] for m in plan.get("milestones") or () if m["id"] in won}
    return Standing(
        kept=frozenset(kept),
        failed=frozenset(gone & set(ids)),
        closed=frozenset(after & phases),
        passed=won,
    )


def merged(
    old: JsonObject, new: JsonObject, stands: Standing, *, by_person: bool = False
) -> Merged:
    """Put the finished prefix and a new remainder together.

    Args:
        old: the present plan.
        new: a remainder, or a whole plan that repeats the finished part as it is.
        stands: what of `old` stands.
        by_person: a person may take a failed subtask's id again (it is then done anew).
    """
    olds = {subtask["id"]: subtask for subtask in old["subtasks"]}
    given: list[JsonObject] = list(new.get("subtasks") or ())
    rest = [subtask for subtask in given if subtask.get("id") not in stands.kept]
    kept = [subtask for id, subtask in olds.items() if id in stands.kept]
    faults = [
        *_changed(given, olds, stands),
        *_redone(rest, kept, by_person),
        *_closed(rest, stands),
        *([] if by_person else _reused(rest, stands)),
    ]
    replaced = [subtask for id, subtask in olds.items() if id not in stands.kept]
    plan: JsonObject = {
        "phases": _phases(old, new, [*kept, *rest], stands),
        "subtasks": [*kept, *_scaled(rest, replaced)],
        "milestones": _milestones(old, new, [*kept, *rest], stands),
    }
    return Merged(plan=plan, faults=tuple(faults))


def dropped(old: JsonObject, new: JsonObject) -> list[str]:
    """Ids of the old plan that the new one no longer has."""
    left = {subtask["id"] for subtask in new["subtasks"]}
    return [subtask["id"] for subtask in old["subtasks"] if subtask["id"] not in left]


def about_kept(fault: Mapping[str, Json], stands: Standing) -> bool:
    """Whether a fault is about nothing but what stands, which no new plan could mend."""
    ids = {str(id).partition("/")[0] for id in fault.get("subtasks") or ()}
    return bool(ids) and ids <= stands.kept


def is_same(one: JsonObject, other: JsonObject) -> bool:
    """Whether two subtasks say the same, weights and left-out defaults apart."""
    return _full(one) == _full(other)


def starts_afresh(record: Record) -> Record:
    """The record of a subtask whose id means new work now: numbers go on, tries do not."""
    again = Record(
        state="pending", attempt=record.get("attempt", 0), ended=record.get("ended", 0), tries=0
    )
    return {**again, **life_of(record)}


# --- what contradicts the finished part ------------------------------------------------------


def _changed(
    given: Sequence[JsonObject], olds: Mapping[str, JsonObject], stands: Standing
) -> list[JsonObject]:
    return [
        _fault(
            "finished_changed",
            f"subtask {subtask['id']!r} is finished: leave it out, or repeat it exactly as it was",
            subtask["id"],
        )
        for subtask in given
        if subtask.get("id") in stands.kept and not is_same(subtask, olds[subtask["id"]])
    ]


def _redone(
    rest: Sequence[JsonObject], kept: Sequence[JsonObject], by_person: bool
) -> list[JsonObject]:
    """Work that is done already. A person's same call twice is the validator's to judge."""
    done = {_work(subtask): subtask["id"] for subtask in kept}
    return [
        _fault(
            "finished_redone",
            f"subtask {subtask.get('id')!r} does again what {done[_work(subtask)]!r} has done: "
            "depend on that one and use its result",
            str(subtask.get("id")),
            done[_work(subtask)],
        )
        for subtask in rest
        if not (by_person and subtask.get("kind") == "tool") and _work(subtask) in done
    ]


def _closed(rest: Sequence[JsonObject], stands: Standing) -> list[JsonObject]:
    return [
        _fault(
            "closed_phase",
            f"phase {subtask['phase']!r} has passed its milestone and is closed: put subtask "
            f"{subtask.get('id')!r} into another phase",
            str(subtask.get("id")),
            str(subtask["phase"]),
        )
        for subtask in rest
        if subtask.get("phase") in stands.closed
    ]


def _reused(rest: Sequence[JsonObject], stands: Standing) -> list[JsonObject]:
    return [
        _fault(
            "reused_id",
            f"subtask {subtask['id']!r} failed for good and is gone: give what replaces it an id "
            "of its own",
            subtask["id"],
        )
        for subtask in rest
        if subtask.get("id") in stands.failed
    ]


def _fault(code: str, message: str, *ids: str) -> JsonObject:
    return {"code": code, "message": message, "subtasks": list(ids)}


# --- the parts of the new plan ---------------------------------------------------------------


def _phases(
    old: JsonObject, new: JsonObject, subtasks: Sequence[JsonObject], stands: Standing
) -> list[JsonObject]:
    """Closed phases as they were, the new plan's as it says, others while they have work."""
    news = {phase["id"]: phase for phase in new.get("phases") or () if phase.get("id")}
    used = {subtask.get("phase") for subtask in subtasks}
    phases: list[JsonObject] = []
    for phase in old.get("phases") or ():
        id = phase["id"]
        if id in stands.closed:
            phases.append(phase)
        elif id in news:
            phases.append(news[id])
        elif id in used:
            phases.append(phase)
    there = {phase["id"] for phase in phases}
    return [*phases, *(phase for id, phase in news.items() if id not in there)]


def _milestones(
    old: JsonObject, new: JsonObject, subtasks: Sequence[JsonObject], stands: Standing
) -> list[JsonObject]:
    """Passed ones as they were; then the new plan's, or the open ones that still have a place."""
    passed = [m for m in old.get("milestones") or () if m["id"] in stands.passed]
    places = {subtask.get("id") for subtask in subtasks}
    places |= {subtask.get("phase") for subtask in subtasks}
    following = new.get("milestones") or [
        m for m in old.get("milestones") or () if m["after"] in places
    ]
    return [*passed, *(m for m in following if m.get("id") not in stands.passed)]


def _scaled(rest: Sequence[JsonObject], replaced: Sequence[JsonObject]) -> list[JsonObject]:
    """The new subtasks, weighing together what those weighed that they replace (contract §1)."""
    before, after = _weight(replaced), _weight(rest)
    if before == 0 or after == 0 or before == after:
        return list(rest)
    return [{**subtask, "weight": _number(subtask) * before / after} for subtask in rest]


def _weight(subtasks: Sequence[JsonObject]) -> float:
    return sum(_number(subtask) for subtask in subtasks)


def _number(subtask: JsonObject) -> float:
    weight = subtask.get("weight", 1)
    usable = isinstance(weight, int | float) and not isinstance(weight, bool)
    return float(weight) if usable else 1.0


# --- comparing -------------------------------------------------------------------------------

_SETTLED = ("completed", "skipped", "running")


def _done(record: Record | None) -> bool:
    return (record or Record()).get("state") in ("completed", "skipped")


def _full(subtask: JsonObject) -> JsonObject:
    """A subtask with its defaults, without what says nothing, for comparison."""
    stated = {k: v for k, v in subtask.items() if v is not None}
    whole = {**DEFAULTS, **stated}
    whole["depends_on"] = sorted(map(str, whole["depends_on"]))
    del whole["weight"]  # an earlier replan may have scaled it
    if whole.get("name") == whole.get("id"):
        del whole["name"]
    return whole


def _work(subtask: JsonObject) -> str:
    """What a subtask does, whatever it is called."""
    whole = _full(subtask)
    return digest({k: v for k, v in whole.items() if k not in UNWORKED})
