"""The validator on ids, schema, kinds, dependencies, phases, milestones and nesting."""

from typing import Any

import pytest

from surefoot.graph.ports import ToolSpec
from surefoot.graph.validation import FAULT_CODES, Fault, LocalWorld, Report, validate_task

ANY: dict[str, Any] = {"type": "object"}
TOOLS = {
    name: ToolSpec(name=name, description=name, schema=ANY, effect="read")
    for name in ("look", "list_files", "write_text")
}


def step(id: str, **fields: Any) -> dict[str, Any]:
    made = {"id": id, "kind": "tool", "tool": "look", "args": {"id": id}}
    return {**made, "success": [{"type": "result"}], **fields}


def task(*subtasks: Any, **fields: Any) -> dict[str, Any]:
    plan = {"subtasks": list(subtasks), **fields.pop("plan", {})}
    return {"goal": {"objective": "x", **fields.pop("goal", {})}, "plan": plan, **fields}


def judged(mapping: Any, **given: Any) -> Report:
    return validate_task(mapping, tools=TOOLS, world=LocalWorld(), **given)


def the_fault(mapping: Any, code: str) -> Fault:
    found = [fault for fault in judged(mapping).faults if fault.code == code]
    assert len(found) == 1, [f.as_dict() for f in judged(mapping).faults]
    return found[0]


def test_a_plain_plan_is_valid_and_comes_back_parsed() -> None:
    report = judged(task(step("a"), step("b", depends_on=["a"])))
    assert report.valid
    assert report.task is not None and report.task.plan is not None
    assert [s.id for s in report.task.plan.subtasks] == ["a", "b"]
    assert report.as_dict()["valid"] is True
    assert report.as_dict()["faults"] == []


def test_an_invalid_file_comes_back_without_a_task_and_json_plain() -> None:
    report = judged(task(step("first"), step("b", depends_on=["frist"])))
    assert report.task is None
    message = "subtask 'b' depends on 'frist', which does not exist; did you mean 'first'?"
    assert report.as_dict() == {
        "valid": False,
        "faults": [{"code": "unknown_dependency", "message": message, "subtasks": ["b"]}],
        "warnings": [warning.as_dict() for warning in report.warnings],
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bugdet": {}}, "unknown key 'bugdet'; did you mean 'budget'?"),
        ({"budget": {"max_step": 1}}, "budget: unknown key 'max_step'; did you mean 'max_steps'?"),
        ({"budget": {"max_steps": -1}}, "budget.max_steps must be greater than or equal to 0"),
        ({"budget": {"max_steps": "many"}}, 'must be a whole number, not "many"'),
        ({"budget": {"max_steps": True}}, "must be a whole number, not true"),
        ({"concurrency": 0}, "concurrency must be greater than or equal to 1, not 0"),
        ({"limits": {"replan": 1}}, "did you mean 'replans'?"),
        ({"model": 5}, "model must be a model's name, or a mapping"),
        ({"model": {"planner": 5}}, "model.planner must be a name or a list of names"),
        ({"model": {"prices": {"m": {"input": 1, "output": 1, "outpt": 1}}}}, "'output'?"),
        ({"tools": "./t.py"}, 'tools must be a list, not "./t.py"'),
        ({"goal": {"prohibitions": [{"pth": "x"}]}}, "a text, {path, deny}, {tool} or {host}"),
        ({"goal": {"prohibitions": [{"path": "x", "deny": "wrte"}]}}, "did you mean 'write'?"),
        ({"goal": {"prohibitions": [{"path": "d/**"}]}}, "names a folder or a file, no pattern"),
        ({"goal": {"acceptance": [{"type": "artefact"}]}}, "did you mean 'artifact'?"),
        ({"goal": {"acceptance": [{"name": "x"}]}}, "a check needs `type`"),
        ({"goal": {"acceptance": [{"type": "artifact"}]}}, "'name' is missing"),
        ({"goal": {"objectivs": []}}, "did you mean 'objectives'?"),
        ({"plan": {"milestone": []}}, "did you mean 'milestones'?"),
        ({"plan": {"phases": [{"id": "p", "nme": "x"}]}}, "phase 'p': unknown key 'nme'"),
    ],
)
def test_wrong_keys_and_values_of_the_file_are_named(change: dict[str, Any], said: str) -> None:
    fault = the_fault(task(step("a"), **change), "schema")
    assert said in fault.message


WRONG_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"depend_on": []}, "unknown key 'depend_on'; did you mean 'depends_on'?"),
    ({"kind": "tol"}, "did you mean 'tool'?"),
    ({"weight": -1}, "weight must be greater than or equal to 0"),
    ({"weight": "heavy"}, 'must be a number, not "heavy"'),
    ({"args": []}, "args must be a mapping, not []"),
    ({"outputs": 5}, "outputs must be a list of names"),
    ({"outputs": ["a/b"]}, "'a/b' is no artifact name"),
    ({"outputs": {"a": 1}}, "only a group's maps names to values"),
    ({"retries": {"max_attempts": 0}}, "retries.max_attempts must be greater than or equal"),
    ({"on_failure": ["skp"]}, "did you mean 'skip'?"),
    ({"on_failure": ["skip"]}, "a `skip` rung needs `skippable: true`"),
    ({"on_failure": [{"kind": "tool", "tool": "look", "improve_latr": 1}]}, "improve_later"),
    ({"on_failure": [{"kind": "foreach", "for_each": [], "each": step("x")}]}, "unknown key"),
    ({"on_failure": [{"kind": "group", "goal": {"objective": "x"}}]}, "a rung is one tool"),
    ({"success": [{"type": "artifact", "nme": "x", "name": "y"}]}, "did you mean 'name'?"),
    ({"success": [{"type": "artifact", "name": "y", "regex": "("}]}, "no regular expression"),
    ({"success": [{"type": "result", "json_schema": {"type": "objct"}}]}, "no JSON Schema"),
    ({"success": [{"type": "command", "run": " "}]}, "the command to run is empty"),
    ({"instructions": "do"}, "`instructions` belongs to kind agent, but this is kind tool"),
    ({"tool": None}, "kind tool needs `tool:`"),
    ({"kind": "agent", "tool": None, "args": {}}, "kind agent needs `instructions:`"),
    ({"kind": "foreach", "tool": None, "args": {}, "for_each": [1]}, "needs `each:`"),
    ({"kind": "group", "tool": None, "args": {}}, "kind group needs `plan:` or `goal:`"),
    ({"phase": "nowhere"}, "phase 'nowhere', which does not exist"),
]


@pytest.mark.parametrize(("change", "said"), WRONG_FIELDS)
def test_wrong_fields_of_a_subtask_are_named_with_it(change: dict[str, Any], said: str) -> None:
    mapping = task(step("other"), step("bad", **change))
    faults = [f for f in judged(mapping).faults if f.code == "schema"]
    assert any(said in fault.message for fault in faults), [f.message for f in faults]
    assert all(fault.subtasks == ("bad",) for fault in faults)


@pytest.mark.parametrize(
    ("id", "said"),
    [("a b", "an id has letters"), ("a/b", "an id has"), ("-a", "an id has"), ("", "an id has")],
)
def test_an_id_outside_the_alphabet_is_one_fault_without_echoes(id: str, said: str) -> None:
    report = judged(task(step(id), step("b", depends_on=[id])))
    assert [fault.code for fault in report.faults] == ["schema"]
    assert said in report.faults[0].message


def test_containers_are_not_retried_themselves() -> None:
    each = {"kind": "tool", "tool": "look", "success": [{"type": "result"}]}
    loop = {"id": "l", "kind": "foreach", "for_each": [1], "each": each}
    assert judged(task({**loop, "each": {**each, "retries": {"max_attempts": 2}}})).valid
    fault = the_fault(task({**loop, "retries": {"max_attempts": 2}}), "schema")
    assert "put `retries` on what is inside it" in fault.message
    inner = {"id": "g", "kind": "group", "plan": {"subtasks": [step("a")]}}
    assert "retries" in the_fault(task({**inner, "retries": {}}), "schema").message


@pytest.mark.parametrize(
    ("field", "value"),
    [("undo", {"tool": "look"}), ("approve", "always"), ("approve", "never")],
)
def test_what_is_said_of_calls_stands_where_calls_are_made(field: str, value: Any) -> None:
    each = {"kind": "tool", "tool": "look", "success": [{"type": "result"}]}
    loop = {"id": "l", "kind": "foreach", "for_each": [1], "each": each}
    assert judged(task({**loop, "each": {**each, field: value}})).valid
    fault = the_fault(task({**loop, field: value}), "schema")
    assert fault.message.endswith(f"makes no call; put `{field}` on what is inside it")
    inner = {"id": "g", "kind": "group", "plan": {"subtasks": [step("a")]}}
    assert field in the_fault(task({**inner, field: value}), "schema").message


def test_a_foreach_inside_each_needs_a_group_around_it() -> None:
    inner = {"kind": "foreach", "for_each": [1], "each": {"kind": "tool", "tool": "look"}}
    report = judged(task({"id": "l", "kind": "foreach", "for_each": [1], "each": inner}))
    assert any("put an inner foreach in a group" in f.message for f in report.faults)


def test_a_literal_for_each_must_be_a_list() -> None:
    each = {"kind": "tool", "tool": "look", "success": [{"type": "result"}]}
    fault = the_fault(task({"id": "l", "kind": "foreach", "for_each": "x", "each": each}), "schema")
    assert "`for_each` must be a list or a reference to one" in fault.message


def test_every_broken_part_is_found_although_others_are_broken_too() -> None:
    report = judged(
        {
            "goal": {"objective": "x", "acceptance": [{"type": "artifact", "name": "none.txt"}]},
            "budget": {"max_step": 1, "max_steps": 1},
            "plan": {
                "subtasks": [
                    step("a", depend_on=["b"], depends_on=["c"]),
                    step("b", depends_on=["a", "nowhere"]),
                    step("c", depends_on=["b"], args={"x": "${later.y}"}),
                    step("later", tool="lok"),
                    {"kind": "tool"},
                ]
            },
        }
    )
    found = {(fault.code, fault.subtasks) for fault in report.faults}
    assert found == {
        ("schema", ()),
        ("schema", ("a",)),
        ("unknown_dependency", ("b",)),
        ("cycle", ("a", "c", "b")),
        ("unknown_tool", ("later",)),
        ("forward_reference", ("c", "later")),
        ("over_budget", ()),
    }
    schema = [fault.message for fault in report.faults if fault.code == "schema"]
    assert len(schema) == 3


def test_what_a_damaged_subtask_lacks_is_no_further_fault() -> None:
    report = judged(task(step("a", success=[{"type": "artifact"}])))
    assert [fault.code for fault in report.faults] == ["schema"]
    report = judged(task({"id": "a"}, step("b", depends_on=["a"], args={"x": "${a.y}"})))
    assert [fault.code for fault in report.faults] == ["schema"]


def test_an_id_given_twice_is_named_for_every_sort_of_thing() -> None:
    mapping = task(
        step("a"),
        step("a", args={"other": 1}),
        goal={"objectives": [{"id": "o", "text": "x"}, {"id": "o", "text": "y"}]},
        plan={
            "phases": [{"id": "p"}, {"id": "p"}, {"id": "a"}],
            "milestones": [
                {"id": "m", "after": "a"},
                {"id": "m", "after": "a"},
                {"id": "start", "after": "a"},
            ],
        },
    )
    faults = [f for f in judged(mapping).faults if f.code == "duplicate_id"]
    assert sorted(fault.subtasks for fault in faults) == [
        ("a",),
        ("a",),
        ("m",),
        ("o",),
        ("p",),
        ("start",),
    ]
    assert any("'a' is a phase and a subtask" in fault.message for fault in faults)


@pytest.mark.parametrize("name", ["item", "index", "inputs"])
def test_a_subtask_may_not_carry_a_reserved_name(name: str) -> None:
    assert the_fault(task(step(name)), "schema").subtasks == (name,)


def test_dependencies_name_what_was_meant() -> None:
    mapping = task(
        step("collect"),
        {
            "id": "loop",
            "kind": "foreach",
            "for_each": [1],
            "each": {"kind": "tool", "tool": "look", "success": [{"type": "result"}]},
        },
        step("x", depends_on=["colect", "loop/0", "reading", "nothing"], phase="reading"),
        plan={"phases": [{"id": "reading"}]},
    )
    said = [f.message for f in judged(mapping).faults if f.code == "unknown_dependency"]
    assert len(said) == 4
    assert "did you mean 'collect'?" in said[0]
    assert "depend on 'loop'" in said[1]
    assert "that is a phase" in said[2]
    assert "depends on 'nothing', which does not exist" in said[3]


def test_a_subtask_that_depends_on_itself_is_no_cycle_besides() -> None:
    report = judged(task(step("a", depends_on=["a"])))
    assert [(f.code, f.subtasks) for f in report.faults] == [("self_dependency", ("a",))]


def test_a_cycle_is_named_in_order_and_each_cycle_once() -> None:
    mapping = task(
        step("a", depends_on=["b"]),
        step("b", depends_on=["c"]),
        step("c", depends_on=["a"]),
        step("x", depends_on=["y", "a"]),
        step("y", depends_on=["x"]),
    )
    cycles = [fault for fault in judged(mapping).faults if fault.code == "cycle"]
    assert [cycle.subtasks for cycle in cycles] == [("a", "b", "c"), ("x", "y")]
    assert "a -> b -> c -> a" in cycles[0].message


def test_a_very_long_cycle_is_named_whole_in_ids_and_short_in_words() -> None:
    n = 5000
    fault = the_fault(
        task(*(step(f"s{i}", depends_on=[f"s{(i + 1) % n}"]) for i in range(n))), "cycle"
    )
    assert fault.subtasks == tuple(f"s{i}" for i in range(n))
    assert len(fault.message) < 400
    assert "more" in fault.message


def test_a_milestone_must_come_after_something_that_exists() -> None:
    mapping = task(
        step("collect", phase="p"),
        plan={
            "phases": [{"id": "p"}],
            "milestones": [
                {"id": "m1", "after": "colect"},
                {"id": "m2", "after": "p"},
                {"id": "m3", "after": "collect"},
                {"id": "m4", "after": "collect/0"},
            ],
        },
    )
    faults = [f for f in judged(mapping).faults if f.code == "unknown_dependency"]
    assert [f.subtasks for f in faults] == [("m1",), ("m4",)]
    assert "did you mean 'collect'?" in faults[0].message
    assert "name 'collect'" in faults[1].message


def test_inner_plans_are_judged_with_prefixed_ids() -> None:
    inner = {"subtasks": [step("a", depends_on=["b", "top"]), step("b", depends_on=["a"])]}
    report = judged(task(step("top"), {"id": "g", "kind": "group", "plan": inner}))
    assert {(f.code, f.subtasks) for f in report.faults} == {
        ("unknown_dependency", ("g/a",)),
        ("cycle", ("g/a", "g/b")),
    }


def test_a_group_in_each_is_judged_and_its_own_models_too() -> None:
    group = {"kind": "group", "plan": {"subtasks": [step("a", tool="lok")]}, "budget": {"max": 1}}
    report = judged(task({"id": "l", "kind": "foreach", "for_each": [1], "each": group}))
    assert {(f.code, f.subtasks) for f in report.faults} == {
        ("unknown_tool", ("l/*/a",)),
        ("schema", ("l",)),
    }
    assert "budget: unknown key 'max'" in report.faults[0].message


def test_groups_may_be_nested_to_the_limit_and_no_deeper() -> None:
    plan: dict[str, Any] = {"subtasks": [step("leaf")]}
    for level in range(3):
        plan = {"subtasks": [{"id": f"g{level}", "kind": "group", "plan": plan}]}
    mapping = {"goal": {"objective": "x"}, "plan": plan, "limits": {"depth": 3}}
    assert judged(mapping).valid
    fault = the_fault({**mapping, "limits": {"depth": 2}}, "over_budget")
    assert fault.subtasks == ("g2/g1/g0",)
    assert "nested 3 deep" in fault.message and "`limits.depth` allows 2" in fault.message


def test_an_empty_plan_and_an_aimless_goal_are_refused() -> None:
    assert "has no subtasks" in the_fault(task(), "schema").message
    report = judged({"goal": {}})
    assert any("say what the task is for" in f.message for f in report.faults)
    assert judged({"goal": {}, "plan": {"subtasks": [step("a")]}}).valid


def test_rungs_that_are_never_reached_are_a_warning() -> None:
    rung = {"kind": "tool", "tool": "look"}
    report = judged(task(step("a", skippable=True, on_failure=["skip", rung])))
    assert report.valid
    assert any("are never reached" in warning.message for warning in report.warnings)


def test_faults_of_the_tools_modules_are_passed_on_first_come() -> None:
    given = Fault("bad_tools_module", "./t.py has no TOOLS")
    report = judged(task(step("a")), tool_faults=[given])
    assert report.faults == (given,)


@pytest.mark.parametrize("mapping", [None, [], "x", 5, {}, {"goal": None}, {"plan": {}}])
def test_what_is_no_task_at_all_is_a_schema_fault(mapping: Any) -> None:
    report = judged(mapping)
    assert report.faults[0].code == "schema"
    assert report.task is None


def test_values_that_are_not_json_are_named_with_their_place() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    for value, said in [
        (float("nan"), "no number in JSON"),
        ((1, 2), "tuple is not a JSON value"),
        ({1: 2}, "not a text"),
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        (deep, "nested too deeply"),
    ]:
        fault = the_fault(task(step("a", args={"x": value})), "schema")
        assert said in fault.message
        assert "plan.subtasks[0].args.x" in fault.message


def test_codes_come_in_the_order_of_the_contract() -> None:
    mapping = task(step("a", tool="lok", depends_on=["a", "q"], extra=1, success=[]))
    codes = [fault.code for fault in judged(mapping).faults]
    assert codes == sorted(codes, key=FAULT_CODES.index)
    assert len(codes) >= 4
