"""D01, D02: NUL characters and lone surrogates, wherever text comes in and wherever it goes."""

import asyncio
import json
from pathlib import Path

import pytest
from scenes import SCENE_TOOLS, Scene, lines, subtask, task, until

from surefoot.graph.plain import compact_json
from surefoot.graph.settings import Settings

NUL, HALF = "a\\u0000b", "x\\ud83dy"
"""What `scene_tools.NUL` and `.HALF` look like once they are plain."""
RAW = b"caf\xe9 \x00 \xff"


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Scene:
    return Scene(settings, tmp_path / "files")


async def test_odd_text_in_results_keys_logs_and_artifacts_is_kept_visibly(scene: Scene) -> None:
    odd = subtask("odd", "odd_text", outputs=["raw.bin", "text.txt"])
    again = subtask("again", "echo", {"value": "${odd}"}, depends_on=["odd"])
    inside = subtask("inside", "echo", {"value": "<${odd.half}>"}, depends_on=["odd"])
    async with scene.client() as surefoot:
        status = await surefoot.run(task([odd, again, inside]), id="t")
        assert status.completed, status
        seen = {
            "nul": {NUL: NUL},
            "half": {HALF: [HALF]},
            "bytes": "caf\\udce9 \\u0000 \\udcff",
            "pair": "😀",
        }
        assert await surefoot.result("t", "odd") == seen
        assert await surefoot.result("t", "again") == seen
        assert await surefoot.result("t", "inside") == f"<{compact_json({HALF: [HALF]})}>"
        assert [line["text"] async for line in surefoot.logs("t")] == [f"log {NUL} {HALF}"]
        assert (await surefoot.artifact("t", "odd/raw.bin"))[1] == RAW
        assert (await surefoot.artifact("t", "odd/text.txt"))[1] == b"a\x00b"
    shown = await asyncio.to_thread(scene.process, "result", "t", "odd")
    assert (shown.code, shown.document) == (0, seen)


async def test_odd_text_in_an_exception_reaches_status_events_and_history(scene: Scene) -> None:
    once = subtask("bad", "odd_error", retries={"max_attempts": 2, "backoff_seconds": 0})
    async with scene.client() as surefoot:
        status = await surefoot.run(task([once]), id="t")
        assert status["failure"]["code"] == "attempts_exhausted"
        assert f"bad {NUL} {HALF}" in status["failure"]["message"]
        events = [event async for event in surefoot.events("t")]
        assert any(f"bad {NUL} {HALF}" in (event.get("reason") or "") for event in events)
        assert await surefoot.history("t")
    # Each try says the same: no text grows by what the one before it said.
    reasons = [e["reason"] for e in events if e["type"] == "AttemptFailed"]
    assert len(set(reasons)) == 1


ODD_FILE = (
    '{"name": "n\\u0000a\\ud83d", "goal": {"objective": "o\\u0000\\udc00", "inputs":'
    ' {"x": "i\\u0000\\ud800", "k\\u0000": 1}}, "tools": ["%s"], "plan": {"subtasks": [{"id": "a",'
    ' "name": "\\ud800", "description": "d\\u0000", "kind": "tool", "tool": "echo", "args":'
    ' {"value": {"\\u0000": "v\\udfff", "x": "${inputs.x}", "pair": "\\ud83d\\ude00"}},'
    ' "success": [{"type": "result", "path": "x", "equals": "i\\u0000\\ud800"}]}]}}'
)
PLACES = (
    *("name", "goal.objective", "goal.inputs.x", "goal.inputs, key", "plan.subtasks[0].name"),
    *("plan.subtasks[0].description", "plan.subtasks[0].args.value, key", "success[0].equals"),
)


@pytest.mark.parametrize("command", ["validate", "run"])
def test_odd_text_in_a_task_file_is_refused_with_every_place(scene: Scene, command: str) -> None:
    file = scene.write("task.json", ODD_FILE % SCENE_TOOLS)
    done = scene.command(command, file, "--json")
    messages = [fault["message"] for fault in done.document["faults"]]
    assert done.code == 2 and not done.err
    missing = [place for place in PLACES if not any(place in text for text in messages)]
    assert not missing, messages
    assert scene.tasks() == []


def test_a_legal_pair_in_a_task_file_is_one_character(scene: Scene) -> None:
    file = scene.write("task.json", json.dumps(task([subtask("a", "echo", {"value": "😀"})])))
    assert "\\ud83d\\ude00" in file.read_text()
    assert scene.command("run", file, "--id", "t", "--quiet").code == 0
    assert scene.command("result", "t", "a").out == '"😀"\n'


def test_odd_text_on_the_command_line_is_refused_with_every_place(scene: Scene) -> None:
    spec = task([subtask("a", "echo", {"value": "${inputs.x}"})], goal={"inputs": {"x": 1}})
    values = {"x": '"\\u0000"', "y": '{"\\ud800": 1}', "z": "\udcff", "w": '["\\udfff"]'}
    sets = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    done = scene.command("run", scene.file(spec), *sets, "--json")
    messages = [fault["message"] for fault in done.document["faults"]]
    assert done.code == 2 and not done.err
    for key in values:
        assert any(f"goal.inputs.{key}" in text for text in messages), messages
    assert scene.tasks() == []


async def test_odd_text_in_a_file_is_read_and_used_in_a_key(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "odd.txt").write_bytes(b"a\x00b\n" + "über".encode())
    marks = tmp_path / "marks"
    read = subtask("read", "read_text", {"path": "${inputs.folder}/odd.txt"})
    # The text is an argument of an effect, so it is hashed into the key and kept in the ledger.
    use = subtask(
        "use", "mark", {"file": str(marks), "value": "${read}"}, depends_on=["read"], writes=[]
    )
    spec = task([read, use], goal={"inputs": {"folder": str(tmp_path / "in")}})
    async with scene.client() as surefoot:
        status = await surefoot.run(spec, id="t")
        assert status.completed, status
        assert "a\\u0000b" in json.dumps(await surefoot.result("t", "read")).replace("\\\\", "\\")
    assert marks.read_text() == "x\n"
    rows = scene.rows("select state, args from surefoot.effects where task_id = 't'")
    assert [row["state"] for row in rows] == ["done"]


async def test_a_resume_reads_odd_text_back(scene: Scene, tmp_path: Path) -> None:
    opening, marks = tmp_path / "open", tmp_path / "m"
    odd = subtask("odd", "odd_text")
    wait = {"file": str(marks), "open": str(opening), "word": "${odd.bytes}"}
    use = subtask("use", "gate", wait, depends_on=["odd"], timeout_seconds=200)
    last = subtask("last", "echo", {"value": "${odd}"}, depends_on=["use"])
    async with scene.client() as surefoot:
        running = asyncio.create_task(surefoot.run(task([odd, use, last]), id="t"))
        await until(lambda: lines(marks))
        surefoot.stop("t", "now")
        assert (await running)["status"] == "paused"
    opening.touch()
    async with scene.client() as surefoot:
        status = await surefoot.resume("t")
        assert status.completed, status
        assert await surefoot.result("t", "last") == await surefoot.result("t", "odd")
    assert status["subtasks"]["completed"] == 3
