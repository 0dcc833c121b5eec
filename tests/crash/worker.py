"""The processes that are killed: each runs tasks in one engine until they end.

    python worker.py

is the nest: it has imported everything and forks a process for every line of its input, a JSON
object `{"folder", "ids", "environment", "output"}`; it answers with the pid, and when that process
has ended with its exit status. FOLDER/ID.json is a task's file.
Saver and ledger are the product's, with places to die added.
"""

import asyncio
import dataclasses
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crash import outside
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

from surefoot.checkpointing.ledger import PostgresLedger
from surefoot.checkpointing.saver import TaskSaver
from surefoot.graph import holding
from surefoot.graph.ports import EffectCall, EffectRow, EffectState
from surefoot.graph.session import Engine
from surefoot.graph.settings import Settings
from surefoot.graph.values import ArtifactRef, StoredValue


class DyingSaver(TaskSaver):
    """May die right before a checkpoint is written, or right after."""

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        outside.die("before checkpoint")
        if "milestones" in new_versions:
            outside.die("before milestone")
        saved = await super().aput(config, checkpoint, metadata, new_versions)
        if "milestones" in new_versions:
            outside.die("after milestone")
        if checkpoint["channel_values"].get("status") == "completed":
            outside.die("after end")
        outside.die("after checkpoint")
        return saved


class DyingLedger(PostgresLedger):
    """May die right after an intent, or right after an outcome."""

    async def intend(self, call: EffectCall) -> EffectRow | None:
        row = await super().intend(call)
        outside.die("after intent")
        return row

    async def settle(
        self,
        call: EffectCall,
        state: EffectState,
        *,
        result: StoredValue | None = None,
        artifacts: Sequence[ArtifactRef] = (),
        note: str = "",
    ) -> None:
        await super().settle(call, state, result=result, artifacts=artifacts, note=note)
        outside.die("after outcome")


class DyingEngine(Engine):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.ledger = DyingLedger(self.database, self._lease_of)
        self.shared = dataclasses.replace(self.shared, ledger=self.ledger)


async def run(folder: Path, ids: Sequence[str]) -> None:
    async with (
        await DyingEngine.open(Settings.from_environment()) as engine,
        asyncio.TaskGroup() as group,
    ):
        for id in ids:
            group.create_task(run_one(engine, folder / f"{id}.json", id))


async def run_one(engine: Engine, file: Path, id: str) -> None:
    if not await _exists(engine, id):
        task: dict[str, Any] = json.loads(await asyncio.to_thread(file.read_text))
        await engine.create({"task": task, "task_dir": str(Path(__file__).parent)}, task_id=id)
    await engine.run(id)


async def _exists(engine: Engine, id: str) -> bool:
    async with engine.database.borrowed() as connection:
        cursor = await connection.execute("select 1 from surefoot.tasks where id = %s", (id,))
        return await cursor.fetchone() is not None


def become_worker(order: dict[str, Any]) -> None:
    """In the forked process: run, and end without a way back into the nest. Never returns."""
    code = 70
    try:
        os.setsid()
        output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for theirs, mine in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(theirs, mine)
        os.environ.update(order["environment"])
        os.environ[outside.VICTIM] = str(os.getpid())
        asyncio.run(run(Path(order["folder"]), order["ids"]))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    holding.TaskSaver = DyingSaver
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            become_worker(json.loads(line))
        os.write(1, f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        os.write(1, f"{os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    main()
