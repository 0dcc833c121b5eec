"""What the tables say of a task besides its checkpoints.

A state is checked with it, and one that was lost is made anew from it. Read only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from surefoot.graph.values import ArtifactRef, JsonObject, StoredValue

Row = Mapping[str, Any]
"""A row with times as POSIX seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What the subtasks' rows of one plan come to; a cheap thing to compare a state with."""

    done: int = 0
    """Completed, skipped or failed."""
    ended: int = 0
    """Sum of the attempts that ended."""
    attempts: int = 0
    """Sum of the newest attempts' numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot of the whole workspace (see the table)."""

    milestone: str
    """`start` or a milestone; '' = the workspace as a person has accepted it."""
    at: float
    manifest: StoredValue
    state: StoredValue | None = None

    @property
    def is_of_workspace(self) -> bool:
        """Whether the workspace was looked at; it is not where nothing could write to it."""
        return "sha256" in self.manifest or bool(self.manifest.get("value"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What is known of one plan (the task's own, or a group's) without its thread.

    Ids are local to the plan.
    """

    rows: Mapping[str, Row] = field(default_factory=dict[str, Row])
    """By id: the plan's own subtasks and the children of its foreaches."""
    plan: JsonObject | None = None
    """The newest version; None while none was accepted."""
    artifacts: Mapping[str, Sequence[ArtifactRef]] = field(
        default_factory=dict[str, Sequence[ArtifactRef]]
    )
    """The newest good versions, by subtask."""
    events: Sequence[Row] = ()
    """Those of `rebuilding.TELLING`, oldest first."""
    answered: Sequence[Row] = ()
    """Questions that people have answered; `local` is the subtask's id in this plan, or None."""
    open_questions: Sequence[str] = ()
    gos: Mapping[str, int] = field(default_factory=dict[str, int])
    """By subtask the newest thread of an agent: the attempt that started it."""
    points: Sequence[tuple[Snapshot, JsonObject]] = ()
    """The task's own complete snapshots whose documents could be read, newest first."""


class Tables(Protocol):
    """The tables of one task, as another life of it has left them.

    All methods raise DatabaseUnavailable.
    """

    @property
    def row(self) -> Row:
        """The task's row when it was opened; empty where there are no tables."""
        ...

    async def tally(self, prefix: str, foreaches: Sequence[str]) -> Tally:
        """Add up the rows of a plan's subtasks and of its foreaches' children (full ids)."""
        ...

    async def rows(self, prefix: str, foreaches: Sequence[str]) -> dict[str, Row]:
        """These rows, by local id."""
        ...

    async def saved(
        self, prefix: str, foreaches: Sequence[str], plan: JsonObject | None, types: Sequence[str]
    ) -> Saved:
        """Everything that is known of a plan, besides `points`."""
        ...

    async def plan(self, prefix: str) -> JsonObject | None:
        """The newest version of the task's plan, or of one that a model made for a group."""
        ...

    async def snapshots(self) -> list[Snapshot]:
        """The complete ones, and those that people have accepted, newest first."""
        ...


class NoTables:
    """No tables: every state is taken as it is."""

    @property
    def row(self) -> Row:
        """See `Tables.row`."""
        return {}

    async def tally(self, prefix: str, foreaches: Sequence[str]) -> Tally:
        """See `Tables.tally`."""
        del prefix, foreaches
        return Tally()

    async def rows(self, prefix: str, foreaches: Sequence[str]) -> dict[str, Row]:
        """See `Tables.rows`."""
        del prefix, foreaches
        return {}

    async def saved(
        self, prefix: str, foreaches: Sequence[str], plan: JsonObject | None, types: Sequence[str]
    ) -> Saved:
        """See `Tables.saved`."""
        del prefix, foreaches, plan, types
        return Saved()

    async def plan(self, prefix: str) -> JsonObject | None:
        """See `Tables.plan`."""
        del prefix

    async def snapshots(self) -> list[Snapshot]:
        """See `Tables.snapshots`."""
        return []
