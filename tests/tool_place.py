"""A tool host with an own folder, a store in memory and a list of what was logged."""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool

from surefoot.graph.errors import PermanentError
from surefoot.graph.ports import ArtifactRef, ToolCall, ToolReply
from surefoot.tools.host import ChildToolHost
from surefoot.tools.root_process import WarmRoot

MODULES = Path(__file__).parent / "tool_modules"


class MemoryStore:
    """Blobs in a dict; the host only needs the protocol."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    async def put_bytes(self, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        self.blobs[sha256] = content
        return sha256

    async def put_file(self, path: Path) -> tuple[str, int]:
        content = await asyncio.to_thread(path.read_bytes)
        return await self.put_bytes(content), len(content)

    async def get_bytes(self, sha256: str) -> bytes:
        if sha256 not in self.blobs:
            raise PermanentError(f"no blob {sha256}")
        return self.blobs[sha256]

    async def exists(self, sha256: str) -> bool:
        return sha256 in self.blobs

    async def missing(self, wanted: Sequence[str]) -> set[str]:
        return set(wanted) - self.blobs.keys()

    async def refresh(self, wanted: Sequence[str]) -> set[str]:
        return await self.missing(wanted)

    async def damaged(
        self, wanted: Sequence[str], *, most_bytes: int | None = None
    ) -> tuple[int, set[str]]:
        del most_bytes
        return len(wanted), await self.missing(wanted)

    async def materialise(self, ref: ArtifactRef, folder: Path) -> Path:
        raise NotImplementedError


class Place:
    """A host with its store and what it logged."""

    def __init__(self, folder: Path, *, task_dir: Path | None = None) -> None:
        self.folder = folder
        self.task_dir = task_dir or folder
        self.store = MemoryStore()
        self.logs: list[tuple[str, int, str]] = []
        self.host: ChildToolHost

    async def start(
        self,
        *modules: str,
        objects: list[BaseTool] | None = None,
        warm: WarmRoot | None = None,
    ) -> ChildToolHost:
        self.host = await ChildToolHost.start(
            modules,
            objects or [],
            task_id="t1",
            workspace=self.folder / "ws",
            task_dir=self.task_dir,
            store=self.store,
            slots=2,
            staging=self.folder / "staging",
            on_log=lambda subtask, attempt, text: self.logs.append((subtask, attempt, text)),
            warm=warm,
        )
        return self.host

    async def call(self, tool: str, /, timeout_s: float = 30, **args: Any) -> ToolReply:
        return await self.host.call(call_of(tool, timeout_s=timeout_s, **args))

    def lines_of(self, subtask: str) -> list[str]:
        return [text for who, _, text in self.logs if who == subtask]


def call_of(
    tool: str,
    /,
    *,
    timeout_s: float = 30,
    subtask: str = "",
    artifacts: dict[str, ArtifactRef] | None = None,
    **args: Any,
) -> ToolCall:
    return ToolCall(
        tool=tool,
        args=args,
        subtask=subtask or tool,
        attempt=2,
        failed_attempts=1,
        idempotency_key="key-1",
        timeout_s=timeout_s,
        writes=None,
        readable=(),
        artifacts=artifacts or {},
    )
