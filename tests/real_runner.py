"""A runner over real parts: tool processes, the ledger in PostgreSQL, the store in files."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from surefoot.checkpointing.artifacts import ObjectArtifacts
from surefoot.checkpointing.database import Database
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.ledger import PostgresLedger
from surefoot.graph.ports import WorkOrder
from surefoot.graph.values import Outcome
from surefoot.tools.host import ChildToolHost
from surefoot.tools.runner import LocalRunner


@dataclass
class Real:
    """Runners over real parts; every runner has a ledger of its own, as after a restart."""

    folder: Path
    host: ChildToolHost
    store: ObjectArtifacts
    database: Database
    lease: Lease

    def ledger(self) -> PostgresLedger:
        return PostgresLedger(self.database, lambda task_id: self.lease)

    def runner(self, ledger: PostgresLedger) -> LocalRunner:
        return LocalRunner(
            task_id="t1",
            slots=4,
            host=self.host,
            ledger=ledger,
            store=self.store,
            workspace=self.folder / "workspace",
            task_dir=self.folder,
            task_folder=self.folder / "task",
            inputs={},
            prohibitions=[],
            clock=time.time,
        )

    async def run(self, *orders: WorkOrder) -> list[Outcome]:
        ledger = self.ledger()
        runner = self.runner(ledger)
        try:
            await runner.submit(orders)
            async with asyncio.timeout(60):
                while len(runner.finished()) < len(orders):
                    await runner.wait()
                    await asyncio.sleep(0)
            return runner.finished()
        finally:
            await runner.close()
            await ledger.close()

    def outside(self) -> list[str]:
        world = self.folder / "outside.txt"
        return world.read_text().split() if world.exists() else []
