"""Program checks: each kind holds, and fails with a reason."""

import json
from pathlib import Path
from typing import Any

import pytest
from fakes import Bench, ok
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from surefoot.graph.checks import Check
from surefoot.graph.ports import Binding, ToolCall, ToolReply
from surefoot.graph.values import ArtifactRef, Json, JsonObject
from surefoot.tools.content_checks import (
    FlatSchema,
    compile_schema,
    in_child,
    is_cheap_pattern,
    mismatches,
    same_json,
    schema_fault,
)

CHECKS: TypeAdapter[Check] = TypeAdapter(Check)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    bench.host.check_answer = lambda call, context: in_child(context)
    return bench


async def verify(
    bench: Bench,
    check: JsonObject,
    *,
    result: Json = None,
    artifacts: dict[str, list[ArtifactRef]] | None = None,
    bindings: dict[str, Binding] | None = None,
    **changed: Any,
) -> JsonObject:
    runner = bench.runner(**changed)
    (found,) = await runner.verify(
        [CHECKS.validate_python(check)],
        bindings or {},
        result={"value": result},
        artifacts=artifacts,
    )
    return found


def content_of(path: str) -> bytes:
    return Path(path).read_bytes()


@pytest.mark.parametrize(
    ("check", "result", "holds"),
    [
        ({}, {"a": 1}, True),
        ({}, None, False),
        ({"path": "a"}, {"a": 0}, True),
        ({"path": "a"}, {"a": None}, False),
        ({"path": "b"}, {"a": 1}, False),
        ({"path": "a.1.b"}, {"a": [0, {"b": 2}]}, True),
        ({"path": "a", "equals": 1}, {"a": 1.0}, True),
        ({"path": "a", "equals": 1}, {"a": True}, False),
        ({"path": "a", "equals": None}, {"a": None}, True),
        ({"equals": {"a": [1]}}, {"a": [1]}, True),
        ({"min_items": 2}, [1, 2], True),
        ({"min_items": 3}, [1, 2], False),
        ({"min_items": 0}, "ab", False),
        ({"json_schema": {"type": "array"}}, [], True),
        ({"json_schema": {"type": "object", "required": ["x"]}}, {}, False),
        ({"json_schema": False}, {}, False),
        ({"json_schema": {"type": "nonsense"}}, {}, False),
        ({"json_schema": {"$ref": "http://127.0.0.1:1/schema"}}, {}, False),
        ({"json_schema": {"type": "string", "pattern": "^a+$"}}, "aaa", True),
        ({"path": "a", "equals": 2, "min_items": 1}, {"a": [1]}, False),
    ],
)
async def test_result_checks(bench: Bench, check: JsonObject, result: Json, holds: bool) -> None:
    found = await verify(bench, {"type": "result", "id": "r", **check}, result=result)
    assert found["ok"] is holds
    assert found["type"] == "result"
    assert found["id"] == "r"
    assert found["why"]


async def test_no_result_is_a_reason(bench: Bench) -> None:
    check = CHECKS.validate_python({"type": "result"})
    (found,) = await bench.runner().verify([check], {})
    assert (found["ok"], found["why"]) == (False, "there is no result")


@pytest.mark.parametrize(
    ("check", "content", "holds"),
    [
        ({}, b"", True),
        ({"min_bytes": 3}, b"abc", True),
        ({"min_bytes": 4}, b"abc", False),
        ({"contains": "é"}, "caffé".encode(), True),
        ({"contains": "x"}, b"abc", False),
        ({"regex": "^b"}, b"abc", False),
        ({"regex": "a.c"}, b"abc", True),
        ({"regex": "(a+)+c"}, b"xaac", True),
        ({"regex": "("}, b"abc", False),
        ({"json_schema": {"required": ["t"]}}, b'\xef\xbb\xbf{"t": 1}', True),
        ({"json_schema": {"required": ["t"]}}, b'{"u": 1}', False),
        ({"json_schema": {}}, b"{", False),
        ({"json_schema": {}}, b"\xff\xfe\x00", False),
    ],
)
async def test_artifact_checks(
    bench: Bench, check: JsonObject, content: bytes, holds: bool
) -> None:
    ref = await bench.store.artifact("x", content)
    found = await verify(bench, {"type": "artifact", "name": "x", **check}, artifacts={"x": [ref]})
    assert found["ok"] is holds, found["why"]
    assert found["name"] == "x"


async def test_a_name_that_means_several_must_hold_for_each(bench: Bench) -> None:
    refs = [await bench.store.artifact("x", text) for text in (b"good", b"bad", b"good")]
    check: JsonObject = {"type": "artifact", "name": "x", "contains": "good"}
    found = await verify(bench, check, artifacts={"x": refs})
    assert not found["ok"]
    assert "number 1 of 3" in found["why"]
    assert (await verify(bench, check, artifacts={"x": [refs[0], refs[2]]}))["ok"]


async def test_an_unknown_name_fails(bench: Bench) -> None:
    found = await verify(bench, {"type": "artifact", "name": "x"})
    assert not found["ok"]


async def test_final_evidence_is_fresh(bench: Bench) -> None:
    ref = await bench.store.artifact("x", b"abc")
    bench.store.blobs.clear()
    found = await verify(bench, {"type": "artifact", "name": "x"}, artifacts={"x": [ref]})
    assert not found["ok"]
    assert "missing" in found["why"]


@pytest.mark.parametrize(
    ("check", "holds"),
    [
        ({"path": "there.txt"}, True),
        ({"path": "sub/../there.txt"}, True),
        ({"path": "missing.txt"}, False),
        ({"path": "missing.txt", "exists": False}, True),
        ({"path": "there.txt", "exists": False}, False),
        ({"path": "there.txt", "contains": "tent"}, True),
        ({"path": "there.txt", "contains": "nothing"}, False),
        ({"path": "/etc/hostname"}, False),
        ({"path": "../../../../../etc", "exists": False}, False),
        ({"path": "link"}, False),
        ({"path": "${inputs.folder}/in.txt"}, True),
        ({"path": "."}, True),
    ],
)
async def test_file_checks(bench: Bench, tmp_path: Path, check: JsonObject, holds: bool) -> None:
    workspace, inputs = tmp_path / "workspace", tmp_path / "inputs"
    for folder in (workspace, inputs):
        folder.mkdir()
    (workspace / "there.txt").write_text("content")
    (workspace / "link").symlink_to("/etc/passwd")
    (inputs / "in.txt").write_text("in")
    found = await verify(bench, {"type": "file", **check}, inputs={"folder": str(inputs)})
    assert found["ok"] is holds, found["why"]


@pytest.mark.parametrize(
    ("reply", "holds"),
    [
        (ok({"exit_code": 0, "stdout": "", "stderr": ""}), True),
        (ok({"exit_code": 3, "stdout": "", "stderr": "bad"}), False),
        (ToolReply(status="timeout", message="no answer"), False),
    ],
)
async def test_command_checks(bench: Bench, reply: ToolReply, holds: bool) -> None:
    asked: list[ToolCall] = []

    def run(call: ToolCall) -> ToolReply:
        asked.append(call)
        return reply

    bench.host.add("run_command", run, module="builtin")
    found = await verify(bench, {"type": "command", "run": "make test"})
    assert found["ok"] is holds
    assert asked[0].timeout_s == 120
    await verify(bench, {"type": "command", "run": ["make"], "timeout_seconds": 5})
    assert asked[1].timeout_s == 5


@pytest.mark.parametrize(
    ("answer", "holds"), [(True, True), (False, False), ("too short", False), ("", False)]
)
async def test_python_checks(bench: Bench, answer: bool | str, holds: bool) -> None:
    bench.host.check_answer = lambda call, context: answer
    ref = await bench.store.artifact("x", b"abc")
    found = await verify(
        bench,
        {"type": "python", "call": "checks:good"},
        result={"n": 1},
        artifacts={"x": [ref]},
        inputs={"k": "v"},
    )
    assert found["ok"] is holds
    ((call, context),) = bench.host.checks
    assert call == "checks:good"
    assert context["result"] == {"n": 1}
    assert context["inputs"] == {"k": "v"}
    assert content_of(context["artifacts"]["x"]) == b"abc"
    json.dumps(context)


async def test_references_in_checks_are_resolved(bench: Bench) -> None:
    binding = Binding(result={"value": {"count": 2}})
    check: JsonObject = {"type": "result", "path": "n", "equals": "${list.count}"}
    found = await verify(bench, check, result={"n": 2}, bindings={"list": binding})
    assert found["ok"]
    missing = await verify(bench, {**check, "equals": "${list.x}"}, bindings={"list": binding})
    assert not missing["ok"]
    assert "${list.x}" in missing["why"]


async def test_programs_come_back_in_order_and_others_undecided(bench: Bench) -> None:
    checks = [
        {"type": "person", "question": "good?"},
        {"type": "result"},
        {"type": "judge", "rubric": "good?"},
    ]
    found = await bench.runner().verify(
        [CHECKS.validate_python(check) for check in checks], {}, result={"value": 1}
    )
    assert [one["type"] for one in found] == ["person", "result", "judge"]
    assert [one["ok"] for one in found] == [False, True, False]


def test_patterns_that_can_explode_are_left_to_a_child() -> None:
    assert is_cheap_pattern("Total: [0-9]", 1000)
    assert not is_cheap_pattern("(a+)+b", 10)
    assert not is_cheap_pattern("Total", 10_000_000)


async def test_costly_questions_are_asked_in_the_child(bench: Bench) -> None:
    ref = await bench.store.artifact("x", b"aaaa")
    bench.host.check_answer = lambda call, context: "asked"
    for check in ({"regex": "(a+)+b"}, {"json_schema": {"pattern": "(a+)+b"}}):
        content = {"type": "artifact", "name": "x", **check}
        if "json_schema" in check:
            ref = await bench.store.artifact("x", b'"aaaa"')
        found = await verify(bench, content, artifacts={"x": [ref]})
        assert found["why"] == "asked"


PLAIN = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
SCHEMAS = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(
            st.sampled_from("abc"), st.fixed_dictionaries({"type": PLAIN}), max_size=3
        ),
        "required": st.lists(st.sampled_from("abc"), unique=True),
        "additionalProperties": st.booleans(),
    }
)
VALUES: list[Json] = [None, True, 0, 1.0, 1.5, "x", [], {}]
SOME = st.sampled_from(VALUES)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), SOME, max_size=4)


@given(SCHEMAS, OBJECTS | SOME)
def test_the_shortcut_never_accepts_what_the_full_validator_refuses(
    schema: JsonObject, value: Json
) -> None:
    if FlatSchema(schema).fits(value):
        assert mismatches(compile_schema(schema), value) == []


def test_the_shortcut_knows_the_common_case_and_keeps_out_of_others() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string", "title": "A"}}}
    assert FlatSchema(schema).fits({"a": "x"})
    assert not FlatSchema(schema).fits({"a": 1})
    limited = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 1}}}
    assert not FlatSchema(limited).fits({"a": "x"})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ([1, [2]], [1, [2]], True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": True}, {"a": 1}, False),
        (None, False, False),
        (2**70, 2**70 + 1, False),
    ],
)
def test_equality_is_that_of_json(one: Json, other: Json, same: bool) -> None:
    assert same_json(one, other) is same


def test_a_schema_that_refers_to_itself_for_ever_is_a_reason_and_no_crash() -> None:
    assert schema_fault({"$ref": "#"}, 1)
