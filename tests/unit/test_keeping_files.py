"""When the files of an attempt are remembered, put back and taken; and what a blocked way asks."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from fakes import Bench, FakeHost, ok, tool_order

from surefoot.graph.errors import InconsistentState, PermanentError, TransientError
from surefoot.graph.ports import Manifest, Restored, ToolReply, WorkOrder
from surefoot.graph.values import Failure, Outcome, StoredValue

WRITES = ["out/**"]


@dataclass
class Notebook:
    """A workspace that writes down what is asked of it."""

    host: FakeHost
    asked: list[str] = field(default_factory=list[str])
    paths: tuple[str, ...] = ()
    over: bool = False
    raises: dict[str, Exception] = field(default_factory=dict[str, Exception])

    async def before(
        self, subtask: str, attempt: int, writes: Sequence[str], *, goes_on: bool = False
    ) -> bool:
        self._note(f"before {subtask} {attempt}{' goes on' if goes_on else ''} {[*writes]}")
        return self.over

    async def put_back(self, subtask: str, attempt: int, *, over: bool = False) -> Restored | None:
        self._note(f"put back {subtask} {attempt}{' over' if over else ''}")
        return Restored(changed=self.paths, kept={"value": "kept"} if self.paths else None)

    async def take(self, writes: Sequence[str] | None = None) -> Manifest:
        self._note(f"take {[*(writes or ())]}")
        return Manifest(stored=StoredValue(value="taken"), files=2, bytes=7)

    async def restore(self, manifest: StoredValue, writes: Sequence[str] | None = None) -> Restored:
        raise AssertionError((manifest, writes))

    async def differences(
        self, manifest: StoredValue, writes: Sequence[str] | None = None
    ) -> list[str]:
        raise AssertionError((manifest, writes))

    async def layered(self, manifests: Sequence[StoredValue]) -> StoredValue:
        raise AssertionError(manifests)

    def _note(self, what: str) -> None:
        self.host.log.append((what.partition(" ")[0], ""))
        self.asked.append(what)
        error = self.raises.get(what.split()[0])
        if error is not None:
            raise error


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def notes(bench: Bench) -> Notebook:
    return Notebook(bench.host)


async def outcome(bench: Bench, notes: Notebook, order: WorkOrder) -> Outcome:
    runner = bench.runner(snapshots=notes)
    await runner.submit([order])
    async with asyncio.timeout(5):
        while not runner.finished():
            await runner.wait()
    (only,) = runner.finished()
    await runner.close()
    return only


def fails(_: Any) -> ToolReply:
    return ToolReply(status="error", kind="tool_error", message="it went wrong")


def writing(**more: Any) -> WorkOrder:
    given: dict[str, Any] = {"writes": WRITES, **more}
    return tool_order(**given)


async def test_without_writes_nothing_is_asked(bench: Bench, notes: Notebook) -> None:
    bench.host.add("tool", fails, effect="idempotent")
    await outcome(bench, notes, tool_order())
    await outcome(bench, notes, writing(writes=[]))
    assert notes.asked == []


async def test_a_tool_that_only_reads_writes_nothing(bench: Bench, notes: Notebook) -> None:
    bench.host.add("tool", lambda _: ok(1))
    assert "files" not in await outcome(bench, notes, writing())
    assert notes.asked == []


async def test_a_good_attempt_is_remembered_before_and_taken_after(
    bench: Bench, notes: Notebook
) -> None:
    bench.host.add("tool", lambda _: ok(1), effect="idempotent")
    done = await outcome(bench, notes, writing(writes=["${index}/*"], item=({"value": [0]}, 0)))
    assert notes.asked == ["before a 1 ['0/*']", "take ['0/*']"]
    assert [what for what, _ in bench.host.log] == ["before", "call", "take"]
    assert done.get("files") == {"manifest": {"value": "taken"}, "files": 2, "bytes": 7}
    assert "put_back" not in done


async def test_a_failed_attempt_is_put_back_before_it_is_told(
    bench: Bench, notes: Notebook
) -> None:
    bench.host.add("tool", fails, effect="idempotent")
    notes.paths = ("out/a",)
    done = await outcome(bench, notes, writing())
    assert notes.asked == ["before a 1 ['out/**']", "put back a 1 over"]
    assert done.get("put_back") == {
        "count": 1,
        "paths": ["out/a"],
        "kept": [{"value": "kept"}],
        "reason": "out/a",
    }
    assert "recovery" not in done


async def test_a_check_that_does_not_hold_puts_back_as_well(bench: Bench, notes: Notebook) -> None:
    bench.host.add("tool", lambda _: ok(1), effect="idempotent")
    check = {"type": "result", "equals": 2}
    assert not (await outcome(bench, notes, writing(success=[check])))["ok"]
    assert notes.asked[-1] == "put back a 1 over"


async def test_effects_are_taken_back_first_and_files_last(bench: Bench, notes: Notebook) -> None:
    bench.host.add("tool", lambda _: ok(1), effect="reversible", compensate=lambda _: ok())
    check = {"type": "result", "equals": 2}
    await outcome(bench, notes, writing(success=[check]))
    assert [what for what, _ in bench.host.log] == ["before", "call", "compensate", "put"]


async def test_a_cut_attempt_is_put_back_before_its_call_is_made_again(
    bench: Bench, notes: Notebook
) -> None:
    bench.host.add("tool", lambda _: ok(1), effect="idempotent")
    notes.paths = tuple(f"out/{n}" for n in range(7))
    done = await outcome(bench, notes, writing(attempt=2, recovering=True))
    assert [what for what, _ in bench.host.log] == ["before", "put", "call", "take"]
    assert notes.asked[0] == "before a 2 goes on ['out/**']"
    recovery = done.get("recovery") or {}
    assert recovery["strategy"] == "roll back to the stable point"
    assert "out/0, out/1, out/2, out/3, out/4 and 2 more" in recovery["reason"]


async def test_where_nothing_differed_the_subtask_is_just_rerun(
    bench: Bench, notes: Notebook
) -> None:
    bench.host.add("tool", lambda _: ok(1), effect="idempotent")
    done = await outcome(bench, notes, writing(recovering=True))
    assert (done.get("recovery") or {})["strategy"] == "rerun the subtask"


async def test_what_the_ledger_answers_is_left_as_the_call_wrote_it(
    bench: Bench, notes: Notebook
) -> None:
    bench.host.add("tool", lambda _: ok(1), effect="irreversible")
    await outcome(bench, notes, writing())
    notes.asked.clear()
    notes.paths = ("out/a",)
    done = await outcome(bench, notes, writing(attempt=2, recovering=True))
    assert done["ok"]
    assert len(bench.host.calls) == 1
    assert notes.asked == ["before a 2 goes on ['out/**']", "take ['out/**']"]
    assert (done.get("recovery") or {})["strategy"] == "resume at the step"


async def test_work_that_may_not_be_resumed_is_put_back_first(
    bench: Bench, notes: Notebook
) -> None:
    bench.host.add("tool", lambda _: ok(1), effect="idempotent")
    await outcome(bench, notes, writing(attempt=2, recovering=True, resumable=False))
    assert [what for what, _ in bench.host.log][:2] == ["put", "before"]


async def test_an_attempt_that_was_being_put_back_is_put_back_to_the_end(
    bench: Bench, notes: Notebook
) -> None:
    bench.host.add("tool", lambda _: ok(1), effect="idempotent")
    notes.over = True
    done = await outcome(bench, notes, writing(attempt=2, recovering=True))
    assert (done.get("failure") or {})["kind"] == "undone_halfway"
    assert bench.host.calls == []
    assert notes.asked[-1] == "put back a 2 over"


async def test_what_cannot_be_read_is_not_begun(bench: Bench, notes: Notebook) -> None:
    bench.host.add("tool", lambda _: ok(1), effect="idempotent")
    notes.raises["before"] = PermanentError("out/a cannot be read")
    failure = (await outcome(bench, notes, writing())).get("failure") or {}
    assert failure == {
        "kind": "missing_permission",
        "message": "out/a cannot be read",
        "retryable": False,
    }
    assert bench.host.calls == []


async def test_a_store_that_is_away_is_tried_again(bench: Bench, notes: Notebook) -> None:
    bench.host.add("tool", lambda _: ok(1), effect="idempotent")
    notes.raises["before"] = TransientError("the store is away")
    failure = (await outcome(bench, notes, writing())).get("failure") or {}
    assert (failure["kind"], failure["retryable"]) == ("unavailable", True)
    assert bench.host.calls == []


async def test_what_cannot_be_put_back_is_asked_about(bench: Bench, notes: Notebook) -> None:
    bench.host.add("tool", fails, effect="idempotent")
    notes.raises["put"] = TransientError("out/a cannot be put back: No space left on device")
    asked = (await outcome(bench, notes, writing())).get("question")
    assert asked is not None
    assert asked["kind"] == "undo_failed"
    assert "No space left on device" in asked["text"]
    assert asked.get("choices") == ["undone", "retry"]


async def test_what_a_person_put_right_is_not_touched(bench: Bench, notes: Notebook) -> None:
    bench.host.add("tool", fails, effect="idempotent")
    notes.raises["put"] = TransientError("blocked")
    asked = (await outcome(bench, notes, writing())).get("question")
    assert asked is not None
    failure = Failure(kind="tool_error", message="it went wrong", retryable=True)
    notes.asked.clear()
    for answer in ("undone", "retry"):
        said = {asked["id"]: {"choice": answer}}
        order = replace(writing(attempt=2), said=said, undoing=failure)
        await outcome(bench, notes, order)
    assert notes.asked == ["put back a 2 over"]  # for `retry` alone


async def test_where_nobody_may_be_asked_the_attempt_fails_for_good(
    bench: Bench, notes: Notebook
) -> None:
    bench.host.add("tool", fails, effect="idempotent")
    notes.raises["put"] = TransientError("blocked")
    failure = (await outcome(bench, notes, writing(approve="never"))).get("failure") or {}
    assert (failure["kind"], failure["retryable"]) == ("undo_failed", False)


# --- what nobody foresaw --------------------------------------------------------------------------


@pytest.mark.parametrize("bug", [OSError(40, "odd"), KeyError("odd"), TransientError("odd")])
async def test_whatever_stands_in_the_way_of_putting_back_is_asked_about(
    bench: Bench, notes: Notebook, bug: Exception
) -> None:
    bench.host.add("tool", fails, effect="idempotent")
    notes.raises = {"put": bug}
    order = writing()
    asked = await outcome(bench, notes, order)
    question = asked.get("question")
    assert question is not None and question["kind"] == "undo_failed" and "odd" in question["text"]
    assert (asked.get("failure") or {})["message"] == "it went wrong"
    answered = replace(
        order, attempt=2, recovering=True, undoing=asked.get("failure"), said={question["id"]: {}}
    )
    retried = replace(answered, said={question["id"]: {"choice": "retry"}})
    assert (await outcome(bench, notes, retried)).get("question") is not None
    notes.asked.clear()
    by_hand = replace(answered, said={question["id"]: {"choice": "undone"}})
    failed = await outcome(bench, notes, by_hand)
    assert (failed.get("failure") or {})["message"] == "it went wrong"
    assert "question" not in failed and notes.asked == []
    never = await outcome(bench, notes, writing(approve="never"))
    assert (never.get("failure") or {})["kind"] == "undo_failed"


@pytest.mark.parametrize(
    ("bug", "kind"),
    [
        (KeyError("odd"), "internal"),
        (TransientError("odd"), "unavailable"),
        (InconsistentState("odd"), "inconsistent_state"),
    ],
)
async def test_an_attempt_that_ends_in_what_nobody_foresaw_is_put_back_as_well(
    bench: Bench, notes: Notebook, bug: Exception, kind: str
) -> None:
    bench.host.add("tool", lambda _: ok(1), effect="idempotent")
    notes.raises = {"take": bug}
    failed = await outcome(bench, notes, writing())
    assert (failed.get("failure") or {})["kind"] == kind
    assert notes.asked[-1] == "put back a 1 over"
