"""The effect ledger as others see it: what a call is, what is known of it, what may be asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from surefoot.graph.tool_ports import EffectKind
from surefoot.graph.values import ArtifactRef, JsonObject, StoredValue


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectCall:
    """One effect-bearing call to be recorded. `scope` is '' for a tool's own key."""

    task_id: str
    key: str
    """By meaning: sha256 over tool + canonical arguments, `#n`; or the tool's own key."""
    scope: str
    """The subtask the record answers, '' = the whole task (own key)."""
    subtask: str
    attempt: int
    tool: str
    effect: EffectKind
    args: JsonObject


EffectState = Literal["intent", "done", "failed", "compensated"]
"""`intent` without an outcome = unknown. `failed` = surely not done (or harmless to repeat)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRow:
    """A ledger row as found."""

    key: str
    scope: str
    subtask: str
    attempt: int
    tool: str
    state: EffectState
    args: JsonObject
    result: StoredValue | None
    """None in state `done`: it took effect, but its result could not be kept (see `note`)."""
    artifacts: tuple[ArtifactRef, ...] = ()
    note: str = ""
    """What `settle` was told."""
    effect: EffectKind = "irreversible"
    rolled_back: bool = False
    """The work that did it was taken back; the effect stands and answers who means it again."""

    def call(self, task_id: str) -> EffectCall:
        """The call of a task that it recorded, to be settled."""
        return EffectCall(
            task_id=task_id,
            key=self.key,
            scope=self.scope,
            subtask=self.subtask,
            attempt=self.attempt,
            tool=self.tool,
            effect=self.effect,
            args=self.args,
        )


class Ledger(Protocol):
    """The effect ledger: intent before a call, outcome after it, one row per (task, key, scope)."""

    async def find(self, task_id: str, key: str, scope: str) -> EffectRow | None:
        """The standing row, if any."""
        ...

    async def adopt(self, call: EffectCall, removed: Sequence[str]) -> None:
        """Let what the same call of a removed or taken back subtask did answer this one.

        `removed`: ids that a replan took out of the plan; their children are meant as well. Rows
        that are `rolled_back`, the own one included, stand for this subtask from now on. A row
        answers one other subtask only. Raises as `intend`.
        """
        ...

    async def standing(
        self, task_id: str, subtasks: Sequence[str], *, attempt: int | None = None
    ) -> list[EffectRow]:
        """What subtasks (and their children) did or may have done and still stands, newest first.

        `attempt`: of that attempt alone. Rows in state intent or done, `idempotent` ones included,
        calls of an `undo` left out.
        """
        ...

    async def of_subtask(self, task_id: str, subtask: str) -> list[EffectRow]:
        """All that one subtask has called, whatever became of it, newest first.

        Calls of its `undo` (`keys.is_undo`) among them.
        """
        ...

    async def leave_standing(self, task_id: str, rows: Sequence[EffectRow]) -> None:
        """The work behind these rows was taken back while they stay done: `rolled_back`.

        Raises LeaseLost.
        """
        ...

    async def left_standing(self, task_id: str, tool: str) -> list[EffectRow]:
        """Rows of a tool that are `rolled_back`, newest first: what a new call may mean again."""
        ...

    async def intend(self, call: EffectCall) -> EffectRow | None:
        """Write the intent durably, unless a row in state intent or done stands: return that row.

        A row in state failed or compensated is overwritten by the new intent (returns None).
        `idempotent` calls always overwrite. Raises LeaseLost, and DatabaseUnavailable after long
        retries.
        """
        ...

    async def settle(
        self,
        call: EffectCall,
        state: EffectState,
        *,
        result: StoredValue | None = None,
        artifacts: Sequence[ArtifactRef] = (),
        note: str = "",
    ) -> None:
        """Write the outcome durably before anybody hears of it.

        State intent: it is unknown again what stands, for it is being taken back (the result is
        kept). What an attempt says about a call that a later one of its subtask has made changes
        nothing.
        """
        ...


class NoLedger:
    """A ledger in which nothing is written: a plan that is only made has no effects."""

    async def find(self, task_id: str, key: str, scope: str) -> EffectRow | None:
        """See `Ledger.find`."""
        del task_id, key, scope

    async def adopt(self, call: EffectCall, removed: Sequence[str]) -> None:
        """See `Ledger.adopt`."""
        del call, removed

    async def standing(
        self, task_id: str, subtasks: Sequence[str], *, attempt: int | None = None
    ) -> list[EffectRow]:
        """See `Ledger.standing`."""
        del task_id, subtasks, attempt
        return []

    async def of_subtask(self, task_id: str, subtask: str) -> list[EffectRow]:
        """See `Ledger.of_subtask`."""
        del task_id, subtask
        return []

    async def leave_standing(self, task_id: str, rows: Sequence[EffectRow]) -> None:
        """See `Ledger.leave_standing`."""
        del task_id, rows

    async def left_standing(self, task_id: str, tool: str) -> list[EffectRow]:
        """See `Ledger.left_standing`."""
        del task_id, tool
        return []

    async def intend(self, call: EffectCall) -> EffectRow | None:
        """See `Ledger.intend`."""
        raise AssertionError(f"{call.tool} has an effect, and there is no ledger")

    async def settle(
        self,
        call: EffectCall,
        state: EffectState,
        *,
        result: StoredValue | None = None,
        artifacts: Sequence[ArtifactRef] = (),
        note: str = "",
    ) -> None:
        """See `Ledger.settle`."""
        del call, state, result, artifacts, note
