"""The workspace files of one attempt: remembered before it, put back after it, taken when good.

Only work that states `writes` and does more than read has any. What lies there before the attempt
is remembered durably; when the attempt fails, or its call is made again after a cut, that is what
lies there again. Effects outside are taken back first (`undoing`), the files last.
"""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

from surefoot.graph.errors import (
    AgentError,
    DatabaseUnavailable,
    LeaseLost,
    PermanentError,
)
from surefoot.graph.ports import Manifest, Restored, WorkOrder, Workspace
from surefoot.graph.values import Failure, JsonObject, Outcome
from surefoot.tools.effect_questions import ask_undo, undo_of, what_about_undo
from surefoot.tools.outcomes import AttemptFailed, PersonNeeded

NOT_OVER = ("budget_exhausted",)
"""Failures after which the attempt goes on later: its files stay as they are."""

HALFWAY = "its worker stopped while what the failed attempt wrote was being put back"
SHOWN_PATHS = 5
TOLD_PATHS = 100
"""Paths that the event of putting back names; the manifests in `kept` know all of them."""


@dataclass(slots=True)
class AttemptFiles:
    """The files of one attempt; made by `files_of`."""

    workspace: Workspace
    order: WorkOrder
    _writes: Sequence[str] = ()
    _touched: dict[str, None] = field(default_factory=dict[str, None])
    _kept: list[JsonObject] = field(default_factory=list[JsonObject])
    _taken: Manifest | None = None

    async def restart(self) -> None:
        """Before work that was cut and may not be resumed starts from scratch: put back first.

        Raises:
            PersonNeeded, AttemptFailed: they cannot be put back; so for all that put back.
            LeaseLost, DatabaseUnavailable: so for all.
        """
        if self.order.recovering and not self.order.unit.resumable:
            await self._put_back(over=False)

    async def begin(self, writes: Sequence[str] | None) -> None:
        """Remember what lies under the resolved `writes`, before anything is called.

        Raises:
            AttemptFailed: something there cannot be read, so it could not be put back; or the
                attempt had failed and was being put back when its worker stopped.
            TransientError: the workspace or the store cannot be read now.
        """
        if not writes:
            return
        self._writes = writes
        try:
            over = await self.workspace.before(
                self.order.subtask, self.order.attempt, writes, goes_on=self.order.recovering
            )
        except PermanentError as unreadable:
            raise AttemptFailed("missing_permission", str(unreadable), retryable=False) from None
        if over:
            raise AttemptFailed("undone_halfway", HALFWAY)

    async def again(self) -> None:
        """The call of a cut attempt is made again: put back first. Raises as `restart`."""
        if self.order.recovering:
            await self._put_back(over=False)

    async def failed(self, failure: Failure) -> None:
        """Nothing of a failed attempt is left. Raises as `restart`."""
        if failure["kind"] not in NOT_OVER:
            await self._put_back(over=True)

    async def accepted(self) -> None:
        """Take what lies there since.

        Raises:
            TransientError: the workspace or the store cannot be read now.
        """
        if self._writes:
            self._taken = await self.workspace.take(self._writes)

    def tell(self, outcome: Outcome) -> None:
        """Put on an outcome what was taken, and what was put back and how that recovered it."""
        if self._taken is not None and outcome["ok"]:
            taken = self._taken
            outcome["files"] = {
                "manifest": taken.stored,
                "files": taken.files,
                "bytes": taken.bytes,
            }
        if not self._touched:
            return
        outcome["put_back"] = {
            "count": len(self._touched),
            "paths": [*self._touched][:TOLD_PATHS],
            "kept": self._kept,
            "reason": self._shown(),
        }
        if self.order.recovering and not outcome.get("failure"):
            before: JsonObject = outcome.get("recovery") or {}
            why = f": {before['reason']}" if before.get("reason") else ""
            outcome["recovery"] = {
                "strategy": "roll back to the stable point",
                "reason": f"what the cut attempt wrote is put back ({self._shown()}){why}",
            }

    def _shown(self) -> str:
        paths = [*self._touched]
        more = f" and {len(paths) - SHOWN_PATHS} more" if len(paths) > SHOWN_PATHS else ""
        return ", ".join(paths[:SHOWN_PATHS]) + more

    async def _put_back(self, *, over: bool) -> None:
        order = self.order
        about = undo_of("files", order.subtask, 0)
        # An answer is about work that goes on from where it was asked, whatever its number is now.
        goes_on = order.recovering or order.undoing is not None
        if goes_on and what_about_undo(order, about) == "undone":
            return  # a person has put them right
        try:
            restored = await self.workspace.put_back(order.subtask, order.attempt, over=over)
        except (LeaseLost, DatabaseUnavailable):
            raise
        except AgentError as blocked:
            self._blocked(str(blocked), about)
        else:
            self._note(restored)

    def _note(self, restored: Restored | None) -> None:
        if restored is None:
            return
        self._touched.update(dict.fromkeys(restored.paths))
        if restored.kept is not None:
            self._kept.append({**restored.kept})

    def _blocked(self, why: str, about: str) -> None:
        order, what = self.order, "what the attempt wrote into the workspace"
        if order.work.approve == "never":
            raise AttemptFailed(
                "undo_failed", f"{what} could not be put back: {why}", retryable=False
            )
        facts: JsonObject = {"attempt": order.attempt, "writes": order.work.writes}
        raise PersonNeeded(ask_undo(order, what=what, why=why, about=about, facts=facts))


async def undo_all(effects: Awaitable[None], files: AttemptFiles | None, failure: Failure) -> None:
    """What a failed attempt did outside is taken back first, then its files are put back.

    Raises:
        PersonNeeded: a way back is blocked; the rest is gone when it is free.
        AttemptFailed: it is blocked for good; all others were gone.
        LeaseLost, DatabaseUnavailable, Cut: taken up again by the next attempt.
    """
    blocked: AttemptFailed | None = None
    try:
        await effects
    except AttemptFailed as for_good:
        blocked = for_good
    if files is not None:
        await files.failed(failure)
    if blocked is not None:
        raise blocked


def files_of(workspace: Workspace, order: WorkOrder) -> AttemptFiles | None:
    """The files of an attempt; None where its work states that it writes nothing, or nothing."""
    return AttemptFiles(workspace, order) if order.work.writes else None
