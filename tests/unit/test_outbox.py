from typing import Any

from surefoot.checkpointing.journal import TaskJournal
from surefoot.checkpointing.outbox import Outbox, fenced_statement
from surefoot.checkpointing.queries import queries


def test_an_empty_outbox_is_false_and_has_no_parts() -> None:
    assert not Outbox()
    assert Outbox().parts() == ()


def test_rows_given_back_stand_before_those_queued_since() -> None:
    journal = TaskJournal("t1")
    journal.event("One")
    journal.subtask("s", state="running", step=1)
    journal.task(progress=0.1, steps=1)
    taken = journal.take()
    taken.sent = 1
    journal.event("Two")
    journal.subtask("s", state="completed")
    journal.task(progress=0.2)
    journal.give_back(taken)
    again = journal.take()
    assert [e["type"] for e in again.events] == ["One", "Two"]
    assert again.subtasks == {"s": {"id": "s", "state": "completed", "step": 1}}
    assert again.task == {"progress": 0.2, "steps": 1}
    assert again.sent == 1
    assert not journal.take()


def test_a_statement_holds_the_fence_and_the_parts_asked_for() -> None:
    statement = fenced_statement(("events", "task:progress,steps")).decode()
    assert statement.startswith("with fence as materialized (")
    # A journal knows the steps of orders; those of calls are the spending's.
    changes = "set progress = n.progress, steps = n.steps + t.call_steps, updated_at = now()"
    assert changes in statement
    assert "subtasks_in" not in statement


def test_the_largest_usual_statement_fits_psycopgs_memory() -> None:
    usual = ("checkpoint", "writes", "blobs", "subtasks", "events", "artifacts", "task:progress")
    assert len(fenced_statement(usual)) <= 4096


def test_every_query_is_named_and_free_of_comments() -> None:
    for room in ("outbox", "lease", "ledger", "tasks", "readers"):
        found = queries(room)
        assert found
        assert not any(b"--" in text or text == b"" for text in found.values())


def test_the_outbox_names_its_parts_with_the_tasks_columns() -> None:
    journal = TaskJournal("t1")
    ref: Any = {"name": "a", "sha256": "0" * 64, "size": 1, "media_type": "t"}
    journal.artifact("s", 1, ref)
    journal.task(steps=1, progress=0.5)
    outbox = journal.take()
    assert outbox.parts() == ("artifacts", "task:progress,steps")
    assert set(outbox.parameters()) == {"artifacts", "task"}
