"""Creating a task: its tools are described, its file validated, its row written once."""

import asyncio
import re
import secrets
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from langchain_core.tools import BaseTool

from surefoot.checkpointing.artifacts import ObjectArtifacts
from surefoot.checkpointing.readers import Readers
from surefoot.checkpointing.sweeping import claim
from surefoot.checkpointing.tasks import create_task as store_task
from surefoot.graph.errors import UsageError
from surefoot.graph.manifest import input_digests, tool_digests
from surefoot.graph.opening import Shared, make_workspace
from surefoot.graph.plain import digest
from surefoot.graph.plan import ID_PATTERN
from surefoot.graph.ports import ToolSpec
from surefoot.graph.settings import Settings
from surefoot.graph.shapes import is_object
from surefoot.graph.validation import Fault, LocalWorld, Report, validate_task
from surefoot.graph.values import JsonObject
from surefoot.tools.host import ChildToolHost
from surefoot.tools.root_process import WarmRoot

if TYPE_CHECKING:  # its YAML parser is not needed to go on with a task
    from surefoot.graph.task_file import LoadedFile


class InvalidTask(UsageError):
    """The task file has faults; nothing was created. `report` has all of them."""

    def __init__(self, report: Report) -> None:
        self.report = report
        # A module that cannot be imported is why its tools are unknown: say that first.
        faults = sorted(report.faults, key=lambda fault: fault.code != "bad_tools_module")
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(faults[0].code, faults[0].message + more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """A task that exists now. `created` False: it was there already, with the same content."""

    id: str
    created: bool
    report: Report


async def validate_file(
    loaded: "LoadedFile",
    settings: Settings,
    *,
    extra_tools: Sequence[str] = (),
    model: str | None = None,
) -> Report:
    """Validate a task file: its tools are imported in a process of their own, nothing is called.

    Touches no database and no network.
    """
    mapping = with_overrides(loaded.mapping, extra_tools=extra_tools, model=model)
    report, _ = await _validated(mapping, loaded.task_dir, settings.model)
    return report


def with_overrides(
    mapping: JsonObject, *, extra_tools: Sequence[str] = (), model: str | None = None
) -> JsonObject:
    """The task file with the command line's tools added and its model in place of the file's."""
    changed = dict(mapping)
    if extra_tools:
        changed["tools"] = [*(mapping.get("tools") or ()), *extra_tools]
    if model is not None:
        stated = mapping.get("model")
        # Its window and its prices stay: they are about models, not about who plays which role.
        kept = stated if is_object(stated) else {}
        played: JsonObject = dict.fromkeys(("planner", "executor", "judge"), model)
        changed["model"] = {**kept, **played} if kept else model
    return changed


async def create_task(
    spec: JsonObject,
    shared: Shared,
    *,
    task_id: str | None = None,
    workspace: Path | None = None,
    concurrency: int | None = None,
    objects: Sequence[BaseTool] = (),
) -> Created:
    """Validate and store a task (see `Engine.create`)."""
    mapping, task_dir = cast("JsonObject", spec["task"]), Path(spec.get("task_dir") or ".")
    given = None if task_id is None else _checked_id(task_id)
    report, specs = await _validated(
        mapping,
        task_dir,
        shared.settings.model,
        objects=objects,
        workspace=workspace,
        warm=shared.warm,
        seconds=await Readers(shared.database).typical_seconds(),
    )
    if report.task is None:
        raise InvalidTask(report)
    id = given or _new_id(report.task.name)
    place = (workspace or shared.settings.workspace(id)).absolute()
    if shared.settings.keeps_itself_in(place):
        raise UsageError(
            "bad_workspace",
            f"the workspace {place} is where Surefoot keeps its own; choose another one with"
            " --workspace",
        )
    # Now, while nothing is stored: a task without a workspace could never run.
    await asyncio.to_thread(make_workspace, place)
    inputs = await asyncio.to_thread(input_digests, report.task.goal.inputs)
    row, created = await store_task(
        shared.database,
        id,
        name=report.task.name,
        spec={"task": mapping, "task_dir": str(task_dir), "validated": True},
        spec_digest=digest(mapping),
        workspace=str(place),
        concurrency=concurrency or report.task.concurrency,
        inputs_manifest=inputs,
        tools_digest=tool_digests(specs),
    )
    if created:
        store = await asyncio.to_thread(ObjectArtifacts, shared.settings.artifacts_url)
        await claim(shared.database, store)
    else:
        _refuse_different(id, row, digest(mapping), inputs, tool_digests(specs))
    return Created(id=id, created=created, report=report)


async def _validated(
    mapping: JsonObject,
    task_dir: Path,
    model: str | None,
    *,
    objects: Sequence[BaseTool] = (),
    workspace: Path | None = None,
    warm: WarmRoot | None = None,
    seconds: Mapping[str, float] | None = None,
) -> tuple[Report, Mapping[str, ToolSpec]]:
    listed = mapping.get("tools")
    modules = (
        [m for m in cast("list[object]", listed) if isinstance(m, str)]
        if isinstance(listed, list)
        else []
    )
    specs, faults = await describe_tools(modules, objects, task_dir, warm)
    report = await asyncio.to_thread(
        validate_task,
        mapping,
        tools=specs,
        tool_faults=faults,
        models=[model] if model else [],
        seconds=seconds,
        world=LocalWorld(workspace=workspace, task_dir=task_dir),
    )
    return report, specs


async def describe_tools(
    modules: Sequence[str],
    objects: Sequence[BaseTool],
    task_dir: Path,
    warm: WarmRoot | None = None,
) -> tuple[Mapping[str, ToolSpec], list[Fault]]:
    """Learn the tools of modules and objects; modules are imported in a process of their own."""
    kept = warm or WarmRoot()
    async with _scratch_folder() as place:
        host = await ChildToolHost.start(
            modules,
            objects,
            task_id="describe",
            workspace=place / "workspace",
            task_dir=task_dir,
            store=await asyncio.to_thread(ObjectArtifacts, (place / "artifacts").as_uri()),
            slots=1,
            staging=place / "staging",
            on_log=lambda subtask, attempt, line: None,
            warm=kept,
        )
        try:
            faults = [Fault("bad_tools_module", fault.message) for fault in host.faults]
            return dict(host.specs), faults
        finally:
            await host.release()
            if warm is None:
                await kept.close()


@asynccontextmanager
async def _scratch_folder() -> AsyncGenerator[Path]:
    """A folder that is gone afterwards; made and removed off the loop, which may be a server's."""
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="surefoot-")
    try:
        yield Path(folder.name)
    finally:
        await asyncio.to_thread(folder.cleanup)


def _checked_id(id: str) -> str:
    if len(id) > 200 or not re.match(ID_PATTERN, id):
        raise UsageError(
            "bad_id",
            f"{id!r} is no task id: letters, digits, - and _, beginning with one of the first two",
        )
    return id


def _new_id(name: str) -> str:
    slug = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:40] or "task"
    return f"{slug}-{secrets.token_hex(3)}"


def _refuse_different(
    id: str, row: Mapping[str, object], spec: str, inputs: JsonObject, tools: JsonObject
) -> None:
    same = {"file": row["spec_digest"] == spec}
    same["inputs"] = (row["inputs_manifest"] or {}) == inputs
    same["tools"] = (row["tools_digest"] or {}) == tools
    different = [what for what, equal in same.items() if not equal]
    if different:
        raise UsageError(
            "id_taken",
            f"task {id!r} exists with a different {' and '.join(different)}: nothing was changed; "
            f"choose another id, or `surefoot resume {id}` to go on with the stored one",
        )
