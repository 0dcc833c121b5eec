"""References: what is found, what is refused, what they resolve to."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.graph.errors import ReferenceMissing
from surefoot.graph.references import (
    Reference,
    as_text,
    dig,
    find_references,
    reference_faults,
    resolve,
    sole_reference,
    split_path,
)

RESULTS: dict[str, Any] = {
    "list": {"files": ["a.txt", "b.txt"], "n": 2, "none": None, "deep": [{"k": True}]},
    "inputs": {"folder": "/data", "ratio": 0.5},
    "item": "a.txt",
    "index": 3,
}


def look_up(reference: Reference) -> Any:
    if reference.artifact is not None:
        return f"/artifacts/{reference.head}/{reference.artifact}"
    return dig(RESULTS[reference.head], reference.path, reference=reference.text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${list.files}", Reference("list.files", "list", ("files",))),
        ("${list.result}", Reference("list.result", "list", ())),
        ("${list.result.files.0}", Reference("list.result.files.0", "list", ("files", "0"))),
        ("${list}", Reference("list", "list", ())),
        ("${ list.files }", Reference("list.files", "list", ("files",))),
        ("${item}", Reference("item", "item", ())),
        ("${item.artifact.x}", Reference("item.artifact.x", "item", ("artifact", "x"))),
        ("${inputs.result}", Reference("inputs.result", "inputs", ("result",))),
        (
            "${review.artifact.finding.json}",
            Reference("review.artifact.finding.json", "review", (), "finding.json"),
        ),
        (
            "${r.artifact.a b (1).txt}",
            Reference("r.artifact.a b (1).txt", "r", (), "a b (1).txt"),
        ),
    ],
)
def test_a_reference_is_read_by_its_parts(text: str, expected: Reference) -> None:
    assert find_references(text) == [expected]
    assert sole_reference(text) == expected
    assert reference_faults(text) == []


def test_references_are_found_in_order_in_nested_values_but_not_in_keys() -> None:
    value = {"${key.x}": ["${a.x} and ${b.y}", {"in": "${c.z}"}], "last": "${d}", "no": 5}
    assert [r.text for r in find_references(value)] == ["a.x", "b.y", "c.z", "d"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${open", "never closed"),
        ("${a${b}}", "never closed"),
        ("${}", "empty"),
        ("${  }", "empty"),
        ("${a..b}", "empty key"),
        ("${a.}", "empty key"),
        ("${.a}", "neither a subtask id"),
        ("${a b.c}", "neither a subtask id"),
        ("${review/0.x}", "name the container"),
        ("${a.artifact.b/c}", "no '/'"),
    ],
)
def test_a_malformed_reference_is_named_with_its_reason(text: str, said: str) -> None:
    (fault,) = reference_faults(["fine", {"k": text}])
    assert said in fault
    assert sole_reference(text) is None
    with pytest.raises(ReferenceMissing):
        resolve(f"before {text}", look_up)


def test_alone_a_reference_keeps_its_json_type() -> None:
    assert resolve("${list.files}", look_up) == ["a.txt", "b.txt"]
    assert resolve({"a": ["${list.n}", "${list.none}"]}, look_up) == {"a": [2, None]}
    assert resolve("${list.deep.0.k}", look_up) is True


def test_inside_text_the_string_form_stands() -> None:
    text = "n=${list.n} f=${list.files} none=<${list.none}> r=${inputs.ratio} t=${list.deep.0.k}"
    assert resolve(text, look_up) == 'n=2 f=["a.txt","b.txt"] none=<> r=0.5 t=true'
    assert resolve("${inputs.folder}/${item}", look_up) == "/data/a.txt"


def test_two_dollars_write_a_literal() -> None:
    assert resolve("$${HOME} ${index} $$${x}", look_up) == "${HOME} 3 $${x}"
    assert find_references("$${HOME}") == []
    assert resolve("$${item}", look_up) == "${item}"
    assert resolve("a $ b $$ {c}", look_up) == "a $ b $$ {c}"


def test_what_was_looked_up_is_not_resolved_again() -> None:
    assert resolve("x ${item}", lambda _: "${item}") == "x ${item}"


def test_an_artifact_reference_reaches_the_lookup_by_name() -> None:
    assert resolve("${r.artifact.f.json}", look_up) == "/artifacts/r/f.json"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (("x",), "has no key 'x' (its keys: 'files', 'n', 'none', 'deep')"),
        (("files", "2"), "has 2 items, so no item 2"),
        (("files", "-1"), "not a whole number"),
        (("none", "x"), "is null"),
        (("n", "x"), "is int"),
    ],
)
def test_a_missing_key_says_what_is_there(path: tuple[str, ...], why: str) -> None:
    with pytest.raises(ReferenceMissing) as caught:
        dig(RESULTS["list"], path)
    assert why in str(caught.value)
    assert caught.value.reference == ".".join(path)


def test_a_check_path_splits_at_dots() -> None:
    assert split_path(None) == split_path("") == ()
    assert split_path("a.0.b") == ("a", "0", "b")


def test_deep_nesting_resolves_without_a_crash() -> None:
    value: Any = "${index}"
    for _ in range(100):
        value = {"a": [value]}
    resolved = resolve(value, look_up)
    assert len(find_references(value)) == 1
    for _ in range(100):
        resolved = resolved["a"][0]
    assert resolved == 3


@given(st.text(alphabet="${}a. "))
def test_a_text_is_kept_when_its_braces_are_escaped(text: str) -> None:
    escaped = text.replace("${", "$${")
    assert resolve({"a": [escaped]}, look_up) == {"a": [text]}
    assert find_references(escaped) == []
    assert reference_faults(escaped) == []


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), JSON, min_size=1))
def test_every_key_of_a_mapping_can_be_looked_up(mapping: dict[str, Any]) -> None:
    for key, value in mapping.items():
        found = resolve(f"${{x.{key}}}", lambda r: dig(mapping, r.path))
        if key != "result":
            assert found == value
            assert resolve(f"-${{x.{key}}}", lambda r: dig(mapping, r.path)) == "-" + as_text(value)


@given(JSON)
def test_no_value_crashes_the_search(value: Any) -> None:
    faults = reference_faults(value)
    references = find_references(value)
    assert all(isinstance(f, str) for f in faults)
    assert all(r.head for r in references)
