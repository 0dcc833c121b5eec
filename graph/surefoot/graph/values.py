"""Shapes of the values that are stored and handed between nodes, runner and tables.

JSON-plain `TypedDict`s: they survive a checkpoint unchanged and Studio can show them.
Times are POSIX seconds (UTC, float). Nothing here does anything.
"""

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, cast

Json: TypeAlias = Any
"""A JSON-plain value (dict, list, str, int, float, bool, None), cleaned by `plain`."""

JsonObject: TypeAlias = dict[str, Any]

SubtaskState = Literal["pending", "running", "completed", "failed", "skipped"]
TaskStatus = Literal["queued", "running", "paused", "waiting", "completed", "failed", "cancelled"]
Action = Literal["attempt", "expand", "gather", "improve", "nest", "reflect"]
"""What an order asks for: one attempt, a foreach's list, a container's end, one more full go, a
group's inner plan, or a model's criticism of a failed attempt."""

INLINE_BYTES = 1024
"""A result whose compact JSON is at most this long lies in its record; else in the store."""

ARTIFACT_BYTES = 16 * 1024
"""A result longer than this is also an artifact (`_result.json`) and shown to models cut."""

MAX_RESULT_BYTES = 64 * 1024 * 1024
"""A result longer than this fails once with `result_too_large`."""


class StoredValue(TypedDict, total=False):
    """Where a JSON value is: inline under `value`, or a blob of `size` bytes named by `sha256`."""

    value: Json
    sha256: str
    size: int


class ArtifactRef(TypedDict):
    """One artifact version by its content; `name` is without the subtask."""

    name: str
    sha256: str
    size: int
    media_type: str


class Failure(TypedDict):
    """Why an attempt did not count. `kind` is a failure code, `retryable` what policy may do."""

    kind: str
    message: str
    retryable: bool


FAILS_ONCE = ("bad_arguments", "bad_reference", "result_too_large", "not_json", "prohibited")
"""Failure kinds that another try cannot change; they are never retried."""


QuestionKind = Literal[
    "unknown_effect",
    "ask",
    "inconsistent_state",
    "approve",
    "check",
    "verdict",
    "milestone",
    "other_effect",
    "undo_failed",
]
"""`ask`: a rung says so. `approve`: a call, before it is made. `check`: a `person` check.
`verdict`: a judge was not sure. `milestone`: one did not hold. `other_effect`: work that was taken
back has left something irreversible, and now something else is meant. `undo_failed`: a way back is
blocked."""


class Question(TypedDict):
    """What only a person can decide. `id` is durable and unique within the task."""

    id: str
    subtask: str | None
    kind: QuestionKind
    text: str
    choices: NotRequired[list[str]]
    """The words that answer it, the first that fits best; absent: what `schema` says."""
    schema: NotRequired[JsonObject]
    """JSON Schema of an answer (`questions.parse_answer` takes common synonyms as well)."""
    facts: NotRequired[JsonObject]
    """What its answer is applied to (the milestone, the effect's key, the call's digest ...)."""


class Outcome(TypedDict):
    """What came of one order. `ok` False has a `failure`; `question` set means nobody knows."""

    subtask: str
    action: Action
    attempt: int
    ok: bool
    started: float
    ended: float
    result: NotRequired[StoredValue]
    artifacts: NotRequired[list[ArtifactRef]]
    failure: NotRequired[Failure | None]
    question: NotRequired[Question | None]
    more_questions: NotRequired[list[Question]]
    """nest: further questions that are open inside the group."""
    marks: NotRequired[list[str]]
    """Visible notes on what was changed in the result (`NaN at $.x became null`)."""
    n: NotRequired[int]
    """expand: number of children."""
    null_reference: NotRequired[bool]
    """bad_arguments because a skipped subtask's null broke the schema: skip if skippable."""
    cut: NotRequired[bool]
    """Stopped by us (pause, cancel, deadline): the attempt keeps its number, counts nowhere."""
    checks: NotRequired[list[JsonObject]]
    """Evidence: each check with `ok` and `why`."""
    calls: NotRequired[int]
    """Tool and model calls made (1 for an attempt when absent)."""
    reflection: NotRequired[JsonObject]
    """reflect: `{choice, criticism}` as the model proposed it."""
    recovery: NotRequired[JsonObject | None]
    """How a cut attempt's effect was recovered: `{strategy, reason}` for the history."""
    files: NotRequired[JsonObject]
    """What lies under its `writes` since it is good: `{manifest, files, bytes}`."""
    put_back: NotRequired[JsonObject]
    """What was put back: `{count, paths, kept, reason}`; `kept`: manifests of what was there."""


class Record(TypedDict, total=False):
    """The state of one subtask or child. A missing record means pending, never tried."""

    state: SubtaskState
    attempt: int
    """Number of the newest attempt, from 1; numbers are never reused."""
    ended: int
    """Ended attempts, all rungs (the contract's `attempts`)."""
    tries: int
    """Ended attempts on the present rung since the last reset: compared with max_attempts."""
    rung: int
    """0 the full version, n the n-th entry of on_failure."""
    not_before: float
    """Earliest start of the next attempt (backoff)."""
    started: float
    finished: float
    result: StoredValue
    artifacts: list[ArtifactRef]
    failure: Failure | None
    reason: str
    """Why it was skipped or degraded."""
    marks: list[str]
    n: int
    """A foreach's number of children, once expanded."""
    items: StoredValue
    """A foreach's list, once expanded."""
    serial: bool
    """A foreach's children write the same paths: they run one at a time."""
    question: str
    """Id of the open question that holds this subtask back."""
    cut: bool
    """The newest attempt was cut: its effects must be recovered first."""
    improved: bool
    """A degraded result was given its last full try."""
    improving: int
    """The first attempt of that try."""
    undoing: Failure
    """How the newest attempt failed, while a person is asked how what it did can be undone."""
    go: int
    """The attempt that started the present go from scratch (an agent's thread)."""
    criticism: str
    """What the next attempt is told about the last one."""
    seen: list[str]
    """Fingerprints of the failures on the present rung, oldest first."""
    reflecting: Failure
    """The failure that a reflection was ordered for."""
    choices: list[str]
    """What policy left to that reflection."""
    args: JsonObject
    """Arguments that a person gave instead of the plan's."""
    said: dict[str, Json]
    """What people answered to questions about the present attempt, by question id."""
    answered: int
    """The attempt that ended with a question which is answered now: nothing has cut it."""
    held: JsonObject
    """The outcome of an attempt whose acceptance a person decides: result, artifacts, evidence."""
    edited: bool
    """The result is a person's."""
    files: StoredValue
    """The manifest of what lies under its `writes` since it was accepted."""
    wishes: list[JsonObject]
    """A group's: commands for what is inside it, to be applied when it goes on."""
    taken_back: int
    """A group's: its newest attempt when it was taken back; its plan goes back when entered."""
    inside: StoredValue
    """A group's: what was inside it at the milestone it was taken back to; absent: nothing yet."""


def life_of(record: Record) -> Record:
    """What tells a group's thread of a former life from its own: no new record may lose it.

    The thread says when it was entered last; that it was taken back since says the record alone.
    """
    kept = {k: v for k, v in record.items() if k in ("taken_back", "inside")}
    return cast("Record", kept)


class MilestoneRecord(TypedDict):
    """One judged milestone."""

    id: str
    passed: bool
    at: float
    plan_version: int
    checkpoint_id: str
    records_digest: str
    snapshot: StoredValue
    """All that a rollback or a rebuild needs (see `nodes.stable_points`); {} where it failed."""
    manifest: NotRequired[StoredValue]
    """The workspace as it was; absent where it was not looked at."""
    number: NotRequired[int]
    """Counts up with every milestone that passes: what came later is un-passed by a rollback."""
    stale: NotRequired[list[str]]
    """Subtasks that were reopened since: what the snapshot says of them does not hold any more."""
    pruned: NotRequired[bool]
    """Its snapshot was removed to keep house: nobody can go back to it any more."""
    verdicts: list[JsonObject]


DecisionKind = Literal[
    "accept",
    "retry",
    "degrade",
    "skip",
    "ask",
    "fail",
    "improve",
    "replan",
    "rollback",
    "drift",
    "answer",
    "amendment",
    "edit",
    "reopen",
    "command",
]
"""What was decided. By people: `answer` (to a question), `amendment` (of the goal), `edit` (of a
result or arguments), `reopen` (one more try by hand), `command` (anything else they asked for)."""


class Decision(TypedDict):
    """One decision with its reason; never compacted away."""

    at: float
    kind: DecisionKind
    subtask: str | None
    reason: str


class PinnedHead(TypedDict):
    """The goal head as every request carries it, from the moment the goal was fixed.

    The text itself is kept, so that another version of the program still sends the same bytes.
    """

    text: str
    sha256: str
    """Of `text` in UTF-8."""
    goal: str
    """Digest of the goal that it was made from: a goal changed without a new pin is found out."""


class TaskFailure(TypedDict):
    """Why a task ended without success; `code` is one of the contract's names."""

    code: str
    message: str
    subtask: str | None


class Usage(TypedDict):
    """What a task has used so far."""

    steps: int
    tokens: int
    cost_usd: float
    seconds: float
    failures: int


class EffectiveLimits(TypedDict):
    """Every limit with its value, defaults filled in; cost may be unlimited."""

    max_steps: int
    max_tokens: int
    max_cost_usd: float | None
    max_seconds: float
    max_failures: int
