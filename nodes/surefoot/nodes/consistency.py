"""Gathering the facts of the consistency report, and what people answered to the last one.

It comes before anything else runs in a go, and touches nothing. What is looked at: the state
against the tables, stored contents, the workspace against its manifests, inputs, tools, commands.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from surefoot.graph.consistency import Blobs, Facts, Report, report
from surefoot.graph.errors import InconsistentState, PermanentError, TransientError
from surefoot.graph.head import check_pin
from surefoot.graph.index import PlanIndex
from surefoot.graph.plain import digest
from surefoot.graph.ports import ArtifactStore, Ledger, Workspace
from surefoot.graph.state import GRAPH_VERSION, TaskState
from surefoot.graph.tables import Snapshot, Tables
from surefoot.graph.tool_ports import ToolSpec
from surefoot.graph.validation.effects import RUN_COMMAND
from surefoot.graph.validation.resources import command_of, program_of
from surefoot.graph.values import JsonObject, Record, StoredValue
from surefoot.graph.vouching import Vouched, vouched, works_of
from surefoot.graph.whole_states import behind, may_be_behind, tally_of
from surefoot.nodes.taking_up import foreaches_of

DONE = ("completed", "skipped")
_PENDING = Record()

READ_AT_MOST = 32
READ_BYTES = 4 * 1024 * 1024
"""So many contents, and bytes of them, are read and compared with their hash in a go, the newest
first: those are what a crash may have left half-written. Of the others the presence is asked."""


class Surroundings(Protocol):
    """What a report is gathered from, a task's context or the tables alone: see `TaskContext`."""

    store: ArtifactStore
    tables: Tables
    ledger: Ledger
    task_id: str
    workspace: Workspace
    specs: Mapping[str, ToolSpec]
    manifest: JsonObject
    expected: JsonObject
    accepted: tuple[StoredValue, float] | None
    prefix: str
    has_models: bool | None
    """None: that is nobody's affair here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A report and what it compared the workspace with."""

    report: Report
    against: StoredValue | None = None
    """All manifests that vouch for the workspace, as one."""
    facts: Facts = field(default_factory=Facts)


async def examine(
    state: TaskState,
    index: PlanIndex,
    around: Surroundings,
    *,
    inside: bool = False,
    thorough: bool = False,
) -> Examined:
    """Look at everything and report.

    Args:
        state: as it is stored.
        index: of its plan.
        around: where to look.
        inside: a group's: the workspace, inputs and tools are looked at by its task.
        thorough: read all stored contents, whatever they weigh.
    """
    records = state.get("records") or {}
    artifacts, results = wanted_blobs(records)
    facts: JsonObject = {
        "versions": (state.get("graph_version", 0), GRAPH_VERSION),
        "head_fault": head_fault(state),
        "milestones": await _odd_milestones(state, around, thorough=thorough),
        "artifacts": await _looked_for(artifacts, records, around.store, thorough=thorough),
        "results": await _looked_for(results, records, around.store, thorough=thorough),
    }
    facts["standing"] = await _standing((facts["artifacts"], facts["results"]), around)
    against = None
    if not inside:
        facts["plan_versions"] = _plan_versions(state, around)
        facts["behind"] = await _behind(records, index, around) if thorough else []
        against, facts["workspace"], facts["vouched"] = await _workspace(state, index, around)
        facts |= {"expected": around.expected, "found": around.manifest}
        programs, modelled = needs_of(index, records)
        facts["commands"] = {p: ids for p, ids in programs.items() if shutil.which(p) is None}
        facts["modelless"] = modelled if around.has_models is False else []
    found = Facts(**facts)
    return Examined(report=report(found), against=against, facts=found)


# --- the state -------------------------------------------------------------------------------


def head_fault(state: TaskState) -> str:
    """Why the pinned head and the goal do not belong together; '' where they do."""
    head = state.get("head")
    try:
        if head is not None:
            check_pin(head, state.get("goal") or {})
    except InconsistentState as error:
        return str(error)
    return ""


def _plan_versions(state: TaskState, around: Surroundings) -> tuple[int, int]:
    mine = (state.get("plan") or {}).get("version", 0)
    # A plan that was drafted and not accepted is known to neither.
    return mine, max(mine, around.tables.row.get("plan_version") or 0)


async def _behind(
    records: Mapping[str, Record], index: PlanIndex, around: Surroundings
) -> list[str]:
    foreaches = foreaches_of(index)
    tally = await around.tables.tally(around.prefix, foreaches)
    if not may_be_behind(tally_of(records, index), tally):
        return []
    return behind(records, await around.tables.rows(around.prefix, foreaches), index)


async def _odd_milestones(state: TaskState, around: Surroundings, *, thorough: bool) -> list[str]:
    """Passed milestones whose stored records are not those that were judged."""
    odd: list[str] = []
    for id, milestone in (state.get("milestones") or {}).items():
        if not thorough or not milestone["passed"] or not milestone["records_digest"]:
            continue
        document = await _stored(milestone["snapshot"], around.store)
        if document is None:
            continue  # pruned: nobody goes back to it
        # Of an earlier version: the records alone.
        records = document.get("records") or {} if "number" in milestone else document
        if digest(records) != milestone["records_digest"]:
            odd.append(id)
    return odd


async def _stored(value: StoredValue, store: ArtifactStore) -> JsonObject | None:
    if "sha256" not in value:
        return value.get("value")
    try:
        return json.loads(await store.get_bytes(value["sha256"]))
    except PermanentError:
        return None


# --- stored contents -------------------------------------------------------------------------


Wanted = dict[str, list[tuple[str, str]]]
"""See `Blobs.wanted`."""


def wanted_blobs(records: Mapping[str, Record]) -> tuple[Wanted, Wanted]:
    """The contents that records rely on: artifacts, and results."""
    artifacts, results = Wanted(), Wanted()
    for id, record in records.items():
        held: JsonObject = record.get("held") or {}
        for ref in (*record.get("artifacts", ()), *held.get("artifacts", ())):
            artifacts.setdefault(ref["sha256"], []).append((id, f"artifact {id}/{ref['name']}"))
        kept: StoredValue = held.get("result") or {}
        if "sha256" in kept:
            results.setdefault(kept["sha256"], []).append((id, f"result of {id}"))
        result, items = record.get("result"), record.get("items")
        if result and "sha256" in result:
            results.setdefault(result["sha256"], []).append((id, f"result of {id}"))
        if items and "sha256" in items:
            results.setdefault(items["sha256"], []).append((id, f"list of {id}"))
    return artifacts, results


async def _looked_for(
    wanted: Wanted,
    records: Mapping[str, Record],
    store: ArtifactStore,
    *,
    thorough: bool,
) -> Blobs:
    if not wanted:
        return Blobs()
    missing = await store.missing(list(wanted))
    there = [sha for sha in wanted if sha not in missing]
    if not thorough:
        there.sort(key=lambda sha: records[wanted[sha][0][0]].get("finished", 0.0), reverse=True)
    limits = (len(there), None) if thorough else (READ_AT_MOST, READ_BYTES)
    read, damaged = await store.damaged(there[: limits[0]], most_bytes=limits[1])
    return Blobs(wanted=wanted, missing=frozenset(missing), damaged=frozenset(damaged), read=read)


async def _standing(looked: Sequence[Blobs], around: Surroundings) -> list[str]:
    """The subtasks that the ledger would answer with what is lost."""
    lost = {sha for blobs in looked for sha in (*blobs.missing, *blobs.damaged)}
    ids = [id for b in looked for sha in lost & b.wanted.keys() for id, _ in b.wanted[sha]]
    found: list[str] = []
    for id in dict.fromkeys(ids):
        rows = await around.ledger.standing(around.task_id, [f"{around.prefix}{id}"])
        stays = [row for row in rows if row.effect == "irreversible"]  # others are done again
        named = {ref["sha256"] for row in stays for ref in row.artifacts}
        named |= {(row.result or {}).get("sha256", "") for row in stays}
        if named & lost:
            found.append(id)
    return found


# --- the workspace ---------------------------------------------------------------------------


async def _workspace(
    state: TaskState, index: PlanIndex, around: Surroundings
) -> tuple[StoredValue | None, list[str], str]:
    """What vouches for the workspace as one manifest, what is not as it says, and its words."""
    if state.get("back"):
        return None, [], "a way back is under way, which puts the workspace right"
    snapshots = await around.tables.snapshots()
    if around.accepted is not None:
        manifest, at = around.accepted
        snapshots.insert(0, Snapshot(milestone="", at=at, manifest=manifest))
    records, milestones = state.get("records") or {}, state.get("milestones") or {}
    chosen = vouched(
        index, records, milestones, snapshots, around.specs, back_at=_went_back_at(state)
    )
    if not chosen.manifests:
        return None, [], chosen.words
    try:
        against = await _one_manifest(chosen, around.workspace)
        return against, await around.workspace.differences(against), chosen.words
    except (PermanentError, TransientError) as error:
        return None, [str(error)], chosen.words


def _went_back_at(state: TaskState) -> float:
    """When the plan last went back to a stable point; 0 where it never did."""
    decisions = (state.get("decisions") or {}).values()
    return max((one["at"] for one in decisions if one["kind"] == "rollback"), default=0.0)


async def _one_manifest(chosen: Vouched, workspace: Workspace) -> StoredValue:
    layers = list(chosen.manifests)
    if chosen.leaving_out:
        layers.append((await workspace.take(chosen.leaving_out)).stored)
    return layers[0] if len(layers) == 1 else await workspace.layered(layers)


# --- commands and models ---------------------------------------------------------------------


def needs_of(
    index: PlanIndex, records: Mapping[str, Record]
) -> tuple[dict[str, list[str]], list[str]]:
    """What open subtasks need of the world: the programs they run, and who needs a model."""
    programs: dict[str, list[str]] = {}
    modelled: dict[str, None] = {}
    for id, subtask in index.raw.items():
        if _needs_nothing(subtask) or records.get(id, _PENDING).get("state") in DONE:
            continue
        for work in works_of(subtask):
            if work.get("kind") == "agent" or (work.get("kind") == "group" and work.get("goal")):
                modelled[id] = None
            for run in _commands(work):
                program = program_of(run)
                if program is not None:
                    programs.setdefault(program, []).append(id)
    return programs, list(modelled)


def _needs_nothing(subtask: JsonObject) -> bool:
    """Plain calls of tools, quickly passed over: of those there may be ten thousand."""
    if subtask["kind"] != "tool" or subtask.get("tool") == RUN_COMMAND:
        return False
    if subtask.get("on_failure"):
        return False
    for check in subtask.get("success") or ():  # a loop: a generator's frame costs more than this
        if check.get("type") == "command":
            return False
    return True


def _commands(work: JsonObject) -> Iterator[str | list[str]]:
    if work.get("tool") == RUN_COMMAND:
        run = command_of(work.get("args") or {})
        if run:
            yield run
    for check in work.get("success") or ():
        if check.get("type") == "command" and check.get("run"):
            yield check["run"]
