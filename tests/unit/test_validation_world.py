"""The validator on effects, prohibitions, and what the world outside has and allows."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from surefoot.graph.ports import EffectKind, ToolSpec
from surefoot.graph.validation import (
    Fault,
    LocalWorld,
    Report,
    validate_task,
)


def spec(name: str, effect: EffectKind = "read", **facts: Any) -> ToolSpec:
    return ToolSpec(name=name, description=name, schema={"type": "object"}, effect=effect, **facts)


TOOLS = {
    tool.name: tool
    for tool in [
        spec("look"),
        spec("make", "idempotent"),
        spec("send", "irreversible"),
        spec("send_probed", "irreversible", has_probe=True),
        spec("book", "reversible", has_compensate=True),
        spec("run_command", "irreversible"),
        spec("write_text", "idempotent"),
        spec("read_text"),
        spec("http_get"),
    ]
}


@dataclass
class StubWorld:
    """A world of stated facts; what is not stated is there and allowed."""

    absent: set[str] = field(default_factory=set[str])
    closed: set[str] = field(default_factory=set[str])
    workspace: Path | None = None

    def exists(self, path: str) -> bool:
        return path not in self.absent

    def readable(self, path: str) -> bool:
        return path not in self.closed

    def writable(self, folder: Path) -> bool:
        return str(folder) not in self.closed

    def executable(self, name: str) -> bool:
        return name not in self.absent

    def module(self, name: str) -> bool:
        return name not in self.absent

    def defines(self, module: str, name: str) -> bool:
        return f"{module}:{name}" not in self.absent


def step(id: str, tool: str = "look", **fields: Any) -> dict[str, Any]:
    made = {"id": id, "kind": "tool", "tool": tool, "args": {"of": id}}
    return {**made, "success": [{"type": "result"}], **fields}


def agent(id: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "kind": "agent", "instructions": "do", "outputs": [f"{id}.md"], **fields}


def task(*subtasks: Any, **fields: Any) -> dict[str, Any]:
    plan = {"subtasks": list(subtasks), **fields.pop("plan", {})}
    return {"goal": {"objective": "x", **fields.pop("goal", {})}, "plan": plan, **fields}


def judged(mapping: Any, world: Any = None, **given: Any) -> Report:
    return validate_task(mapping, tools=TOOLS, world=world or StubWorld(), **given)


def codes(mapping: Any, world: Any = None, **given: Any) -> set[tuple[str, tuple[str, ...]]]:
    report = judged(mapping, world, **given)
    return {(fault.code, fault.subtasks) for fault in report.faults}


def warned(report: Report, code: str) -> list[Fault]:
    return [warning for warning in report.warnings if warning.code == code]


NONE: set[tuple[str, tuple[str, ...]]] = set()

# --- effects ---------------------------------------------------------------------------------


def test_the_same_call_twice_is_a_fault_unless_it_only_reads() -> None:
    twice = task(step("a", "make", args={"n": 1}), step("b", "make", args={"n": 1}))
    assert codes(twice) == {("duplicate_work", ("a", "b"))}
    reads = judged(task(step("a", args={"n": 1}), step("b", args={"n": 1})))
    assert reads.valid
    assert [w.subtasks for w in warned(reads, "duplicate_work")] == [("a", "b")]
    other = task(step("a", "make", args={"n": 1}), step("b", "make", args={"n": 2}))
    assert codes(other) == NONE
    looked_up = {"args": {"n": "${z.x}"}, "depends_on": ["z"]}
    assert (
        codes(task(step("z"), step("a", "make", **looked_up), step("b", "make", **looked_up)))
        == NONE
    )
    inputs = {"args": {"n": "${inputs.n}"}}
    given = task(
        step("a", "make", **inputs), step("b", "make", **inputs), goal={"inputs": {"n": 1}}
    )
    assert codes(given) == {("duplicate_work", ("a", "b"))}


@pytest.mark.parametrize(
    ("tool", "fields", "refused"),
    [
        ("send", {}, True),
        ("send", {"approve": "unknown"}, False),
        ("send", {"approve": "always"}, False),
        ("send", {"undo": {"tool": "look"}}, False),
        ("send", {"on_failure": ["ask"]}, False),
        ("send", {"on_failure": ["fail"]}, True),
        ("send_probed", {}, False),
        ("book", {}, False),
        ("make", {}, False),
        ("run_command", {"args": {"command": "ls"}}, True),
        ("run_command", {"args": {"command": "ls"}, "writes": []}, False),
    ],
)
def test_no_way_back_is_refused(tool: str, fields: dict[str, Any], refused: bool) -> None:
    mapping = task(step("a", tool, **{"approve": "never", **fields}))
    assert codes(mapping) == ({("no_way_back", ("a",))} if refused else NONE)


def test_an_agent_with_an_irreversible_tool_needs_a_way_back_too() -> None:
    mapping = task(agent("a", tools=["look", "send"], approve="never"), model="m")
    assert codes(mapping) == {("no_way_back", ("a",))}


# --- prohibitions ----------------------------------------------------------------------------


def forbidding(*rules: Any) -> dict[str, Any]:
    return {"prohibitions": list(rules), "inputs": {"folder": "/data/in", "url": "http://x.org"}}


@pytest.mark.parametrize(
    ("rule", "subtask", "refused"),
    [
        ({"tool": "send"}, step("a", "send"), True),
        ({"tool": "send"}, step("a", "make"), False),
        ({"tool": "send"}, step("a", undo={"tool": "send"}), True),
        ({"path": "keep"}, step("a", writes=["keep/x"]), True),
        ({"path": "keep/"}, step("a", writes=["keep"]), True),
        ({"path": "keep"}, step("a", writes=["keep/**"]), True),
        ({"path": "keep"}, step("a", writes=["**"]), False),
        ({"path": "keep"}, step("a", writes=["keeping/x"]), False),
        ({"path": "keep"}, step("a", writes=["x/../keep/y"]), True),
        ({"path": "keep", "deny": "read"}, step("a", writes=["keep/x"]), False),
        ({"path": "keep"}, step("a", "write_text", args={"path": "keep/x", "text": ""}), True),
        ({"path": "keep"}, step("a", "read_text", args={"path": "keep/x"}), False),
        ({"path": "keep", "deny": "read"}, step("a", "read_text", args={"path": "keep"}), True),
        ({"path": "${inputs.folder}"}, step("a", "write_text", args={"path": "/data/in/x"}), True),
        (
            {"path": "/data"},
            step("a", "write_text", args={"path": "${inputs.folder}/x"}),
            True,
        ),
        ({"path": "/data/in"}, step("a", "write_text", args={"path": "/data/inside"}), False),
        (
            {"host": "*.example.com"},
            step("a", "http_get", args={"url": "https://a.example.com/"}),
            True,
        ),
        ({"host": "x.org"}, step("a", "http_get", args={"url": "${inputs.url}/page"}), True),
        ({"host": "x.org"}, step("a", "http_get", args={"url": "http://other.org"}), False),
        ({"host": "x.org:81"}, step("a", "http_get", args={"url": "http://X.org:81/"}), True),
    ],
)
def test_typed_prohibitions_that_the_plan_breaks_are_found(
    rule: dict[str, Any], subtask: dict[str, Any], refused: bool
) -> None:
    mapping = task(subtask, goal=forbidding(rule, "in words"))
    assert codes(mapping) == ({("prohibited", ("a",))} if refused else NONE)


def test_a_relative_prohibition_meets_absolute_paths_in_the_workspace() -> None:
    mapping = task(
        step("a", "write_text", args={"path": "/ws/keep/x"}), goal=forbidding({"path": "keep"})
    )
    assert codes(mapping, StubWorld(workspace=Path("/ws"))) == {("prohibited", ("a",))}
    assert codes(mapping, StubWorld(workspace=Path("/elsewhere"))) == NONE


def test_an_agent_asking_for_a_denied_tool_lacks_the_permission() -> None:
    mapping = task(agent("a", tools=["look", "send"]), goal=forbidding({"tool": "send"}), model="m")
    assert codes(mapping) == {("missing_permission", ("a",))}


# --- the world outside -----------------------------------------------------------------------


def test_inputs_that_are_not_there_or_not_readable_are_named() -> None:
    goal = {"inputs": {"folder": "/data", "lists": ["/data/a", "./b", "text"], "n": 5}}
    mapping = task(step("a"), goal=goal)
    assert codes(mapping) == NONE
    gone = judged(mapping, StubWorld(absent={"/data", "./b"}))
    assert [f.code for f in gone.faults] == ["missing_resource", "missing_resource"]
    assert "the input 'folder' is the path /data" in gone.faults[0].message
    assert "--set folder=" in gone.faults[0].message
    assert "'lists.1'" in gone.faults[1].message
    assert codes(mapping, StubWorld(closed={"/data/a"})) == {("missing_permission", ())}


def test_a_workspace_that_cannot_be_written_is_named() -> None:
    world = StubWorld(closed={"/ws"}, workspace=Path("/ws"))
    report = judged(task(step("a")), world)
    assert [f.code for f in report.faults] == ["missing_permission"]
    assert "/ws" in report.faults[0].message


@pytest.mark.parametrize(
    ("run", "missing"),
    [
        ("frobnicate --all", True),
        (["frobnicate"], True),
        ("A=1 B=2 frobnicate", True),
        ("'frobnicate' x", True),
        ("/opt/frobnicate x", False),
        ("/gone/tool x", True),
        ("python -c 'pass'", False),
        ("cd x && frobnicate", False),
        ("if true; then frobnicate; fi", False),
        ("./frobnicate", False),
        ("$TOOL x", False),
        ("${inputs.cmd} x", False),
        ("(frobnicate)", False),
        ("unbalanced 'quote", False),
        ("ls", False),
    ],
)
def test_commands_that_are_not_installed_are_found(run: Any, missing: bool) -> None:
    world = StubWorld(absent={"frobnicate", "/gone/tool"})
    goal = {"inputs": {"cmd": "frobnicate"}}
    checked = task(step("a", success=[{"type": "command", "run": run}]), goal=goal)
    called = task(step("a", "run_command", args={"command": run}), goal=goal)
    for mapping in (checked, called):
        found = codes(mapping, world)
        assert found == ({("missing_resource", ("a",))} if missing else NONE), run


def test_modules_of_python_checks_are_looked_for() -> None:
    check = {"type": "python", "call": "my_checks:good"}
    mapping = task(
        step("a", success=[check]),
        goal={"acceptance": [check]},
        plan={"milestones": [{"id": "m", "after": "a", "checks": [check]}]},
    )
    assert codes(mapping) == NONE
    assert codes(mapping, StubWorld(absent={"my_checks"})) == {
        ("missing_resource", ("a",)),
        ("missing_resource", ("m",)),
        ("missing_resource", ()),
    }


def test_this_machine_answers_for_itself(tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text("")
    (tmp_path / "file").write_text("")
    world = LocalWorld(workspace=tmp_path / "a" / "b", task_dir=tmp_path)
    assert world.exists(str(tmp_path)) and not world.exists(str(tmp_path / "none"))
    assert not world.exists("a\0b") and not world.readable("a\0b")
    assert world.readable(str(tmp_path)) and not world.readable(str(tmp_path / "none"))
    assert world.writable(tmp_path / "a" / "b")
    assert not world.writable(tmp_path / "file" / "x")
    assert world.executable("python") and world.executable("sh")
    assert not world.executable("surely-no-such-command") and not world.executable("a\0b")
    assert world.module("checks") and world.module("json.decoder")
    assert not world.module("surely_no_such_module") and not world.module("..")
    assert LocalWorld().module("surely_no_such_module")


def test_a_folder_without_rights_is_neither_readable_nor_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Any, mode: int) -> bool:
        return False

    monkeypatch.setattr("os.access", denied)  # root may read everything
    world = LocalWorld()
    assert not world.readable(str(tmp_path))
    assert not world.writable(tmp_path)
