"""A task told in plain lines, for pipes, logs and terminals without colours.

What goes wrong and what turns is told at once; completions are told one by one while they are
few, and counted when they are many.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from surefoot.graph.values import JsonObject
from surefoot.service.feed import News
from surefoot.service.rows import Row
from surefoot.service.words import one_line, percent

MOST_LINES = 20
"""Lines per round; what is routine beyond that is counted."""

_QUIET = frozenset(
    {"SubtaskStarted", "SubtaskExpanded", "PlanAccepted", "AcceptanceChecked", "Log"}
)
_TOLD = {
    "SubtaskCompleted": "completed",
    "SubtaskImproved": "improved",
    "SubtaskSkipped": "skipped",
    "SubtaskFailed": "failed",
    "SubtaskDegraded": "degraded",
    "AttemptFailed": "attempt {attempt} failed, {choice}",
    "AttemptCut": "attempt {attempt} was cut",
    "AttemptRecovered": "recovered",
    "ImprovementFailed": "could not be improved",
    "QuestionAsked": "a person must decide",
    "MilestonePassed": "milestone {milestone} passed",
    "MilestoneFailed": "milestone {milestone} failed",
    "MilestoneChoiceUnavailable": "milestone {milestone}: {choice} is not possible",
    "TaskStarted": "task started",
    "TaskResumed": "task goes on",
    "TaskWaiting": "task waits for a person",
    "TaskPaused": "task paused",
    "TaskCompleted": "task completed",
    "TaskFailed": "task failed",
    "TaskCancelled": "task cancelled",
    "PlanRejected": "plan rejected",
    "FailureReflected": "a model proposes {proposed}",
    "ReplanAsked": "a new plan for the rest is asked for",
    "ReplanRejected": "new plan rejected",
    "PlanReplaced": "plan version {version}",
}


def tell(news: Sequence[News]) -> Iterator[str]:
    """Tell what is new, in order, each with the progress after it."""
    told = [new for new in news if new.event["type"] not in _QUIET]
    routine = [new.event["id"] for new in told if new.event["type"] == "SubtaskCompleted"]
    counted = set(routine[MOST_LINES:])
    for new in told:
        if new.event["id"] not in counted:
            yield f"{_clock(new.event['time'])} {_share(new)}  {_words(new.event)}"
    if counted:
        yield f"{'':8} {_share(told[-1])}  ... {len(counted)} more completed"


def _share(new: News) -> str:
    return f"{percent(new.progress):6.1f} %"


def _words(event: Row) -> str:
    facts: JsonObject = event["facts"] or {}
    template: str = _TOLD.get(event["type"]) or event["type"]
    said = template.format_map(
        {"attempt": event["attempt"], "choice": facts.get("choice"), **_texts(facts)}
    )
    line = f"{event['subtask']} {said}" if event["subtask"] else said
    reason = facts.get("reason")
    return f"{line}: {one_line(reason)}" if reason else line


def _texts(facts: JsonObject) -> dict[str, str]:
    return {name: str(facts.get(name) or "") for name in ("milestone", "proposed", "version")}


def _clock(moment: datetime) -> str:
    return moment.astimezone().strftime("%H:%M:%S")
