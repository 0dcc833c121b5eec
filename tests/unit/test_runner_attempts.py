"""LocalRunner: one attempt from its references to its outcome; prohibitions; containers."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import Bench, foreach_order, ok, tool_order

from surefoot.graph.ports import Binding
from surefoot.graph.values import Outcome
from surefoot.tools.runner import LocalRunner


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def outcomes(runner: LocalRunner, count: int) -> list[Outcome]:
    async with asyncio.timeout(5):
        while len(runner.finished()) < count:
            await runner.wait()
            await asyncio.sleep(0)
    return runner.finished()


async def only_outcome(bench: Bench, *args: object, **fields: object) -> Outcome:
    runner = bench.runner()
    await runner.submit([tool_order(*args, **fields)])  # pyright: ignore[reportArgumentType] - passed through
    (outcome,) = await outcomes(runner, 1)
    await runner.close()
    return outcome


# --- one attempt -----------------------------------------------------------------------------


async def test_references_are_resolved_into_the_arguments(bench: Bench) -> None:
    bench.host.add("tool", lambda call: ok(call.args))
    runner = bench.runner(inputs={"folder": "/data"})
    order = tool_order(
        "a/1",
        args={
            "x": "${item.name}",
            "n": "${index}",
            "in": "${inputs.folder}/f",
            "l": "${list.files}",
        },
        bindings={"list": Binding(result={"value": {"files": ["f"]}})},
        item=({"value": [{"name": "one"}, {"name": "two"}]}, 1),
    )
    await runner.submit([order])
    (outcome,) = await outcomes(runner, 1)
    assert outcome.get("result") == {"value": {"x": "two", "n": 1, "in": "/data/f", "l": ["f"]}}
    (call,) = bench.host.calls
    assert Path("/data") in call.readable


async def test_a_large_value_is_read_from_the_store_and_a_large_result_stored_there(
    bench: Bench,
) -> None:
    sha256 = await bench.store.put_bytes(b'{"text":"long"}')
    bench.host.add("tool", lambda call: ok("y" * 20_000 + call.args["text"]))
    binding = Binding(result={"sha256": sha256, "size": 15})
    outcome = await only_outcome(bench, args={"text": "${big.text}"}, bindings={"big": binding})
    result = outcome.get("result") or {}
    assert result.get("size") == 20_006
    assert bench.store.blobs[result.get("sha256", "")].endswith(b'ylong"')
    (artifact,) = outcome.get("artifacts") or []
    assert artifact["name"] == "_result.json"
    assert artifact["media_type"] == "application/json"


async def test_an_artifact_reference_is_the_path_of_a_copy(bench: Bench) -> None:
    ref = await bench.store.artifact("x.txt", b"content")
    bench.host.add("tool", lambda call: ok(Path(call.args["path"]).read_text()))
    binding = Binding(result={"value": None}, artifacts=(ref,), producer="make")
    outcome = await only_outcome(
        bench, args={"path": "${make.artifact.x.txt}"}, bindings={"make": binding}
    )
    assert outcome.get("result") == {"value": "content"}
    (call,) = bench.host.calls
    assert call.args["path"].endswith("task/artifacts/make/x.txt")
    assert call.artifacts == {"make/x.txt": ref}


async def test_artifacts_of_a_foreach_are_a_list_in_item_order_with_null_where_skipped(
    bench: Bench,
) -> None:
    refs = [await bench.store.artifact("f.json", bytes([n])) for n in range(2)]
    children = (
        Binding(result={"value": 1}, artifacts=(refs[0],), producer="review/0"),
        Binding(result=None, producer="review/1"),
        Binding(result={"value": 3}, artifacts=(refs[1],), producer="review/2"),
    )
    bench.host.add("tool", lambda call: ok(call.args["paths"]))
    binding = Binding(result={"value": [1, None, 3]}, children=children, producer="review")
    outcome = await only_outcome(
        bench, args={"paths": "${review.artifact.f.json}"}, bindings={"review": binding}
    )
    paths: list[str | None] = (outcome.get("result") or {}).get("value") or []
    first, second, third = paths
    assert first is not None
    assert third is not None
    assert first.endswith("artifacts/review/0/f.json")
    assert second is None
    assert third.endswith("artifacts/review/2/f.json")


async def test_the_key_does_not_depend_on_where_copies_of_artifacts_lie(
    bench: Bench, tmp_path: Path
) -> None:
    ref = await bench.store.artifact("x.txt", b"content")
    bench.host.add("tool", lambda call: ok(), effect="irreversible")
    binding = Binding(result={"value": None}, artifacts=(ref,), producer="make")
    order = tool_order(args={"path": "${make.artifact.x.txt}"}, bindings={"make": binding})
    for folder in ("one", "two"):
        runner = bench.runner(task_folder=tmp_path / folder)
        await runner.submit([order])
        await outcomes(runner, 1)
    assert len(bench.host.calls) == 1


@pytest.mark.parametrize(
    ("args", "schema", "kind"),
    [
        ({"x": "${list.nothing}"}, {}, "bad_reference"),
        ({"x": "${item}"}, {}, "bad_reference"),
        ({"x": "text"}, {"properties": {"x": {"type": "integer"}}}, "bad_arguments"),
    ],
)
async def test_arguments_that_cannot_be_fail_without_a_call(
    bench: Bench, args: dict[str, object], schema: dict[str, object], kind: str
) -> None:
    bench.host.add("tool", lambda call: ok(), schema={"type": "object", **schema})
    binding = Binding(result={"value": {"files": []}})
    outcome = await only_outcome(bench, args=args, bindings={"list": binding})
    failure = outcome.get("failure")
    assert failure is not None
    assert failure["kind"] == kind
    assert not failure["retryable"]
    assert not outcome.get("null_reference")
    assert outcome.get("calls") == 0
    assert bench.host.calls == []


async def test_every_mismatch_of_the_arguments_is_named(bench: Bench) -> None:
    schema = {"properties": {"x": {"type": "integer"}, "y": {"type": "string"}}, "required": ["z"]}
    bench.host.add("tool", lambda call: ok(), schema=schema)
    outcome = await only_outcome(bench, args={"x": "a", "y": 2})
    message = (outcome.get("failure") or {}).get("message", "")
    assert "$.x" in message
    assert "$.y" in message
    assert "'z' is a required property" in message


async def test_a_null_of_a_skipped_subtask_is_told_apart(bench: Bench) -> None:
    schema = {"properties": {"x": {"type": "string"}}}
    bench.host.add("tool", lambda call: ok(), schema=schema)
    outcome = await only_outcome(
        bench, args={"x": "${gone.text}"}, bindings={"gone": Binding(result=None)}
    )
    assert outcome.get("null_reference")
    assert (outcome.get("failure") or {}).get("kind") == "bad_arguments"


async def test_a_null_that_the_schema_allows_is_passed_on(bench: Bench) -> None:
    bench.host.add("tool", lambda call: ok(call.args))
    outcome = await only_outcome(
        bench,
        args={"x": "${gone.text}", "y": "is '${gone}'"},
        bindings={"gone": Binding(result=None)},
    )
    assert outcome.get("result") == {"value": {"x": None, "y": "is ''"}}


async def test_a_missing_output_fails_and_a_put_one_is_kept(bench: Bench) -> None:
    ref = await bench.store.artifact("x.txt", b"content")
    bench.host.add("without", lambda call: ok())
    bench.host.add("with", lambda call: ok(None, ref))
    missing = await only_outcome(bench, tool="without", outputs=["x.txt"])
    assert (missing.get("failure") or {}).get("kind") == "missing_output"
    put = await only_outcome(bench, tool="with", outputs=["x.txt"])
    assert put.get("artifacts") == [ref]


async def test_a_failed_check_fails_the_attempt_with_evidence(bench: Bench) -> None:
    ref = await bench.store.artifact("x.txt", b"content")
    bench.host.add("tool", lambda call: ok({"n": 1}, ref))
    checks = [
        {"type": "result", "id": "n", "path": "n", "equals": 2},
        {"type": "artifact", "name": "x.txt", "contains": "content"},
    ]
    outcome = await only_outcome(bench, success=checks)
    failure = outcome.get("failure")
    assert failure is not None
    assert failure["kind"] == "check_failed"
    assert failure["retryable"]
    assert "n: it is 1, not 2" in failure["message"]
    assert [check["ok"] for check in outcome.get("checks") or []] == [False, True]
    assert "artifacts" not in outcome


@pytest.mark.parametrize("name", ["x.txt", "review/x.txt", "review/0/x.txt"])
async def test_a_childs_check_may_name_its_artifact_in_full(bench: Bench, name: str) -> None:
    ref = await bench.store.artifact("x.txt", b"content")
    bench.host.add("tool", lambda call: ok(None, ref))
    check = {"type": "artifact", "name": name, "min_bytes": 7}
    assert (await only_outcome(bench, "review/0", success=[check]))["ok"]


async def test_judges_and_people_are_asked_only_after_the_programs(bench: Bench) -> None:
    bench.host.add("tool", lambda call: ok(1))
    judge = {"type": "judge", "rubric": "good?"}
    person = {"type": "person", "question": "good?"}
    wrong = {"type": "result", "equals": 2}
    failed = await only_outcome(bench, success=[judge, person, wrong])
    assert (failed.get("failure") or {}).get("kind") == "check_failed"
    without_model = await only_outcome(bench, success=[person, judge])
    assert (without_model.get("failure") or {}).get("kind") == "missing_model"
    asked = await only_outcome(bench, success=[person])
    assert (asked.get("question") or {}).get("kind") == "check"


async def test_agent_work_without_a_model_says_so(bench: Bench) -> None:
    outcome = await only_outcome(bench, kind="agent")
    assert (outcome.get("failure") or {}).get("kind") == "missing_model"


async def test_steps_are_told_around_the_call(bench: Bench) -> None:
    steps: list[tuple[str, int, str, str, int]] = []
    bench.host.add("tool", lambda call: ok())

    def told(subtask: str, attempt: int, state: str, tool: str, step: int) -> None:
        steps.append((subtask, attempt, state, tool, step))

    runner = bench.runner(on_step=told)
    await runner.submit([tool_order("a", attempt=3)])
    await outcomes(runner, 1)
    assert steps == [("a", 3, "calling", "tool", 1), ("a", 3, "succeeded", "tool", 1)]


# --- prohibitions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "args", "prohibited"),
    [
        ("banned", {}, True),
        ("other", {}, False),
        ("write_text", {"path": "/data/in/a.txt"}, True),
        ("write_text", {"path": "../../data/in/a.txt"}, False),
        ("read_text", {"path": "/data/in/a.txt"}, False),
        ("read_text", {"path": "/data/secret/a.txt"}, True),
        ("read_text", {"path": "/data/in/../secret"}, True),
        ("run_command", {"command": "cat /data/secret/a.txt"}, True),
        ("http_get", {"url": "https://api.evil.test/x"}, True),
        ("http_get", {"url": "https://user@API.EVIL.TEST:8443/x"}, True),
        ("http_get", {"url": "https://good.test/?q=api.evil.test"}, False),
        ("custom", {"host": "api.evil.test"}, True),
    ],
)
async def test_typed_prohibitions_are_enforced(
    bench: Bench, tool: str, args: dict[str, object], prohibited: bool
) -> None:
    from surefoot.graph.task import HostProhibition, PathProhibition, ToolProhibition

    bench.host.add(tool, lambda call: ok())
    runner = bench.runner(
        inputs={"folder": "/data/in"},
        prohibitions=[
            "Be nice.",
            ToolProhibition(tool="banned"),
            PathProhibition(path="${inputs.folder}"),
            PathProhibition(path="/data/secret", deny="read"),
            HostProhibition(host="*.evil.test"),
        ],
    )
    await runner.submit([tool_order(tool=tool, args=args)])
    (outcome,) = await outcomes(runner, 1)
    assert (outcome.get("failure") or {}).get("kind") == ("prohibited" if prohibited else None)
    assert len(bench.host.calls) == (0 if prohibited else 1)


# --- containers ------------------------------------------------------------------------------


async def test_what_is_not_a_list_cannot_be_expanded(bench: Bench) -> None:
    runner = bench.runner()
    binding = Binding(result={"value": {"a": 1}})
    await runner.submit([foreach_order("expand", for_each="${x}", bindings={"x": binding})])
    (outcome,) = await outcomes(runner, 1)
    assert outcome.get("failure") == {
        "kind": "not_a_list",
        "message": "for_each must be a list, but it is a mapping",
        "retryable": False,
    }


async def test_a_skipped_producer_leaves_nothing_to_expand(bench: Bench) -> None:
    runner = bench.runner()
    binding = Binding(result=None)
    await runner.submit([foreach_order("expand", for_each="${x.files}", bindings={"x": binding})])
    (outcome,) = await outcomes(runner, 1)
    assert outcome.get("null_reference")


async def test_results_are_gathered_in_item_order_with_null_where_skipped(bench: Bench) -> None:
    sha256 = await bench.store.put_bytes(b'{"big":1}')
    children = (
        Binding(result={"value": "one"}),
        Binding(result=None),
        Binding(result={"sha256": sha256, "size": 9}),
    )
    runner = bench.runner()
    check = {"type": "result", "min_items": 2, "json_schema": {"items": {"not": {"type": "null"}}}}
    order = foreach_order(
        "gather", success=[check], bindings={"review": Binding(result=None, children=children)}
    )
    await runner.submit([order])
    (outcome,) = await outcomes(runner, 1)
    assert outcome["ok"]
    stored = outcome.get("result") or {}
    assert bench.store.blobs[stored.get("sha256", "")] == b'["one",null,{"big":1}]'


async def test_a_containers_outputs_are_those_of_every_child_that_was_not_skipped(
    bench: Bench,
) -> None:
    ref = await bench.store.artifact("f.json", b"{}")
    good = Binding(result={"value": 1}, artifacts=(ref,))
    for children, ok_ in [
        ((good, Binding(result=None)), True),
        ((good, Binding(result={})), False),
    ]:
        runner = bench.runner()
        order = foreach_order(
            "gather",
            outputs=["f.json"],
            success=[{"type": "artifact", "name": "f.json", "min_bytes": 2}],
            bindings={"review": Binding(result=None, children=children)},
        )
        await runner.submit([order])
        (outcome,) = await outcomes(runner, 1)
        assert outcome["ok"] is ok_


async def test_a_gathered_result_that_is_too_large_fails_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.tools.kept_values.MAX_RESULT_BYTES", 10)
    children = tuple(Binding(result={"value": "four"}) for _ in range(3))
    runner = bench.runner()
    binding = Binding(result=None, children=children)
    await runner.submit([foreach_order("gather", bindings={"review": binding})])
    (outcome,) = await outcomes(runner, 1)
    failure = outcome.get("failure") or {}
    assert (failure.get("kind"), failure.get("retryable")) == ("result_too_large", False)


@pytest.mark.parametrize(
    ("writes", "item", "inputs", "found"),
    [
        (["out/${item}"], "[a]*.txt", {}, ("out/[[]a][*].txt",)),
        (["${item}"], "?", {}, ("[?]",)),
        (["${item}"], ["a*", "b"], {}, ("a[*]", "b")),
        (["${inputs.where}"], "x", {"where": ["out/**", "in"]}, ("out/**", "in")),
        (["${inputs.where}/*"], "x", {"where": "[1]"}, ("[[]1]/*",)),
    ],
)
async def test_what_data_says_in_writes_is_a_name_and_no_pattern(
    bench: Bench, writes: list[str], item: Any, inputs: Any, found: tuple[str, ...]
) -> None:
    bench.host.add("tool", lambda call: ok(call.args))
    runner = bench.runner(inputs=inputs)
    await runner.submit([tool_order(writes=writes, item=({"value": [item]}, 0))])
    await outcomes(runner, 1)
    (call,) = bench.host.calls
    assert call.writes == found
    of_a_group = replace(tool_order("b", writes=writes, item=({"value": [item]}, 0)), inputs=inputs)
    await runner.submit([of_a_group])
    await outcomes(runner, 2)
    named = {"out/**": "out/[*][*]"}
    assert bench.host.calls[1].writes == tuple(named.get(glob, glob) for glob in found)
    await runner.close()
