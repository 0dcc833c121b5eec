"""`run`, `resume` and `cancel` as processes: exit codes, signals, output."""

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scenes import SUREFOOT, Done, Scene, gone, lines, subtask, task, until

from surefoot.graph.settings import Settings


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


def echo(id: str = "a", value: Any = 1, **more: Any) -> Any:
    return subtask(id, "echo", {"value": value}, **more)


def gated(scene: Scene) -> Any:
    """A task whose first subtask waits for a file, with one more behind it."""
    args = {"file": str(scene.folder / "seen"), "open": str(scene.folder / "open")}
    return task([subtask("gate", "gate", args), echo("after", depends_on=["gate"])])


def never_open(scene: Scene, **more: Any) -> Any:
    """A subtask that fails until a file is there, and leaves a line at every try."""
    args = {"file": str(scene.folder / "tries"), "open": str(scene.folder / "open")}
    return subtask("a", "works_once_open", args, **more)


async def later(scene: Scene, *words: str) -> Done:
    """A command as a process, beside the test's own loop."""
    return await asyncio.to_thread(scene.process, *words)


async def until_seen(scene: Scene) -> None:
    await until((scene.folder / "seen").exists)


async def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = await asyncio.to_thread(process.communicate, timeout=60)
    return process.returncode, out.decode(), err.decode()


def test_a_completed_run_ends_with_zero_and_says_what_it_did(scene: Scene) -> None:
    done = scene.process("run", scene.file(task([echo(), echo("b", 2)])), "--id", "t")
    assert done.code == 0, done
    *told, last = done.out.splitlines()
    assert last.startswith("completed  t  2 of 2 subtasks, 2 attempts")
    assert any("50.0 %  " in line for line in told)
    assert any(line.endswith("task completed") for line in told)


def test_quiet_prints_the_result_line_only(scene: Scene) -> None:
    done = scene.command("run", scene.file(task([echo()])), "--id", "t", "--quiet")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("completed  t  1 of 1") and done.out.count("\n") == 1


def test_json_prints_the_status_document_only(scene: Scene) -> None:
    done = scene.process("run", scene.file(task([echo()])), "--id", "t", "--json")
    assert (done.code, done.document["status"], done.document["progress"]) == (0, "completed", 1.0)
    assert scene.command("status", "t", "--json").document["id"] == "t"


def test_a_failed_run_ends_with_one_and_is_not_resumed_without_a_raised_limit(scene: Scene) -> None:
    failing = never_open(scene, retries={"max_attempts": 2, "backoff_seconds": 0})
    done = scene.command("run", scene.file(task([failing])), "--id", "t", "--quiet")
    assert done.code == 1
    assert "attempts_exhausted" in done.out
    again = scene.command("resume", "t")
    assert again.code == 1
    assert "raised limit" in again.err
    assert len(lines(scene.folder / "tries")) == 2, "nothing ran again"


def test_a_raised_limit_lets_a_failed_task_go_on(scene: Scene) -> None:
    failing = never_open(scene, retries={"max_attempts": 9, "backoff_seconds": 0})
    limited = task([failing], budget={"max_failures": 1})
    first = scene.command("run", scene.file(limited), "--id", "t", "--json")
    assert (first.code, first.document["failure"]["code"]) == (1, "too_many_failures")
    (scene.folder / "open").touch()
    second = scene.command("resume", "t", "--max-failures", "5", "--json")
    assert (second.code, second.document["status"]) == (0, "completed"), second


def test_an_invalid_file_prints_the_validators_document_and_makes_no_task(scene: Scene) -> None:
    file = scene.file(task([echo(depends_on=["nowhere"]), subtask("b", "no_such_tool")]))
    validated = scene.command("validate", file, "--json")
    ran = scene.command("run", file, "--id", "t", "--json")
    assert validated.code == ran.code == 2
    found = ran.document
    assert {k: found[k] for k in ("valid", "faults", "warnings")} == validated.document
    assert {f["code"] for f in found["faults"]} >= {"unknown_dependency", "unknown_tool"}
    assert scene.tasks() == []


@pytest.mark.parametrize("option", ["--json", "--quiet"])
def test_a_file_that_cannot_be_read_is_one_error(scene: Scene, option: str) -> None:
    scene.write("bad.yaml", "goal: [")
    for file in ("missing.yaml", "bad.yaml", "."):
        done = scene.command("run", file, option)
        assert done.code == 2
        if option == "--json":
            assert done.error["message"] and done.document["valid"] is False
        else:
            assert done.out == "" and done.err.count("\n") == 1


def test_the_same_id_goes_on_and_a_different_file_is_refused(scene: Scene) -> None:
    file = scene.file(task([subtask("a", "mark", {"file": str(scene.folder / "marks")})]))
    assert scene.command("run", file, "--id", "t").code == 0
    again = scene.command("run", file, "--id", "t", "--json")
    assert (again.code, again.document["status"]) == (0, "completed")
    assert (scene.folder / "marks").read_text() == "x\n"
    other = scene.command("run", file, "--id", "t", "--set", "goal.objective=else", "--json")
    assert (other.code, other.error["code"]) == (2, "id_taken")


def test_plan_only_prints_the_plan_and_makes_no_task(scene: Scene) -> None:
    file = scene.file(task([echo(), echo("b", depends_on=["a"])]))
    done = scene.command("run", file, "--plan-only", "--json")
    assert done.code == 0
    assert [entry["subtask"] for entry in done.document] == ["a", "b"]
    assert scene.tasks() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_finishes_the_work_in_hand_saves_and_says_how_to_go_on(
    scene: Scene, number: signal.Signals
) -> None:
    file = scene.file(gated(scene))
    with scene.started("run", file, "--id", "t") as process:
        await until_seen(scene)
        process.send_signal(number)
        await until(lambda: scene.rows("select 1 from surefoot.tasks where status = 'running'"))
        (scene.folder / "open").touch()
        code, out, _ = await ended(process)
    assert code == 3, out
    assert "surefoot resume t" in out
    status = (await later(scene, "status", "t", "--json")).document
    assert (status["status"], status["worker"]) == ("paused", {"alive": False})
    resumed = await later(scene, "resume", "t", "--json")
    assert (resumed.code, resumed.document["subtasks"]["completed"]) == (0, 2)
    assert resumed.document["attempts"] == 2


async def test_a_second_signal_stops_at_once_and_nothing_is_lost(scene: Scene) -> None:
    file = scene.file(gated(scene))
    with scene.started("run", file, "--id", "t", "--json") as process:
        await until_seen(scene)
        children = scene.rows("select worker from surefoot.tasks where id = 't'")[0]["worker"]
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        code, out, err = await ended(process)
        assert code == 3, err
        assert json.loads(out)["status"] == "paused"
    for pid, _ in children["children"]:
        await until(lambda pid=pid: gone(pid))
    (scene.folder / "open").touch()
    resumed = await later(scene, "resume", "t", "--json")
    assert (resumed.code, resumed.document["status"]) == (0, "completed")


async def test_a_held_task_is_refused_with_five_and_can_be_cancelled_from_outside(
    scene: Scene,
) -> None:
    file = scene.file(gated(scene))
    with scene.started("run", file, "--id", "t", "--json") as process:
        await until_seen(scene)
        for words in (["resume", "t"], ["run", str(file), "--id", "t"]):
            held = await later(scene, *words, "--json")
            assert (held.code, held.error["code"]) == (5, "lease_held"), held
        cancelled = await later(scene, "cancel", "t", "--json")
        assert (cancelled.code, cancelled.document["status"]) == (0, "cancelled")
        code, out, _ = await ended(process)
    assert (code, json.loads(out)["status"]) == (4, "cancelled")
    assert (await later(scene, "cancel", "t")).code == 0, "cancelling it again is no error"
    assert (await later(scene, "resume", "t", "--quiet")).code == 4


async def test_a_closed_pipe_does_not_stop_the_run(scene: Scene) -> None:
    file = scene.file(gated(scene))
    with scene.started("run", file, "--id", "t") as process:
        assert process.stdout is not None
        await until_seen(scene)
        process.stdout.close()
        process.stdout = None
        (scene.folder / "open").touch()
        _, err = await asyncio.to_thread(process.communicate, timeout=60)
        assert process.returncode == 0, err
        assert err == b""
    (row,) = scene.rows("select status from surefoot.tasks")
    assert row["status"] == "completed"


def test_a_terminal_gets_the_live_tree(scene: Scene) -> None:
    import pty

    file = scene.file(task([echo(), echo("b", depends_on=["a"])]))
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**scene.environment(), "TERM": "xterm-256color"}
        os.execve(SUREFOOT, ["surefoot", "run", str(file), "--id", "t"], environment)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0, shown.decode()
    text = shown.decode()
    assert "100.0 %" in text and "✓" in text and "completed" in text
    assert "\x1b[?25h" in text, "the cursor is shown again"


def test_goals_need_a_later_version_and_say_so(scene: Scene) -> None:
    done = scene.command("run", "--goal", "make tea", "--json")
    assert (done.code, done.error["code"]) == (2, "missing_model")


def test_an_unreachable_database_is_wrong_usage_at_the_start(scene: Scene) -> None:
    url = "postgresql://nobody:secret@127.0.0.1:1/x"
    file = scene.file(task([echo()]))
    done = scene.command("run", file, SUREFOOT_DATABASE_URL=url)
    assert done.code == 2
    assert done.err.count("\n") == 1 and "secret" not in done.err
    looked = scene.command("status", "--json", SUREFOOT_DATABASE_URL=url)
    assert looked.code == 2 and looked.error["code"]
