"""Properties of the cleaning of foreign values."""

import json
import math
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from surefoot.graph.plain import (
    MAX_DEPTH,
    MAX_MARKS,
    NotJson,
    TooLarge,
    canonical_json,
    clean_json,
    clean_text,
    compact_json,
    digest,
    fits_inline,
)
from surefoot.graph.values import INLINE_BYTES

any_text = st.text(st.characters(exclude_categories=()))
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner) | st.dictionaries(any_text, inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("odd", "clean"),
    [
        ("plain", "plain"),
        ("a\x00b", r"a\u0000b"),
        ("é\x00", r"é\u0000"),
        ("\ud83d", r"\ud83d"),
        ("caf\udce9", r"caf\udce9"),
        ("\ud83d\ude00", "😀"),
        ("\ude00\ud83d", r"\ude00\ud83d"),
        ("\ud83d\ud83d\ude00\x00", r"\ud83d" + "😀" + r"\u0000"),
        (r"already \u0000", r"already \u0000"),
    ],
)
def test_odd_characters_become_visible(odd: str, clean: str):
    assert clean_text(odd) == clean


@given(any_text)
def test_clean_text_can_be_stored_and_cleaning_again_changes_nothing(text: str):
    clean = clean_text(text)
    assert "\x00" not in clean.encode().decode()
    assert clean_text(clean) == clean


@given(any_json)
def test_clean_json_survives_a_round_trip_and_cleaning_again_changes_nothing(value: Any):
    try:
        plain, _ = clean_json(value)
    except NotJson as exc:
        assert "two keys" in exc.why
        return
    assert json.loads(compact_json(plain)) == plain
    assert clean_json(plain) == (plain, [])


@given(st.dictionaries(any_text, st.integers()))
def test_canonical_json_does_not_depend_on_the_order_of_keys(value: dict[str, int]):
    try:
        text = canonical_json(value)
    except NotJson:
        return
    assert canonical_json(dict(reversed(value.items()))) == text
    assert digest(dict(reversed(value.items()))) == digest(value)


def test_keys_that_are_not_text_are_written_as_json_does():
    value = {2: "a", None: "b", True: "c", 1.5: "d"}
    assert clean_json(value)[0] == json.loads(json.dumps(value))


def test_keys_that_become_the_same_text_are_refused():
    with pytest.raises(NotJson, match=r"\$\.a\[\"1\"\]: two keys"):
        clean_json({"a": {1: 0, "1": 0}})


@pytest.mark.parametrize(
    ("value", "name"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")]
)
def test_numbers_that_json_lacks_become_null_with_a_mark(value: float, name: str):
    plain, marks = clean_json({"x": [1.0, value]})
    assert plain == {"x": [1.0, None]}
    assert marks == [f"{name} at $.x[1] became null"]


def test_many_marks_are_counted_not_listed():
    _, marks = clean_json([math.nan] * 100)
    assert len(marks) == MAX_MARKS + 1
    assert marks[-1] == f"and {100 - MAX_MARKS} more became null"


def test_big_integers_stay_exact():
    assert clean_json({"n": 10**40, "m": -(2**200)})[0] == {"n": 10**40, "m": -(2**200)}
    assert json.loads(compact_json(10**4299)) == 10**4299


def test_integers_that_have_no_text_are_refused():
    with pytest.raises(NotJson, match="4300 digits"):
        clean_json([10**5000])


def test_nesting_is_allowed_to_the_limit_only():
    deep: list[Any] = []
    for _ in range(MAX_DEPTH - 1):
        deep = [deep]
    assert clean_json(deep)[0] == deep
    with pytest.raises(NotJson, match="nested deeper"):
        clean_json([deep])


def test_a_value_that_contains_itself_is_refused():
    cycle: dict[str, Any] = {}
    cycle["again"] = [cycle]
    with pytest.raises(NotJson, match="containing itself"):
        clean_json(cycle)


def test_a_value_that_multiplies_itself_is_too_large():
    value: list[Any] = ["x"] * 10
    for _ in range(100):
        value = [value] * 10
    with pytest.raises(TooLarge):
        clean_json(value, limit_bytes=100_000)


@pytest.mark.parametrize("value", [{1, 2}, b"x", object(), complex(1), int, range(3)])
def test_other_types_are_refused_by_place_and_type(value: object):
    with pytest.raises(NotJson, match=rf"^\$\.a\[1\]: {type(value).__name__} is not JSON$"):
        clean_json({"a": [0, value]})


class _Model(BaseModel):
    name: str
    inner: list["_Model"] = []


@dataclass
class _Point:
    x: float
    more: tuple[int, ...]


class _Level(IntEnum):
    high = 3


class _Word(StrEnum):
    yes = "y"


def test_models_and_dataclasses_become_mappings():
    value = [_Model(name="a\x00", inner=[_Model(name="b")]), _Point(math.nan, (1, 2))]
    plain, marks = clean_json(value)
    assert plain == [
        {"name": r"a\u0000", "inner": [{"name": "b", "inner": []}]},
        {"x": None, "more": [1, 2]},
    ]
    assert marks == ["NaN at $[1].x became null"]


def test_subclasses_of_plain_types_become_the_plain_types():
    plain, _ = clean_json({"a": _Level.high, "b": _Word.yes, _Word.yes: 1})
    assert plain == {"a": 3, "b": "y", "y": 1}
    assert [type(v) for v in plain.values()] == [int, str, int]
    assert [type(k) for k in plain] == [str, str, str]


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("x" * (INLINE_BYTES - 2), True),
        ("x" * (INLINE_BYTES - 1), False),
        ("é" * (INLINE_BYTES // 2 - 1), True),
        ("é" * (INLINE_BYTES // 2), False),
        ([2**63 - 1, -(2**63)], True),
        ({"a": [2**63]}, False),
        ("9" * 30, True),
    ],
)
def test_small_values_without_huge_integers_fit_inline(value: Any, fits: bool):
    assert fits_inline(value, compact_json(value)) is fits
