"""Which manifests vouch for the workspace, and for which part of it nobody can. Pure.

The newest snapshot of the whole is the base; what subtasks have left under their `writes` since is
laid over it. Whoever may have changed anything (a tool that does not only read, without `writes`)
leaves nothing older to rely on: better no check than a false alarm.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from surefoot.graph.going_back import START
from surefoot.graph.index import PlanIndex, container_of
from surefoot.graph.shapes import is_object
from surefoot.graph.tables import Snapshot
from surefoot.graph.tool_ports import ToolSpec
from surefoot.graph.values import JsonObject, MilestoneRecord, Record, StoredValue

EVERYTHING = "**"
_REFERENCE = re.compile(r"\$\{")


@dataclass(frozen=True, slots=True)
class Vouched:
    """What the workspace is compared with.

    Attributes:
        manifests: from the oldest to the newest; none = nothing can be said.
        leaving_out: globs of what attempts that were cut, or that left no manifest, may have
            changed: as it is now it is taken to be right.
        words: for the report.
    """

    manifests: tuple[StoredValue, ...] = ()
    leaving_out: tuple[str, ...] = ()
    words: str = "nothing is vouched for: nothing was snapshotted"


def vouched(
    index: PlanIndex,
    records: Mapping[str, Record],
    milestones: Mapping[str, MilestoneRecord],
    snapshots: Sequence[Snapshot],
    specs: Mapping[str, ToolSpec],
    *,
    back_at: float = 0.0,
) -> Vouched:
    """Choose what vouches for the workspace.

    Args:
        index: of the plan.
        records: of its subtasks and children.
        milestones: as they were judged.
        snapshots: of the whole workspace, newest first.
        specs: of the tools, for their effects.
        back_at: when the task last went back: of milestones that do not stand any more, and of
            what was accepted before that, the snapshots show another time.
    """
    standing = (one for one in snapshots if _stands(one, milestones, back_at))
    base = next((one for one in standing if one.is_of_workspace), None)
    has_files = any("files" in record for record in records.values())
    if base is None and not has_files:
        return Vouched()
    since = _judged_by_commands(index, milestones)
    for id, record in records.items():
        if not _is_touched(record) or (container_of(id) or id) not in index.raw:
            continue
        if since >= (base.at if base else 0.0) and not has_files:
            return Vouched(words=_UNDECLARED)
        end = _end(record)
        if end > since and _may_change_anything(_unit(index, id), specs):
            since = end
    if since == math.inf:
        return Vouched(words=_UNDECLARED)
    return _layers(index, records, base if base and base.at >= since else None, since)


_UNDECLARED = "nothing is vouched for: work without `writes` may have changed anything"


def _layers(
    index: PlanIndex, records: Mapping[str, Record], base: Snapshot | None, since: float
) -> Vouched:
    begin = base.at if base else since
    layers: list[tuple[float, StoredValue]] = []
    left: list[str] = []
    for id, record in records.items():
        if not _is_touched(record) or (container_of(id) or id) not in index.raw:
            continue
        end = _end(record)
        if end < begin:
            continue
        if "files" in record and end < math.inf:
            layers.append((end, record["files"]))
        else:
            left += [_coarse(glob) for glob in _all_writes(_unit(index, id))]
    layers.sort(key=lambda layer: layer[0])
    manifests = [base.manifest] if base else []
    manifests += [files for _, files in layers]
    whole = (base.milestone or "the one a person accepted") if base else ""
    words = f"the snapshot at {whole}" if whole else "no snapshot of the whole"
    words += f" and {len(layers)} newer manifests say" if layers else " says"
    if not manifests:
        return Vouched(words=_UNDECLARED)
    return Vouched(tuple(manifests), tuple(dict.fromkeys(left)), words)


def _stands(snapshot: Snapshot, milestones: Mapping[str, MilestoneRecord], back_at: float) -> bool:
    if not snapshot.milestone:
        return snapshot.at > back_at
    record = milestones.get(snapshot.milestone)
    return snapshot.milestone == START or (record is not None and record["passed"])


def _judged_by_commands(index: PlanIndex, milestones: Mapping[str, MilestoneRecord]) -> float:
    """When a milestone's command last ran without a pass (and so a snapshot) after it."""
    return max(
        (
            record["at"]
            for id, record in milestones.items()
            if not record["passed"]
            and id in index.milestones
            and any(check.type == "command" for check in index.milestones[id].checks)
        ),
        default=0.0,
    )


def _is_touched(record: Record) -> bool:
    return bool(record.get("attempt")) or record.get("state") == "running"


def _end(record: Record) -> float:
    """When it last changed something; infinite while it may still."""
    over = record.get("state") in ("completed", "skipped")
    return record.get("finished", 0.0) if over else math.inf


def _unit(index: PlanIndex, id: str) -> JsonObject:
    container = container_of(id)
    return index.raw[id] if container is None else index.raw[container].get("each") or {}


def works_of(unit: JsonObject) -> Iterator[JsonObject]:
    """A unit of a plan as a mapping, its rungs, and everything inside it."""
    yield unit
    for rung in cast("Sequence[object]", unit.get("on_failure") or ()):
        if is_object(rung):
            yield rung
    if unit.get("each"):
        yield from works_of(unit["each"])
    plan: JsonObject = unit.get("plan") or {}
    for inner in plan.get("subtasks") or ():
        yield from works_of(inner)


def _may_change_anything(unit: JsonObject, specs: Mapping[str, ToolSpec]) -> bool:
    return any(_is_undeclared(work, unit, specs) for work in works_of(unit))


def _is_undeclared(work: JsonObject, unit: JsonObject, specs: Mapping[str, ToolSpec]) -> bool:
    if any(check.get("type") == "command" for check in work.get("success") or ()):
        return True
    declared = work.get("writes") is not None or unit.get("writes") is not None
    kind = work.get("kind")
    if kind == "group":
        return not work.get("plan")  # what a model plans in it is not known here
    if declared or kind == "foreach":
        return False
    tools: list[str] = (work.get("tools") or []) if kind == "agent" else [str(work.get("tool"))]
    return any(tool not in specs or specs[tool].effect != "read" for tool in tools)


def _all_writes(unit: JsonObject) -> list[str]:
    return [glob for work in works_of(unit) for glob in work.get("writes") or ()]


def _coarse(glob: str) -> str:
    """A glob without look-ups: from the first one on anything is meant."""
    found = _REFERENCE.search(glob)
    if found is None:
        return glob
    folder, slash, _ = glob[: found.start()].rpartition("/")
    return f"{folder}/{EVERYTHING}" if slash else EVERYTHING
