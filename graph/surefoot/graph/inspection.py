"""Looking at a stored task without holding it: its state, and the consistency report about it.

Nothing is written, no lease is taken, no node runs. Tools modules are imported in a process of
their own, to learn whether they are still what they were.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.outbox import Fence
from surefoot.checkpointing.serializer import StrictSerializer
from surefoot.checkpointing.task_tables import TaskTables
from surefoot.checkpointing.workspace import WorkspaceSnapshots
from surefoot.graph.assembly import assemble
from surefoot.graph.consistency import Facts, Report, report
from surefoot.graph.creation import describe_tools
from surefoot.graph.index import PlanIndex
from surefoot.graph.manifest import manifest
from surefoot.graph.model_roles import ModelRoles
from surefoot.graph.opening import Stored, own_folders
from surefoot.graph.ports import ArtifactStore, Ledger, NoLedger, ToolSpec, Workspace
from surefoot.graph.settings import Settings
from surefoot.graph.state import GRAPH_VERSION, TaskState
from surefoot.graph.tables import Tables
from surefoot.graph.values import ArtifactRef, JsonObject, StoredValue
from surefoot.graph.whole_states import is_whole
from surefoot.nodes.consistency import examine
from surefoot.nodes.context import TaskContext


class NoContexts:
    """No node of this graph runs."""

    rides_on_saver = True

    async def of(self, state: TaskState, thread_id: str) -> TaskContext:
        """Never asked."""
        del state
        raise AssertionError(f"{thread_id} is only looked at")

    async def leave(self, context: TaskContext) -> None:
        """Never asked."""
        del context


class _ReadOnly:
    """A store to which nothing is added: what is put stays in memory for as long as this lives."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._put: dict[str, bytes] = {}

    async def put_bytes(self, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        self._put[sha256] = content
        return sha256

    async def put_file(self, path: Path) -> tuple[str, int]:
        def read() -> tuple[str, int]:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size

        return await asyncio.to_thread(read)

    async def get_bytes(self, sha256: str) -> bytes:
        return self._put[sha256] if sha256 in self._put else await self._store.get_bytes(sha256)

    async def exists(self, sha256: str) -> bool:
        return sha256 in self._put or await self._store.exists(sha256)

    async def missing(self, wanted: Sequence[str]) -> set[str]:
        return await self._store.missing(wanted)

    async def refresh(self, wanted: Sequence[str]) -> set[str]:
        return await self._store.missing([sha256 for sha256 in wanted if sha256 not in self._put])

    async def damaged(
        self, wanted: Sequence[str], *, most_bytes: int | None = None
    ) -> tuple[int, set[str]]:
        return await self._store.damaged(wanted, most_bytes=most_bytes)

    async def materialise(self, ref: ArtifactRef, folder: Path) -> Path:
        return await self._store.materialise(ref, folder)


@dataclass(kw_only=True)
class _Around:
    """See `nodes.consistency.Surroundings`."""

    store: ArtifactStore
    tables: Tables
    workspace: Workspace
    specs: Mapping[str, ToolSpec]
    manifest: JsonObject
    expected: JsonObject
    task_id: str
    has_models: bool | None
    ledger: Ledger = field(default_factory=NoLedger)
    accepted: tuple[StoredValue, float] | None = None
    prefix: str = ""


async def saved_state(database: Database, thread: str) -> TaskState:
    """The newest state that is saved of a task's (or a group's) thread; {} without any."""
    saver = AsyncPostgresSaver(cast("Any", database.pool), serde=StrictSerializer())
    graph = assemble(NoContexts()).compile(checkpointer=saver)
    found = await graph.aget_state({"configurable": {"thread_id": thread}})
    return found.values


async def inspect(
    task_id: str, *, settings: Settings, database: Database, store: ArtifactStore, row: JsonObject
) -> Report:
    """The consistency report about a task, with all its stored contents read.

    Args:
        task_id: of the task.
        settings: where things are.
        database: where its rows are.
        store: where its contents are.
        row: its row of `tasks`.
    """
    if not row["graph_version"]:
        return report(Facts(versions=(GRAPH_VERSION, GRAPH_VERSION)))
    state = await saved_state(database, task_id)
    planned = row["plan_version"] > 0
    if not is_whole(state, planned=planned):
        torn = "its checkpoints are gone or torn; `surefoot resume` makes the state anew"
        return report(Facts(versions=(GRAPH_VERSION, GRAPH_VERSION), head_fault=torn))
    stored = Stored.from_row(row)
    around = await _around(stored, settings, database, _ReadOnly(store))
    index = PlanIndex(state.get("plan") or {"subtasks": []})
    return (await examine(state, index, around, thorough=True)).report


async def _around(
    stored: Stored, settings: Settings, database: Database, store: ArtifactStore
) -> _Around:
    specs, faults = await describe_tools(stored.task.get("tools") or [], (), stored.task_dir)
    roles = ModelRoles.of(stored.task, settings.model)
    found = await asyncio.to_thread(manifest, stored.inputs, specs)
    if faults:
        broken = dict.fromkeys(stored.expected["tools module"], "cannot be imported")
        found = {**found, "tools module": {**broken, **found["tools module"]}}
    lease = Lease(task_id=stored.id, epoch=-1, worker_id="")  # nobody's: nothing can be written
    return _Around(
        store=store,
        tables=TaskTables(database, stored.row),
        workspace=WorkspaceSnapshots(
            stored.workspace,
            store=store,
            fence=Fence(database, lease),
            skip=own_folders(settings),
        ),
        specs=specs,
        manifest=found,
        expected=stored.expected,
        task_id=stored.id,
        has_models=bool(roles.ladders["executor"]),
    )
