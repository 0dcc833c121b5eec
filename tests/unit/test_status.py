"""The documents about a task, composed from rows that are written here by hand."""

from datetime import UTC, datetime
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from surefoot.graph.durations import History
from surefoot.graph.values import JsonObject
from surefoot.service.documents import (
    ends_of,
    event_entry,
    history_entry,
    matching_artifacts,
    plan_entries,
)
from surefoot.service.exits import of_task
from surefoot.service.look import is_alive
from surefoot.service.schemas import schema_of
from surefoot.service.status import StatusDocument, TaskRows, list_entry, status_document
from surefoot.service.words import duration, next_step, one_line, result_line, size

NOW = 1_000_000.0


def at(seconds: float) -> datetime:
    """A moment, in seconds from now (negative: before)."""
    return datetime.fromtimestamp(NOW + seconds, UTC)


def task_row(**changed: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": "t1",
        "name": "review",
        "status": "running",
        "stopping": False,
        "spec": {},
        "workspace": "/w",
        "concurrency": 2,
        "plan_version": 1,
        "total": 5,
        "progress": 0.41,
        "progress_at": at(-5),
        "limits": {"max_steps": 5000, "max_cost_usd": None},
        "steps": 60,
        "tokens": 0,
        "cost_usd": 0.0,
        "seconds": 12.1,
        "failures": 4,
        "failure": None,
        "milestones": {"total": 2, "passed": 1, "failed": 0, "rollbacks": 0},
        "acquired_by": "w",
        "acquired_until": at(20),
        "worker": None,
        "created_at": at(-60),
        "updated_at": at(-1),
    }
    return row | changed


def subtask_row(id: str, state: str = "completed", **changed: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": id,
        "parent": None,
        "kind": "tool",
        "state": state,
        "attempt": 1,
        "attempts": 1,
        "rung": 0,
        "degraded": False,
        "tool": "work",
        "step": 1,
        "step_state": "succeeded",
        "since": None,
        "started_at": at(-10),
        "ended_at": at(-8) if state == "completed" else None,
        "result": None,
        "failure": None,
        "reason": None,
        "n": None,
    }
    return row | changed


PLAN: JsonObject = {
    "phases": [{"id": "p"}],
    "subtasks": [
        {"id": "list", "kind": "tool", "tool": "work", "phase": "p"},
        {"id": "review", "kind": "foreach", "each": {"kind": "tool", "tool": "work"}},
        {"id": "report", "kind": "tool", "tool": "work", "depends_on": ["list", "review"]},
    ],
    "milestones": [{"id": "m", "after": "p"}],
}
SUBTASKS = [
    subtask_row("list"),
    subtask_row("review", "running", kind="foreach", n=3, attempts=0, tool=None),
    subtask_row("review/0", attempts=2, attempt=2, degraded=True, reason="simple"),
    subtask_row("review/1", "skipped", attempts=1),
    subtask_row("review/2", "running", attempts=0, step_state="calling", since=at(-3)),
]


def document(task: dict[str, Any] | None = None, **rows: Any) -> StatusDocument:
    given: dict[str, Any] = {"task": task or task_row(), "plan": PLAN, "subtasks": SUBTASKS}
    given |= rows
    return status_document(TaskRows(**given), now=NOW, alive=True)


def test_status_counts_leaves_and_not_containers() -> None:
    assert document()["subtasks"] == {
        "total": 5,
        "pending": 1,
        "running": 1,
        "completed": 2,
        "failed": 0,
        "skipped": 1,
    }


def test_current_lists_running_leaves_only() -> None:
    (current,) = document()["current"]
    assert (current["subtask"], current["tool"], current["step_state"]) == (
        "review/2",
        "work",
        "calling",
    )
    assert current["since"] == "1970-01-12T13:46:37.000Z"


def test_retry_rate_is_retries_over_leaves_attempted() -> None:
    shown = document()
    assert shown["attempts"] == 1 + 2 + 1
    assert shown["retry_rate"] == round((4 - 3) / 3, 3)
    assert shown["degraded"] == ["review/0"]


def test_status_fits_its_own_schema() -> None:
    schema = schema_of("status")
    validator: Any = Draft202012Validator(schema)
    validator.check_schema(schema)
    validator.validate(document())


def test_a_completed_task_has_progress_one_and_nothing_left() -> None:
    shown = document(task_row(status="completed", progress=0.9999))
    assert (shown["progress"], shown["eta_seconds"]) == (1.0, {"low": 0.0, "high": 0.0})


def test_a_failed_task_says_why_and_names_no_time() -> None:
    failure = {"code": "deadline", "message": "too late", "subtask": None}
    shown = document(task_row(status="failed", failure=failure))
    assert shown["failure"] == failure
    assert shown["eta_seconds"] is None


def test_time_left_is_unknown_until_something_is_known() -> None:
    assert document(subtasks=[])["eta_seconds"] is None
    known = document(subtasks=[], history={"work": History(n=9, log_mean=0.0, log_m2=0.5)})
    assert known["eta_seconds"] is not None


@pytest.mark.parametrize(
    ("since", "estimate", "stalled"),
    [(-599, None, False), (-601, None, True), (-1700, 600, False), (-1900, 600, True)],
)
def test_a_task_is_stalled_after_ten_minutes_or_three_estimates(
    since: float, estimate: float | None, stalled: bool
) -> None:
    plan: JsonObject = {"subtasks": [{"id": "a", "kind": "tool", "estimated_seconds": estimate}]}
    rows = {"plan": plan, "subtasks": [subtask_row("a", "running")]}
    assert document(task_row(progress_at=at(since)), **rows)["stalled"] is stalled
    paused = task_row(progress_at=at(since), status="paused")
    assert document(paused, **rows)["stalled"] is False


def test_before_the_plan_is_accepted_everything_is_pending() -> None:
    shown = document(task_row(status="queued", milestones={}, limits={}), subtasks=[])
    assert shown["subtasks"]["pending"] == shown["subtasks"]["total"] == 3
    assert shown["milestones"]["total"] == 1


def test_only_open_questions_are_shown() -> None:
    question = {"id": "q", "subtask": "list", "kind": "ask", "text": "Which?"}
    rows = [question | {"open": True, "id": "q1"}, question | {"open": False, "id": "q2"}]
    assert [q["id"] for q in document(questions=rows)["questions"]] == ["q1"]


def test_a_worker_is_alive_while_its_lease_is_fresh() -> None:
    assert is_alive(task_row(), NOW)
    assert not is_alive(task_row(acquired_until=at(-1)), NOW)
    assert not is_alive(task_row(acquired_until=None), NOW)


def test_a_dead_process_of_this_machine_is_not_alive_however_fresh_its_lease() -> None:
    from surefoot.checkpointing.incarnation import Worker

    here = Worker.this_process().as_json()
    assert is_alive(task_row(worker=here), NOW)
    assert not is_alive(task_row(worker=here | {"started": 1.0}), NOW)


def event_row(type: str, **changed: Any) -> dict[str, Any]:
    row = {"id": 7, "task_id": "t1", "time": at(0), "type": type, "subtask": None, "attempt": None}
    return row | {"facts": None} | changed


def test_an_event_is_flat_and_names_what_applies() -> None:
    row = event_row("AttemptFailed", subtask="review/1", attempt=2, facts={"reason": "no"})
    entry = event_entry(row, phases={"review": "p"})
    assert entry == {
        "id": 7,
        "time": "1970-01-12T13:46:40.000Z",
        "task": "t1",
        "subtask": "review/1",
        "attempt": 2,
        "type": "AttemptFailed",
        "phase": "p",
        "from": "running",
        "to": "pending",
        "reason": "no",
    }


def test_facts_that_are_no_plain_values_become_text() -> None:
    entry = event_entry(event_row("PlanRejected", facts={"faults": [{"code": "cycle"}], "id": 9}))
    assert entry["faults"] == '[{"code":"cycle"}]'
    assert entry["id"] == 7


def test_history_names_strategy_and_reason_and_leaves_routine_out() -> None:
    assert history_entry(event_row("SubtaskStarted", subtask="a")) is None
    retry = history_entry(event_row("AttemptFailed", facts={"reason": "no", "choice": "retry"}))
    assert retry is not None
    assert (retry["strategy"], retry["reason"]) == ("retry", "no")
    skipped = history_entry(event_row("SubtaskSkipped", facts={"reason": "null"}))
    assert skipped is not None
    assert skipped["strategy"] == "skip"


def test_plan_entries_carry_states_and_inner_subtasks() -> None:
    inner: JsonObject = {"subtasks": [{"id": "x", "kind": "tool"}]}
    plan: JsonObject = {"subtasks": [{"id": "g", "kind": "group", "plan": inner}]}
    entries = plan_entries(plan, {"g/x": subtask_row("g/x", "failed", failure={"message": "no"})})
    assert [(e["subtask"], e["state"], e["reason"]) for e in entries] == [
        ("g", "pending", None),
        ("g/x", "failed", "no"),
    ]


def test_a_plan_leads_to_what_nothing_depends_on() -> None:
    assert ends_of(PLAN) == ["report"]


def test_artifacts_are_found_by_full_name_and_by_bare_name() -> None:
    rows: list[dict[str, Any]] = [
        {"subtask": "review/0", "name": "finding.json"},
        {"subtask": "review/1", "name": "finding.json"},
    ]
    assert len(matching_artifacts(rows, "finding.json")) == 2
    assert matching_artifacts(rows, "review/1/finding.json") == rows[1:]


def test_a_list_entry_is_flat() -> None:
    failure = {"code": "stuck", "message": "m", "subtask": None}
    entry = list_entry(task_row(status="failed", failure=failure), alive=False)
    assert entry["failure"] == "stuck"
    assert not any(isinstance(value, dict | list) for value in entry.values())


@pytest.mark.parametrize(
    ("status", "code"),
    [("completed", 0), ("failed", 1), ("paused", 3), ("waiting", 3), ("cancelled", 4)],
)
def test_run_and_resume_mirror_the_task(status: str, code: int) -> None:
    assert of_task({"status": status}) == code


def test_a_person_is_told_how_to_go_on() -> None:
    failure = {"code": "deadline", "message": "too late", "subtask": None}
    failed = document(task_row(status="failed", failure=failure))
    assert "deadline: too late" in result_line(failed)
    assert "--max-seconds" in (next_step(failed) or "")
    failure = {"code": "budget_exhausted", "message": "more are needed; max_cost_usd is 2"}
    poor = document(task_row(status="failed", failure=failure | {"subtask": None}))
    assert (next_step(poor) or "").endswith("surefoot resume t1 --max-cost-usd N")
    assert next_step(document(task_row(status="paused"))) == "go on with: surefoot resume t1"
    assert next_step(document(task_row(status="completed"))) is None
    stopping = document(task_row(status="running")) | {"stopping": True}
    assert result_line(stopping).startswith("running (stopping)  t1")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3599, "60 min"),
        (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
        (-1, "0.0 s"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("n", "said"), [(999, "999 B"), (4100, "4.1 kB"), (12_400_000, "12 MB"), (3e12, "3000 GB")]
)
def test_sizes_are_said_with_a_unit(n: int, said: str) -> None:
    assert size(n) == said


def test_one_line_shows_what_a_terminal_would_obey() -> None:
    assert one_line("a\n b\x1b[31m\x00\ud800") == "a b\\x1b[31m\\x00\\ud800"
