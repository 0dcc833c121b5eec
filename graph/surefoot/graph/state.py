"""The channels of the task graph: what is saved after every superstep.

JSON-plain values only (Studio shows and edits them as they are). What grows with the plan is a
`DeltaChannel`, so that a superstep writes what changed and not the whole.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NotRequired, TypedDict, cast

from langgraph.channels.delta import DeltaChannel

from surefoot.graph.gone_snapshots import is_gone
from surefoot.graph.values import (
    Decision,
    Json,
    JsonObject,
    MilestoneRecord,
    Outcome,
    PinnedHead,
    Question,
    Record,
    StoredValue,
    TaskFailure,
    Usage,
)

GRAPH_VERSION = 2
"""Raised when a thread means something else to older or newer code: see `upgrades`."""

SNAPSHOT_EVERY = 100
"""Supersteps between whole snapshots of a delta channel."""

DELTAS = ("records", "milestones", "decisions")
"""Channels that are written as differences: to replace them takes an `Overwrite`."""


def merge_records(
    records: Mapping[str, Record] | None, writes: Sequence[Json]
) -> dict[str, Record]:
    """Lay newer records over older ones, by subtask id.

    Total, deterministic, associative over batches of writes, and idempotent: a record is replaced
    whole, so that a replayed write changes nothing.
    """
    if is_gone(records):
        return cast("dict[str, Record]", records)
    merged = dict(records or {})
    for write in writes:
        merged.update(cast("Mapping[str, Record]", write or {}))
    return merged


def merge_milestones(
    milestones: Mapping[str, MilestoneRecord] | None, writes: Sequence[Json]
) -> dict[str, MilestoneRecord]:
    """The newest verdict of each milestone, by id; as `merge_records`."""
    if is_gone(milestones):
        return cast("dict[str, MilestoneRecord]", milestones)
    merged = dict(milestones or {})
    for write in writes:
        merged.update(cast("Mapping[str, MilestoneRecord]", write or {}))
    return merged


def merge_decisions(
    decisions: Mapping[str, Decision] | None, writes: Sequence[Json]
) -> dict[str, Decision]:
    """Every decision by its number (`"17"`), in the order they were made; never compacted away."""
    if is_gone(decisions):
        return cast("dict[str, Decision]", decisions)
    merged = dict(decisions or {})
    for write in writes:
        merged.update(cast("Mapping[str, Decision]", write or {}))
    return merged


class Order(TypedDict):
    """An order as stored: which subtask, which attempt, what to do. The rest is looked up."""

    subtask: str
    attempt: int
    action: str


class Round(TypedDict):
    """Where planning stands: rounds used, and the faults of the last answer.

    `stage` says what the last question was, `draft` is its answer while nobody has judged it:
    nothing of it is executed, and after a kill it is judged instead of asked for again.
    """

    rounds: int
    faults: list[JsonObject]
    goal_rounds: NotRequired[int]
    stage: NotRequired[Literal["goal", "plan"]]
    draft: NotRequired[JsonObject | None]
    raw: NotRequired[StoredValue]
    """The last answer as the model gave it, a blob; kept when planning fails."""
    model: NotRequired[str]


class Replan(TypedDict):
    """A wish for a new remainder, from the moment it is uttered until its plan is accepted."""

    by: str
    """`policy`, `reflection`, `milestone`, `acceptance` or `person`; a person's is not counted."""
    reason: str
    subtask: str | None
    """What failed for good, if that is what it is about."""
    blocker: str
    """Fingerprint of what stands in the way (`fingerprints.blocker`)."""
    ending: TaskFailure | None
    """How the task ends where no new plan comes of it; None = it goes on with the old one."""
    rounds: int
    candidate: JsonObject | None
    """The newest plan that was made, not validated yet."""
    faults: list[JsonObject]
    require: NotRequired[str]
    """A person's further requirement: an amendment of the goal."""
    plan: NotRequired[JsonObject]
    """The new remainder, where a person gave it."""
    command: NotRequired[int]
    """The command that asked for it, to be told what came of it."""
    answer: NotRequired[str]
    """The model's last answer, shown to it with the faults."""


class Replans(TypedDict, total=False):
    """What became of wishes for a new remainder."""

    used: int
    """Replans that counted."""
    blockers: list[str]
    """Fingerprints that a replan was made about: a second one is a stall."""
    commands: list[int]
    """Commands that were settled."""
    removed: list[str]
    """Full ids that new plans took out: what they did outside answers whoever does it instead."""
    refused: JsonObject
    """The newest wish of a person that came to nothing: `{command, faults}`."""


class Back(TypedDict):
    """A wish to go back, from the moment it is uttered until the rollback node has done it."""

    by: str
    """`milestone`, `reflection`, `person`; a person's is not counted."""
    reason: str
    milestone: NotRequired[str]
    """Back to this passed milestone, or to `start`."""
    reopen: NotRequired[list[str]]
    """Instead: these subtasks (local ids) and nothing else are done again."""
    command: NotRequired[int]
    """The command that asked for it."""
    blocker: NotRequired[str]
    """Fingerprint of the failure that a model would go back for."""
    first: NotRequired[int]
    """The number of the first question that it asked; answers to earlier ones are not about it."""


class Applied(TypedDict):
    """A command that was applied or refused: what its sender is told."""

    id: int
    outcome: JsonObject
    goes_back: NotRequired[bool]
    """It is true once the way back that it wished for is gone: its sender hears of it then."""


class Judging(TypedDict):
    """A milestone (or the acceptance) that programs and models have judged and people have not."""

    milestone: str | None
    """None: the acceptance."""
    records: str
    """Digest of the records that were judged: of others it says nothing."""
    verdicts: list[JsonObject]
    """One for each check; those that are left to people are `undecided`."""


class TaskInput(TypedDict, total=False):
    """What the graph is invoked with: a task file, or `go` (any number) to continue its thread."""

    task: JsonObject
    task_dir: str
    go: int
    replan: Replan


class TaskState(TypedDict, total=False):
    """The channels. `ending` is set once it is known how the task ends, before it has ended.

    `start`: the way back to before anything ran. `rollbacks`: those that count; `gone_back`: the
    fingerprints of the failures that models went back for. `applied`: commands whose senders may
    not have heard yet. `answers`: all that people answered, by question id. Groups alone have
    `spent` (what they used of their own budget), `tried` (their last go) and `taken_back` (as in
    their record when they went back last).
    """

    task: JsonObject
    task_dir: str
    go: int
    graph_version: int
    spec_digest: str
    goal: JsonObject
    head: PinnedHead
    plan: JsonObject
    planning: Round
    records: Annotated[
        dict[str, Record], DeltaChannel(merge_records, snapshot_frequency=SNAPSHOT_EVERY)
    ]
    milestones: Annotated[
        dict[str, MilestoneRecord],
        DeltaChannel(merge_milestones, snapshot_frequency=SNAPSHOT_EVERY),
    ]
    decisions: Annotated[
        dict[str, Decision], DeltaChannel(merge_decisions, snapshot_frequency=SNAPSHOT_EVERY)
    ]
    orders: list[Order]
    finished: list[Outcome]
    questions: list[Question]
    ending: TaskFailure | None
    spent: Usage
    tried: int
    replan: Replan | None
    replans: Replans
    start: MilestoneRecord
    back: Back | None
    rollbacks: int
    gone_back: list[str]
    taken_back: int
    applied: list[Applied]
    answers: dict[str, JsonObject]
    judging: Judging | None
    status: str
