"""Checks of milestones and of the acceptance that people decide, after programs and models.

What these have found is kept meanwhile: a model is not asked again for what it has said. Programs
are asked once more in the end, since the world may have changed while people thought.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.graph.checks import PROGRAM_CHECKS, Check
from surefoot.graph.plain import digest
from surefoot.graph.questions import next_question, question_id
from surefoot.graph.state import Judging, TaskState
from surefoot.graph.values import JsonObject, Question
from surefoot.nodes.context import TaskContext, Views
from surefoot.nodes.evidence import verify
from surefoot.nodes.questions import number_of, opened


async def verdicts_on(
    milestone: str | None,
    checks: Sequence[Check],
    state: TaskState,
    context: TaskContext,
    seen: Views,
    **how: Any,
) -> list[JsonObject]:
    """One verdict for each check; those that people gave since programs and models were asked too.

    Args:
        milestone: which is judged; None: the acceptance.
        checks: its own.
        state: of the plan.
        context: of the plan.
        seen: the derived views.
        how: further arguments of `verify`.

    Raises:
        Stopped: the task was told to stop meanwhile.
    """
    records, judging = state.get("records") or {}, state.get("judging")
    if judging is None or not _is_about(judging, milestone, state):
        return await verify(checks, records, context, seen, **how)
    verdicts = list(judging["verdicts"])
    programs = [n for n, check in enumerate(checks) if check.type in PROGRAM_CHECKS]
    fresh = await verify([checks[n] for n in programs], records, context, seen, **how)
    for n, verdict in zip(programs, fresh, strict=True):
        verdicts[n] = verdict
    return verdicts


def asked_of_people(
    milestone: str | None,
    verdicts: list[JsonObject],
    state: TaskState,
    context: TaskContext,
    *,
    doubts: bool,
) -> dict[str, Any] | None:
    """The update that puts the next check to people; None where none is left to them.

    Args:
        milestone: which is judged; None: the acceptance.
        verdicts: of all checks.
        state: of the plan.
        context: of the plan.
        doubts: whether people are asked where a judge is not sure.
    """
    if any(not verdict["ok"] and not verdict.get("undecided") for verdict in verdicts):
        return None
    judged = [verdict for verdict in verdicts if verdict["type"] == "judge"]
    if not doubts and any(verdict.get("undecided") for verdict in judged):
        return None
    question = next_asked(milestone, verdicts, state.get("answers") or {}, context)
    if question is None:
        return None
    judging = Judging(
        milestone=milestone, records=digest(state.get("records") or {}), verdicts=verdicts
    )
    return {"judging": judging, "questions": [*(state.get("questions") or ()), question]}


def next_asked(
    milestone: str | None,
    verdicts: Sequence[JsonObject],
    answers: Mapping[str, JsonObject],
    context: TaskContext,
) -> Question | None:
    """Put the first check that is left to people to them; None where none is left."""
    asked = next_question(verdicts)
    if asked is None:
        return None
    what = "acceptance" if milestone is None else f"milestone:{milestone}"
    name, kind = f"{context.prefix}{what}", asked["kind"]
    number = number_of(answers, question_id(kind, name, 0)[:-1])
    title = "The end" if milestone is None else f"Milestone {milestone!r}"
    question: Question = {
        **asked,
        "id": question_id(kind, name, number),
        "text": f"{title}: {asked['text']}",
        "facts": {**(asked.get("facts") or {}), "milestone": milestone},
    }
    return opened(question, context)


def _is_about(judging: Judging, milestone: str | None, state: TaskState) -> bool:
    """Whether what was found is about this milestone, as things stand now."""
    same = judging["milestone"] == milestone
    return same and judging["records"] == digest(state.get("records") or {})
