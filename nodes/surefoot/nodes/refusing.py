"""What follows a milestone or an acceptance that does not hold: replan, ask, or the end.

The choices are the milestone's own, in its order; a model may propose among those that are left.
"""

from collections.abc import Sequence
from typing import Any, cast

from surefoot.graph.fingerprints import fingerprint
from surefoot.graph.plain import canonical_json, digest
from surefoot.graph.plan import Milestone, MilestoneChoice
from surefoot.graph.questions import question_id
from surefoot.graph.reflecting import at_milestone, criticism_in, evidence_text
from surefoot.graph.state import Back, Replan, TaskState
from surefoot.graph.values import (
    Decision,
    DecisionKind,
    Failure,
    JsonObject,
    Question,
    TaskFailure,
)
from surefoot.nodes.asking import heeding_stops
from surefoot.nodes.briefs import brief_of
from surefoot.nodes.context import TaskContext, Views, journal_task, limits_of
from surefoot.nodes.criticising import AWAY, reflection_ask
from surefoot.nodes.endings import end
from surefoot.nodes.questions import number_of, opened
from surefoot.nodes.ways_back import milestone_may_go_back, rollbacks_made
from surefoot.nodes.wishes import replans_for, why_no_replan, wish

UNJUDGED = {
    "judge_unavailable": "model_unavailable",
    "missing_model": "missing_model",
    "budget_exhausted": "budget_exhausted",
}
"""Task failures for a `judge` check that nobody decided, by its kind; a resume judges again."""


async def milestone_failed(
    milestone: Milestone,
    verdicts: Sequence[JsonObject],
    state: TaskState,
    context: TaskContext,
    seen: Views,
) -> dict[str, Any]:
    """Take the milestone's first choice that can be taken, or the one a model proposes of them.

    Raises:
        Stopped: the task was told to stop while the model was asked; nothing was decided.
    """
    unjudged = _nobody_judged(verdicts)
    if unjudged is not None:
        return end(context, seen, "failed", unjudged, limits_of(state, context, seen))
    failure = Failure(kind="milestone_failed", message=_reasons(verdicts), retryable=False)
    obstacle = digest([milestone.id, fingerprint(failure, verdicts)])[:16]
    possible = at_milestone(
        milestone.on_failure,
        replans=replans_for(state, context, obstacle),
        rollback=milestone_may_go_back(state, context),
    )
    choice, criticism = await _proposed(
        milestone, failure, verdicts, possible, state, context, seen
    )
    context.milestones_failed += 1
    context.journal.event("MilestoneFailed", milestone=milestone.id, reason=failure["message"])
    _say_what_cannot_be(milestone, possible, context)
    journal_task(context, seen, milestones=milestone_counts(state, context, seen, more=0))
    why = f"milestone {milestone.id!r} failed: {failure['message']}"
    ending = TaskFailure(code="milestone_failed", message=why, subtask=None)
    if choice == "rollback":
        return {"back": Back(by="milestone", reason=f"{why}\n{criticism}".strip())}
    if choice == "replan":
        reason = f"{why}\n{criticism}".strip()
        request = wish("milestone", reason, ending=ending, blocker=obstacle)
        return {"replan": request, **_decided("replan", why, state, context)}
    if choice == "ask":
        return _asked(milestone, failure["message"], state, context)
    return end(context, seen, "failed", ending, limits_of(state, context, seen))


def acceptance_failed(
    verdicts: Sequence[JsonObject], state: TaskState, context: TaskContext, seen: Views
) -> dict[str, Any]:
    """A plan that a model made is made anew while a replan is left; else the task has failed."""
    unjudged = _nobody_judged(verdicts)
    if unjudged is not None:
        return end(context, seen, "failed", unjudged, limits_of(state, context, seen))
    why = _reasons(verdicts)
    failure = Failure(kind="acceptance_failed", message=why, retryable=False)
    obstacle = fingerprint(failure, verdicts)
    replans = replans_for(state, context, obstacle)
    no_replan = why_no_replan(state, context, obstacle)
    ending = TaskFailure(code="acceptance_failed", message=f"{why}{no_replan}", subtask=None)
    request: Replan = wish(
        "acceptance", f"the end was not accepted: {why}", ending=ending, blocker=obstacle
    )
    if replans.automatic and replans.possible:
        return {"replan": request, **_decided("replan", why, state, context)}
    return end(context, seen, "failed", ending, limits_of(state, context, seen))


def milestone_counts(
    state: TaskState, context: TaskContext, seen: Views, *, more: int
) -> JsonObject:
    """The row's milestone numbers; `more` passed just now."""
    before = sum(1 for m in (state.get("milestones") or {}).values() if m["passed"])
    return {
        "total": len(seen.index.milestones),
        "passed": before + more,
        "failed": context.milestones_failed,
        "rollbacks": rollbacks_made(state),
    }


async def _proposed(
    milestone: Milestone,
    failure: Failure,
    verdicts: Sequence[JsonObject],
    possible: Sequence[MilestoneChoice],
    state: TaskState,
    context: TaskContext,
    seen: Views,
) -> tuple[MilestoneChoice, str]:
    """A choice and a criticism: a model's where it is asked and answers, else the first."""
    taken: tuple[MilestoneChoice, ...] = ("replan", "rollback", "ask")
    open_choices = [choice for choice in taken if choice in possible]
    if len(open_choices) < 2 or not context.models.has("judge"):
        return possible[0], ""
    checks = canonical_json([check.model_dump(exclude_unset=True) for check in milestone.checks])
    ask = reflection_ask(
        what=f"milestone {milestone.id} after {milestone.after}, with these checks: {checks}",
        evidence=evidence_text(failure, verdicts),
        choices=open_choices,
        brief=brief_of(state, context, seen),
    )
    try:
        answer = await heeding_stops(context.models.ask(ask), context)
    except AWAY as away:
        context.journal.event("FailureReflected", milestone=milestone.id, reason=str(away))
        return possible[0], ""
    proposed, criticism = criticism_in(answer.value)
    choice = cast("MilestoneChoice", proposed) if proposed in open_choices else possible[0]
    context.journal.event(
        "FailureReflected", milestone=milestone.id, choice=choice, reason=criticism
    )
    return choice, criticism


def _nobody_judged(verdicts: Sequence[JsonObject]) -> TaskFailure | None:
    """The failure of a task whose judge could not be asked: it says nothing about the work."""
    for verdict in verdicts:
        kind = verdict.get("kind")
        if not verdict["ok"] and kind in UNJUDGED:
            why = f"no judge could be asked: {verdict['why']}"
            return TaskFailure(code=UNJUDGED[kind], message=why, subtask=None)
    return None


def _say_what_cannot_be(
    milestone: Milestone, possible: Sequence[MilestoneChoice], context: TaskContext
) -> None:
    for choice in milestone.on_failure:
        if choice == "fail":
            return
        if choice not in possible:
            context.journal.event(
                "MilestoneChoiceUnavailable",
                milestone=milestone.id,
                choice=choice,
                reason=f"this task cannot {choice} now; the next choice is taken",
            )


def _asked(
    milestone: Milestone, why: str, state: TaskState, context: TaskContext
) -> dict[str, Any]:
    """Put it to people; the dispatcher waits for them."""
    answers = state.get("answers") or {}
    name = f"{context.prefix}{milestone.id}"
    question = Question(
        id=question_id(
            "milestone", name, number_of(answers, question_id("milestone", name, 0)[:-1])
        ),
        subtask=None,
        kind="milestone",
        text=(
            f"Milestone {milestone.id!r} failed: {why}. Its plan says to ask. `judge` judges it "
            "again, once its cause is mended; `rollback` does the work before it again."
        ),
        facts={"milestone": milestone.id, "why": why},
    )
    can_plan = context.models.has("planner")
    choices = ["judge", "rollback", *(["replan"] if can_plan else []), "fail"]
    questions = [*(state.get("questions") or ()), opened(question, context, choices=choices)]
    return {"questions": questions, **_decided("ask", why, state, context)}


def _decided(
    kind: DecisionKind, reason: str, state: TaskState, context: TaskContext
) -> dict[str, Any]:
    number = str(len(state.get("decisions") or {}))
    decision = Decision(at=context.clock(), kind=kind, subtask=None, reason=reason)
    return {"decisions": {number: decision}}


def _reasons(verdicts: Sequence[JsonObject]) -> str:
    return "; ".join(
        f"{verdict.get('id') or verdict['type']}: {verdict['why']}"
        for verdict in verdicts
        if not verdict["ok"]
    )
