import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.checkpointing.json_text import json_text

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc\\"), inner),
)


@given(PLAIN)
def test_plain_values_come_back_unchanged(value: Any) -> None:
    assert json.loads(json_text(value)) == value


@given(st.text(st.characters()))
def test_any_text_becomes_storable_and_a_second_time_changes_nothing(text: str) -> None:
    stored = json.loads(json_text({text: text}))
    stored_text = next(iter(stored))
    assert stored == {stored_text: stored_text}
    assert "\0" not in stored_text
    stored_text.encode()
    assert json.loads(json_text(stored)) == stored


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("a\0b", "a\\u0000b"),
        ("\ud83d", "\\ud83d"),
        ("\\u0000", "\\u0000"),
        ("\\\\u0000\0", "\\\\u0000\\u0000"),
        ([float("nan"), float("inf"), -float("inf"), 1.5], [None, None, None, 1.5]),
        ({"x\0": (1, 2**200)}, {"x\\u0000": [1, 2**200]}),
    ],
)
def test_what_jsonb_refuses_is_made_visible_or_null(value: Any, stored: Any) -> None:
    assert json.loads(json_text(value)) == stored
