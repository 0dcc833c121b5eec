"""The validator on references, arguments, tools, outputs and workspace paths."""

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
        spec("closed", output={**FILES, "additionalProperties": False}),
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


# --- what is looked up -----------------------------------------------------------------------


def test_an_ancestor_may_be_looked_up_however_far_away() -> None:
    assert judged(
        task(
            step("a", "find"),
            step("b", depends_on=["a"]),
            step("c", "join", args={"parts": "${a.files}"}, depends_on=["b"]),
        )
    ).valid


@pytest.mark.parametrize(
    "fields",
    [
        {"args": {"x": ["deep ${b.y}"]}},
        {"kind": "agent", "instructions": "Look at ${b.y}."},
        {"writes": ["out/${b.y}"]},
        {"undo": {"tool": "anything", "args": {"x": "${b.y}"}}},
        {"success": [{"type": "result", "equals": {"k": "${b.y}"}}]},
        {"success": [{"type": "file", "path": "${b.y}"}]},
        {"on_failure": [{"kind": "tool", "tool": "anything", "args": {"x": "${b.y}"}}]},
    ],
)
def test_what_does_not_come_before_is_a_forward_reference_wherever_it_stands(
    fields: dict[str, Any],
) -> None:
    tool = None if "kind" in fields else "anything"
    mapping = task(step("a", tool, **fields), step("b"), model="m")
    fault = the_fault(mapping, "forward_reference")
    assert fault.subtasks == ("a", "b")
    assert "add 'b' to the depends_on of 'a'" in fault.message
    ahead = {**step("a", tool, **fields), "depends_on": ["b"]}
    assert judged(task(ahead, step("b"), model="m")).valid


def test_a_subtask_cannot_look_up_itself_nor_what_depends_on_it() -> None:
    mapping = task(
        step("a", "anything", args={"x": "${a.y}", "z": "${b.y}"}), step("b", depends_on=["a"])
    )
    assert codes(mapping) == {
        ("forward_reference", ("a",)),
        ("forward_reference", ("a", "b")),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${nowhere.x}", "there is no subtask 'nowhere'"),
        ("${colect.x}", "did you mean 'collect'?"),
        ("${inputs.foldr}", "did you mean 'folder'?"),
        ("${inputs.other}", "there are 'folder', 'deep'"),
        ("${inputs.deep.a.c}", "has no key 'c'"),
        ("${item}", "only inside the `each` of a foreach"),
        ("${index}", "only inside the `each` of a foreach"),
        ("${reading.x}", "that is a phase"),
        ("${collect/0.x}", "name the container"),
        ("${}", "it is empty"),
        ("${collect.", "never closed"),
        ("${HOME}", "a literal '${' is written '$${'"),
    ],
)
def test_what_a_reference_gets_wrong_is_said(text: str, said: str) -> None:
    mapping = task(
        step("collect"),
        step("x", "anything", args={"x": text}, depends_on=["collect"]),
        goal={"inputs": {"folder": "data", "deep": {"a": {"b": 1}}}},
        plan={"phases": [{"id": "reading"}]},
    )
    fault = the_fault(mapping, "unknown_reference")
    assert fault.subtasks == ("x",)
    assert said in fault.message


def test_item_and_index_mean_something_inside_each_alone() -> None:
    each = {"tool": "anything", "args": {"x": "${item.name}", "n": "${index}"}}
    assert judged(task(loop("l", each, [1, 2]))).valid
    outside = task(loop("l", each, "${item}"))
    assert codes(outside) == {("unknown_reference", ("l",))}


def test_the_children_of_a_foreach_see_what_their_foreach_depends_on() -> None:
    each = {"tool": "anything", "args": {"x": "${a.y}"}}
    assert judged(task(step("a"), loop("l", each, [1], depends_on=["a"]))).valid
    assert codes(task(step("a"), loop("l", each, [1]))) == {("forward_reference", ("l", "a"))}


def test_the_result_of_a_foreach_is_a_list_without_keys() -> None:
    def mapping(text: str) -> dict[str, Any]:
        use = step("u", "anything", args={"x": text}, depends_on=["l"])
        return task(loop("l", {"tool": "make"}, [1]), use)

    for text in ("${l}", "${l.result}", "${l.0.x}"):
        assert judged(mapping(text)).valid, text
    fault = the_fault(mapping("${l.files}"), "unknown_reference")
    assert "is a list in item order" in fault.message
    assert fault.subtasks == ("u", "l")


def test_artifacts_are_known_by_what_subtasks_declare() -> None:
    def mapping(name: str, **fields: Any) -> dict[str, Any]:
        use = step("u", "anything", args={"x": f"${{a.artifact.{name}}}"}, depends_on=["a"])
        return task(step("a", **fields), use)

    assert judged(mapping("f.json", outputs=["f.json"])).valid
    rung = {"kind": "tool", "tool": "anything", "outputs": ["f.json"]}
    assert judged(mapping("f.json", on_failure=[rung])).valid
    fault = the_fault(mapping("g.json", outputs=["f.json"]), "unknown_reference")
    assert "did you mean 'f.json'?" in fault.message
    undeclared = judged(mapping("f.json"))
    assert undeclared.valid
    assert any("state it in its `outputs`" in warning.message for warning in undeclared.warnings)


def test_keys_are_held_against_a_declared_output_schema() -> None:
    def mapping(tool: str, key: str) -> dict[str, Any]:
        use = step("u", "anything", args={"x": f"${{a.{key}}}"}, depends_on=["a"])
        return task(step("a", tool), use)

    assert judged(mapping("find", "files.0")).valid
    assert (
        "did you mean 'files'?" in the_fault(mapping("find", "filez"), "unknown_reference").message
    )
    assert judged(mapping("find", "total")).valid  # an open schema may hold more
    assert codes(mapping("closed", "total")) == {("unknown_reference", ("u", "a"))}
    assert judged(mapping("make", "total")).valid


def test_inside_a_group_only_siblings_and_its_inputs_are_seen() -> None:
    inner = {
        "subtasks": [
            step("a", "anything", args={"x": "${inputs.given}", "y": "${inputs.folder}"}),
            step("b", "anything", args={"x": "${a.z}", "y": "${top.z}"}, depends_on=["a"]),
        ]
    }
    group = {
        "id": "g",
        "kind": "group",
        "plan": inner,
        "inputs": {"given": "${top.value}"},
        "outputs": {"end": "${b.z}", "wrong": "${c.z}"},
        "depends_on": ["top"],
    }
    mapping = task(step("top"), group, goal={"inputs": {"folder": "x"}})
    said = {(f.subtasks, f.message) for f in judged(mapping).faults}
    assert {ids for ids, _ in said} == {("g/a",), ("g/b",), ("g",)}
    assert any("the inputs of 'g' has no 'folder'" in message for _, message in said)
    assert any("only its own subtasks and `inputs`" in message for _, message in said)
    assert any("there is no subtask 'c'" in message for _, message in said)


def test_milestones_look_up_only_what_is_done_by_then() -> None:
    def mapping(after: str, check: dict[str, Any]) -> dict[str, Any]:
        return task(
            step("a", outputs=["a.txt"], phase="p"),
            step("b", outputs=["b.txt"], depends_on=["a"]),
            plan={
                "phases": [{"id": "p"}],
                "milestones": [{"id": "m", "after": after, "checks": [check]}],
            },
        )

    of_b = {"type": "artifact", "name": "b.txt"}
    assert judged(mapping("b", of_b)).valid
    assert judged(mapping("b", {"type": "artifact", "name": "a/a.txt"})).valid
    for after in ("a", "p"):
        fault = the_fault(mapping(after, of_b), "forward_reference")
        assert fault.subtasks == ("m", "b")
        assert "may not be done" in fault.message
    late = {"type": "result", "equals": "${b.x}"}
    assert codes(mapping("p", late)) == {("forward_reference", ("m", "b"))}


def test_acceptance_and_prohibitions_are_read_too() -> None:
    mapping = task(
        step("a"),
        goal={
            "inputs": {"text": "Dear ${name}"},
            "acceptance": [
                {"id": "c1", "type": "file", "path": "${a.path}"},
                {"id": "c2", "type": "file", "path": "${b.path}"},
            ],
            "prohibitions": ["free ${text}", {"path": "${inputs.nope}"}, {"tool": "${a.x}"}],
        },
    )
    faults = [f for f in judged(mapping).faults if f.code == "unknown_reference"]
    assert len(faults) == 3
    assert faults[0].subtasks == ("c2",)
    assert "a prohibition may look up inputs only" in faults[2].message
    assert any("inputs are taken as they are" in w.message for w in judged(mapping).warnings)


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
        ("count", {"n": "no ${found.n}"}, "gives string, not integer"),
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


# --- outputs and workspace paths -------------------------------------------------------------


def test_one_artifact_has_one_maker() -> None:
    fault = the_fault(task(step("a", outputs=["x"]), step("b", outputs=["x"])), "output_conflict")
    assert fault.subtasks == ("a", "b")
    each = {"tool": "make", "outputs": ["x"]}
    assert judged(task(loop("l", each, [1, 2], outputs=["x"]))).valid
    assert codes(task(loop("l", each, [1]), step("b", outputs=["x"]))) == {
        ("output_conflict", ("l", "b"))
    }
    assert codes(task(step("a", outputs=["x", "x"]))) == {("output_conflict", ("a",))}


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("out/a.txt", "out/a.txt", True),
        ("out/a.txt", "./out//a.txt", True),
        ("out/a.txt", "out/b.txt", False),
        ("out/*.txt", "out/a.txt", True),
        ("out/*.txt", "out/a.csv", False),
        ("out/**", "out/deep/a.txt", True),
        ("out", "out/deep/a.txt", True),
        ("out/*/x", "out/a/y", False),
        ("**/x.txt", "a/b/x.txt", True),
        ("a?c", "abc", True),
        ("a?c", "abbc", False),
        ("${inputs.folder}/x", "here/x", True),
        ("${maker.path}", "out/x", False),
    ],
)
def test_unordered_subtasks_may_not_write_the_same_paths(one: str, other: str, meet: bool) -> None:
    def mapping(after: list[str]) -> dict[str, Any]:
        return task(
            step("maker"),
            step("a", writes=[one], depends_on=["maker"]),
            step("b", writes=[other], depends_on=["maker", *after]),
            goal={"inputs": {"folder": "here"}},
        )

    expected = {("output_conflict", ("a", "b"))} if meet else set[tuple[str, tuple[str, ...]]]()
    assert codes(mapping([])) == expected
    assert judged(mapping(["a"])).valid


def test_writes_of_children_and_inner_plans_belong_to_their_container() -> None:
    inner = {"subtasks": [step("x", writes=["out/a"])]}
    mapping = task(
        {"id": "g", "kind": "group", "plan": inner},
        loop("l", {"tool": "make", "writes": ["out/*"]}, [1, 2]),
        step("c", writes=["out/b"], depends_on=["g", "l"]),
    )
    assert codes(mapping) == {("output_conflict", ("g", "l"))}
    assert judged(task(loop("l", {"tool": "make", "writes": ["out/x"]}, [1, 2]))).valid


def test_paths_outside_the_workspace_may_not_be_stated_as_writes() -> None:
    for glob in ("/etc/x", "../x", "a/../../x"):
        assert codes(task(step("a", writes=[glob]))) == {("missing_permission", ("a",))}
    assert judged(task(step("a", writes=["a/../x", "..b/x"]))).valid
