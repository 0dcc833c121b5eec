"""What a node may touch: ports, the process's derived views of the state, and small counters.

Never stored. Everything derived (`ready`, `index`, `meter`) is rebuilt from the state when it is
missing, so that a node can be the first to run after a restart.
"""

import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from surefoot.graph.budget import effective_limits, steps_left
from surefoot.graph.errors import BudgetExhausted
from surefoot.graph.index import PlanIndex, container_of
from surefoot.graph.insides import Insides, NoInsides
from surefoot.graph.model_ports import Brief, ModelClient, NoModels
from surefoot.graph.ports import (
    ArtifactStore,
    Binding,
    Clock,
    Control,
    Draw,
    Journal,
    Ledger,
    NoLedger,
    NoWorkspace,
    Runner,
    ToolSpec,
    Workspace,
)
from surefoot.graph.progress import ProgressMeter, meter_of
from surefoot.graph.readiness import ReadySet
from surefoot.graph.spending import Account, Purse
from surefoot.graph.state import Applied, TaskState
from surefoot.graph.tables import NoTables, Tables
from surefoot.graph.task import Budget
from surefoot.graph.values import (
    EffectiveLimits,
    JsonObject,
    PinnedHead,
    Record,
    StoredValue,
    SubtaskState,
    TaskFailure,
    Usage,
)
from surefoot.nodes.board import Briefing


async def no_history() -> Mapping[str, float]:
    """Nothing is known of earlier tasks."""
    return {}


def nothing_follows(goal: JsonObject) -> None:
    """Nobody enforces anything of the goal here."""
    del goal


@dataclass(slots=True)
class InnerStates:
    """What is known of the insides of a task's groups, by full id: for progress alone."""

    states: dict[str, SubtaskState] = field(default_factory=dict[str, SubtaskState])
    expanded: dict[str, int] = field(default_factory=dict[str, int])
    plans: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """Plans that a model made for groups; given ones stand in the plan around them."""
    begun: set[str] = field(default_factory=set[str])
    """Groups that another life had begun and this one has not taken up yet."""


@dataclass(kw_only=True, eq=False)
class TaskContext:
    """One task in this process, or the plan of one of its groups (then `outer` is around it).

    `usage` is what is durable or leaves with the outbox; a group counts its own, and all around it
    count it as well (`spend`).
    """

    task_id: str
    runner: Runner
    journal: Journal
    control: Control
    store: ArtifactStore
    specs: Mapping[str, ToolSpec]
    slots: int
    usage: Usage
    models: ModelClient = field(default_factory=NoModels)
    ledger: Ledger = field(default_factory=NoLedger)
    workspace: Workspace = field(default_factory=NoWorkspace)
    tables: Tables = field(default_factory=NoTables)
    """What the tables say beside the checkpoints."""
    insides: Insides = field(default_factory=NoInsides)
    """The plans of groups, where commands are for what is inside of them."""
    task_file: JsonObject = field(default_factory=dict[str, Any])
    """`{task, task_dir}` as it is stored, without the plan: for a thread that lost them."""
    raised: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    manifest: JsonObject = field(default_factory=dict[str, Any])
    """Digests of declared inputs and tool modules as they are now (consistency check)."""
    expected: JsonObject = field(default_factory=dict[str, Any])
    """The same as they were when the task was created, or when a person accepted a change."""
    accepted: tuple[StoredValue, float] | None = None
    """The workspace as a person accepted it in this go, and when: no row says so yet."""
    clock: Clock = time.time
    draw: Draw = random.random
    held_since: float = field(default_factory=time.time)
    """When this worker took the task; seconds before that are in `seconds_before`."""
    seconds_before: float = 0.0
    index: PlanIndex | None = None
    ready: ReadySet | None = None
    meter: ProgressMeter | None = None
    validated: bool = False
    """The plan in the task file was validated when the task was created."""
    checkpoint_id: str = ""
    """The checkpoint that the present node runs from."""
    milestones_failed: int = 0
    progress: float = -1.0
    """As last told to readers."""
    durations: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Seconds of accepted attempts by tool, for the history that estimates come from."""
    history: Callable[[], Awaitable[Mapping[str, float]]] = no_history
    """Typical seconds of a call by tool, from earlier tasks; asked where a plan is made."""
    model_names: tuple[str, ...] = ()
    """Models configured outside the task file."""
    has_models: bool | None = None
    """Whether a model is named to work with, here or in the task file; None: nobody looked."""
    on_goal: Callable[[JsonObject], None] = nothing_follows
    """Told when criteria and prohibitions are pinned: the typed ones are enforced from there on."""
    bindings: dict[tuple[str, bool], tuple[Record | None, Binding]] = field(
        default_factory=dict[tuple[str, bool], tuple[Record | None, Binding]]
    )
    """What orders may see of a subtask, kept while its record stays the same."""
    account: Account = field(init=False)
    """What models cost; shares `usage`."""
    held: set[str] = field(default_factory=set[str])
    """Orders in flight whose first step is reserved and not yet made."""
    rows_ride: bool = True
    """Rows leave with the checkpoint. Not under a host's saver: they may be a superstep ahead, and
    what somebody edited by hand stands."""
    loaded: bool = False
    """`load` has looked at what another process left; not so where LangGraph goes on by itself."""
    cancelled_at: float | None = None
    """When a way back first saw that its task is cancelled: from there on it has little time."""
    only_commands: bool = False
    """This go applies what people asked for and does nothing else: see `nodes.commands`."""
    status_before: str = ""
    """The task's status before such a go: it stays where nothing was changed."""
    changed: bool = False
    """A command changed something in this go."""
    unsaved: tuple[int, int] = (0, 0)
    """Steps and failures counted here since the last superstep that is surely saved."""
    applied: list[Applied] = field(default_factory=list[Applied])
    """What `state.applied` is once the present superstep is saved."""
    over: bool = False
    """This go has ended (END or a question): the host may let go of the task."""
    outer: "TaskContext | None" = None
    prefix: str = ""
    """What full ids begin with: `outer/`, '' in the task's own plan."""
    inputs: JsonObject | None = None
    """A group's resolved inputs; None in the task's own plan."""
    above: Brief | None = None
    """What a group's requests say first as well: the task's head and decisions."""
    go: int = 0
    """Which go of a group this is: a new one takes up what had failed in it."""
    taken_back: int = 0
    """A group's: see `Record.taken_back`; its plan goes back where its state says less."""
    kept_inside: StoredValue | None = None
    """A group's: what was inside it where it was taken back to."""
    removed: tuple[str, ...] = ()
    """What replans of the plans around have taken out, by full ids: see `WorkOrder.removed`."""
    earlier: Mapping[str, Record] = field(default_factory=dict[str, Record])
    """A group that begins anew: its records from when it meant something else."""
    out_of_tokens: bool = False
    """A group's own limit refused a call to a model."""
    ended: tuple[str, TaskFailure | None] | None = None
    """How this go ended: the status, and why without success."""
    limits: EffectiveLimits | None = None
    """As last worked out by `limits_of`."""
    inside: set["TaskContext"] = field(default_factory=set["TaskContext"])
    """The groups that run now."""
    inner: InnerStates = field(default_factory=InnerStates)
    briefing: Briefing | None = None
    """What the briefs of requests are made of."""
    pinned: tuple[JsonObject, PinnedHead] | None = None
    """The goal and its head that were last found to belong together."""

    def __post_init__(self) -> None:
        self.account = Account(self.usage)

    def tell_senders(self) -> None:
        """Tell the senders of applied commands what came of them: the last superstep is saved."""
        for applied in self.applied:
            self.control.settle(applied["id"], applied["outcome"])

    def forget(self) -> None:
        """Drop derived views: the next node builds them anew from the state."""
        self.index = self.ready = self.meter = self.briefing = None
        self.held.clear()
        self.bindings.clear()

    def full(self, id: str) -> str:
        """The id as everybody outside knows it."""
        return self.prefix + id

    @property
    def root(self) -> "TaskContext":
        """The task's own context."""
        return self if self.outer is None else self.outer.root

    def around(self) -> Iterator["TaskContext"]:
        """This one and all that it stands in, outwards."""
        here: TaskContext | None = self
        while here is not None:
            yield here
            here = here.outer

    def spend(self, *, steps: int = 0, failures: int = 0) -> None:
        """Count what was used, here and in all that is around."""
        for each in self.around():
            each.usage["steps"] += steps
            each.usage["failures"] += failures
        self.unsaved = (self.unsaved[0] + steps, self.unsaved[1] + failures)

    def spend_again(self) -> None:
        """The last superstep was lost and comes again: what it counted is not counted twice."""
        steps, failures = self.unsaved
        self.spend(steps=-steps, failures=-failures)

    def count_call(self, subtask: str | None) -> None:
        """Count the step of a model call before it is sent; see `take_step`."""
        self.take_step(subtask)
        self.account.call_steps += 1

    def take_step(self, subtask: str | None) -> None:
        """Count a step before it is made, in its plan and all around.

        Args:
            subtask: on whose behalf, by its full id. The first call of an attempt takes the step
                that was reserved when it was ordered.

        Raises:
            BudgetExhausted: no step is left.
        """
        here = self._plan_of(subtask or "")
        local = (subtask or "").removeprefix(here.prefix)
        if local in here.held:
            here.held.discard(local)
        elif here.limits is not None and here.steps_left(here.limits) == 0:
            made, most = self.usage["steps"], here.limits["max_steps"]
            raise BudgetExhausted(
                "max_steps", f"{made} steps made and more are needed; max_steps is {most}"
            )
        here.spend(steps=1)

    def purses(self, subtask: str | None) -> list[Purse]:
        """What the groups may spend that a full id stands in, from the inside out."""
        groups = [each for each in self._plan_of(subtask or "").around() if each.outer is not None]
        return [
            Purse(account=group.account, limits=group.limits, refuse=group.refuse)
            for group in groups
            if group.limits is not None
        ]

    def refuse(self) -> None:
        """A limit of this group refused a call to a model."""
        self.out_of_tokens = True

    def _plan_of(self, subtask: str) -> "TaskContext":
        """The innermost plan that a full id belongs to."""
        for group in self.inside:
            if subtask.startswith(group.prefix):
                return group._plan_of(subtask)
        return self

    def all_reserved(self) -> int:
        """Steps reserved for orders in flight, those of groups inside included."""
        return len(self.held) + sum(group.all_reserved() for group in self.inside)

    def steps_left_for_groups(self) -> int:
        """Steps that this one and all around leave to a group inside."""
        return self.steps_left(self.limits) if self.limits is not None else 1

    def steps_left(self, limits: EffectiveLimits) -> int:
        """Steps that may still be reserved under these limits and all those around."""
        left = steps_left(limits, self.usage, self.all_reserved())
        for each in self.around():
            if each is not self and each.limits is not None:
                left = min(left, steps_left(each.limits, each.usage, each.all_reserved()))
        return left

    def seconds(self) -> float:
        """Seconds a worker has held the task, this go included."""
        return self.seconds_before + max(0.0, self.clock() - self.held_since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """The derived views of one state, complete."""

    index: PlanIndex
    ready: ReadySet
    meter: ProgressMeter


def views(state: TaskState, context: TaskContext) -> Views:
    """The derived views, built from the state where this process has none yet."""
    if context.index is None or context.ready is None or context.meter is None:
        plan = state.get("plan") or {"subtasks": []}
        records = state.get("records") or {}
        passed = [id for id, m in (state.get("milestones") or {}).items() if m["passed"]]
        context.index = PlanIndex(plan)
        context.ready = ReadySet(context.index, records, passed)
        inner = context.inner
        context.meter = meter_of(
            plan,
            {**inner.states, **{id: r.get("state", "pending") for id, r in records.items()}},
            {**inner.expanded, **{id: r["n"] for id, r in records.items() if "n" in r}},
            inner.plans,
        )
        context.held = {
            id
            for id, record in records.items()
            if record.get("state") == "running" and not _is_container(context.index, id, record)
        }
    return Views(index=context.index, ready=context.ready, meter=context.meter)


def views_anew(state: TaskState, context: TaskContext) -> Views:
    """The derived views, built anew because something went backwards; reservations stay."""
    held = set(context.held)
    context.forget()
    seen = views(state, context)
    context.held = held
    return seen


def _is_container(index: PlanIndex, id: str, record: Record) -> bool:
    """A running foreach or group reserves nothing; what is inside does."""
    return not record.get("rung") and index.is_container(id)


def limits_of(state: TaskState, context: TaskContext, seen: Views) -> EffectiveLimits:
    """The limits in force for the plan as it is now; a group's own, else those around it."""
    budget = Budget.model_validate((state.get("task") or {}).get("budget") or {})
    above = context.outer.limits if context.outer is not None else None
    raised = {**above, **budget.model_dump(exclude_none=True)} if above else context.raised
    context.limits = effective_limits(
        budget, leaves=seen.meter.counts().total, raised=cast("Mapping[str, float | None]", raised)
    )
    return context.limits


def note(context: TaskContext, seen: Views, id: str, record: Record) -> None:
    """Tell the derived views that a record changed."""
    seen.ready.update(id, record)
    if "n" in record:
        seen.meter.expand(id, record["n"])
    state = record.get("state", "pending")
    seen.meter.move(id, state)
    if context.briefing is not None:
        context.briefing.board.update(id, record)
    if context.outer is not None:
        _note_outside(context, id, state, record.get("n"))


def _note_outside(context: TaskContext, id: str, state: SubtaskState, n: int | None) -> None:
    """Tell the task's own progress what changed inside a group."""
    root, full = context.root, context.full(id)
    root.inner.states[full] = state
    if n is not None:
        root.inner.expanded[full] = n
    if root.meter is None or not root.meter.knows(full):
        return
    if n is not None:
        root.meter.expand(full, n)
    root.meter.move(full, state)


def journal_record(context: TaskContext, seen: Views, id: str, record: Record) -> None:
    """Queue the projection row of a changed record."""
    container = container_of(id)
    context.journal.subtask(
        id,
        parent=container,
        kind=seen.index.unit(id).kind,
        state=record.get("state", "pending"),
        attempt=record.get("attempt", 0),
        attempts=record.get("ended", 0),
        rung=record.get("rung", 0),
        degraded=bool(record.get("rung")) and record.get("state") == "completed",
        started_at=record.get("started"),
        ended_at=record.get("finished"),
        not_before=record.get("not_before"),
        result=record.get("result"),
        failure=record.get("failure"),
        reason=record.get("reason"),
        n=record.get("n"),
        marks=record.get("marks"),
        **_settled_step(seen.index.unit(id).kind, record),
    )


def _settled_step(kind: str, record: Record) -> dict[str, str]:
    """The step's state where no call said so: cut in it, or answered by the ledger afterwards.

    Else the row of a killed call would say `calling` for ever.
    """
    if kind in ("foreach", "group") or not record.get("attempt"):
        return {}
    if record.get("state") == "completed":
        return {"step_state": "succeeded"}
    return {"step_state": "pending"} if record.get("cut") else {}


def journal_task(context: TaskContext, seen: Views, **columns: Any) -> None:
    """Queue the task row's moving columns: usage, progress, and what is given."""
    root = context.root
    for each in context.around():
        each.usage["seconds"] = each.seconds()
    meter = seen.meter if root is context else root.meter
    given = columns.pop("progress", None)
    if context.outer is not None:
        given = None  # a group's end is not the task's
    # Tokens and cost are written by who spends them, before and after every call.
    moving: dict[str, Any] = {
        "steps": root.account.order_steps(),
        "seconds": root.usage["seconds"],
        "failures": root.usage["failures"],
        **columns,
    }
    if meter is not None:
        moving["total"] = meter.counts().total
        progress = meter.progress() if given is None else given
        if progress != root.progress:
            root.progress = progress
            moving |= {"progress": progress, "progress_at": context.clock()}
    context.journal.task(**moving)
