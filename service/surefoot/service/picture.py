"""A task as a person sees it, kept up to date by its events: what the live view draws.

Built once from the table rows, then moved by new events alone, so that a plan of ten thousand
subtasks costs nothing while it stands still. Pure: draws and reads nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from surefoot.graph.progress import Counts, ProgressMeter, meter_of, retry_rate
from surefoot.graph.values import JsonObject, SubtaskState
from surefoot.graph.workload import Seen
from surefoot.service.rows import Row, children_of, posix, seen_of, states_of
from surefoot.service.stages import stages_of
from surefoot.service.thinking import Thinking


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A leaf that runs now."""

    attempt: int
    tool: str | None
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What did not go as planned with a subtask: `degraded`, `skipped`, `failed`, `retrying`."""

    kind: str
    reason: str
    attempts: int = 0


class TaskPicture:
    """The present look of one task. `apply` moves it on by one event."""

    def __init__(
        self,
        task: Row,
        plan: JsonObject,
        subtasks: Iterable[Row],
        made: Mapping[str, JsonObject] | None = None,
    ) -> None:
        rows = list(subtasks)
        self.task_id: str = task["id"]
        self.name: str = task["name"]
        self.status: str = task["status"]
        self.stopping = bool(task.get("stopping"))
        """It runs on only until what is in hand is done; no event says so, its row does."""
        self.concurrency: int = task["concurrency"]
        self.began = posix(task["created_at"]) or 0.0
        self.ended = posix(task["updated_at"]) if task["status"] in _OVER else None
        """When it came to its end, None while it can still go on."""
        self.plan = plan
        self.made: dict[str, JsonObject] = dict(made or {})
        """Plans that a model made for groups."""
        self.stages = stages_of(plan, self.made)
        self.meter: ProgressMeter = meter_of(plan, states_of(rows), children_of(rows), self.made)
        self.seen: dict[str, Seen] = seen_of(rows)
        self.running: dict[str, Running] = {}
        self.troubles: dict[str, Trouble] = {}
        self.models = Thinking()
        self.models.spend(task)
        self.milestones: dict[str, str] = {
            m["id"]: "open" for m in cast("list[Mapping[str, Any]]", plan.get("milestones") or [])
        }
        failure: JsonObject = task["failure"] or {}
        self.failure: str | None = failure.get("message")
        self.asked: dict[str, str] = {}
        """What waits for a person, by question id."""
        self._members = {m.id: m for stage in self.stages for m in stage.members}
        self._states: dict[str, SubtaskState] = {}
        self._tally = tally_of(states_of(rows))
        self._attempts: dict[str, int] = {}
        """Attempts that ended and count; one that was cut has a number and counts nowhere."""
        self._ended: dict[str, int] = {}
        """The number of the newest attempt that is over."""
        for row in rows:
            self._take_row(row)

    # --- what is seen --------------------------------------------------------------------------

    def counts(self) -> Counts:
        """Leaves by state."""
        return self.meter.counts()

    def progress(self) -> float:
        """Weighted progress."""
        return self.meter.progress(completed=self.status == "completed")

    @property
    def attempts(self) -> int:
        """Ended attempts."""
        return sum(self._attempts.values())

    @property
    def retry_rate(self) -> float:
        """As in the status document."""
        return retry_rate(self.attempts, len(self._attempts))

    def state(self, subtask: str) -> SubtaskState:
        """The state of a subtask of the plan."""
        if self.meter.is_leaf(subtask):
            return self.meter.state(subtask)
        state = self._states.get(subtask, "pending")
        tally = self._tally.get(subtask, {})
        started = any(n for moved, n in tally.items() if moved != "pending")
        return "running" if state == "pending" and started else state

    def tally(self, subtask: str) -> Mapping[SubtaskState, int]:
        """A container's direct children by state (untouched ones are left out)."""
        return self._tally.get(subtask, {})

    def attempts_of(self, subtask: str) -> int:
        """Ended attempts of one subtask or child."""
        return self._attempts.get(subtask, 0)

    # --- moving on -----------------------------------------------------------------------------

    def apply(self, event: Row) -> None:
        """Move the picture on by one event; the same event again changes no state."""
        type, subtask = event["type"], event["subtask"]
        facts: JsonObject = event["facts"] or {}
        self.models.apply(event)
        if type == "QuestionAsked":
            self.asked[facts["question"]] = facts.get("reason") or ""
        elif type in ("QuestionAnswered", "QuestionClosed"):
            self.asked.pop(facts["question"], None)
        self.judge(event)
        if type.startswith("Task"):
            self._task(type, facts, posix(event["time"]))
        elif type == "GroupPlanned":
            self._plan_group(subtask, facts["plan"])
        elif type in _WAYS_BACK:
            self._go_back(facts.get("anew") or (), facts.get("now") or {})
        elif subtask is not None:
            self._subtask(type, subtask, facts, event)

    def judge(self, event: Row) -> None:
        """Move the milestones on by one of `VERDICTS`; other events say nothing about them."""
        type: str = event["type"]
        facts: JsonObject = event["facts"] or {}
        if type in ("MilestonePassed", "MilestoneFailed"):
            verdict = "passed" if type == "MilestonePassed" else "failed"
            self.milestones[facts["milestone"]] = verdict
        elif type in _WAYS_BACK:
            inside = f"{event['subtask']}/" if event["subtask"] else ""
            standing: set[str] = set(facts.get("passed") or ())
            for id in self.milestones:
                if id.startswith(inside) and id not in standing:
                    self.milestones[id] = "open"

    def _subtask(self, type: str, id: str, facts: JsonObject, event: Row) -> None:
        at, attempt, reason = posix(event["time"]) or 0.0, event["attempt"], facts.get("reason")
        match type:
            case "SubtaskStarted" | "ImprovementStarted":
                running = Running(attempt=attempt or 1, tool=facts.get("tool"), since=at)
                self._start(id, running, stays=type == "ImprovementStarted")
            case "SubtaskCompleted" | "SubtaskImproved" | "ImprovementFailed":
                self._end(id, "completed", at, attempt)
            case "SubtaskSkipped" | "SubtaskFailed":
                state: SubtaskState = "skipped" if type == "SubtaskSkipped" else "failed"
                self._end(id, state, at, None)
                self.troubles[id] = Trouble(kind=state, reason=reason or "")
            case "SubtaskDegraded":
                self.troubles[id] = Trouble(kind="degraded", reason=reason or "")
            case "SubtaskExpanded":
                self._expand(id, int(facts.get("n") or 0))
            case "AttemptFailed":
                self._end(id, "pending", at, attempt)
                if not self._lasting(id):
                    self.troubles[id] = Trouble(
                        kind="retrying", reason=reason or "", attempts=self._attempts.get(id, 0)
                    )
            case "AttemptCut" | "QuestionAsked":
                # A full try of what is done leaves it done.
                self._end(id, "completed" if self._is_done(id) else "pending", at, None)
            case "SubtaskReopened" | "SubtaskEdited":
                given = type == "SubtaskEdited" and "args" not in facts
                self._end(id, "completed" if given else "pending", at, None)
                self.troubles.pop(id, None)
            case _:
                pass

    def _start(self, id: str, running: Running, *, stays: bool) -> None:
        self.running[id] = running
        if stays:
            return  # completed, as it is
        self._set(id, "running")
        self.seen[id] = replace(
            self.seen.get(id, Seen()), state="running", started=running.since, finished=None
        )

    def _end(self, id: str, state: SubtaskState, at: float, attempt: int | None) -> None:
        self.running.pop(id, None)
        self._set(id, state)
        if attempt is not None and attempt > self._ended.get(id, 0):
            self._ended[id] = attempt
            self._attempts[id] = self._attempts.get(id, 0) + 1
        if state == "completed" and not self._lasting(id):
            self.troubles.pop(id, None)
        self.seen[id] = replace(self.seen.get(id, Seen()), state=state, finished=at)

    def _is_done(self, id: str) -> bool:
        return self._states.get(id) == "completed"

    def _lasting(self, id: str) -> bool:
        """Whether its trouble stays to be shown when the subtask ends well after all."""
        return id in self.troubles and self.troubles[id].kind != "retrying"

    def _expand(self, id: str, n: int) -> None:
        if id in self._members:
            self._members[id].children = n
        if self.meter.knows(id):
            self.meter.expand(id, n)
        self.seen[id] = replace(self.seen.get(id, Seen()), state="running", children=n)

    def _go_back(self, anew: Sequence[str], now: Mapping[str, SubtaskState]) -> None:
        """What is done again is pending: `anew` with all that is inside, `now` as it says."""
        begins = tuple(f"{id}/" for id in anew)
        for kept in (self._states, self.seen, self.troubles, self.running):
            for id in [id for id in kept if id in anew or id.startswith(begins)]:
                del kept[id]
        for id in anew:
            member = self._members.get(id)
            if member is not None and member.kind == "foreach":
                member.children = None
        self._states.update(now)
        for id, state in now.items():
            self.running.pop(id, None)
            self.seen[id] = replace(self.seen.get(id, Seen()), state=state)
        self._tally = tally_of(self._states)
        self._measure_anew()

    def _measure_anew(self) -> None:
        children = {id: seen.children for id, seen in self.seen.items() if seen.children}
        self.meter = meter_of(self.plan, self._states, children, self.made)

    def _plan_group(self, id: str, plan: JsonObject) -> None:
        is_new = id in self.made and self.made[id] != plan
        self.made[id] = plan
        if is_new:
            self._measure_anew()
        else:
            self.meter.nest(id, plan)
        if id in self._members:
            self._members[id].children = len(plan["subtasks"])

    def _set(self, id: str, state: SubtaskState) -> None:
        parent = id.rpartition("/")[0]
        if parent:
            tally = self._tally.setdefault(parent, {})
            before = self._states.get(id, "pending")
            tally[before] = max(0, tally.get(before, 0) - 1)
            tally[state] = tally.get(state, 0) + 1
        self._states[id] = state
        if self.meter.knows(id):
            self.meter.move(id, state)

    def _task(self, type: str, facts: JsonObject, at: float | None) -> None:
        status = _STATUS.get(type)
        if status is None:
            return
        self.status = status
        self.ended = at if status in _OVER else None
        self.failure = facts.get("reason") if status == "failed" else None
        if status != "running":
            self.running.clear()

    def _take_row(self, row: Row) -> None:
        id = row["id"]
        self._states[id] = row["state"]
        if row["attempts"]:
            self._attempts[id] = row["attempts"]
        self._ended[id] = (row["attempt"] or 0) - (row["state"] == "running")
        if id in self._members and row["n"] is not None:
            self._members[id].children = row["n"]
        if row["state"] == "running" and self.meter.is_leaf(id):
            since = posix(row["since"] or row["started_at"]) or 0.0
            self.running[id] = Running(attempt=row["attempt"], tool=row["tool"], since=since)
        trouble = _trouble_of(row)
        if trouble is not None:
            self.troubles[id] = trouble


def tally_of(states: Mapping[str, SubtaskState]) -> dict[str, dict[SubtaskState, int]]:
    """The direct children of every container by state."""
    tally: dict[str, dict[SubtaskState, int]] = {}
    for id, state in states.items():
        parent = id.rpartition("/")[0]
        if parent:
            below = tally.setdefault(parent, {})
            below[state] = below.get(state, 0) + 1
    return tally


_WAYS_BACK = ("RolledBack", "SubtasksReopened")
VERDICTS = ("MilestonePassed", "MilestoneFailed", *_WAYS_BACK)
"""Events that say how milestones stand."""

_OVER = ("completed", "failed", "cancelled")
_STATUS = {
    "TaskStarted": "running",
    "TaskResumed": "running",
    "TaskWaiting": "waiting",
    "TaskPaused": "paused",
    "TaskCompleted": "completed",
    "TaskFailed": "failed",
    "TaskCancelled": "cancelled",
}


def _trouble_of(row: Row) -> Trouble | None:
    failure: JsonObject = row["failure"] or {}
    reason = row["reason"] or failure.get("message") or ""
    if row["degraded"]:
        return Trouble(kind="degraded", reason=reason)
    if row["state"] in ("skipped", "failed"):
        return Trouble(kind=row["state"], reason=reason)
    if row["state"] in ("pending", "running") and failure:
        return Trouble(kind="retrying", reason=reason, attempts=row["attempts"])
    return None
