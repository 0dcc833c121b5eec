"""The validator on references, artifacts and workspace paths."""

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
        spec("join", parts={"type": "array", "items": TEXT, "minItems": 1}),
    ]
} | {
    "anything": ToolSpec(name="anything", description="", schema={"type": "object"}, effect="read"),
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
