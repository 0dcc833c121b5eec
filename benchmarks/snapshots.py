"""What does a snapshot of a large workspace cost when little has changed?

A workspace of many files is snapshotted once; then a few files change, and a snapshot is taken. Its
time is set against the time of reading the metadata alone: the same folder, `os.scandir` and one
`stat` an entry, in the same process, right before and after. The snapshot is of a new process, as
it were: what is known of unchanged files comes from the manifest in the store (`cold`), and once
more with what this process remembers (`warm`).
"""

import argparse
import asyncio
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.server import database, server
from surefoot.checkpointing.artifacts import ObjectArtifacts
from surefoot.checkpointing.database import Database
from surefoot.checkpointing.file_contents import RACY_NS
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.outbox import Fence, Outbox
from surefoot.checkpointing.workspace import WorkspaceSnapshots
from surefoot.graph.ports import Manifest
from surefoot.graph.settings import Settings

TARGET = 2.0
"""A snapshot may take so many times as long as reading the metadata alone."""

FOLDERS = 100
TASK = "snapshots"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--megabytes", type=int, default=1024, help="of all files together")
    parser.add_argument("--changed", type=int, default=10, help="files that change in between")
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


def fill(root: Path, files: int, size: int) -> None:
    """Make the files, each of different content."""
    noise = random.Random(1).randbytes(size)
    for n in range(files):
        folder = root / f"d{n % FOLDERS:03d}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{n:06d}.bin").write_bytes(n.to_bytes(8, "big") + noise[8:])


def change(root: Path, files: int, changed: int, turn: int) -> None:
    """Write a few files anew, spread over the folders."""
    for k in range(changed):
        n = (turn * changed + k) * 997 % files
        file = root / f"d{n % FOLDERS:03d}" / f"f{n:06d}.bin"
        file.write_bytes(random.Random(n + turn).randbytes(file.stat().st_size))


def walk(root: str) -> int:
    """Read the metadata of everything, and nothing else; returns how many entries there are."""
    count, folders = 0, [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                entry.stat(follow_symlinks=False)
                count += 1
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    return count


def walk_s(root: Path) -> float:
    """Seconds of one walk, the best of three: the first may find a cold cache."""
    times: list[float] = []
    for _ in range(3):
        begun = time.perf_counter()
        walk(str(root))
        times.append(time.perf_counter() - begun)
    return min(times)


async def age() -> None:
    """Wait until no file is so young that its time cannot be trusted."""
    await asyncio.sleep(RACY_NS / 1e9 + 0.1)


async def keep(fence: Fence, taken: Manifest) -> None:
    """Write the row of a milestone's snapshot, where a new process finds what is known."""
    row = {
        "tier": "complete",
        "milestone": "m",
        "manifest": taken.stored,
        "files": taken.files,
        "bytes": taken.bytes,
        "at": time.time(),
    }
    await fence.write(Outbox(snapshots=[row]), notify=False)


async def timed_take(workspace: WorkspaceSnapshots) -> tuple[float, Manifest]:
    begun = time.perf_counter()
    taken = await workspace.take()
    return time.perf_counter() - begun, taken


async def measure(folder: Path, url: str, asked: argparse.Namespace) -> dict[str, Any]:
    root = folder / "workspace"
    root.mkdir()
    size = max(8, asked.megabytes * 1024 * 1024 // asked.files)
    await asyncio.to_thread(fill, root, asked.files, size)
    artifacts = (folder / "artifacts").as_uri()
    settings = Settings(home=folder, database_url=url, artifacts_url=artifacts)
    async with await Database.open(settings) as opened:
        async with opened.borrowed() as connection:
            await connection.execute(
                "insert into surefoot.tasks (id, name, spec, spec_digest, workspace, lease_epoch)"
                " values (%s, %s, '{}', '', '/', 1)",
                (TASK, TASK),
            )
        fence = Fence(opened, Lease(task_id=TASK, epoch=1, worker_id="w"))
        return await _compare(root, ObjectArtifacts(artifacts), fence, asked)


async def _compare(
    root: Path, store: ObjectArtifacts, fence: Fence, asked: argparse.Namespace
) -> dict[str, Any]:
    await age()
    first = WorkspaceSnapshots(root, store=store, fence=fence)
    first_s, taken = await timed_take(first)
    await keep(fence, taken)
    rows: dict[str, list[float]] = {"metadata": [], "cold": [], "warm": []}
    for turn in range(asked.repeats):
        for name in ("cold", "warm"):
            workspace = first if name == "warm" else _new(root, store, fence)
            change(root, asked.files, asked.changed, turn * 2 + (name == "warm"))
            await age()
            rows["metadata"].append(walk_s(root))
            seconds, taken = await timed_take(workspace)
            rows[name].append(seconds)
            if name == "cold":
                await keep(fence, taken)
                await first.take()  # else the files of two turns would have changed for it
    metadata = report.middle(rows["metadata"], 4)
    return {
        "files": taken.files,
        "bytes": taken.bytes,
        "first_snapshot_s": round(first_s, 2),
        "metadata_s": metadata,
        "cold_s": report.middle(rows["cold"], 4),
        "warm_s": report.middle(rows["warm"], 4),
        "cold_ratio": round(report.middle(rows["cold"], 4) / metadata, 2),
        "warm_ratio": round(report.middle(rows["warm"], 4) / metadata, 2),
    }


def _new(root: Path, store: ObjectArtifacts, fence: Fence) -> WorkspaceSnapshots:
    """As another process would begin: nothing is remembered but what is stored."""
    return WorkspaceSnapshots(root, store=store, fence=fence)


async def main() -> None:
    asked = options()
    with tempfile.TemporaryDirectory(prefix="surefoot-bench-") as folder:
        async with server() as server_url, database(server_url) as url:
            answer = await measure(Path(folder), url, asked)
    report.print_document(
        "a snapshot of a workspace of which little has changed, against reading its metadata alone",
        changed=asked.changed,
        at_most=TARGET,
        met=answer["warm_ratio"] <= TARGET,
        **answer,
    )


if __name__ == "__main__":
    asyncio.run(main())
