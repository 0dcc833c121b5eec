"""Real folders, a real store that counts, and rows in PostgreSQL: the stage of snapshot tests."""

import os
import stat
from pathlib import Path
from typing import Any

from surefoot.checkpointing.artifacts import ObjectArtifacts
from surefoot.checkpointing.database import Database
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.outbox import Fence
from surefoot.checkpointing.workspace import WorkspaceSnapshots


class CountingStore(ObjectArtifacts):
    """Counts what is put."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.puts: list[int] = []

    async def put_bytes(self, content: bytes) -> str:
        self.puts.append(len(content))
        return await super().put_bytes(content)

    async def put_file(self, path: Path) -> tuple[str, int]:
        sha256, size = await super().put_file(path)
        self.puts.append(size)
        return sha256, size


def open_again(
    root: Path, store: CountingStore, database: Database, lease: Lease, *skip: Path
) -> WorkspaceSnapshots:
    """As another process would have it: nothing is remembered but what is stored."""
    return WorkspaceSnapshots(root, store=store, fence=Fence(database, lease), skip=skip)


def tree(root: Path) -> dict[bytes, Any]:
    """All that lies in a folder: (mode, content or target)."""
    found: dict[bytes, Any] = {}
    for place, folders, names in os.walk(os.fsencode(root)):
        for name in folders + names:
            path = os.path.join(place, name)
            mode = os.lstat(path).st_mode
            content: Any = None
            if stat.S_ISLNK(mode):
                content = os.readlink(path)
            elif stat.S_ISREG(mode):
                content = Path(os.fsdecode(path)).read_bytes()
            found[os.path.relpath(path, os.fsencode(root))] = (mode, content)
    return found


def put(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
