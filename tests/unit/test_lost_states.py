"""States made anew, upgraded, and threads that lost something: the pure parts."""

from typing import Any, cast

import pytest

from surefoot.graph.agent_threads import lost_steps
from surefoot.graph.errors import UsageError
from surefoot.graph.head import pin
from surefoot.graph.index import PlanIndex
from surefoot.graph.rebuilding import rebuilt
from surefoot.graph.state import (
    GRAPH_VERSION,
    TaskState,
    merge_decisions,
    merge_milestones,
    merge_records,
)
from surefoot.graph.subtask_state import append_calls, merge_named
from surefoot.graph.tables import Saved, Snapshot, Tally
from surefoot.graph.thread_names import AgentThread, GroupThread, thread_of_name
from surefoot.graph.upgrades import changed_channels, upgraded
from surefoot.graph.values import Record
from surefoot.graph.whole_states import ESSENTIAL, behind, is_whole, may_be_behind, tally_of

EACH = {"kind": "tool", "tool": "t"}
PLAN: Any = {
    "version": 1,
    "subtasks": [
        {"id": "a", "kind": "tool"},
        {"id": "f", "kind": "foreach", "each": EACH, "depends_on": ["a"]},
        {"id": "ag", "kind": "agent"},
    ],
    "milestones": [{"id": "m", "after": "a"}],
}
GOAL = {"objective": "o"}


def row(state: str = "pending", attempt: int = 0, attempts: int = 0, **more: Any) -> Any:
    blank = dict.fromkeys(
        "result failure reason marks n not_before started_at ended_at".split(), None
    )
    return {
        **blank,
        **{"state": state, "attempt": attempt, "attempts": attempts, "rung": 0, "kind": "tool"},
        **more,
    }


def anew(saved: Saved, state: Any = None, task: Any = None, **columns: Any) -> Any:
    found = cast("TaskState", {"task": {"goal": GOAL}, **(state or {})})
    return cast("Any", rebuilt(found, saved, {"status": "running", **columns}))


def test_what_is_done_stays_done_with_its_result_and_artifacts() -> None:
    ref: Any = {"name": "x", "sha256": "s", "size": 1, "media_type": "m"}
    done = row("completed", 2, 2, result={"value": 7}, started_at=1.0, ended_at=2.0)
    state = anew(Saved(plan=PLAN, rows={"a": done}, artifacts={"a": [ref]}))
    assert state["records"]["a"] == {
        **{"state": "completed", "attempt": 2, "ended": 2, "started": 1.0, "finished": 2.0},
        **{"result": {"value": 7}, "artifacts": [ref]},
    }


def test_what_was_running_is_a_cut_attempt_that_keeps_its_number_and_thread() -> None:
    rows = {"a": row("running", 3, 2), "ag": row("running", 4, 1, kind="agent")}
    state = anew(Saved(plan=PLAN, rows=rows, gos={"ag": 2}))
    assert state["records"]["a"] == {
        **{"state": "pending", "attempt": 3, "ended": 2, "tries": 2, "cut": True}
    }
    assert state["records"]["ag"]["go"] == 2


def test_an_expanded_foreach_keeps_its_list_and_its_children() -> None:
    rows = {
        "a": row("completed", 1, 1),
        "f": row("running", kind="foreach", n=2),
        "f/0": row("completed", 1, 1, result={"value": 1}),
    }
    facts = {"n": 2, "items": {"value": [1, 2]}, "serial": True}
    told = [{"type": "SubtaskExpanded", "subtask": "f", "time": 1.0, "facts": facts}]
    records = anew(Saved(plan=PLAN, rows=rows, events=told))["records"]
    assert records["f"]["state"] == "running"
    assert (records["f"]["n"], records["f"]["items"], records["f"]["serial"]) == (
        *(2, {"value": [1, 2]}, True),
    )
    assert records["f/0"]["state"] == "completed"


def test_a_record_of_a_snapshot_counts_where_the_row_says_the_same() -> None:
    kept = {"state": "completed", "attempt": 1, "ended": 1, "result": {"value": 1}, "edited": True}
    point = Snapshot(milestone="m", at=5.0, manifest={"value": None}, state={"sha256": "doc"})
    retried = {"at": 1.0, "kind": "retry", "subtask": "a", "reason": "r"}
    document = {"records": {"a": kept}, "decisions": {"0": retried}, "milestones": {}}
    saved = Saved(plan=PLAN, rows={"a": row("completed", 1, 1)}, points=[(point, document)])
    state = anew(saved)
    assert state["records"]["a"]["edited"]
    assert state["decisions"] == {"0": retried}
    newer = Saved(plan=PLAN, rows={"a": row("completed", 2, 2)}, points=[(point, document)])
    assert "edited" not in anew(newer)["records"]["a"]


def test_a_milestone_is_passed_where_it_was_told_and_its_work_is_done() -> None:
    told = [{"type": "MilestonePassed", "subtask": None, "time": 5.0, "facts": {"milestone": "m"}}]
    point = Snapshot(milestone="m", at=5.0, manifest={"sha256": "w"}, state={"sha256": "doc"})
    saved = Saved(
        plan=PLAN,
        rows={"a": row("completed", 1, 1)},
        events=told,
        points=[(point, {"records": {}})],
    )
    milestone = anew(saved)["milestones"]["m"]
    assert milestone["passed"]
    assert (milestone["snapshot"], milestone["manifest"]) == ({"sha256": "doc"}, {"sha256": "w"})
    undone = Saved(plan=PLAN, rows={"a": row()}, events=told)
    assert anew(undone)["milestones"] == {}
    back: Any = [*told, {"type": "RolledBack", "subtask": None, "time": 6.0, "facts": {}}]
    taken_back = Saved(plan=PLAN, rows={"a": row("completed", 1, 1)}, events=back)
    assert anew(taken_back)["milestones"] == {}


@pytest.mark.parametrize(
    ("subtask", "passed", "holds"), [(None, [], False), (None, ["m"], True), ("g", [], True)]
)
def test_a_later_snapshot_does_not_pass_a_milestone_whose_work_is_done_again(
    subtask: str | None, passed: list[str], holds: bool
) -> None:
    """Reopened: what it covers; something else; what is inside a group."""
    told: list[Any] = [
        {"type": "MilestonePassed", "subtask": None, "time": 5.0, "facts": {"milestone": "m"}},
        {"type": "SubtasksReopened", "subtask": subtask, "time": 7.0, "facts": {"passed": passed}},
    ]
    later = Snapshot(milestone="n", at=6.0, manifest={"sha256": "w"}, state={"sha256": "doc"})
    document = {"milestones": {"m": {"id": "m", "passed": True, "at": 5.0, "number": 1}}}
    saved = Saved(plan=PLAN, rows={"a": row()}, events=told, points=[(later, document)])
    assert anew(saved)["milestones"]["m"]["passed"] is holds


def test_the_goal_is_the_pinned_one_or_what_was_told_of_it() -> None:
    pinned = pin({"objective": "pinned"})
    assert anew(Saved(plan=PLAN), pinned)["goal"] == {"objective": "pinned"}
    told = [
        {"type": "GoalPinned", "subtask": None, "facts": {"acceptance": [{"type": "file"}]}},
        {"type": "PlanReplaced", "subtask": None, "facts": {"require": "more", "by": "person"}},
    ]
    state = anew(Saved(plan=PLAN, events=told))
    assert state["goal"] == {**GOAL, "acceptance": [{"type": "file"}], "amendments": ["more"]}
    assert state["head"] == pin(state["goal"])["head"]
    assert state["replans"]["used"] == 0


def test_a_failed_task_stays_failed_and_a_running_one_has_no_ending() -> None:
    failure = {"code": "stuck", "message": "m", "subtask": None}
    state = anew(Saved(plan=PLAN), status="failed", failure=failure)
    assert (state["status"], state["ending"]) == ("failed", failure)
    assert anew(Saved(plan=PLAN))["ending"] is None


def test_a_state_made_anew_is_whole_and_not_behind() -> None:
    rows = {"a": row("completed", 1, 1), "ag": row("running", 1, 0)}
    state = anew(Saved(plan=PLAN, rows=rows))
    assert is_whole(state, planned=True)
    assert behind(state["records"], rows, PlanIndex(PLAN)) == []


@pytest.mark.parametrize("lost", [*ESSENTIAL, "plan"])
def test_a_state_that_lacks_a_channel_is_not_whole(lost: str) -> None:
    state = anew(Saved(plan=PLAN))
    del state[lost]
    assert not is_whole(state, planned=True)


@pytest.mark.parametrize(
    ("record", "of_row", "is_behind"),
    [
        ({"state": "completed", "attempt": 1, "ended": 1}, row("completed", 1, 1), False),
        ({"state": "running", "attempt": 2, "ended": 1}, row("pending", 1, 1), False),
        ({"state": "pending", "attempt": 1, "ended": 1}, row("running", 1, 1), False),
        ({"state": "running", "attempt": 1, "ended": 0}, row("completed", 1, 1), True),
        ({}, row("completed", 1, 1), True),
        ({}, row("running", 1, 0), True),
        ({"state": "pending", "attempt": 1, "ended": 0}, row("pending", 1, 1), True),
        ({"state": "completed", "attempt": 1, "ended": 1}, row("skipped", 1, 1), True),
    ],
)
def test_a_record_is_behind_where_its_row_knows_more(
    record: Record, of_row: Any, is_behind: bool
) -> None:
    index = PlanIndex(PLAN)
    assert behind({"a": record}, {"a": of_row}, index) == (["a"] if is_behind else [])


@pytest.mark.parametrize(
    ("rows", "may_be"),
    [
        (Tally(done=1, ended=2, attempts=3), False),
        (Tally(done=1, ended=2, attempts=2), False),
        (Tally(done=2, ended=2, attempts=3), True),
        (Tally(done=1, ended=3, attempts=3), True),
        (Tally(done=1, ended=2, attempts=4), True),
    ],
)
def test_sums_of_the_rows_say_whether_each_must_be_looked_at(rows: Tally, may_be: bool) -> None:
    records: Any = {
        "a": {"state": "completed", "attempt": 1, "ended": 1},
        "ag": {"state": "running", "attempt": 2, "ended": 1},
        "gone": {"state": "completed", "attempt": 9, "ended": 9},
    }
    assert may_be_behind(tally_of(records, PlanIndex(PLAN)), rows) == may_be


def test_rows_of_what_is_not_in_the_plan_any_more_say_nothing() -> None:
    assert behind({}, {"gone": row("completed", 1, 1)}, PlanIndex(PLAN)) == []


# --- versions --------------------------------------------------------------------------------


def test_an_older_state_is_upgraded_step_by_step_and_a_present_one_is_itself() -> None:
    old = cast("TaskState", {"graph_version": 1, "goal": GOAL})
    new = upgraded(old)
    assert new.get("graph_version") == GRAPH_VERSION
    assert changed_channels(old, new).keys() == {"graph_version", "rollbacks", "applied"}
    assert upgraded(new) is new

    def five(state: TaskState) -> TaskState:
        return {**state, "goal": {"was": 5}}

    def six(state: TaskState) -> TaskState:
        return {**state, "goal": {**(state.get("goal") or {}), "then": 6}}

    steps = {5: five, 6: six}
    far = upgraded(cast("TaskState", {"graph_version": 5}), to=7, upgrades=steps)
    assert far == {"graph_version": 7, "goal": {"was": 5, "then": 6}}


@pytest.mark.parametrize(
    ("version", "text"), [(99, "newer program"), (0, "cannot take it up"), (None, "newer")]
)
def test_a_version_without_a_way_is_refused(version: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        upgraded(cast("TaskState", {"graph_version": version}))


# --- threads ---------------------------------------------------------------------------------

SAID: Any = [{"role": "assistant", "content": "x"}]
CALLED: Any = [{"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}]


@pytest.mark.parametrize(
    ("state", "lost"),
    [
        ({}, "nothing of its thread is left"),
        ({"step": 2, "history": {"1": SAID, "2": SAID}}, ""),
        ({"step": 2, "history": {"2": SAID}}, "step 1 of 2 is missing from its thread"),
        ({"step": 2}, "step 1 of 2 is missing from its thread"),
        ({"step": 4, "folded": 3, "history": {"0": SAID, "4": SAID}}, ""),
        (
            {"step": 4, "folded": 3, "history": {"4": SAID}},
            "step 0 of 4 is missing from its thread",
        ),
        ({"step": 1, "history": {"1": CALLED}}, "the calls that it wants are missing"),
        ({"step": 1, "history": {"1": CALLED}, "wanted": []}, ""),
    ],
)
def test_an_agents_thread_is_whole_with_every_step(state: Any, lost: str) -> None:
    assert lost_steps(state) == lost


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("t/a/1", AgentThread("a", 1)),
        ("t/a/12:3", AgentThread("a", 12)),
        ("t/g/2/5", AgentThread("g/2", 5)),
        ("t/g:0123456789ab", GroupThread("g")),
        ("t/g/2:012345678901", GroupThread("g/2")),
    ],
)
def test_a_threads_name_says_whose_it_is(name: str, meant: Any) -> None:
    assert thread_of_name("t", name) == meant


def test_the_mark_of_a_snapshot_that_is_gone_is_seen_and_never_taken_for_a_value() -> None:
    mark: Any = True
    for reducer in (merge_records, merge_milestones, merge_decisions, merge_named):
        assert reducer(mark, [{"1": {}}]) is mark
    assert append_calls(mark, [[]]) is mark
    state: Any = {**dict.fromkeys(ESSENTIAL), "records": {}, "milestones": mark}
    assert not is_whole(state, planned=False)
    whole: Any = {**state, "milestones": {}}
    assert is_whole(whole, planned=False)
    assert anew(Saved(plan=PLAN), {"records": mark, "decisions": mark})["decisions"] == {}
    assert lost_steps({"step": 1, "history": mark}) == "the snapshot of its history is gone"


def test_what_was_taken_back_last_is_done_from_scratch_whatever_is_left_of_it() -> None:
    plan: Any = {**PLAN, "subtasks": [*PLAN["subtasks"], {"id": "g", "kind": "group"}]}
    facts: Any = {"again": {"ag": 2, "g": 3, "a": 1}, "inside": {"g": {"value": {}}}}
    back: Any = {"type": "RolledBack", "subtask": None, "time": 1.0, "facts": facts}
    rows: Any = {
        "ag": row(attempt=2, attempts=1),
        "g": row("running", 4),
        "a": row("completed", 2, 2),
    }
    old: Any = {"ag": Record(state="pending", attempt=2, ended=1, cut=True, go=1, args={"x": 1})}
    state = anew(Saved(plan=plan, rows=rows, events=[back], gos={"ag": 1}), {"records": old})
    assert state["records"]["ag"] == {
        **{"state": "pending", "attempt": 2, "ended": 1, "tries": 0},
        "args": {"x": 1},
    }
    group = state["records"]["g"]
    assert (group["attempt"], group["taken_back"], group["inside"]) == (4, 3, {"value": {}})
    assert state["records"]["a"]["state"] == "completed"


def test_ways_back_that_were_told_of_are_decisions_and_count() -> None:
    def back(by: str, milestone: str) -> Any:
        facts = {"by": by, "milestone": milestone, "reason": "no good"}
        return {"type": "RolledBack", "subtask": None, "time": 9.0, "facts": facts}

    known = {"3": {"at": 1.0, "kind": "rollback", "subtask": None, "reason": "known"}}
    told = [back("milestone", "m"), back("person", "start"), back("milestone", "g/inner")]
    state = anew(Saved(plan=PLAN, events=told), {"decisions": known, "rollbacks": 1})
    assert state["rollbacks"] == 1
    assert [state["decisions"][n]["reason"] for n in "01"] == [
        "known",
        "back to 'start' (person): no good",
    ]
    assert anew(Saved(plan=PLAN, events=told))["rollbacks"] == 1


def test_an_attempt_that_is_not_over_was_cut_though_a_pause_made_its_row_pending() -> None:
    failed: Any = {"type": "AttemptFailed", "subtask": "a", "attempt": 2, "time": 1.0, "facts": {}}
    over = anew(Saved(plan=PLAN, rows={"a": row(attempt=2, attempts=1)}, events=[failed]))
    assert "cut" not in over["records"]["a"]
    paused = anew(Saved(plan=PLAN, rows={"a": row(attempt=3, attempts=1)}, events=[failed]))
    assert paused["records"]["a"]["cut"]
    agent = row(attempt=3, attempts=2, kind="agent")
    begun = anew(
        Saved(plan=PLAN, rows={"ag": agent}, events=[{**failed, "subtask": "ag"}], gos={"ag": 1})
    )
    assert begun["records"]["ag"]["go"] == 3, "the thread of an attempt that failed"
    assert "cut" not in anew(Saved(plan=PLAN, rows={"a": row()}))["records"]["a"]
