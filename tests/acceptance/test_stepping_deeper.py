"""Stepping in with the real command: inside groups, across kills, and into large plans."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from scenes import Scene, lines, subtask, task, until
from stepping import events, failed_task, gated, mark, opens, resumed, used_values

from surefoot.graph.errors import UsageError
from surefoot.graph.settings import Settings


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


# --- inside groups -----------------------------------------------------------------------------


def group(id: str, *subtasks: Any, needs: tuple[str, ...] = (), **more: Any) -> Any:
    plan = {"subtasks": list(subtasks)}
    return {"id": id, "kind": "group", "plan": plan, "depends_on": list(needs), **more}


def test_a_failed_group_goes_on_where_a_person_mended_it(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    inner = [mark(log, "a"), opens(log, gate, "b", "a"), mark(log, "c", "b")]
    plan = [group("g", *inner), mark(log, "after", "g")]
    assert scene.command("run", scene.file(task(plan)), "--id", "t").code == 1
    for id in ("g/nobody", "g/b/c", "after/b"):
        refused = scene.command("skip", "t", id, "--json")
        assert refused.code_and_error == (2, "unknown_subtask"), id
    assert scene.command("retry", "t", "g/a", "--json").code_and_error == (2, "wrong_state")
    gate.touch()
    done = scene.command("retry", "t", "g/b", "--json")
    assert (done.code, done.document) == (
        0,
        {"applied": "retry", "subtask": "g/b", "reopened": ["g/b"]},
    )
    status = scene.command("status", "t", "--json").document
    assert (status["status"], status["failure"]) == ("paused", None)
    assert resumed(scene)["status"] == "completed"
    assert lines(log) == ["a", "x", "x", "c", "after"]


def test_a_group_that_means_what_it_meant_before_an_edit_has_lost_nothing(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    """Each meaning has a thread of its own; the way back leads to the one of before the edit."""
    gate = tmp_path / "open"
    made = subtask("made", "echo", {"value": 1})
    inner = [subtask("uses", "echo", {"value": "${inputs.v}"}), mark(log, "in", "uses")]
    plan = [
        made,
        group("g", *inner, needs=("made",), inputs={"v": "${made}"}),
        opens(log, gate, "after", "g"),
    ]
    assert scene.command("run", scene.file(task(plan)), "--id", "t").code == 1
    scene.write("two.json", "2")
    assert scene.command("edit", "t", "made", "--result", "two.json").code == 0
    gate.touch()
    assert resumed(scene)["status"] == "completed"
    assert scene.command("result", "t", "g/uses").document == 2
    assert scene.command("rollback", "t", "start").code == 0
    assert resumed(scene)["status"] == "completed"
    assert scene.command("result", "t", "g/uses").document == 1
    assert lines(log) == ["in", "x", "in", "x", "in", "x"]
    assert events(scene, "StateRebuilt") == []
    attempts = scene.rows("select attempt from surefoot.subtasks where id = 'g/in'")
    assert attempts == [{"attempt": 3}]


def test_an_edit_inside_a_completed_group_works_out_its_end_anew(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    inner = [
        subtask("made", "echo", {"value": 1}),
        subtask("uses", "echo", {"value": "${made}"}, depends_on=["made"]),
        mark(log, "apart"),
    ]
    plan = [
        group("g", *inner, outputs={"n": "${uses}"}),
        subtask("sum", "echo", {"value": "${g.n}"}, depends_on=["g"]),
        opens(log, tmp_path / "open", "last", "sum"),
    ]
    assert scene.command("run", scene.file(task(plan)), "--id", "t").code == 1
    scene.write("two.json", "2")
    done = scene.command("edit", "t", "g/made", "--result", "two.json", "--json")
    assert (done.code, done.document["reopened"]) == (0, ["g/uses", "sum"]), done
    assert scene.command("retry", "t", "last").code == 0
    (tmp_path / "open").touch()
    assert resumed(scene)["status"] == "completed"
    assert scene.command("result", "t", "sum").out.strip() == "2"
    assert sorted(lines(log)) == ["apart", "x", "x"]


def test_what_stands_deep_inside_is_reached_by_its_full_id(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    each = {
        "kind": "group",
        "plan": {"subtasks": [group("deep", opens(log, tmp_path / "open", "leaf"))]},
    }
    many = {"id": "many", "kind": "foreach", "for_each": [1], "each": each}
    plan = [many, subtask("end", "echo", {"value": 1}, depends_on=["many"])]
    assert scene.command("run", scene.file(task(plan, concurrency=1)), "--id", "t").code == 1
    done = scene.command("skip", "t", "many/0/deep/leaf", "--json")
    assert (done.code, done.document["subtask"]) == (0, "many/0/deep/leaf"), done
    (tmp_path / "open").touch()
    status = resumed(scene)
    assert (status["status"], status["subtasks"]["skipped"]) == ("completed", 1)


async def test_a_group_that_runs_applies_what_is_for_its_inside(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    inner = [gated(log, tmp_path / "never"), mark(log, "later", "gate")]
    plan = [group("g", group("deep", *inner), mark(log, "beside")), mark(log, "after", "g")]
    async with scene.client() as holder, scene.client() as other:
        running = asyncio.create_task(holder.run(task(plan), id="t"))
        await until(lambda: "gate" in lines(log) and "beside" in lines(log))
        with pytest.raises(UsageError) as refused:
            await other.skip("t", "g/deep/nobody")
        assert refused.value.code == "unknown_subtask"
        assert (await other.skip("t", "g/deep/later"))["subtask"] == "g/deep/later"
        assert (await other.skip("t", "g/deep/gate"))["subtask"] == "g/deep/gate"
        status = await running
    assert (status["status"], status["subtasks"]["skipped"]) == ("completed", 2)
    assert sorted(lines(log)) == ["after", "beside", "gate"]


# --- kills and sizes ---------------------------------------------------------------------------


def test_a_command_whose_sender_was_killed_is_applied_once_by_the_next_go(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    failed_task(scene, log, tmp_path / "open")
    scene.rows(
        "insert into surefoot.commands (task_id, name, args, by) values"
        " ('t', 'skip', '{\"subtask\": \"b\"}', 'person')"
    )
    assert scene.command("skip", "t", "c").code == 0
    status = resumed(scene)
    assert (status["status"], status["subtasks"]["skipped"]) == ("completed", 2)
    assert lines(log) == ["a", "x"]
    told = events(scene, "SubtaskSkipped")
    assert [event["subtask"] for event in told] == ["b", "c"]
    open_ones = scene.rows("select 1 from surefoot.commands where applied_at is null")
    assert open_ones == []


def test_a_holder_killed_with_a_command_in_hand_loses_nothing_and_repeats_nothing(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    plan = [gated(log, gate), mark(log, "b", "gate"), mark(log, "c", "b")]
    with scene.started("run", scene.file(task(plan)), "--id", "t") as process:
        asyncio.run(until(lambda: "gate" in lines(log)))
        with scene.started("skip", "t", "b") as skipping:
            asyncio.run(until(lambda: scene.rows("select 1 from surefoot.commands")))
            process.kill()
            skipping.wait(timeout=120)
    gate.touch()
    status = resumed(scene)
    assert (status["status"], status["subtasks"]["skipped"]) == ("completed", 1)
    assert lines(log).count("c") == 1 and "b" not in lines(log)
    assert len(events(scene, "SubtaskSkipped")) == 1


def test_an_edit_outlives_the_death_of_all_before_its_users_were_taken_back(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    given = scene.file(task([*used_values(log), gated(log, gate)]))
    done = "select 1 from surefoot.subtasks where id = 'uses_more' and state = 'completed'"
    scene.write("new.json", '{"x": 2}')
    with scene.started("run", given, "--id", "t") as process:
        asyncio.run(until(lambda: scene.rows(done) and "gate" in lines(log)))
        with scene.started("edit", "t", "made", "--result", "new.json") as editing:
            asyncio.run(until(lambda: events(scene, "SubtaskEdited")))
            assert editing.poll() is None  # what used it is not taken back while the gate runs
            editing.kill()
            process.kill()
            process.wait()
    gate.touch()
    assert resumed(scene)["status"] == "completed"
    assert lines(log).count("uses") == 2
    assert scene.command("result", "t", "made", "--json").document == {"x": 2}
    assert len(events(scene, "SubtaskEdited")) == 1
    assert scene.rows("select 1 from surefoot.commands where applied_at is null") == []


def test_a_plan_of_a_thousand_is_stepped_into_at_once(
    scene: Scene, log: Path, tmp_path: Path
) -> None:
    wide = [subtask(f"w{n}", "echo", {"value": "${made}"}, depends_on=["made"]) for n in range(998)]
    plan = [subtask("made", "echo", {"value": 1}), *wide, opens(log, tmp_path / "open", "last")]
    needs = [one["id"] for one in wide]
    plan[-1]["depends_on"] = needs
    assert scene.command("run", scene.file(task(plan, concurrency=8)), "--id", "t").code == 1
    scene.write("two.json", "2")
    done = scene.command("edit", "t", "made", "--result", "two.json", "--json")
    assert done.document["reopened"] == needs
    assert scene.command("skip", "t", "w500").code == 0
    assert scene.command("skip", "t", "last").code == 0
    status = resumed(scene)
    assert (status["status"], status["subtasks"]["skipped"]) == ("completed", 2)
    assert scene.command("result", "t", "w7").out.strip() == "2"
