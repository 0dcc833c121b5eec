"""What vouches for a workspace: the newest whole, what was left since, and what nobody can know."""

from typing import Any

import pytest

from surefoot.checkpointing.manifest_layers import layered
from surefoot.checkpointing.manifests import Entry, Listing
from surefoot.graph.index import PlanIndex
from surefoot.graph.tables import Snapshot
from surefoot.graph.tool_ports import ToolSpec
from surefoot.graph.values import Record, StoredValue
from surefoot.graph.vouching import vouched

SPECS = {
    "looks": ToolSpec(name="looks", description="", schema={}, effect="read"),
    "writes": ToolSpec(name="writes", description="", schema={}, effect="idempotent"),
}
START = Snapshot(milestone="start", at=10.0, manifest=StoredValue(sha256="start"))
OF_A = StoredValue(sha256="a")


def subtask(id: str, tool: str = "writes", **more: Any) -> Any:
    return {"id": id, "kind": "tool", "tool": tool, **more}


def done(at: float, **more: Any) -> Any:
    return {"state": "completed", "attempt": 1, "ended": 1, "finished": at, **more}


def ask(subtasks: list[Any], records: dict[str, Record], *snapshots: Snapshot, **more: Any) -> Any:
    index = PlanIndex({"subtasks": subtasks, **more})
    return vouched(index, records, {}, snapshots, SPECS)


def test_without_snapshots_nothing_is_vouched_for() -> None:
    assert ask([subtask("a", writes=["a"])], {"a": done(20)}).manifests == ()


def test_a_snapshot_that_did_not_look_at_the_workspace_vouches_for_nothing() -> None:
    bare = Snapshot(milestone="start", at=10.0, manifest=StoredValue(value=None))
    assert ask([subtask("a", "looks")], {}, bare).manifests == ()


def test_the_newest_whole_is_overlaid_with_what_was_left_since() -> None:
    plan = [subtask("a", writes=["a/**"]), subtask("b", "looks")]
    found = ask(plan, {"a": done(20, files=OF_A), "b": done(30)}, START)
    assert found.manifests == (START.manifest, OF_A)
    assert found.leaving_out == ()
    older = ask(plan, {"a": done(5, files=OF_A)}, START)
    assert older.manifests == (START.manifest,)


def test_work_without_declared_paths_leaves_nothing_older_to_rely_on() -> None:
    plan = [subtask("x"), subtask("a", writes=["a/**"])]
    assert ask(plan, {"x": done(20)}, START).manifests == ()
    later = ask(plan, {"x": done(20), "a": done(30, files=OF_A)}, START)
    assert later.manifests == (OF_A,)
    before = ask(plan, {"x": done(5)}, START)
    assert before.manifests == (START.manifest,)


@pytest.mark.parametrize(
    "record", [{"state": "pending", "attempt": 1, "cut": True}, {"state": "running", "attempt": 1}]
)
def test_what_an_open_attempt_may_write_is_left_out(record: Any) -> None:
    declared = [subtask("a", writes=["a/${item}.txt", "b.txt"])]
    found = ask(declared, {"a": record}, START)
    assert found.manifests == (START.manifest,)
    assert found.leaving_out == ("a/**", "b.txt")
    assert ask([subtask("a")], {"a": record}, START).manifests == ()


def test_a_check_by_a_command_may_have_written_anything() -> None:
    check = [{"type": "command", "run": "make"}]
    assert ask([subtask("a", "looks", success=check)], {"a": done(20)}, START).manifests == ()


def test_groups_vouch_by_what_is_inside() -> None:
    inner = {"subtasks": [subtask("x", writes=["g/**"])]}
    given = [{"id": "g", "kind": "group", "plan": inner}]
    assert ask(given, {"g": done(20)}, START).leaving_out == ("g/**",)
    made = [{"id": "g", "kind": "group", "goal": {"objective": "o"}}]
    assert ask(made, {"g": done(20)}, START).manifests == ()


def test_a_later_manifest_says_all_about_what_it_is_about() -> None:
    def file(sha256: str) -> Any:
        return {"kind": "file", "mode": 0o644, "size": 1, "sha256": sha256}

    whole = Listing(entries={"a/1": file("1"), "a/2": file("2"), "b": file("3")})
    part = Listing(entries={"a/1": file("9")}, writes=("a/**",))
    assert layered([whole, part]).entries == {"a/1": file("9"), "b": file("3")}
    assert layered([whole, part]).writes is None
    assert layered([part, whole]).entries == whole.entries
    other = Listing(entries={"c": file("4")}, writes=("c",))
    assert layered([part, other]).writes == ("a/**", "c")


def test_what_was_gone_back_over_vouches_for_nothing() -> None:
    index = PlanIndex({"subtasks": [subtask("a", writes=["out/a"])], "milestones": []})
    at_m = Snapshot(milestone="m", at=30.0, manifest=StoredValue(sha256="m"))
    accepted = Snapshot(milestone="", at=35.0, manifest=StoredValue(sha256="accepted"))
    records: dict[str, Record] = {"a": {"state": "pending", "attempt": 1, "ended": 1}}
    passed: Any = {"m": {"passed": True, "at": 30.0}}

    def bases(milestones: Any, *snapshots: Snapshot, back_at: float = 0.0) -> Any:
        found = vouched(index, records, milestones, snapshots, SPECS, back_at=back_at)
        return found.manifests

    assert bases(passed, at_m, START) == (at_m.manifest,)
    assert bases({}, at_m, START, back_at=40.0) == (START.manifest,)
    assert bases(passed, accepted, at_m, START) == (accepted.manifest,)
    assert bases(passed, accepted, at_m, START, back_at=40.0) == (at_m.manifest,)


def test_a_folder_on_the_way_that_is_gone_is_not_missed_where_it_leads_to_nothing_else() -> None:
    folder = Entry(kind="dir", mode=0o755)
    file = Entry(kind="file", mode=0o644, size=1, sha256="a" * 64)
    whole = Listing(entries={"out": folder, "out/deep": folder, "out/deep/a": file, "in": folder})
    gone = Listing(entries={}, writes=("out/deep/a",))
    assert set(layered([whole, gone]).entries) == {"in"}
    beside = Listing(entries={**whole.entries, "out/b": file})
    assert set(layered([beside, gone]).entries) == {"in", "out", "out/b"}
    there = Listing(entries={"out": Entry(kind="dir", mode=0o755, way=True)}, writes=gone.writes)
    assert set(layered([whole, there]).entries) == {"in", "out"}
