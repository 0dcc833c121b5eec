"""Evidence for milestones and acceptance: what checks are asked about, taken from the state."""

from collections.abc import Mapping, Sequence
from typing import cast

from surefoot.graph.checks import ArtifactCheck, Check
from surefoot.graph.model_ports import Brief
from surefoot.graph.references import find_references
from surefoot.graph.values import ArtifactRef, JsonObject, Record, StoredValue
from surefoot.nodes.asking import heeding_stops
from surefoot.nodes.context import TaskContext, Views
from surefoot.nodes.orders import binding

MOST_RESULTS = 50
"""So many results a judge is shown at most, the last ones in plan order."""


async def verify(
    checks: Sequence[Check],
    records: Mapping[str, Record],
    context: TaskContext,
    seen: Views,
    *,
    brief: Brief,
    result_of: Record | None = None,
    about: Sequence[str] = (),
) -> list[JsonObject]:
    """Evaluate checks on fresh evidence: programs, then a judge; people's come back undecided.

    Args:
        checks: to evaluate.
        records: as they are now.
        context: of the task.
        seen: the derived views of the state.
        brief: what a judge's request says first.
        result_of: whose result `result` checks mean.
        about: the subtasks whose results and artifacts judges and people are shown.

    Raises:
        Stopped: the task was told to stop meanwhile.
    """
    if not checks:
        return []
    heads = find_references([check.model_dump(exclude_unset=True) for check in checks])
    bindings = {
        r.head: binding(r.head, records, children=bool(r.artifact), prefix=context.prefix)
        for r in heads
        if r.head in seen.index.raw
    }
    names = {check.name for check in checks if isinstance(check, ArtifactCheck)}
    if any(check.type == "python" for check in checks):
        names |= {name for raw in seen.index.raw.values() for name in _all_declared(raw)}
    judged = any(check.type in ("judge", "person") for check in checks)
    if judged:
        names |= {name for id in about for name in _all_declared(seen.index.raw[id])}
    named = {name: artifacts_named(name, records, seen) for name in names}
    work = context.runner.verify(
        checks,
        bindings,
        result=(result_of or {}).get("result"),
        artifacts={name: refs for name, refs in named.items() if refs is not None},
        brief=brief,
        results=_results(about, records) if judged else None,
    )
    return await heeding_stops(work, context)


def _results(about: Sequence[str], records: Mapping[str, Record]) -> dict[str, StoredValue]:
    """The results that a judge is shown: the newest of what it is about."""
    found: dict[str, StoredValue] = {}
    for id in about[-MOST_RESULTS:]:
        record = records.get(id) or Record()
        if record.get("state") == "completed" and "result" in record:
            found[id] = record["result"]
    return found


def artifacts_named(
    name: str, records: Mapping[str, Record], seen: Views
) -> list[ArtifactRef] | None:
    """What an artifact name means: `SUBTASK/NAME`, or the bare name's declarer.

    Of a foreach it means every child's; an empty foreach has none, and that is no fault. What is
    inside a group is found with the group. None where there is no such artifact.
    """
    producer, slash, bare = name.rpartition("/")
    if slash:
        producers = [_known_maker(producer, records)]
    else:
        producers = [id for id in seen.index.raw if _declares(seen, id, bare)]
    found: list[ArtifactRef] = []
    empty = False
    for id in producers:
        record = records.get(id) or Record()
        empty = empty or record.get("n") == 0
        found.extend(_refs(record, bare))
        for child in range(record.get("n", 0)):
            found.extend(_refs(records.get(f"{id}/{child}"), bare))
    return found if found or empty else None


def _known_maker(producer: str, records: Mapping[str, Record]) -> str:
    """The subtask of this plan that has the artifacts of a full id: itself, or a group around."""
    while producer not in records and "/" in producer:
        producer = producer.rpartition("/")[0]
    return producer


def _declares(seen: Views, id: str, name: str) -> bool:
    return name in _all_declared(seen.index.raw[id])


def _all_declared(raw: JsonObject) -> list[str]:
    """The outputs of a subtask, of the children it will have, and of what is inside a group."""
    each: JsonObject = raw.get("each") or {}
    plan: JsonObject = raw.get("plan") or {}
    inside = [*([each] if each else ()), *cast("list[JsonObject]", plan.get("subtasks") or [])]
    return [*_declared(raw), *(name for one in inside for name in _all_declared(one))]


def _declared(raw: JsonObject) -> list[str]:
    outputs = raw.get("outputs")
    return cast("list[str]", outputs) if isinstance(outputs, list) else []


def _refs(record: Record | None, name: str) -> list[ArtifactRef]:
    if not record or record.get("state") != "completed":
        return []
    return [ref for ref in record.get("artifacts", ()) if ref["name"] == name]
