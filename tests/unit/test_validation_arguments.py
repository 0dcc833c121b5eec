"""The validator on arguments against the tools' schemas, and on tools that are not there."""

from typing import Any

import pytest

from surefoot.graph.ports import EffectKind, ToolSpec
from surefoot.graph.validation import Fault, LocalWorld, Report, validate_task

TEXT = {"type": "string"}


def spec(name: str, effect: EffectKind = "read", output: Any = None, **properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolSpec(name=name, description=name, schema=schema, effect=effect, output_schema=output)


FILES = {
    "type": "object",
    "properties": {"files": {"type": "array", "items": TEXT}, "n": {"type": "integer"}},
}
TOOLS = {
    tool.name: tool
    for tool in [
        spec("make"),
        spec("find", output=FILES),
        spec("read", path=TEXT),
        spec("count", n={"type": "integer"}),
        spec("ratio", x={"type": "number"}),
        spec("choose", mode={"enum": ["fast", "slow"]}),
        spec("join", parts={"type": "array", "items": TEXT, "minItems": 1}),
        spec("either", x={"oneOf": [{"type": "integer"}, TEXT]}),
        spec("pattern", x={"type": "string", "pattern": "^a+$", "minLength": 3}),
        spec("nested", x={"type": "object", "properties": {"y": TEXT}, "required": ["y"]}),
    ]
} | {
    "anything": ToolSpec(name="anything", description="", schema={"type": "object"}, effect="read"),
    "odd": ToolSpec(
        name="odd",
        description="",
        schema={"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:1/schema"}}},
        effect="read",
    ),
}


def step(id: str, tool: str | None = "make", **fields: Any) -> dict[str, Any]:
    return {
        "id": id,
        "kind": "tool",
        "tool": tool,
        "success": [{"type": "result", "path": id}],
        **fields,
    }


def loop(id: str, each: dict[str, Any], items: Any, **fields: Any) -> dict[str, Any]:
    pattern = {"kind": "tool", "success": [{"type": "result"}], **each}
    return {"id": id, "kind": "foreach", "for_each": items, "each": pattern, **fields}


def task(*subtasks: Any, **fields: Any) -> dict[str, Any]:
    plan = {"subtasks": list(subtasks), **fields.pop("plan", {})}
    return {"goal": {"objective": "x", **fields.pop("goal", {})}, "plan": plan, **fields}


def judged(mapping: Any) -> Report:
    return validate_task(mapping, tools=TOOLS, world=LocalWorld())


def codes(mapping: Any) -> set[tuple[str, tuple[str, ...]]]:
    return {(fault.code, fault.subtasks) for fault in judged(mapping).faults}


def the_fault(mapping: Any, code: str) -> Fault:
    found = [fault for fault in judged(mapping).faults if fault.code == code]
    assert len(found) == 1, [f.as_dict() for f in judged(mapping).faults]
    return found[0]


# --- arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "args", "said"),
    [
        ("read", {"path": "x", "pth": "x"}, "'pth' is not an argument of it; did you mean 'path'?"),
        ("read", {"path": "x", "zzz": 1}, "'zzz' is not an argument of it; it takes 'path'"),
        ("read", {}, "needs 'path'"),
        ("read", {"path": 5}, "path must be string, not 5"),
        ("count", {"n": "five"}, 'n must be integer, not "five"'),
        ("count", {"n": 1.5}, "n must be integer, not 1.5"),
        ("count", {"n": None}, "n must be integer, not null"),
        ("choose", {"mode": "quick"}, "mode: 'quick' is not one of ['fast', 'slow']"),
        ("join", {"parts": ["a", 5]}, "parts[1] must be string, not 5"),
        ("join", {"parts": []}, "parts:"),
        ("nested", {"x": {}}, "x needs 'y'"),
        ("pattern", {"x": "bbb"}, "does not match"),
        ("either", {"x": 1.5}, "x: 1.5 is not valid under any"),
        ("count", {"n": "${inputs.word}"}, 'n must be integer, not "seven"'),
        ("read", {"path": "${inputs.number}"}, "path must be string, not 7"),
        ("join", {"parts": ["${inputs.number}"]}, "parts[0] must be string, not 7"),
        ("count", {"n": "${found.files}"}, "${found.files} gives array, not integer"),
        ("join", {"parts": "${found.n}"}, "${found.n} gives integer, not array"),
        ("count", {"n": "no ${found.n}"}, "must be integer, and 'no ${found.n}' is a text"),
        ("count", {"n": "${found.artifact.list.txt}"}, "gives string, not integer"),
        ("choose", {"mode": "${found.files}"}, "can be none of ['fast', 'slow']"),
        ("either", {"x": "${found.files}"}, "x:"),
    ],
)
def test_arguments_that_cannot_fit_are_said(tool: str, args: dict[str, Any], said: str) -> None:
    mapping = task(
        step("found", "find", outputs=["list.txt"]),
        step("use", tool, args=args, depends_on=["found"]),
        goal={"inputs": {"word": "seven", "number": 7}},
    )
    faults = [f for f in judged(mapping).faults if f.code == "bad_arguments"]
    assert [fault.subtasks for fault in faults] == [("use",)]
    assert said in faults[0].message


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("count", {"n": "${found.n}"}),
        ("ratio", {"x": "${found.n}"}),
        ("count", {"n": "${unknown.x}"}),
        ("count", {"n": "${inputs.number}"}),
        ("read", {"path": "${found.files.0}"}),
        ("read", {"path": "in ${found.n} and ${unknown.x}"}),
        ("read", {"path": "${found.artifact.list.txt}"}),
        ("choose", {"mode": "${unknown.x}"}),
        ("choose", {"mode": "${inputs.mode}"}),
        ("pattern", {"x": "${unknown.x}"}),
        ("pattern", {"x": "a${unknown.x}"}),
        ("either", {"x": "${unknown.x}"}),
        ("join", {"parts": ["${unknown.x}", "b"]}),
        ("join", {"parts": "${found.files}"}),
        ("nested", {"x": {"y": "${unknown.x}"}}),
        ("nested", {"x": "${unknown.x}"}),
        ("anything", {"what": ["ever"]}),
    ],
)
def test_arguments_that_may_fit_are_let_through(tool: str, args: dict[str, Any]) -> None:
    mapping = task(
        step("found", "find", outputs=["list.txt"]),
        step("unknown"),
        step("use", tool, args=args, depends_on=["found", "unknown"]),
        goal={"inputs": {"number": 7, "mode": "slow"}},
    )
    assert judged(mapping).faults == ()


def test_a_rung_of_another_tool_makes_a_result_s_type_that_of_either() -> None:
    def mapping(*rungs: Any) -> dict[str, Any]:
        return task(
            step("found", "find", on_failure=list(rungs)),
            step("use", "count", args={"n": "${found.files}"}, depends_on=["found"]),
        )

    assert ("bad_arguments", ("use",)) in codes(mapping())
    assert judged(mapping({"kind": "tool", "tool": "make"})).valid


def test_items_have_the_types_of_their_list() -> None:
    each = {"tool": "count", "args": {"n": "${item}"}}
    assert judged(task(loop("l", each, [1, 2]))).valid
    assert codes(task(loop("l", each, ["a"]))) == {("bad_arguments", ("l",))}
    found = step("found", "find")
    assert codes(task(found, loop("l", each, "${found.files}", depends_on=["found"]))) == {
        ("bad_arguments", ("l",))
    }
    by_index = {"tool": "count", "args": {"n": "${index}"}}
    assert judged(task(loop("l", by_index, ["a"]))).valid


def test_a_for_each_that_cannot_be_a_list_is_refused() -> None:
    found = step("found", "find")
    each = {"tool": "make"}
    looped = task(found, loop("l", each, "${found.n}", depends_on=["found"]))
    assert "for_each needs a list" in the_fault(looped, "bad_arguments").message
    given = task(loop("l", each, "${inputs.n}"), goal={"inputs": {"n": 7}})
    assert codes(given) == {("bad_arguments", ("l",))}
    assert judged(task(loop("l", each, "${inputs.n}"), goal={"inputs": {"n": [7]}})).valid


def test_rungs_undo_and_children_are_held_to_their_tools_too() -> None:
    bad: dict[str, Any] = {"tool": "read", "args": {}}
    mapping = task(
        step("a", undo=bad),
        step("b", on_failure=[{"kind": "tool", **bad}]),
        loop("c", bad, [1]),
    )
    faults = judged(mapping).faults
    assert [(f.code, f.subtasks) for f in faults] == [
        ("bad_arguments", ("a",)),
        ("bad_arguments", ("b",)),
        ("bad_arguments", ("c",)),
    ]
    places = ("undo.args", "on_failure[0].args", "each.args")
    assert all(place in f.message for place, f in zip(places, faults, strict=True))


def test_tools_that_do_not_exist_are_named_where_anybody_uses_them() -> None:
    mapping = task(
        step("a", "raed"),
        step("b", undo={"tool": "nope", "args": {}}),
        step("c", on_failure=[{"kind": "tool", "tool": "nope"}]),
        {
            "id": "d",
            "kind": "agent",
            "instructions": "x",
            "tools": ["read", "fiind", "finish"],
            "outputs": ["d.txt"],
        },
        model="m",
    )
    faults = [f for f in judged(mapping).faults if f.code == "unknown_tool"]
    assert [f.subtasks for f in faults] == [("a",), ("b",), ("c",), ("d",)]
    assert "did you mean 'read'?" in faults[0].message
    assert "there are 'anything'" in faults[1].message
    assert "did you mean 'find'?" in faults[3].message


def test_a_tool_with_an_unusable_schema_is_a_warning_and_nothing_is_fetched() -> None:
    report = judged(task(step("a", "odd", args={"x": 1})))
    assert report.valid
    assert any("the schema of the tool 'odd' cannot be used" in w.message for w in report.warnings)
