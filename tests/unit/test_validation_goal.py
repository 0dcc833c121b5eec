"""The validator on the goal's criteria, models and prices, and the budget."""

from typing import Any

from surefoot.graph.errors import UsageError
from surefoot.graph.plan import Plan
from surefoot.graph.ports import EffectKind, ToolSpec
from surefoot.graph.task import TaskFile
from surefoot.graph.validation import (
    Fault,
    LocalWorld,
    Report,
    unreadable,
    validate_plan,
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


def step(id: str, tool: str = "look", **fields: Any) -> dict[str, Any]:
    made = {"id": id, "kind": "tool", "tool": tool, "args": {"of": id}}
    return {**made, "success": [{"type": "result"}], **fields}


def agent(id: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "kind": "agent", "instructions": "do", "outputs": [f"{id}.md"], **fields}


def task(*subtasks: Any, **fields: Any) -> dict[str, Any]:
    plan = {"subtasks": list(subtasks), **fields.pop("plan", {})}
    return {"goal": {"objective": "x", **fields.pop("goal", {})}, "plan": plan, **fields}


def judged(mapping: Any, world: Any = None, **given: Any) -> Report:
    return validate_task(mapping, tools=TOOLS, world=world or LocalWorld(), **given)


def codes(mapping: Any, world: Any = None, **given: Any) -> set[tuple[str, tuple[str, ...]]]:
    report = judged(mapping, world, **given)
    return {(fault.code, fault.subtasks) for fault in report.faults}


def warned(report: Report, code: str) -> list[Fault]:
    return [warning for warning in report.warnings if warning.code == code]


NONE: set[tuple[str, tuple[str, ...]]] = set()

# --- criteria --------------------------------------------------------------------------------

OBJECTIVES = {"objectives": [{"id": "o1", "text": "x"}, {"id": "o2", "text": "y"}]}


def test_an_objective_that_nothing_covers_is_refused_where_anything_covers() -> None:
    both = task(step("a", covers=["o1"]), step("b", covers=["o2"]), goal=OBJECTIVES)
    assert codes(both) == NONE
    one = task(step("a", covers=["o1"]), step("b"), goal=OBJECTIVES)
    assert codes(one) == {("uncovered_criterion", ("o2",))}
    by_phase = task(
        step("a", covers=["o1"]), goal=OBJECTIVES, plan={"phases": [{"id": "p", "covers": ["o2"]}]}
    )
    assert codes(by_phase) == NONE
    silent = judged(task(step("a"), step("b"), goal=OBJECTIVES))
    assert silent.valid
    assert any("the whole plan counts" in w.message for w in silent.warnings)


def test_an_artifact_that_nobody_declares_cannot_be_accepted() -> None:
    wanted = {"acceptance": [{"id": "a1", "type": "artifact", "name": "report.md"}]}
    assert codes(task(step("a", outputs=["report.md"]), goal=wanted)) == NONE
    report = judged(task(step("a", outputs=["reprt.md"]), goal=wanted))
    assert [(f.code, f.subtasks) for f in report.faults] == [("uncovered_criterion", ("a1",))]
    assert "did you mean 'reprt.md'?" in report.faults[0].message
    checked = step("a", success=[{"type": "artifact", "name": "report.md"}])
    assert codes(task(checked, goal=wanted)) == NONE
    promised = judged(task(step("a", covers=["a1"]), goal=wanted))
    assert promised.valid
    assert len(warned(promised, "uncovered_criterion")) == 1
    full = {"acceptance": [{"type": "artifact", "name": "a/report.md"}]}
    assert codes(task(step("a", outputs=["report.md"]), goal=full)) == NONE
    assert codes(task(step("b", outputs=["report.md"]), goal=full)) == {
        ("uncovered_criterion", ("acceptance[0]",))
    }


def test_a_milestone_cannot_check_an_artifact_that_nobody_declares() -> None:
    def mapping(name: str) -> dict[str, Any]:
        check = {"type": "artifact", "name": name}
        milestone = {"id": "m", "after": "a", "checks": [check]}
        return task(step("a", outputs=["report.md"]), plan={"milestones": [milestone]})

    assert codes(mapping("report.md")) == codes(mapping("a/report.md")) == NONE
    assert codes(mapping("reprt.md")) == {("uncovered_criterion", ("m",))}


def test_a_check_that_misspells_an_own_output_is_refused() -> None:
    def mapping(name: str) -> dict[str, Any]:
        return task(step("a", outputs=["report.md"], success=[{"type": "artifact", "name": name}]))

    assert codes(mapping("report.md")) == NONE
    assert codes(mapping("reprt.md")) == {("unknown_reference", ("a",))}


def test_other_criteria_are_covered_by_name_and_names_must_exist() -> None:
    goal = {"acceptance": [{"id": "a1", "type": "file", "path": "x"}]}
    assert codes(task(step("a", covers=["a1"]), goal=goal)) == NONE
    assert codes(task(step("a", covers=["objective"]), goal=goal)) == {
        ("uncovered_criterion", ("a1",))
    }
    assert codes(task(step("a", covers=["a1", "a2"]), goal=goal)) == {("unknown_reference", ("a",))}


def test_the_one_text_of_a_goal_is_covered_as_objective_or_o1() -> None:
    goal = {"acceptance": [{"id": "a1", "type": "file", "path": "x"}]}
    for name in ("objective", "o1"):
        assert codes(task(step("a", covers=["a1", name]), goal=goal)) == NONE
    listed = {"objective": None, "objectives": [{"id": "x", "text": "x"}]}
    assert codes(task(step("a", covers=["x", "o1"]), goal=listed)) == {
        ("unknown_reference", ("a",))
    }


def test_empty_acceptance_is_a_warning() -> None:
    assert len(warned(judged(task(step("a"), step("b"))), "uncovered_criterion")) == 2


def test_a_leaf_must_show_that_it_is_done() -> None:
    assert codes(task(step("a", success=[]))) == {("unverifiable", ("a",))}
    assert codes(task(step("a", success=[], outputs=["x"]))) == NONE
    each = {"kind": "tool", "tool": "look"}
    loop = {"id": "l", "kind": "foreach", "for_each": [1], "each": each}
    assert codes(task(loop)) == {("unverifiable", ("l",))}
    group = {"id": "g", "kind": "group", "plan": {"subtasks": [step("a", success=[])]}}
    assert codes(task(group)) == {("unverifiable", ("g/a",))}


def test_a_leaf_too_large_is_a_warning_in_files_and_a_fault_from_models() -> None:
    outputs = [f"{n}.txt" for n in range(6)]
    large = task(step("a", outputs=outputs), step("b"))
    assert [w.subtasks for w in warned(judged(large), "granularity")] == [("a",)]
    sole = task(step("a", covers=["o1", "o2"]), step("b"), goal=OBJECTIVES)
    assert [w.subtasks for w in warned(judged(sole), "granularity")] == [("a",)]
    alone = task(step("a", covers=["o1", "o2"]), goal=OBJECTIVES)
    assert warned(judged(alone), "granularity") == []
    every: dict[str, Any] = {
        "name": "n",
        "depends_on": [],
        "weight": 1,
        "resumable": True,
        "skippable": False,
    }
    for mapping in (large, sole):
        mapping["plan"]["subtasks"] = [
            {**every, "args": {}, **s} for s in mapping["plan"]["subtasks"]
        ]
        parsed = judged(mapping).task
        assert parsed is not None and parsed.plan is not None
        report = validate_plan(parsed.plan, parsed, tools=TOOLS, world=LocalWorld())
        assert [f.code for f in report.faults] == ["granularity"]


# --- models and prices -----------------------------------------------------------------------


def test_whoever_needs_a_model_is_named_when_there_is_none() -> None:
    judge = {"type": "judge", "rubric": "good"}
    mapping = task(
        agent("a"),
        step("b", success=[judge]),
        step("c", on_failure=[{"kind": "agent", "instructions": "x"}]),
        {"id": "g", "kind": "group", "goal": {"objective": "x"}},
        step("plain"),
    )
    assert codes(mapping) == {("missing_model", ("a", "c", "g", "b"))}
    for model in ("m", {"executor": "m"}, {"executor": ["m"]}):
        assert codes({**mapping, "model": model}) == NONE
    nothing: list[Any] = ["", {"executor": []}, {"prices": {}}]
    for model in nothing:
        assert len(codes({**mapping, "model": model})) == 1
    assert codes(mapping, models=["from-outside"]) == NONE
    assert codes(task(step("plain"))) == NONE


def test_without_a_plan_a_model_must_make_one() -> None:
    mapping = {"goal": {"objective": "x"}}
    report = judged(mapping)
    assert [f.code for f in report.faults] == ["missing_model"]
    assert "there is no plan" in report.faults[0].message
    assert judged(mapping, models=["m"]).valid


def test_a_cost_limit_needs_a_price_for_every_model() -> None:
    prices = {"prices": {"a": {"input": 1, "output": 2}}}
    mapping = task(agent("x"), budget={"max_cost_usd": 5})
    assert codes({**mapping, "model": {"executor": "a", **prices}}) == NONE
    report = judged({**mapping, "model": {"executor": ["a", "b"], "judge": "c", **prices}})
    assert [f.code for f in report.faults] == ["missing_price"]
    assert "'b', 'c'" in report.faults[0].message
    assert codes({**mapping, "model": "a"}) == {("missing_price", ())}
    assert codes(mapping, models=["a"]) == {("missing_price", ())}
    assert codes(task(step("x"), budget={"max_cost_usd": 5}), models=["a"]) == NONE
    assert codes({**task(agent("x")), "model": "a"}) == NONE


# --- the budget ------------------------------------------------------------------------------


def timed(id: str, seconds: float, *after: str) -> dict[str, Any]:
    return step(id, estimated_seconds=seconds, depends_on=list(after))


def test_the_critical_path_must_fit_the_time() -> None:
    # a(10) -> b(20) -> d(5) = 35, beside it c(30)
    plan = [timed("a", 10), timed("b", 20, "a"), timed("c", 30), timed("d", 5, "b")]
    assert codes(task(*plan, budget={"max_seconds": 35})) == NONE
    report = judged(task(*plan, budget={"max_seconds": 34.9}))
    assert [(f.code, f.subtasks) for f in report.faults] == [("over_budget", ("a", "b", "d"))]
    assert "35 s: a -> b -> d" in report.faults[0].message


def test_the_sum_at_the_given_concurrency_must_fit_the_time() -> None:
    # 8 * 10 s = 80 s, at 4 a time 20 s, at 2 a time 40 s
    plan = [timed(f"s{n}", 10) for n in range(8)]
    assert codes(task(*plan, budget={"max_seconds": 20})) == NONE
    assert codes(task(*plan, budget={"max_seconds": 20}, concurrency=2)) == {("over_budget", ())}


def test_the_estimate_of_a_foreach_is_that_of_all_children() -> None:
    each = {"kind": "tool", "tool": "look", "success": [{"type": "result"}]}
    loop = {"id": "l", "kind": "foreach", "for_each": [1, 2, 3, 4], "each": each}
    whole = {**loop, "estimated_seconds": 40}
    assert codes(task(whole, budget={"max_seconds": 10})) == NONE  # 40 s at 4 a time
    assert codes(task(whole, budget={"max_seconds": 9})) != NONE
    apart = {**loop, "each": {**each, "estimated_seconds": 10}}
    assert codes(task(apart, budget={"max_seconds": 10})) == NONE
    assert codes(task(apart, budget={"max_seconds": 10}, concurrency=1)) != NONE


def test_more_leaves_than_steps_is_over_the_budget_and_only_a_set_limit_counts() -> None:
    each = {"kind": "tool", "tool": "look", "success": [{"type": "result"}]}
    loop = {"id": "l", "kind": "foreach", "for_each": "${a.x}", "each": each, "depends_on": ["a"]}
    group = {"id": "g", "kind": "group", "plan": {"subtasks": [step("x"), step("y")]}}
    mapping = task(step("a"), loop, group)  # 1 + 1 + 2
    assert codes(mapping) == NONE
    assert codes({**mapping, "budget": {"max_steps": 4}}) == NONE
    assert codes({**mapping, "budget": {"max_steps": 3}}) == {("over_budget", ())}
    assert codes({**mapping, "budget": {"max_steps": 0}}) == {("over_budget", ())}


def test_a_group_s_own_budget_is_held_against_its_plan() -> None:
    inner = {"subtasks": [timed("x", 10), timed("y", 10, "x")]}
    group = {"id": "g", "kind": "group", "plan": inner}
    assert codes(task({**group, "budget": {"max_seconds": 20, "max_steps": 2}})) == NONE
    assert codes(task({**group, "budget": {"max_seconds": 19}})) == {("over_budget", ("g",))}
    assert codes(task({**group, "budget": {"max_steps": 1}})) == {("over_budget", ("g",))}


# --- plans and files -------------------------------------------------------------------------


def test_a_plan_is_judged_for_a_task_parsed_or_as_answered() -> None:
    goal = TaskFile.model_validate({"goal": {"objective": "x", "inputs": {"n": 1}}})
    every: dict[str, Any] = {"name": "n", "args": {}, "depends_on": [], "weight": 1}
    every |= {"resumable": True, "skippable": False}
    steps = [step("a", args={"n": "${inputs.n}"}), step("b", depends_on=["c"])]
    answer = {"subtasks": [{**every, **one} for one in steps]}
    for plan in (answer, Plan.model_validate(answer)):
        report = validate_plan(plan, goal, tools=TOOLS, world=LocalWorld())
        assert [(f.code, f.subtasks) for f in report.faults] == [("unknown_dependency", ("b",))]
    mended = {"subtasks": answer["subtasks"][:1]}
    report = validate_plan(mended, goal, tools=TOOLS, world=LocalWorld())
    assert report.task is not None and report.task.plan is not None
    assert report.task.goal.inputs == {"n": 1}
    broken: Any = {"subtaks": []}
    assert not validate_plan(broken, goal, tools=TOOLS, world=LocalWorld()).valid


def test_a_file_that_cannot_be_read_gives_the_same_document() -> None:
    report = unreadable(UsageError("unreadable_file", "x.yaml: there is no such file"))
    assert report.as_dict() == {
        "valid": False,
        "faults": [
            {
                "code": "missing_resource",
                "message": "x.yaml: there is no such file",
                "subtasks": [],
            }
        ],
        "warnings": [],
    }
    assert unreadable(UsageError("schema", "x")).faults[0].code == "schema"
