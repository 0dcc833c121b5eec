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
    "SubtaskStarted SubtaskExpanded AcceptanceChecked Log PlanDrafted GroupPlanned"
    " CommandApplied GroupStarted".split()
)
_TOLD = {
    "SubtaskCompleted": "completed",
    "SubtaskImproved": "improved",
    "SubtaskSkipped": "skipped",
    "SubtaskFailed": "failed",
    "SubtaskEdited": "was edited",
    "SubtaskReopened": "is to be tried again",
    "SubtaskDegraded": "degraded",
    "AttemptFailed": "attempt {attempt} failed, {choice}",
    "AttemptCut": "attempt {attempt} was cut",
    "AttemptRecovered": "recovered",
    "WorkspacePutBack": "what attempt {attempt} wrote was put back",
    "ImprovementStarted": "is tried in full once more",
    "ImprovementFailed": "could not be improved",
    "QuestionAsked": "a person must decide",
    "QuestionAnswered": "a person has decided",
    "QuestionClosed": "nobody has to decide any more",
    "MilestonePassed": "milestone {milestone} passed",
    "MilestoneFailed": "milestone {milestone} failed",
    "MilestoneChoiceUnavailable": "milestone {milestone}: {choice} is not possible",
    "GroupResumed": "goes on",
    "GroupPaused": "paused",
    "GroupFailed": "failed",
    "GroupCancelled": "cancelled",
    "GroupWaiting": "waits for a person",
    "GroupStateRebuilt": "what was saved of it was lost and is made anew",
    "StateRebuilt": "what was saved of the task was lost and is made anew",
    "StateUpgraded": "taken up from an older version",
    "StateAccepted": "the world as it is now is what is expected from here on",
    "WorkspaceRestored": "the workspace was put back",
    "AgentThreadLost": "what was saved of it was lost: it starts from scratch",
    "TaskStarted": "task started",
    "TaskResumed": "task goes on",
    "TaskWaiting": "task waits for a person",
    "TaskPaused": "task paused",
    "TaskCompleted": "task completed",
    "TaskFailed": "task failed",
    "TaskCancelled": "task cancelled",
    "PlanningAsked": "{stage} is drafted, round {round}",
    "PlanAccepted": "plan accepted",
    "PlanRejected": "plan rejected",
    "GoalPinned": "goal pinned",
    "ModelCalled": "{model} answered the {call} call ({tokens} tokens, {seconds} s)",
    "ModelWaits": "{model} is asked again later",
    "ModelSwitched": "{to} is asked instead of {from}",
    "AnswerUnusable": "an answer of {model} cannot be used",
    "RollbackUnavailable": "there is no way back to {milestone}",
    "RolledBack": "back to {milestone}",
    "SubtasksReopened": "some work is done again",
    "ProgressLowered": "progress went down",
    "NotTakenBack": "what was under way could not be taken back",
    "WorkspaceNotKept": "the workspace was not kept at {milestone}",
    "FailureReflected": "a model proposes {proposed}",
    "ReplanAsked": "a new plan for the rest is asked for",
    "ReplanRejected": "new plan rejected",
    "PlanReplaced": "plan version {version}",
}


_NAMED = "milestone proposed version stage round model call from to".split()
"""Facts that the words above may name."""


def tell(news: Sequence[News]) -> Iterator[str]:
    """Tell what is new, in order, each with the progress after it."""
    told = [new for new in news if not _is_quiet(new.event)]
    routine = [new.event["id"] for new in told if new.event["type"] == "SubtaskCompleted"]
    counted = set(routine[MOST_LINES:])
    for new in told:
        if new.event["id"] not in counted:
            yield f"{_clock(new.event['time'])} {_share(new)}  {_words(new.event)}"
    if counted:
        yield f"{'':8} {_share(told[-1])}  ... {len(counted)} more completed"


def _is_quiet(event: Row) -> bool:
    """Starts, and the many model calls of agents and their judges: what comes of them is told."""
    facts: JsonObject = event["facts"] or {}
    about_one = event["subtask"] and facts.get("call") not in ("goal", "plan")
    return (event["type"] == "ModelCalled" and bool(about_one)) or event["type"] in _QUIET


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
    texts = {name: str(facts.get(name) or "") for name in _NAMED}
    texts["tokens"] = f"{facts.get('tokens') or 0:,}"
    texts["seconds"] = f"{(facts.get('ms') or 0) / 1000:.1f}"
    return texts


def _clock(moment: datetime) -> str:
    return moment.astimezone().strftime("%H:%M:%S")
