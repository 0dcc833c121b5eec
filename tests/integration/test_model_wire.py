"""The client against a real HTTP server: silent streams (D10), and all else that can be said."""

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from model_client import HEAD, client_of, turn, verdict_ask
from model_server import (
    ModelServer,
    Said,
    call_tool,
    calls,
    cut,
    drip,
    finish,
    no_end,
    raw,
    refuse,
    reset,
    say,
    say_json,
    silent,
    whole,
)

from surefoot.graph.errors import AnswerUnusable, MissingModel, ModelUnavailable
from surefoot.graph.model_ports import Reply
from surefoot.models.stepping import reply_of

YES = say_json({"pass": True})


async def test_a_request_carries_head_max_tokens_schema_and_asks_for_usage() -> None:
    with ModelServer().always("any", YES) as server:
        async with client_of(server) as client:
            await client.models.ask(verdict_ask())
    body = server.seen[0].body
    assert body["messages"][0] == {"role": "system", "content": HEAD}
    assert body["max_tokens"] == 2048
    assert "max_completion_tokens" not in body
    assert body["response_format"]["json_schema"]["name"] == "verdict"
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert '"pass"' in body["messages"][1]["content"]


async def test_tokens_are_counted_from_the_server_and_by_the_reservation_where_it_says_none() -> (
    None
):
    answers = [say_json({"pass": True}, usage=(100, 10)), say_json({"pass": True}, usage=None)]
    with ModelServer().on("verdict", *answers) as server:
        async with client_of(server) as client:
            await client.models.ask(verdict_ask())
            assert client.spending.account.usage["tokens"] == 110
            await client.models.ask(verdict_ask())
            assert client.spending.account.usage["tokens"] > 110 + 2048
            assert client.spending.account.reserved.tokens == 0


@pytest.mark.parametrize(
    "fault",
    [
        silent("before headers"),
        silent("after headers"),
        silent(after=3),
        drip(say("x" * 400), every_s=0.05),
        no_end(say("x" * 400)),
        reset(),
        refuse(500),
        refuse(408),
        raw("<html>502 Bad Gateway</html>"),
        raw('{"error": {"message": "overloaded"}}'),
    ],
    ids=lambda fault: "fault",
)
async def test_what_goes_wrong_on_the_wire_is_tried_again_and_is_no_answer(fault: Said) -> None:
    with ModelServer().on("verdict", fault, YES) as server:
        async with client_of(server, idle_s=0.2, total_s=1.0) as client:
            answer = await client.models.ask(verdict_ask(rounds=1))
    assert answer.value == {"pass": True}
    assert client.spending.steps == 1
    (waited,) = client.journal.of("ModelWaits")
    assert waited["reason"]
    assert client.journal.of("ModelCalled")[0]["retries"] == 1


async def test_an_endpoint_that_stays_silent_is_given_up_with_a_reason() -> None:
    with ModelServer().always("any", silent("after headers")) as server:
        async with client_of(server, idle_s=0.1) as client:
            with pytest.raises(ModelUnavailable, match=r"nothing came for 0\.1 s"):
                await client.models.ask(verdict_ask())
    assert len(server.seen) == 4


async def test_a_call_ends_when_nobody_waits_for_it_any_more() -> None:
    with ModelServer().always("any", silent("before headers")) as server:
        async with client_of(server, idle_s=30.0, total_s=30.0) as client:
            started = time.monotonic()
            with pytest.raises(ModelUnavailable):
                await client.models.ask(verdict_ask(until=time.time() + 0.5))
            assert 0.4 < time.monotonic() - started < 3.0


async def test_a_cancelled_call_ends_at_once_and_counts_as_reserved() -> None:
    with ModelServer().always("any", silent("before headers")) as server:
        async with client_of(server, idle_s=30.0, total_s=30.0) as client:
            asked = asyncio.create_task(client.models.ask(verdict_ask()))
            while not server.seen:
                await asyncio.sleep(0.01)
            asked.cancel()
            started = time.monotonic()
            await asyncio.wait({asked})
            assert time.monotonic() - started < 1.0
            assert asked.cancelled()
            assert client.spending.account.reserved.tokens == 0
            assert client.spending.account.usage["tokens"] > 2048


@pytest.mark.parametrize("form", [replace, whole], ids=["streamed", "whole"])
async def test_answers_are_read_alike_however_they_are_sent(form: Callable[[Said], Said]) -> None:
    with ModelServer() as server:
        server.on("verdict", form(YES))
        server.on("agent", form(calls([("look", {"a": 1}), ("look", "{bad")], text="Two.")))
        async with client_of(server) as client:
            assert (await client.models.ask(verdict_ask())).value == {"pass": True}
            reply = await client.models.step(turn())
    assert [(use.name, use.args) for use in reply.uses] == [("look", {"a": 1}), ("look", None)]
    assert "breaks off" in reply.uses[1].fault
    assert reply.text == reply.message["content"] == "Two."


@pytest.mark.parametrize("field", ["stream", "stream_options", "response_format"])
async def test_what_a_server_does_not_know_is_left_out_from_then_on(field: str) -> None:
    with ModelServer(refuses=frozenset({field})).always("any", YES) as server:
        async with client_of(server) as client:
            for _ in range(2):
                assert (await client.models.ask(verdict_ask())).value == {"pass": True}
    assert [bool(seen.body.get(field)) for seen in server.seen] == [True, False, False]


async def test_a_server_without_tools_is_asked_in_text() -> None:
    with ModelServer(refuses=frozenset({"tools"})) as server:
        server.always("text", say('I will look.\n{"tool": "look", "args": {"a": 1}}'))
        async with client_of(server) as client:
            first = await client.models.step(turn())
            result = {"role": "tool", "tool_call_id": first.uses[0].id, "content": "found"}
            await client.models.step(turn([first.message, result], step=2))
    assert (first.uses[0].name, first.uses[0].args) == ("look", {"a": 1})
    sent = server.seen[-1].messages
    assert {message["role"] for message in sent} == {"system", "user", "assistant"}
    assert server.seen[-1].says("found")


async def test_a_bad_answer_is_asked_again_with_its_faults_and_kept_for_the_trace() -> None:
    odd = '{"pass": "yes", "why": "\\ud83c \\u0000"}'
    with ModelServer().on("verdict", say("no idea"), say(odd), cut(YES), YES) as server:
        async with client_of(server) as client:
            answer = await client.models.ask(verdict_ask(rounds=4))
    assert answer.value == {"pass": True}
    assert server.seen[1].says("there is no JSON object in the answer")
    assert server.seen[2].says("$.pass: 'yes' is not of type 'boolean'")
    assert server.seen[3].says("cut at the token limit")
    kept = client.journal.of("AnswerUnusable")
    assert [facts["raw"] for facts in kept][:2] == ["no idea", odd]
    assert client.store.blobs[kept[1]["sha256"]] == odd.encode()
    assert client.spending.steps == 4


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (say("", refusal="I cannot help."), "refused: I cannot help."),
        (whole(say(None, refusal="I cannot help.")), "refused: I cannot help."),
        (say(""), "empty"),
        (whole(say(None)), "empty"),
        (say("{", finish_reason="content_filter"), "content filter"),
        (cut(say_json({"pass": True})), "token limit"),
        (call_tool("verdict", {"pass": True}), "function was called"),
        (call_tool("verdict", ""), "function was called"),
    ],
)
async def test_every_kind_of_no_answer_has_a_name(answer: Said, fault: str) -> None:
    with ModelServer().always("any", answer) as server:
        async with client_of(server) as client:
            with pytest.raises(AnswerUnusable, match=fault):
                await client.models.ask(verdict_ask(rounds=2))
    assert len(server.seen) == 2


async def test_a_review_by_a_program_sends_an_answer_back() -> None:
    with ModelServer().on("verdict", YES, say_json({"pass": False})) as server:
        async with client_of(server) as client:

            def review(value: dict[str, Any]) -> list[str]:
                return ["too kind"] if value["pass"] else []

            ask = verdict_ask(review=review)
            assert (await client.models.ask(ask)).value == {"pass": False}
    assert server.seen[1].says("- too kind")


async def test_refusals_for_good_go_to_the_next_model_of_the_ladder() -> None:
    def by_model(seen: object) -> Said:
        names = {
            "gone": refuse(404, error="no such model"),
            "small": refuse(400, error="context length"),
        }
        return names.get(getattr(seen, "model", ""), YES)

    with ModelServer().always("any", by_model) as server:
        async with client_of(server, model={"judge": ["gone", "small", "good"]}) as client:
            answer = await client.models.ask(verdict_ask())
    assert answer.model == "good"
    switched = client.journal.of("ModelSwitched")
    assert [(facts["from"], facts["to"]) for facts in switched] == [
        ("gone", "small"),
        ("small", "good"),
    ]
    assert client.spending.account.usage["tokens"] < 2048


async def test_a_wrong_key_is_named_and_never_repeated() -> None:
    with ModelServer(key="another") as server:
        server.always("any", YES)
        async with client_of(server) as client:
            with pytest.raises(ModelUnavailable, match="401") as refused:
                await client.models.ask(verdict_ask())
    with ModelServer().always("any", refuse(401, error="bad key sk-very-secret")) as server:
        async with client_of(server) as client:
            with pytest.raises(ModelUnavailable) as refused:
                await client.models.ask(verdict_ask())
    assert "sk-very-secret" not in str(refused.value) + repr(client.journal.events)
    assert "sk-very-secret" not in repr(client.models.place)


async def test_a_role_without_a_model_is_missing() -> None:
    with ModelServer() as server:
        async with client_of(server, model={}) as client:
            assert not client.models.has("judge")
            with pytest.raises(MissingModel):
                await client.models.ask(verdict_ask())


async def test_an_agents_reply_can_be_sent_back_as_it_is() -> None:
    odd = calls([("look", "{bad"), ("functions.finish", {"result": 1})])
    with ModelServer().on("agent", odd, cut(finish(1)), finish({"n": 1})) as server:
        async with client_of(server) as client:
            first = await client.models.step(turn())
            history = [first.message, *_results(first)]
            second = await client.models.step(turn(history, step=2))
            third = await client.models.step(turn(history, step=2))
    assert [use.name for use in first.uses] == ["look", "finish"]
    assert (second.cut, second.uses) == (True, ())
    assert third.uses[0].args == {"result": {"n": 1}}
    sent = server.seen[1].messages[2]
    assert sent["content"] is None
    arguments = [call["function"]["arguments"] for call in sent["tool_calls"]]
    assert arguments == ['{"unreadable": "{bad"}', '{"result": 1}']


async def test_ids_and_names_that_strict_servers_refuse_are_not_sent_back() -> None:
    odd = calls([("look", {}), ("no such tool \x00", {}), ("", {}), ("x" * 5000, {})])
    odd = replace(odd, tool_calls=tuple({**call, "id": "same"} for call in odd.tool_calls))
    with ModelServer().on("agent", odd, odd) as server:
        async with client_of(server) as client:
            first = await client.models.step(turn())
            second = await client.models.step(turn([first.message, *_results(first)], step=2))
    ids = [use.id for use in (*first.uses, *second.uses)]
    assert ids[0] == "same"
    assert len(set(ids)) == 8
    assert first.uses[1].name == "no such tool \\u0000"
    names = [call["function"]["name"] for call in first.message["tool_calls"]]
    assert names == ["look", "no_such_tool__u0000", "unknown", "x" * 64]


def test_calls_without_ids_or_with_the_same_get_their_own() -> None:
    from surefoot.models.calls import CalledTool, Received

    tools = tuple(CalledTool(id=id, name="look", arguments="{}") for id in ("", "x", "x"))
    received = Received(text="", tools=tools, finish="tool_calls")
    reply = reply_of(received, model="m", step=3, tokens=1)
    assert [use.id for use in reply.uses] == ["call_3_0", "x", "call_3_2"]


def test_importing_the_models_does_not_import_a_client_library() -> None:
    import subprocess

    code = (
        "import sys, surefoot.models.client; "
        "sys.exit(bool({'openai', 'langchain_openai'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _results(reply: Reply) -> list[dict[str, str]]:
    return [{"role": "tool", "tool_call_id": use.id, "content": "ok"} for use in reply.uses]
