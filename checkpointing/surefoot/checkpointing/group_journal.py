"""The outbox of one group of a task: the group's own rows, told as everybody outside knows them.

Its queue is apart from the task's, because it leaves with the checkpoints of the group's thread.
What is about the group as a whole becomes events of the subtask that the group is.
"""

from collections.abc import Callable, Sequence
from typing import cast

from surefoot.checkpointing.journal import MOVING_COLUMNS, TaskJournal
from surefoot.graph.ports import Clock
from surefoot.graph.values import ArtifactRef, Json, JsonObject, StoredValue

UNTOLD = ("TaskStarted", "TaskResumed", "TaskCompleted")
"""What the plan around it tells of a group already."""


class GroupJournal(TaskJournal):
    """The journal of a group (`ports.Journal`).

    Args:
        journal: of the task.
        group: the group's full id.
        on_plan: told of a plan that a model made, which readers find here alone; None where the
            plan was given: it stands in the plan around.
    """

    def __init__(
        self,
        journal: TaskJournal,
        group: str,
        *,
        on_plan: Callable[[JsonObject], None] | None,
        clock: Clock,
    ) -> None:
        super().__init__(journal.task_id, clock=clock)
        self.newest = journal.newest
        self._task = journal
        self.writer = journal.writer
        self._group = group
        self._on_plan = on_plan

    def _full(self, id: str) -> str:
        return f"{self._group}/{id}"

    def event(
        self, type: str, *, subtask: str | None = None, attempt: int | None = None, **facts: Json
    ) -> None:
        """See `TaskJournal.event`; a group that pauses or fails says so under its own name."""
        if subtask is None and self._is_routine(type, facts):
            return
        told = type.replace("Task", "Group", 1) if subtask is None else type
        about = self._group if subtask is None else self._full(subtask)
        if facts.get("milestone"):
            facts["milestone"] = self._full(facts["milestone"])
        super().event(told, subtask=about, attempt=attempt, **facts)

    def _is_routine(self, type: str, facts: JsonObject) -> bool:
        """Whether the plan around tells of it already, or there is nothing to tell."""
        given = type == "PlanAccepted" and self._on_plan is None
        return type in UNTOLD or given or (type == "AcceptanceChecked" and not facts["verdicts"])

    def subtask(self, id: str, **columns: Json) -> None:
        """See `TaskJournal.subtask`."""
        if "parent" in columns:
            parent = columns["parent"]
            columns["parent"] = self._group if parent is None else self._full(parent)
        super().subtask(self._full(id), **columns)

    def artifact(self, subtask: str, attempt: int, ref: ArtifactRef) -> None:
        """See `TaskJournal.artifact`."""
        super().artifact(self._full(subtask), attempt, ref)

    def withdraw(self, subtask: str, kept: Sequence[str] = ()) -> None:
        """See `TaskJournal.withdraw`."""
        super().withdraw(self._full(subtask), kept)

    def snapshot(self, tier: str, *, manifest: StoredValue, **columns: Json) -> None:
        """See `TaskJournal.snapshot`."""
        for name in ("subtask", "milestone"):
            if columns.get(name):
                columns[name] = self._full(columns[name])
        super().snapshot(tier, manifest=manifest, **columns)

    def plan(self, version: int, plan: JsonObject, reason: str) -> None:
        """A plan version that was made here, as an event; a given one is told nowhere."""
        if self._on_plan is not None:
            super().event(
                "GroupPlanned", subtask=self._group, version=version, plan=plan, reason=reason
            )
            self._on_plan(plan)

    def question(self, id: str, **columns: Json) -> None:
        """See `TaskJournal.question`; what is about no subtask is about the group."""
        if "subtask" in columns:
            about = columns["subtask"]
            columns["subtask"] = self._full(about) if about else self._group
        super().question(id, **columns)

    def task(self, **columns: Json) -> None:
        """What the whole task has used and done; the rest is the group's own affair."""
        usage = cast("JsonObject", columns.pop("usage", None) or {})
        moving = {**columns, **usage}
        super().task(**{name: v for name, v in moving.items() if name in MOVING_COLUMNS})

    def notify_due(self) -> bool:
        """As the task's own: all its journals together wake readers now and then."""
        return self._task.notify_due()
