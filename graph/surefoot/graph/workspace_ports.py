"""The workspace as others see it: what lies in it is remembered, compared and put back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from surefoot.graph.values import StoredValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was changed to make the workspace what a manifest says; paths relative to it."""

    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: StoredValue | None = None
    """Manifest of what lay there before: nothing that anybody wrote is lost."""

    @property
    def paths(self) -> tuple[str, ...]:
        """All that was touched."""
        return (*self.changed, *self.removed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What lay in the workspace, or below some globs of it, at one moment."""

    stored: StoredValue
    """path -> {kind, mode, size, sha256 | target}, as `checkpointing.workspace` writes it."""
    files: int
    bytes: int


class Workspace(Protocol):
    """Snapshots of the folder that tools work in: contents in the store, unchanged files once.

    A snapshot is whole or is none. Paths are relative to the workspace. Raises TransientError
    where the store or the folder cannot be read or written.
    """

    async def before(
        self, subtask: str, attempt: int, writes: Sequence[str], *, goes_on: bool = False
    ) -> bool:
        """Remember what lies under `writes`, durably, before an attempt begins.

        Once per attempt. `goes_on`: the attempt before was cut, and its memory is this one's too;
        returns whether that one was `over` and being put back. Raises LeaseLost, and
        PermanentError where something there cannot be read.
        """
        ...

    async def put_back(self, subtask: str, attempt: int, *, over: bool = False) -> Restored | None:
        """Make what lies under the attempt's `writes` what it was before; None: not remembered.

        Of an attempt without a memory of its own: what the cut one before it remembered. `over`:
        the attempt has failed; that is remembered first, in case we are killed meanwhile.
        """
        ...

    async def take(self, writes: Sequence[str] | None = None) -> Manifest:
        """What lies there now, everything or under these globs; contents are in the store."""
        ...

    async def restore(self, manifest: StoredValue, writes: Sequence[str] | None = None) -> Restored:
        """Make the workspace (or what lies under these globs) what a manifest says."""
        ...

    async def differences(
        self, manifest: StoredValue, writes: Sequence[str] | None = None
    ) -> list[str]:
        """What is not as a manifest says, one line each (`out.txt has changed`)."""
        ...

    async def layered(self, manifests: Sequence[StoredValue]) -> StoredValue:
        """One manifest of several, from the oldest to the newest.

        Of what a later one is about the earlier ones say nothing any more.
        """
        ...


class NoWorkspace:
    """Nothing is remembered and nothing put back: a graph without a folder of its own."""

    async def before(
        self, subtask: str, attempt: int, writes: Sequence[str], *, goes_on: bool = False
    ) -> bool:
        """See `Workspace.before`."""
        del subtask, attempt, writes, goes_on
        return False

    async def put_back(self, subtask: str, attempt: int, *, over: bool = False) -> Restored | None:
        """See `Workspace.put_back`."""
        del subtask, attempt, over
        return None

    async def take(self, writes: Sequence[str] | None = None) -> Manifest:
        """See `Workspace.take`."""
        del writes
        return Manifest(stored=StoredValue(value={}), files=0, bytes=0)

    async def restore(self, manifest: StoredValue, writes: Sequence[str] | None = None) -> Restored:
        """See `Workspace.restore`."""
        del manifest, writes
        return Restored()

    async def differences(
        self, manifest: StoredValue, writes: Sequence[str] | None = None
    ) -> list[str]:
        """See `Workspace.differences`."""
        del manifest, writes
        return []

    async def layered(self, manifests: Sequence[StoredValue]) -> StoredValue:
        """See `Workspace.layered`."""
        return manifests[-1]
