"""Task files: what is read, what is refused and where, what the command line sets."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from surefoot.graph.errors import UsageError
from surefoot.graph.task_file import (
    parse_set,
    prepare_mapping,
    read_document,
    read_task_file,
)
from surefoot.graph.yaml_reader import YamlFault, read_yaml

MINIMAL = "goal: {objective: Count the words}\n"


def written(folder: Path, text: str, name: str = "task.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path, **sets: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read_task_file(path, sets=sets)
    assert "\n" not in str(caught.value)
    return caught.value


def test_paths_in_a_file_start_from_its_folder_and_set_ones_from_the_current_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "job").mkdir()
    text = """
goal:
  objective: x
  inputs: {a: ./data, b: ../up, c: /abs/dir, d: plain, e: [./one, 2], f: "...", g: "."}
tools: [./mine.py, other.py, package.module, ../shared]
"""
    loaded = read_task_file(
        written(tmp_path / "job", text),
        sets={"a": "./from-shell", "h": "../x"},
        cwd=tmp_path / "cwd",
    )
    inputs = loaded.mapping["goal"]["inputs"]
    assert inputs == {
        "a": str(tmp_path / "cwd" / "from-shell"),
        "b": str(tmp_path / "up"),
        "c": "/abs/dir",
        "d": "plain",
        "e": [str(tmp_path / "job" / "one"), 2],
        "f": "...",
        "g": ".",
        "h": str(tmp_path / "x"),
    }
    assert loaded.mapping["tools"] == [
        str(tmp_path / "job" / "mine.py"),
        str(tmp_path / "job" / "other.py"),
        "package.module",
        str(tmp_path / "shared"),
    ]
    assert loaded.task_dir == tmp_path / "job"


def test_json_and_yaml_give_the_same_mapping(tmp_path: Path) -> None:
    mapping = {"goal": {"objective": "x", "inputs": {"n": 1.5, "t": True, "z": None}}}
    as_json = read_task_file(written(tmp_path, json.dumps(mapping), "task.json"))
    as_yaml = read_task_file(written(tmp_path, json.dumps(mapping), "task.yaml"))
    assert as_json.mapping == as_yaml.mapping == mapping


def test_what_yaml_1_1_would_change_stays_as_written() -> None:
    text = "{on: 2024-01-31, no: yes, t: 12:30:45, v: 1_000, o: 012, e: 1e3, x: 0x1F, 7: 'true'}"
    assert read_yaml(text) == {
        "on": "2024-01-31",
        "no": "yes",
        "t": "12:30:45",
        "v": "1_000",
        "o": 12,
        "e": 1000.0,
        "x": 31,
        "7": "true",
    }


def test_anchors_and_merge_keys_work_and_own_keys_win() -> None:
    text = "base: &b {kind: tool, weight: 1}\nmine: {<<: *b, weight: 2}\nlist: [*b]\n"
    assert read_yaml(text) == {
        "base": {"kind": "tool", "weight": 1},
        "mine": {"kind": "tool", "weight": 2},
        "list": [{"kind": "tool", "weight": 1}],
    }


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("goal: {a: 1}\ngoal: {a: 2}\n", "line 2, column 1: the key 'goal' is there twice"),
        ("goal: [1, 2\nx: {", "line 2"),
        ("goal: \tx: y\n  - z", "line"),
        ("goal: !!python/object:os.system {}\n", "tag"),
        ("goal: !mine x\n", "tag"),
        ("a: &x [*x]\n", "alias *x"),
        ("a: *nowhere\n", "alias *nowhere"),
        ("? [a, b]\n: c\n", "key must be a text"),
        ("a: .nan\n", "no number in JSON"),
        ("a: -.inf\n", "no number in JSON"),
        ("a: 1e999\n", "too large a number"),
        ("a: " + "9" * 5000 + "\n", "too many digits"),
        ("a: 1\n---\nb: 2\n", "second document"),
        ("a: " + "[" * 300 + "]" * 300, "nested deeper"),
        ("a: " + "[" * 100_000, "nest"),
        ("a: b\0c\n", "characters are not allowed"),
        ("a: {<<: 5}\n", "merges mappings only"),
        (BOMB, "aliases multiply"),
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("- a\n- b\n", "a list"),
        ("just words\n", "a text"),
    ],
)
def test_bad_yaml_is_refused_in_one_line_with_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    path = written(tmp_path, text)
    error = refusal(path)
    assert error.code == "schema"
    assert said in str(error)
    assert str(path) in str(error)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "a": 2}', "'a' is there twice"),
        ('{"a": 1,}', "line 1, column"),
        ('{\n"a": NaN}', "NaN is no number"),
        ('{"a": ' + "9" * 5000 + "}", "digit"),
        ("[" * 100_000, "nested too deeply"),
        ("", "line 1, column 1"),
    ],
)
def test_bad_json_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    error = refusal(written(tmp_path, text, "task.json"))
    assert error.code == "schema"
    assert said in str(error)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    assert "no such file" in str(refusal(tmp_path / "none.yaml"))
    assert "is a folder" in str(refusal(tmp_path))
    os.mkfifo(tmp_path / "pipe.yaml")
    assert "not a regular file" in str(refusal(tmp_path / "pipe.yaml"))
    (tmp_path / "latin.yaml").write_bytes("goal: x\nname: caf\xe9\n".encode("latin-1"))
    error = refusal(tmp_path / "latin.yaml")
    assert error.code == "unreadable_file"
    assert "line 2" in str(error)
    assert refusal(tmp_path / "bad\0name").code == "unreadable_file"


def test_a_file_beyond_the_size_limit_is_refused_without_reading_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.graph.task_file.MAX_FILE_BYTES", 1024)
    error = refusal(written(tmp_path, MINIMAL + "# " + "x" * 2000))
    assert error.code == "unreadable_file"
    assert "longer than" in str(error)


def test_other_encodings_with_a_mark_are_read(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    for encoding in ("utf-8-sig", "utf-16"):
        path.write_bytes("goal: {objective: prüfen}\n".encode(encoding))
        assert read_document(path) == {"goal": {"objective": "prüfen"}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seed=7", ("seed", 7)),
        ("folder=./x", ("folder", "./x")),
        ('list=["a", 1]', ("list", ["a", 1])),
        ("expr=a=b", ("expr", "a=b")),
        ("empty=", ("empty", "")),
        ('text="7"', ("text", "7")),
        ("n=NaN", ("n", "NaN")),
        ("flag=true", ("flag", True)),
        ("deep=" + "[" * 100_000, ("deep", "[" * 100_000)),
    ],
)
def test_a_set_value_is_json_where_it_is_json(text: str, expected: tuple[str, Any]) -> None:
    assert parse_set(text) == expected


@pytest.mark.parametrize("text", ["seed", "=7", " =7", ""])
def test_a_set_without_a_key_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_set(text)
    assert caught.value.code == "bad_set"


def test_a_dotted_key_sets_that_place_and_nothing_is_changed_in_place(tmp_path: Path) -> None:
    mapping = {"goal": {"objective": "x"}, "plan": {"subtasks": [{"id": "a"}, {"id": "b"}]}}
    before = json.dumps(mapping)
    prepared = prepare_mapping(
        mapping,
        task_dir=tmp_path,
        sets={
            "budget.max_steps": 5,
            "plan.subtasks.1.weight": 3,
            "inputs.deep.key": 1,
            "goal.inputs.path": "./p",
            "seed": 7,
        },
        cwd=tmp_path,
    )
    assert json.dumps(mapping) == before
    assert prepared["budget"] == {"max_steps": 5}
    assert prepared["plan"]["subtasks"] == [{"id": "a"}, {"id": "b", "weight": 3}]
    assert prepared["goal"]["inputs"] == {
        "deep": {"key": 1},
        "path": str(tmp_path / "p"),
        "seed": 7,
    }


@pytest.mark.parametrize("key", ["goal.objective.x", "plan.subtasks.9.weight", "plan.subtasks.x"])
def test_a_set_through_something_that_is_no_mapping_is_refused(tmp_path: Path, key: str) -> None:
    mapping = {"goal": {"objective": "x"}, "plan": {"subtasks": [{"id": "a"}]}}
    with pytest.raises(UsageError) as caught:
        prepare_mapping(mapping, task_dir=tmp_path, sets={key: 1})
    assert caught.value.code == "bad_set"
    assert key in str(caught.value)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("abcyn ", max_size=4), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(PLAIN)
def test_what_a_yaml_writer_writes_is_read_back(value: Any) -> None:
    text = yaml.safe_dump(value, allow_unicode=True, default_flow_style=None)
    if "<<" not in text and "=" not in text:
        assert _comparable(read_yaml(text)) == _comparable(value)


@given(st.text("ab:-[]{}&*!|>'\"%@`#,? \n\t0.~<=", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        json.dumps(read_yaml(text), allow_nan=False)
    except YamlFault as fault:
        assert str(fault)


def _comparable(value: Any) -> str:
    """Text form in which 1.0 and 1 are alike (YAML writers shorten numbers) but True is not 1."""
    return json.dumps(value, sort_keys=True).replace(".0", "")
