"""Accepted outcomes: the record, the visible artifacts, the events."""

from surefoot.graph.values import Outcome, Record, StoredValue, life_of
from surefoot.nodes.context import TaskContext, Views
from surefoot.nodes.expansion import writes_overlap
from surefoot.nodes.orders import work_of


async def accept(outcome: Outcome, old: Record, context: TaskContext, seen: Views) -> Record:
    """The record of a subtask whose attempt, list or children were found good.

    What the attempt put becomes visible now, with the checkpoint that holds this record.
    """
    if outcome["action"] == "expand":
        return await _expanded(outcome, old, context, seen)
    record = _completed(outcome, old)
    if _replaces(outcome, old, seen):
        context.journal.withdraw(outcome["subtask"])
    for ref in record.get("artifacts", ()) if outcome["action"] != "nest" else ():
        context.journal.artifact(outcome["subtask"], outcome["attempt"], ref)
    if "files" in outcome:
        _take_files(outcome, record, context)
    if outcome["action"] == "attempt":
        work = work_of(seen.index.unit(outcome["subtask"]), old, "attempt")
        took = outcome["ended"] - outcome["started"]
        context.durations.setdefault(work.tool or work.kind, []).append(took)
    marks = {"marks": record["marks"]} if "marks" in record else {}
    context.journal.event(
        "SubtaskImproved" if outcome["action"] == "improve" else "SubtaskCompleted",
        subtask=outcome["subtask"],
        attempt=None if outcome["action"] == "nest" else outcome["attempt"] or None,
        phase=seen.index.phase_of(outcome["subtask"]),
        **marks,
    )
    return record


def _replaces(outcome: Outcome, old: Record, seen: Views) -> bool:
    """Whether artifacts that are visible are good no more.

    Those of a degraded version, and of children whose container came to its end on a rung.
    """
    if outcome["action"] == "improve":
        return True
    on_rung = outcome["action"] == "attempt" and bool(old.get("rung"))
    return on_rung and seen.index.is_container(outcome["subtask"])


def _take_files(outcome: Outcome, record: Record, context: TaskContext) -> None:
    """The full snapshot: what lies under the subtask's `writes` from here on."""
    taken = outcome.get("files") or {}
    record["files"] = taken["manifest"]
    context.journal.snapshot(
        "full",
        manifest=taken["manifest"],
        subtask=outcome["subtask"],
        attempt=outcome["attempt"],
        files=taken["files"],
        bytes=taken["bytes"],
    )


def _completed(outcome: Outcome, old: Record) -> Record:
    result: StoredValue = outcome.get("result") or {"value": None}
    record = Record(state="completed", started=outcome["started"], finished=outcome["ended"])
    record |= life_of(old)
    record["attempt"] = old.get("attempt", 0)
    record["result"] = result
    artifacts, marks = outcome.get("artifacts"), outcome.get("marks")
    if artifacts:
        record["artifacts"] = artifacts
    if marks:
        record["marks"] = marks
    if outcome["action"] == "nest":
        record["started"] = old.get("started", outcome["started"])
    elif outcome["action"] == "gather":
        record["n"] = old.get("n", 0)
        record["items"] = old.get("items") or {"value": []}
        record["started"] = old.get("started", outcome["started"])
    else:
        record["ended"] = old.get("ended", 0) + 1
    if "args" in old:
        record["args"] = old["args"]
    if old.get("rung") and outcome["action"] != "improve":
        record["rung"] = old.get("rung", 0)
        record["reason"] = old.get("reason", "")
    return record


async def _expanded(outcome: Outcome, old: Record, context: TaskContext, seen: Views) -> Record:
    id = outcome["subtask"]
    items: StoredValue = outcome.get("result") or {"value": []}
    n = outcome.get("n", 0)
    record = Record(**old)
    record["n"] = n
    record["items"] = items
    record["started"] = outcome["started"]
    if await writes_overlap(seen.index.each(id), items, n, context.store):
        record["serial"] = True
    # The list too: its children could not be told apart without it, were the checkpoints lost.
    serial = bool(record.get("serial"))
    context.journal.event("SubtaskExpanded", subtask=id, n=n, items=items, serial=serial)
    return record
