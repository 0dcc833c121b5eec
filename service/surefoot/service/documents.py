"""Flat JSON lists about a task: its plan, events, history, logs and artifacts (contract §3).

Pure, from table rows. An event's facts are laid beside its fixed fields; what is not a plain
value (a list of faults, of verdicts) becomes compact JSON text, so that every object stays flat.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from surefoot.graph.keys import is_undo
from surefoot.graph.values import JsonObject
from surefoot.service.rows import Row, iso, without_nothing

MOVES: Mapping[str, tuple[str, str]] = {
    "SubtaskStarted": ("pending", "running"),
    "SubtaskCompleted": ("running", "completed"),
    "SubtaskSkipped": ("running", "skipped"),
    "SubtaskFailed": ("running", "failed"),
    "AttemptFailed": ("running", "pending"),
    "AttemptCut": ("running", "pending"),
    "TaskStarted": ("queued", "running"),
    "TaskResumed": ("paused", "running"),
    "TaskWaiting": ("running", "waiting"),
    "TaskPaused": ("running", "paused"),
    "TaskCompleted": ("running", "completed"),
    "TaskFailed": ("running", "failed"),
    "TaskCancelled": ("running", "cancelled"),
}
"""What an event moves, where it names no states itself."""

ROUTINE = frozenset(
    "SubtaskStarted SubtaskCompleted SubtaskExpanded Log PlanningAsked PlanDrafted "
    "ModelCalled GroupStarted CommandApplied".split()
)
"""Events that are no decision and no turn: the history leaves them out."""


def event_entry(row: Row, *, phases: Mapping[str, str] | None = None) -> JsonObject:
    """One event as a flat object: id, time, task, subtask, attempt, type, then what applies."""
    facts = dict(_facts(row))
    came_from, went_to = MOVES.get(row["type"], (None, None))
    subtask = row["subtask"]
    entry: JsonObject = {
        "id": row["id"],
        "time": iso(row["time"]),
        "task": row["task_id"],
        "subtask": subtask,
        "attempt": row["attempt"],
        "type": row["type"],
    }
    applies: JsonObject = {
        "phase": facts.pop("phase", None) or phase_of(subtask, phases or {}),
        "step": facts.pop("step", None),
        "from": facts.pop("from", came_from),
        "to": facts.pop("to", went_to),
        "reason": facts.pop("reason", None),
        **{name: _flat(value) for name, value in facts.items() if name not in entry},
    }
    return entry | without_nothing(applies)


def log_entry(row: Row) -> JsonObject:
    """One line that a tool logged."""
    return {
        "id": row["id"],
        "time": iso(row["time"]),
        "task": row["task_id"],
        "subtask": row["subtask"],
        "attempt": row["attempt"],
        "text": _facts(row).get("text", ""),
    }


def history_entry(row: Row) -> JsonObject | None:
    """One decision or turn with its strategy and reason; None for routine events."""
    if row["type"] in ROUTINE:
        return None
    facts = _facts(row)
    answer: JsonObject = facts.get("answer") or {} if row["type"] == "QuestionAnswered" else {}
    return {
        "id": row["id"],
        "time": iso(row["time"]),
        "task": row["task_id"],
        "subtask": row["subtask"],
        "attempt": row["attempt"],
        "type": row["type"],
        "strategy": facts.get("strategy") or facts.get("choice") or _strategy(row["type"]),
        "reason": facts.get("reason") or _flat(facts.get("faults")),
        "milestone": facts.get("milestone"),
        "by": facts.get("by"),
        "answer": answer.get("choice"),
    }


def refusal_entries(row: Row) -> list[JsonObject]:
    """The faults of one refused answer of a planner, each with the answer they were found in."""
    facts = _facts(row)
    return [
        {
            "round": facts.get("round"),
            "stage": facts.get("stage"),
            "code": fault["code"],
            "message": fault["message"],
            "subtasks": list(fault.get("subtasks") or ()),
            "answer": facts.get("answer"),
            "sha256": facts.get("sha256"),
            "time": iso(row["time"]),
        }
        for fault in cast("list[JsonObject]", facts.get("faults") or [])
    ]


def plan_entries(
    plan: JsonObject,
    subtasks: Mapping[str, Row],
    made: Mapping[str, JsonObject] | None = None,
) -> list[JsonObject]:
    """Every subtask of a plan, groups' inner ones included, with its present state.

    `made`: plans that a model made for groups, by the group's id.
    """
    listed = plan_subtasks(plan, made=made)
    return [_plan_entry(name, subtask, subtasks.get(name)) for name, subtask in listed]


def plan_subtasks(
    plan: Mapping[str, Any], prefix: str = "", *, made: Mapping[str, JsonObject] | None = None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every subtask of a plan with its full id, groups' inner ones after their group."""
    for subtask in cast("list[Mapping[str, Any]]", plan.get("subtasks") or []):
        name = prefix + subtask["id"]
        yield name, subtask
        inner = inner_plan(name, subtask, made or {})
        if inner:
            yield from plan_subtasks(inner, f"{name}/", made=made)


def inner_plan(
    name: str, unit: Mapping[str, Any], made: Mapping[str, JsonObject]
) -> Mapping[str, Any] | None:
    """The plan of a group, given or made; None for what is no group, or has none yet."""
    return (unit.get("plan") or made.get(name)) if unit.get("kind") == "group" else None


def unit_below(
    name: str,
    unit: Mapping[str, Any],
    step: str,
    *,
    children: int,
    made: Mapping[str, JsonObject],
) -> Mapping[str, Any] | None:
    """What a further part of an id means below a foreach (of so many children) or a group."""
    if unit.get("kind") == "foreach":
        return unit.get("each") if step.isdecimal() and int(step) < children else None
    inner = inner_plan(name, unit, made) or {}
    listed = cast("list[Mapping[str, Any]]", inner.get("subtasks") or [])
    return next((one for one in listed if one["id"] == step), None)


def has_made_plans(plan: Mapping[str, Any]) -> bool:
    """Whether a group anywhere in a plan has a plan that a model makes."""
    for subtask in cast("list[Mapping[str, Any]]", plan.get("subtasks") or []):
        unit: Mapping[str, Any] = subtask.get("each") or subtask
        inner = unit.get("plan")
        if unit.get("kind") == "group" and (not inner or has_made_plans(inner)):
            return True
    return False


def phases_of(plan: JsonObject) -> dict[str, str]:
    """Phase by top-level subtask."""
    subtasks = cast("list[Mapping[str, Any]]", plan.get("subtasks") or [])
    return {s["id"]: s["phase"] for s in subtasks if s.get("phase")}


def phase_of(subtask: str | None, phases: Mapping[str, str]) -> str | None:
    """The phase of a subtask or child."""
    return phases.get(subtask.partition("/")[0]) if subtask else None


def artifact_entry(row: Row) -> JsonObject:
    """One version of an artifact."""
    return {
        "name": f"{row['subtask']}/{row['name']}",
        "task": row["task_id"],
        "subtask": row["subtask"],
        "artifact": row["name"],
        "version": row["version"],
        "attempt": row["attempt"],
        "sha256": row["sha256"],
        "size": row["size"],
        "media_type": row["media_type"],
        "time": iso(row["at"]),
        "withdrawn": row["withdrawn_at"] is not None,
    }


SHOWN_CHARS = 500
"""Of an effect's arguments and note."""


def effect_entry(row: Row) -> JsonObject:
    """One effect as the ledger has it: who did it, what, and what became of it."""
    text = _flat(row["args"])
    return {
        "subtask": row["subtask"],
        "attempt": row["attempt"],
        "tool": row["tool"],
        "effect": row["effect"],
        "state": row["state"],
        "rolled_back": row["rolled_back"],
        "undo": is_undo(row["key"]),
        "args": text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}...",
        "when": iso(row["outcome_at"] or row["intent_at"]),
        "note": (row["note"] or "")[:SHOWN_CHARS] or None,
        "key": row["key"],
    }


def question_entry(row: Row) -> JsonObject:
    """One open question."""
    return {
        "task": row["task_id"],
        "id": row["id"],
        "subtask": row["subtask"],
        "kind": row["kind"],
        "text": row["text"],
        "choices": list(row["choices"] or ()),
        "asked_at": iso(row["asked_at"]),
    }


def matching_artifacts(rows: Iterable[Row], name: str) -> list[Row]:
    """Rows whose full name or bare name this is."""
    return [row for row in rows if name in (f"{row['subtask']}/{row['name']}", row["name"])]


def ends_of(plan: JsonObject) -> list[str]:
    """Top-level subtasks that nothing else depends on: what a plan leads to."""
    subtasks = cast("list[Mapping[str, Any]]", plan.get("subtasks") or [])
    needed = {need for subtask in subtasks for need in subtask.get("depends_on") or ()}
    return [subtask["id"] for subtask in subtasks if subtask["id"] not in needed]


def _plan_entry(name: str, subtask: Mapping[str, Any], row: Row | None) -> JsonObject:
    failure: JsonObject = (row["failure"] or {}) if row else {}
    return {
        "subtask": name,
        "name": subtask.get("name") or name,
        "phase": subtask.get("phase"),
        "kind": subtask.get("kind"),
        "tool": subtask.get("tool"),
        "depends_on": list(subtask.get("depends_on") or ()),
        "weight": subtask.get("weight", 1),
        "importance": subtask.get("importance", "normal"),
        "state": row["state"] if row else "pending",
        "attempts": row["attempts"] if row else 0,
        "rung": row["rung"] if row else 0,
        "degraded": bool(row["degraded"]) if row else False,
        "children": row["n"] if row else None,
        "reason": (row["reason"] or failure.get("message")) if row else None,
        "started_at": iso(row["started_at"]) if row else None,
        "ended_at": iso(row["ended_at"]) if row else None,
    }


def _facts(row: Row) -> JsonObject:
    return row["facts"] or {}


def _strategy(type: str) -> str | None:
    return {
        "SubtaskDegraded": "degrade",
        "SubtaskSkipped": "skip",
        "SubtaskFailed": "fail",
        "QuestionAsked": "ask",
        "QuestionAnswered": "answer",
    }.get(type)


def _flat(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return value
