"""What programs see of drift: criteria without their artifact, and prohibitions that were broken.

From the plan, the records and the inputs alone. Prohibitions are enforced at every call; here it
is looked whether the world agrees.
"""

import asyncio
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from surefoot.graph.criteria_words import resolved_text
from surefoot.graph.index import PlanIndex, container_of
from surefoot.graph.manifest import declared_inputs, input_digests
from surefoot.graph.plan import Work, rung_work
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.values import ArtifactRef, Json, JsonObject, Record


def program_faults(goal: JsonObject, index: PlanIndex, records: Mapping[str, Record]) -> list[str]:
    """What is missing of the criteria by now, and which prohibited calls were made."""
    return [
        *_missing_artifacts(goal, index, records),
        *_prohibited_calls(goal, index, records),
    ]


async def changed_inputs(goal: JsonObject, before: Mapping[str, str]) -> list[str]:
    """Declared inputs that may not be written and are not what they were.

    Args:
        goal: JSON-plain.
        before: digest by path, as when the task was created.
    """
    inputs: JsonObject = goal.get("inputs") or {}
    guarded = _guarded(goal, inputs)
    wanted = {
        name: str(path)
        for name, path in declared_inputs(inputs).items()
        if str(path) in before and any(_touches(path, root) for root in guarded)
    }
    if not wanted:
        return []
    now = await asyncio.to_thread(input_digests, wanted)
    return [
        f"the input {path} was changed, which is prohibited"
        for path in wanted.values()
        if now.get(path) != before[path]
    ]


# --- criteria --------------------------------------------------------------------------------


def _missing_artifacts(
    goal: JsonObject, index: PlanIndex, records: Mapping[str, Record]
) -> Iterator[str]:
    """Artifacts of criteria that a completed subtask should have made by now."""
    for check in _objects(goal.get("acceptance")):
        if check.get("type") != "artifact":
            continue
        name, least = str(check.get("name")), max(1, int(check.get("min_bytes") or 1))
        for id in _makers(name, index, records):
            refs = _refs(records[id], name.rpartition("/")[2])
            if not refs:
                yield f"{id} is completed, but its artifact {name} is missing"
            elif refs[-1]["size"] < least:
                yield f"{id} made {name} with {refs[-1]['size']} bytes; {least} are asked for"


def _makers(name: str, index: PlanIndex, records: Mapping[str, Record]) -> Iterator[str]:
    """The completed subtasks and children that declare an artifact."""
    producer, slash, bare = name.rpartition("/")
    for id, raw in index.raw.items():
        if slash and producer != id and container_of(producer) != id:
            continue
        record = records.get(id) or Record()
        if bare in _outputs(raw) and record.get("state") == "completed":
            yield id
        if bare in _outputs(raw.get("each")):
            yield from _made_children(id, record, records, producer if slash else "")


def _made_children(
    id: str, record: Record, records: Mapping[str, Record], only: str
) -> Iterator[str]:
    for child in (f"{id}/{n}" for n in range(record.get("n", 0))):
        wanted = only in ("", id, child)
        if wanted and (records.get(child) or Record()).get("state") == "completed":
            yield child


def _outputs(raw: Json) -> list[str]:
    outputs = raw.get("outputs") if is_object(raw) else None
    return cast("list[str]", outputs) if is_array(outputs) else []


def _refs(record: Record, name: str) -> list[ArtifactRef]:
    return [ref for ref in record.get("artifacts", ()) if ref["name"] == name]


# --- prohibitions ----------------------------------------------------------------------------


def _prohibited_calls(
    goal: JsonObject, index: PlanIndex, records: Mapping[str, Record]
) -> Iterator[str]:
    inputs: JsonObject = goal.get("inputs") or {}
    typed = _objects(goal.get("prohibitions"))
    tools = {resolved_text(p["tool"], inputs) for p in typed if "tool" in p}
    hosts = [resolved_text(p["host"], inputs).lower() for p in typed if "host" in p]
    if not tools and not hosts:
        return
    for id, record in records.items():
        work = _done_work(id, record, index)
        if work is None:
            continue
        if work.tool in tools:
            yield f"{id} called the tool {work.tool}, which is prohibited"
        for host in _hosts(work.args) if hosts else ():
            if any(fnmatchcase(host, glob) for glob in hosts):
                yield f"{id} was to contact {host}, which is prohibited"


def _done_work(id: str, record: Record, index: PlanIndex) -> Work | None:
    """What was executed for a completed subtask or child."""
    container = container_of(id)
    known = id in index.raw if container is None else index.raw.get(container, {}).get("each")
    if record.get("state") != "completed" or not known or record.get("n") is not None:
        return None
    return rung_work(index.unit(id), record.get("rung", 0))


def _hosts(value: Json) -> Iterator[str]:
    """Hosts of the URLs that stand in a call's own arguments."""
    stack: list[Json] = [value]
    while stack:
        top = stack.pop()
        if is_object(top):
            stack.extend(top.values())
        elif is_array(top):
            stack.extend(top)
        elif isinstance(top, str) and "://" in top:
            yield from _host_of(top)


def _host_of(url: str) -> Iterator[str]:
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return
    if host:
        yield host.rstrip(".").lower()


def _guarded(goal: JsonObject, inputs: JsonObject) -> list[Path]:
    return [
        Path(resolved_text(p["path"], inputs))
        for p in _objects(goal.get("prohibitions"))
        if "path" in p and p.get("deny", "write") == "write"
    ]


def _touches(path: Path, root: Path) -> bool:
    """Whether a guarded place holds the input, or lies within it."""
    return path == root or root in path.parents or path in root.parents


def _objects(values: Json) -> list[JsonObject]:
    return [value for value in values if is_object(value)] if is_array(values) else []
