"""Names of threads and questions: whatever ids a plan has, no two things share one."""

import pytest
from agent_bench import agent_order

from surefoot.graph.nesting import group_thread
from surefoot.graph.ports import WorkOrder
from surefoot.graph.subtask import thread_of
from surefoot.graph.values import QuestionKind
from surefoot.tools.outcomes import question

IDS = ["a", "2", "a/2", "a/1", "a-2", "a/2/2", "a/2/1", "2/2"]


def order(id: str, *, go: int = 1) -> WorkOrder:
    return agent_order(id, attempt=go)


def test_groups_agents_and_samples_of_any_ids_have_threads_of_their_own() -> None:
    threads = [group_thread("t", id, {}) for id in IDS]
    threads += [thread_of(order(id, go=go)) for id in IDS for go in (1, 2)]
    threads += [thread_of(order(id, go=go), n) for id in IDS for go in (1, 2) for n in (1, 2)]
    assert len(set(threads)) == len(threads) == 8 * 7


def test_a_group_that_means_something_else_has_another_thread() -> None:
    meant = [{"inputs": {"n": 1}}, {"inputs": {"n": 2}}, {"inputs": {"n": 1}, "plan": {}}]
    assert len({group_thread("t", "g", one) for one in meant}) == 3
    assert group_thread("t", "g", meant[0]) == group_thread("t", "g", {"inputs": {"n": 1}})


@pytest.mark.parametrize("kind", ["unknown_effect", "check"])
def test_a_question_about_a_dash_is_another_one_than_about_a_place_inside(
    kind: QuestionKind,
) -> None:
    asked = {question(order(id), kind, "?")["id"] for id in IDS}
    assert len(asked) == len(IDS)
