"""The protocols between layers: what the nodes may ask of runner, ledger, store and tables.

Implementations live above (`tools`, `checkpointing`) and are injected by `build`;
neither knows the other, both know these. Every method states its promise and what it raises.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from surefoot.graph.checks import Check
from surefoot.graph.effect_ports import EffectCall, EffectRow, EffectState, Ledger, NoLedger
from surefoot.graph.model_ports import Brief
from surefoot.graph.plan import Undo, Unit, Work
from surefoot.graph.tool_ports import EffectKind, ToolCall, ToolHost, ToolReply, ToolSpec
from surefoot.graph.values import (
    Action,
    ArtifactRef,
    Failure,
    Json,
    JsonObject,
    Outcome,
    Question,
    StoredValue,
)
from surefoot.graph.workspace_ports import Manifest, NoWorkspace, Restored, Workspace

# --- artifacts -------------------------------------------------------------------------------


class ArtifactStore(Protocol):
    """Content-addressed blobs. Durable (fsync) when a method returns; verified on read."""

    async def put_bytes(self, content: bytes) -> str:
        """Store and return the sha256 (hex)."""
        ...

    async def put_file(self, path: Path) -> tuple[str, int]:
        """Store a file's content; returns (sha256, size)."""
        ...

    async def get_bytes(self, sha256: str) -> bytes:
        """The content. Raises PermanentError when it is missing or does not match its hash."""
        ...

    async def exists(self, sha256: str) -> bool:
        """Whether the blob is there (its content is not read)."""
        ...

    async def missing(self, wanted: Sequence[str]) -> set[str]:
        """Those of many blobs that are not there (no content is read)."""
        ...

    async def refresh(self, wanted: Sequence[str]) -> set[str]:
        """Make many blobs as young as new ones, for those who sweep what nothing names.

        Returns those for which it takes a new put: they are gone, or are made young in no other
        way here.
        """
        ...

    async def damaged(
        self, wanted: Sequence[str], *, most_bytes: int | None = None
    ) -> tuple[int, set[str]]:
        """Read blobs in this order and compare them with their hash.

        Returns how many were read before `most_bytes` were (the first one always), and those that
        are not what their name says.
        """
        ...

    async def materialise(self, ref: ArtifactRef, folder: Path) -> Path:
        """A read-only copy at `folder/NAME`; made once, returned again when it is intact."""
        ...


# --- the runner ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What a `${subtask...}` may see. `result` None = the subtask was skipped (null)."""

    result: StoredValue | None
    artifacts: tuple[ArtifactRef, ...] = ()
    children: tuple["Binding", ...] = ()
    """A foreach's children, in item order; filled only where an artifact of theirs is asked for."""
    producer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrder:
    """One order to the runner: everything it needs, nothing of the task's state."""

    task_id: str
    subtask: str
    action: Action
    attempt: int
    failed_attempts: int
    unit: Unit
    """The subtask (or foreach's each) with its policy; `work` below is what to do now."""
    work: Work
    timeout_s: float
    bindings: Mapping[str, Binding] = field(default_factory=dict[str, Binding])
    item: tuple[StoredValue, int] | None = None
    """A foreach child: (the list, its index)."""
    brief: Brief | None = None
    """For work of models: the goal, the decisions and where the task stands."""
    criticism: str = ""
    """What was found wrong with the attempt before, in words a model can act on."""
    choices: tuple[str, ...] = ()
    """For a reflection: what policy leaves to choose from."""
    removed: tuple[str, ...] = ()
    """Subtasks that a replan took out of the plan: their effects answer whoever replaces them."""
    go: int = 0
    """The attempt that started this work from scratch: names the subtask's own thread."""
    recovering: bool = False
    """The attempt before was cut: the ledger must be asked what became of it."""
    answered: bool = False
    """The attempt before has asked a person, and goes on with the answer: no mishap has cut it."""
    said: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What people answered to questions about the present attempt, by question id."""
    since: int = 0
    """The first attempt whose effects are taken back with this one's, should it fail."""
    undoing: Failure | None = None
    """The attempt before has failed with this, and a person was asked how to undo it."""
    taken_back: int = 0
    """A group's: see `Record.taken_back`."""
    inside: StoredValue | None = None
    """A group's: what was inside it where it was taken back to."""
    takes_slot: bool = True
    wishes: tuple[JsonObject, ...] = ()
    """A group's: commands for what is inside it (see `Record.wishes`)."""
    scope: str = ""
    """What `subtask` begins with inside a group (`outer/`); '' in the task's own plan."""
    inputs: JsonObject | None = None
    """What `${inputs...}` means inside a group; None = the goal's inputs."""

    @property
    def local(self) -> str:
        """The id as the plan it stands in knows it: what references and checks may name."""
        return self.subtask[len(self.scope) :]


class Runner(Protocol):
    """A pool of subtasks in flight that outlives a superstep (design §2, rolling dispatch)."""

    async def submit(self, orders: Sequence[WorkOrder]) -> None:
        """Start the orders as slots get free, in this order; known (subtask, attempt) are ignored.

        Also lifts a hold (see `load`), and takes up what a lost database has torn off since.
        """
        ...

    async def wait(self, *, until: float | None = None) -> None:
        """Return when something has finished, `wake` was called, or at POSIX time `until`."""
        ...

    def wake(self) -> None:
        """Let `wait` return now (a command arrived). Call in the loop's thread."""
        ...

    def finished(self) -> list[Outcome]:
        """Outcomes not yet acknowledged, in order of finishing (again after a lost superstep)."""
        ...

    def acknowledge(self, outcomes: Sequence[Outcome]) -> None:
        """These are durable in the state: forget them."""
        ...

    def known(self) -> set[tuple[str, int]]:
        """(subtask, attempt) of all orders waiting, in flight, unacknowledged or torn off."""
        ...

    def recall(self) -> list[tuple[str, int]]:
        """Take back the orders that have not started; returns their (subtask, attempt)."""
        ...

    def load(self) -> tuple[int, int]:
        """(slots taken, orders waiting).

        After an attempt fails nothing that waits starts until the next `submit`.
        """
        ...

    def ease(self, *, groups_only: bool = False) -> None:
        """Work of several steps (with `groups_only`: of groups) ends after its present one, `cut`.

        Asked for by a pause; of groups also where nothing new may start.
        """
        ...

    async def cut(self, *, only_safe: bool = False, subtasks: Sequence[str] | None = None) -> None:
        """Stop what is in flight; the outcomes come as `cut`.

        `only_safe`: only calls whose repetition is harmless (`read`, `idempotent`). `subtasks`:
        only these.
        """
        ...

    async def shortfalls(
        self, order: WorkOrder, result: StoredValue, artifacts: Sequence[ArtifactRef]
    ) -> list[str]:
        """What keeps a result that a person gives from being accepted, one phrase each.

        Declared outputs and the program checks of `success`; a person's word stands for a judge's.
        """
        ...

    async def verify(
        self,
        checks: Sequence[Check],
        bindings: Mapping[str, Binding],
        *,
        result: StoredValue | None = None,
        artifacts: Mapping[str, Sequence[ArtifactRef]] | None = None,
        inputs: JsonObject | None = None,
        brief: Brief | None = None,
        results: Mapping[str, StoredValue] | None = None,
    ) -> list[JsonObject]:
        """Evaluate checks on fresh evidence (milestones, acceptance): programs, then a judge.

        `artifacts`: check name -> the refs it means (several for a foreach's children; each must
        hold). `inputs`: a group's, None = the goal's. `brief` and further `results` (by subtask)
        are a judge's. Returns one `{type, id, ok, why, ...}` per check, in order; a failed one is
        no exception.
        """
        ...

    async def undo(
        self,
        orders: Sequence[WorkOrder],
        rows: Sequence[EffectRow],
        *,
        said: Mapping[str, Json],
        number: int,
    ) -> list[Question]:
        """Take back what was done outside: the rows in their order, then by the orders' `undo`.

        Repeatable: what is taken back already is left alone. Returns the question (`undo_failed`)
        of a way back that is blocked; nothing behind it was gone. `said`: what was answered to
        such questions, by id; `number`: tells them apart from those asked before. Raises as
        `Ledger.intend`, and CallStopped when the runner was cut meanwhile.
        """
        ...

    async def close(self) -> None:
        """Cut what is left and end; nothing of it runs afterwards."""
        ...


# --- the tables ------------------------------------------------------------------------------


class Journal(Protocol):
    """Rows that leave with the next checkpoint, in the same transaction (the outbox).

    The methods only queue. `discard` drops what an interrupted superstep had queued.
    """

    def event(
        self, type: str, *, subtask: str | None = None, attempt: int | None = None, **facts: Json
    ) -> None:
        """A past fact: SubtaskStarted, SubtaskCompleted, MilestonePassed ... with its details."""
        ...

    def subtask(self, id: str, **columns: Json) -> None:
        """The projection row of a subtask (upsert of the named columns; see migrations)."""
        ...

    def artifact(self, subtask: str, attempt: int, ref: ArtifactRef) -> None:
        """A new visible version of an artifact."""
        ...

    def withdraw(self, subtask: str, kept: Sequence[str] = ()) -> None:
        """Its artifacts (and its children's) are no longer good, besides those of these sha256."""
        ...

    def snapshot(self, tier: str, *, manifest: StoredValue, **columns: Json) -> None:
        """A snapshot: `full` of a subtask, or `complete` at a milestone (see migrations)."""
        ...

    def plan(self, version: int, plan: JsonObject, reason: str) -> None:
        """A plan version."""
        ...

    def question(self, id: str, **columns: Json) -> None:
        """A question asked or closed."""
        ...

    def task(self, **columns: Json) -> None:
        """Columns of the task row: status, progress, usage ..."""
        ...

    def pending(self) -> bool:
        """Whether anything is queued."""
        ...

    def discard(self) -> None:
        """Drop what a lost superstep had queued."""
        ...

    async def flush(self) -> None:
        """Write what is queued in a fenced transaction of its own (under a foreign saver)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something a person asked for, to be applied by the holder."""

    id: int
    name: str
    args: JsonObject
    by: str


class Control(Protocol):
    """What reaches a running task from outside: commands and stop signals."""

    def stopping(self) -> Literal["pause", "cancel", "now"] | None:
        """What was asked for, None = go on."""
        ...

    def stopped_by(self) -> str:
        """Who asked for it by a command, "" for a signal or the program around."""
        ...

    def lost(self) -> bool:
        """True once the lease is known to be lost."""
        ...

    def asked(self) -> Sequence[Command]:
        """The commands that the nodes have to apply, oldest first."""
        ...

    def settle(self, command: int, outcome: JsonObject) -> None:
        """A command was applied or refused, and that is durable: tell its sender."""
        ...


Clock = Callable[[], float]
"""POSIX seconds now."""

Draw = Callable[[], float]
"""A uniform draw in [0, 1)."""


class StopSign(Protocol):
    """How work in flight hears that it must end."""

    @property
    def requested(self) -> bool:
        """Stop now: what is torn off is found again by the ledger."""
        ...

    @property
    def easing(self) -> bool:
        """Stop at the end of the present step (pause)."""
        ...


SubtaskWork = Callable[[WorkOrder, StopSign], Awaitable[Outcome]]
"""Work that the runner is injected with: the subtask graph (`agent`), a nested plan (`group`), a
reflection. Raises only LeaseLost and DatabaseUnavailable; cancelled when it must stop at once."""

__all__ = [
    "ArtifactStore",
    "Binding",
    "Clock",
    "Command",
    "Control",
    "Draw",
    "EffectCall",
    "EffectKind",
    "EffectRow",
    "EffectState",
    "Journal",
    "Ledger",
    "Manifest",
    "NoLedger",
    "NoWorkspace",
    "Restored",
    "Runner",
    "StopSign",
    "SubtaskWork",
    "ToolCall",
    "ToolHost",
    "ToolReply",
    "ToolSpec",
    "Undo",
    "WorkOrder",
    "Workspace",
]
