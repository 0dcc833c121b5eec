"""The validator's algorithms against slow and plain ones: ancestry, cycles, overlapping globs."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.graph.validation.globs import overlap, segments
from surefoot.graph.validation.reachability import BATCH, components, cycle_in, unordered


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    n = draw(st.integers(1, 12))
    nodes = st.integers(0, n - 1)
    return [sorted(draw(st.sets(nodes, max_size=4)) - {node}) for node in range(n)]


def ancestors(needs: list[list[int]], node: int) -> set[int]:
    """Everything a node needs, by walking."""
    seen: set[int] = set()
    stack = list(needs[node])
    while stack:
        top = stack.pop()
        if top not in seen:
            seen.add(top)
            stack += needs[top]
    return seen


@given(graphs())
def test_ancestry_agrees_with_walking(needs: list[list[int]]) -> None:
    nodes = range(len(needs))
    pairs = [(node, other) for node in nodes for other in nodes]
    late = unordered(needs, components(needs), pairs)
    for node, other in pairs:
        walked = other in ancestors(needs, node) and other != node
        assert ((node, other) not in late) == walked


@given(graphs())
def test_components_are_what_needs_each_other_and_come_after_their_needs(
    needs: list[list[int]],
) -> None:
    order = components(needs)
    assert sorted(node for members in order for node in members) == list(range(len(needs)))
    done: set[int] = set()
    for members in order:
        for node in members:
            assert set(needs[node]) <= done | set(members)
            together = {m for m in members if m != node}
            assert together <= ancestors(needs, node)
        done |= set(members)


@given(graphs())
def test_a_cycle_is_a_real_one(needs: list[list[int]]) -> None:
    for members in components(needs):
        if len(members) > 1:
            cycle = cycle_in(members, needs)
            assert len(set(cycle)) == len(cycle) >= 2
            for node, needed in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
                assert needed in needs[node]


def test_more_questions_than_one_batch_are_answered_alike() -> None:
    n = BATCH + 500
    needs = [[node - 1] if node else [] for node in range(n)]
    order = components(needs)
    assert unordered(needs, order, ((n - 1, other) for other in range(n - 1))) == set()
    backwards = {(0, other) for other in range(1, n)}
    assert unordered(needs, order, backwards) == backwards


# --- globs -----------------------------------------------------------------------------------

NAMES = ["a", "b", "ab"]
PATHS = [path for depth in (1, 2, 3, 4) for path in product(NAMES, repeat=depth)]


def matches(parts: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether a path is named by a glob or lies below what it names, by trying everything."""
    if not parts:
        return True
    if parts[0] == "**":
        return any(matches(parts[1:], path[n:]) for n in range(len(path) + 1))
    return bool(path) and name_matches(parts[0], path[0]) and matches(parts[1:], path[1:])


def name_matches(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(name_matches(pattern[1:], name[n:]) for n in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and name_matches(pattern[1:], name[1:])


SEGMENTS = st.sampled_from(["a", "b", "ab", "*", "**", "?", "a*", "*b", "a?", "?b"])


@settings(max_examples=400)
@given(st.lists(SEGMENTS, max_size=2), st.lists(SEGMENTS, max_size=2))
def test_globs_overlap_exactly_when_a_path_matches_both(one: list[str], other: list[str]) -> None:
    left, right = tuple(one), tuple(other)
    shared = any(matches(left, path) and matches(right, path) for path in PATHS)
    assert overlap(left, right) == overlap(right, left) == shared


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("**/a.txt", "**/b.txt", False),
        ("**/a.txt", "out/b.txt", False),
        ("**/a.txt", "out", True),
        ("**/a.txt", "out/*", True),
        ("**/a.txt", "out/*.csv", False),
        ("a.txt", "*/b", False),
        ("a.txt", "a.txt/b", True),
        ("out/a.txt", "out/a.txt/**", True),
        ("out/a.txt", "out/**", True),
        ("v1.0/**", "v1.0/x", True),
    ],
)
def test_a_name_with_an_ending_is_a_file_unless_spelled_out(
    one: str, other: str, meet: bool
) -> None:
    assert overlap(segments(one), segments(other)) == meet
    assert overlap(segments(other), segments(one)) == meet


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("./a//b/", ("a", "b")),
        ("a/../b", ("b",)),
        (".", ()),
        ("", ()),
        ("a/./**", ("a", "**")),
    ],
)
def test_a_glob_is_read_by_its_segments(pattern: str, parts: tuple[str, ...]) -> None:
    assert segments(pattern) == parts


def test_brackets_stand_for_any_one_character() -> None:
    assert overlap(segments("log[0-9].txt"), segments("log7.txt"))
    assert not overlap(segments("log[0-9].txt"), segments("log.txt"))
    assert overlap(segments("a[b"), segments("a[b"))


def test_many_stars_are_answered_quickly() -> None:
    stars = "*a" * 200
    assert overlap((stars,), (stars + "b*",))
    assert not overlap((stars,), ("b" * 200,))
    assert overlap(("**", "x") * 50, ("**", "y", "**", "x") * 25)
