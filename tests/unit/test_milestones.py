"""Milestones that a program adds: at phase ends and joins, not too close, never breaking a plan."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.graph.milestones import Layout, added_milestones, distance_warnings


def step(id: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "kind": "tool", "tool": "t", "depends_on": list(needs), **more}


def chain(n: int, **more: Any) -> list[dict[str, Any]]:
    return [step(f"s{i}", *([f"s{i - 1}"] if i else []), **more) for i in range(n)]


def phased(*sizes: int) -> dict[str, Any]:
    """A chain cut into phases of these sizes."""
    steps = chain(sum(sizes))
    phases = [f"p{k}" for k, size in enumerate(sizes) for _ in range(size)]
    for one, phase in zip(steps, phases, strict=True):
        one["phase"] = phase
    return {"phases": [{"id": f"p{k}"} for k in range(len(sizes))], "subtasks": steps}


def afters(plan: dict[str, Any]) -> list[str]:
    return [milestone["after"] for milestone in added_milestones(plan)]


def test_phase_ends_become_milestones_but_not_the_end_of_all() -> None:
    assert afters(phased(3, 4, 5)) == ["p0", "p1"]


def test_a_phase_of_one_leaf_is_too_close_to_the_milestone_before() -> None:
    assert afters(phased(3, 1, 4)) == ["p0"]


def test_a_phase_with_a_milestone_of_the_model_gets_no_second_one() -> None:
    plan = {**phased(3, 3), "milestones": [{"id": "mine", "after": "s2"}]}
    assert added_milestones(plan) == []


def test_the_densest_join_of_a_long_plan_is_a_milestone() -> None:
    leaves = [step(f"a{i}") for i in range(8)]
    join = step("join", *(f"a{i}" for i in range(8)))
    after = [step(f"b{i}", "join") for i in range(12)]
    assert afters({"subtasks": [*leaves, join, *after]}) == ["join"]


def test_a_short_plan_has_no_join_milestone() -> None:
    plan = {"subtasks": [step("a"), step("b"), step("c"), step("d", "a", "b", "c"), step("e", "d")]}
    assert added_milestones(plan) == []


def test_an_added_milestone_checks_the_artifacts_of_what_surely_ran() -> None:
    plan = phased(2, 3)
    plan["subtasks"][0]["outputs"] = ["a.txt"]
    plan["subtasks"][1] |= {"outputs": ["b.txt"], "skippable": True}
    (milestone,) = added_milestones(plan)
    assert milestone["checks"] == [{"type": "artifact", "name": "s0/a.txt"}]


def test_an_added_milestone_has_an_id_of_its_own() -> None:
    plan = phased(2, 3)
    plan["subtasks"][4]["id"] = "p0-done"
    assert added_milestones(plan)[0]["id"] == "p0-done-2"


@pytest.mark.parametrize(
    ("sizes", "words"),
    [((30,), "30 leaves lie between the start and the end"), ((3, 4), ""), ((25,), "")],
)
def test_a_long_way_without_a_milestone_is_said(sizes: tuple[int, ...], words: str) -> None:
    said = "; ".join(distance_warnings(phased(*sizes)))
    assert said.startswith(words) and bool(said) == bool(words)


def test_two_milestones_side_by_side_are_said() -> None:
    near = [{"id": "m", "after": "s1"}, {"id": "n", "after": "s2"}]
    (said,) = distance_warnings({**phased(6), "milestones": near})
    assert "'m' and 'n'" in said and "1 leaves" in said


@st.composite
def dags(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(1, 40))
    needs = [
        draw(st.lists(st.integers(0, i - 1), max_size=5, unique=True)) if i else []
        for i in range(n)
    ]
    phase = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    steps = [
        step(f"s{i}", *(f"s{j}" for j in of), phase=f"p{phase[i]}") for i, of in enumerate(needs)
    ]
    return {"phases": [{"id": f"p{k}"} for k in range(5)], "subtasks": steps}


@given(dags())
def test_added_milestones_are_never_close_and_name_what_exists(plan: dict[str, Any]) -> None:
    layout = Layout.of(plan)
    made = added_milestones(plan)
    assert sorted(layout.rank.values()) == list(range(len(plan["subtasks"])))
    for id, needs in layout.needs.items():
        assert all(layout.rank[need] < layout.rank[id] for need in needs)
    with_them = {**plan, "milestones": made}
    assert not [said for said in distance_warnings(with_them) if "close" in said]
    assert len({m["id"] for m in made}) == len(made)
