"""What follows from the consistency report: the question, and what people answered to it.

The same report asks the same question, so an answer is found by the report that it was given to;
it is applied once. A report that comes again later asks anew.
"""

from dataclasses import dataclass, field
from typing import Any

from surefoot.graph.consistency import Report
from surefoot.graph.dependants import Dependants
from surefoot.graph.index import PlanIndex, container_of
from surefoot.graph.recovery import choose
from surefoot.graph.state import Back, TaskState
from surefoot.graph.values import JsonObject, Question
from surefoot.nodes.consistency import Examined, examine
from surefoot.nodes.context import TaskContext

STEM = "inconsistent-"


@dataclass(slots=True)
class Looked:
    """What the report came to in this go.

    Attributes:
        questions: one, or none where all is as it should be.
        update: further channels to be saved: answers that are used up, a wish to go back.
    """

    questions: list[Question] = field(default_factory=list[Question])
    update: dict[str, Any] = field(default_factory=dict[str, Any])


async def look(state: TaskState, index: PlanIndex, context: TaskContext) -> Looked:
    """Examine everything, do what people answered to the last report, and ask where it fails.

    Raises:
        LeaseLost, DatabaseUnavailable: nothing is known of what was done.
    """
    answers = dict(state.get("answers") or {})
    inside = context.outer is not None
    looked = Looked()
    back = state.get("back")
    while True:
        examined = await examine(state, index, context, inside=inside)
        report = examined.report
        if report.consistent or _is_redone(report, back):
            _use_up(answers, looked)
            return looked
        question = _question(report, answers, context)
        given = answers.get(question["id"])
        if given is None:
            looked.questions = [question]
            return looked
        answers[question["id"]] = {**given, "applied": True}
        looked.update["answers"] = answers
        if given["answer"]["choice"] == "redo":
            back = _redo(given, report, state, index, context)
        else:
            await _apply(given, examined, context)
        if back is not None:
            looked.update["back"] = back


def _use_up(answers: dict[str, JsonObject], looked: Looked) -> None:
    """What was answered to reports that do not fail any more is not for later ones."""
    left = [id for id, a in answers.items() if id.startswith(STEM) and not a.get("applied")]
    for id in left:
        answers[id] = {**answers[id], "applied": True}
        looked.update["answers"] = answers


def _question(report: Report, answers: dict[str, JsonObject], context: TaskContext) -> Question:
    """The question about a report; of one that was asked and answered before, the next in turn."""
    question = report.question(context.task_id)
    stem, turn = question["id"], 1
    while answers.get(question["id"], {}).get("applied"):
        turn += 1
        question = report.question(context.task_id, id=f"{stem}-{turn}")
    return question


def _is_redone(report: Report, back: Back | None) -> bool:
    """Whether all that is lost is about to be done again."""
    lost = report.redo()
    return bool(lost) and back is not None and set(lost) <= set(back.get("reopen", ()))


def _redo(
    given: JsonObject, report: Report, state: TaskState, index: PlanIndex, context: TaskContext
) -> Back:
    """The wish to have what is lost done again, with all whose work used it."""
    lost = report.redo()
    users = Dependants(index, state.get("records") or {}, context.specs)
    used = [user for id in lost for user in users.using(container_of(id) or id, files=True)]
    reason = f"{given.get('by', 'person')}: {report.summary()}: done again"
    return Back(by="person", reason=reason, reopen=list(dict.fromkeys([*lost, *used])))


async def _apply(given: JsonObject, examined: Examined, context: TaskContext) -> None:
    """Do what a person answered; nothing for `recheck`, which is done in any case."""
    choice, by = given["answer"]["choice"], given.get("by", "person")
    match choice:
        case "restore":
            await _restore(examined, context, by)
        case "accept":
            await _accept(examined, context, by)
        case _:
            pass


async def _restore(examined: Examined, context: TaskContext, by: str) -> None:
    """Put the workspace back; what lay there is kept in the store, named in the event."""
    if examined.against is None:
        return
    restored = await context.workspace.restore(examined.against)
    chosen = choose("cut", effect="read", world="own writes differ", stable=True)
    context.journal.event(
        "WorkspaceRestored",
        strategy=chosen.strategy,
        reason=f"{by}: {examined.report.summary()}: put back as it was stored",
        by=by,
        changed=list(restored.changed),
        removed=list(restored.removed),
        kept=restored.kept,
    )


async def _accept(examined: Examined, context: TaskContext, by: str) -> None:
    """Take the world as it is now for what is expected from now on."""
    failed = {check.check: check for check in examined.report.failed}
    if failed.keys() & {"inputs", "tools"}:
        context.expected = {**context.manifest}
        context.journal.task(
            inputs_manifest=context.manifest.get("input") or {},
            tools_digest=context.manifest.get("tools module") or {},
        )
    taken = None
    if "workspace" in failed:
        taken = await context.workspace.take()
        context.accepted = taken.stored, context.clock()
        context.journal.snapshot(
            "full", subtask="", manifest=taken.stored, files=taken.files, bytes=taken.bytes
        )
    context.journal.event(
        "StateAccepted",
        by=by,
        reason=f"{by} accepted: {examined.report.summary()}",
        accepted={name: list(check.ids) for name, check in failed.items()},
        manifest=taken.stored if taken is not None else None,
    )
