"""A walk that takes a glob name by name means what the glob means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.graph.path_globs import begin, enter, matches_any, only_names

PARTS = st.sampled_from(["a", "b", "a*", "?", "*", "**", "[ab]", "[!a]", "", ".", "[z-a]", "ab"])
NAMES = st.sampled_from(["a", "b", "ab", "c", "[z-a]", "aa"])


def walked(globs: list[str], path: str) -> bool:
    """Whether a walk from the workspace comes to a path as one that is meant."""
    wanted = begin(globs)
    for name in path.split("/"):
        meant, wanted = enter(wanted, name)
        if meant:
            return True
        if not wanted:
            return False
    return False


@given(st.lists(st.lists(PARTS, min_size=1, max_size=4), max_size=3), st.lists(NAMES, min_size=1))
def test_a_walk_comes_to_what_is_meant_and_to_nothing_else(
    globs: list[list[str]], names: list[str]
) -> None:
    written, path = ["/".join(parts) for parts in globs], "/".join(names)
    assert walked(written, path) == matches_any(written, path)


@pytest.mark.parametrize(
    ("globs", "names"),
    [
        (["out/a.txt", "b"], {"out", "b"}),
        (["out/*.txt"], {"out"}),
        (["*.txt", "out"], None),
        (["**/x"], None),
        (["."], None),
        ([], set[str]()),
    ],
)
def test_spelled_out_names_are_looked_up_and_nothing_is_listed(
    globs: list[str], names: set[str] | None
) -> None:
    assert only_names(begin(globs)) == names


def test_a_range_that_is_none_means_itself() -> None:
    assert matches_any(["[z-a]/x"], "[z-a]/x")
    assert not matches_any(["[z-a]/x"], "m/x")
    assert matches_any(["[[]x"], "[x")
