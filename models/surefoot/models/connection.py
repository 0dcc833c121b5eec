"""The connection to a server, through `langchain_openai`. Imported at the first call, not before.

Everything foreign ends here: requests leave as `Request`, answers come back as `Received`, whatever
goes wrong as `CallFailed`.
"""

import asyncio
import json
import ssl
import time
from functools import cache
from typing import Any

import httpx2
import openai
from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from surefoot.graph.plain import clean_json, clean_text
from surefoot.graph.values import JsonObject
from surefoot.models.calls import CallFailed, Received, Request
from surefoot.models.collecting import Pieces
from surefoot.models.endpoint import Endpoint, Place
from surefoot.models.refusals import SHOWN_CHARS, lower_headers, message_of, refusal

NO_KEY = "none"
"""Sent where the environment has no key: servers of one's own want none, the client does."""

LACKS_KEY = (
    "nothing was sent: set OPENAI_API_KEY, or OPENAI_BASE_URL where another server is to be asked"
)

WHOLE = "x-surefoot-whole"
"""Marks, on the way to `_Http` only, a request to a server that does not stream."""

OPTIONAL_FIELDS = ("stream", "stream_options", "response_format", "tools", "tool_choice")
CONNECT_S = 15.0


class Connection:
    """Connections to one server; made in the loop that uses it, closed with `close`."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._http = _Http(timeout=httpx2.Timeout(place.idle_s, connect=_connect_s(place)))
        self._chats: dict[str, _Chat] = {}

    async def close(self) -> None:
        """Close what is open."""
        await self._http.aclose()

    async def send(self, request: Request, endpoint: Endpoint, *, total_s: float) -> Received:
        """One request, one whole answer.

        Args:
            request: what to ask.
            endpoint: what is known of the server; told when it begins to answer.
            total_s: the longest that all of it may take.

        Raises:
            CallFailed: there is no whole answer.
        """
        if self.place.lacks_key:
            raise CallFailed("refused", "unauthorized", LACKS_KEY, unpaid=True)
        try:
            async with asyncio.timeout(total_s):
                return await self._stream(request, endpoint, total_s)
        except TimeoutError:
            raise CallFailed("silent", "timeout", f"no whole answer within {total_s:g} s") from None
        except CallFailed:
            raise
        except (openai.OpenAIError, httpx2.HTTPError, ValueError, LookupError, TypeError) as exc:
            failed = _translated(exc, self.place)
            failed.args = (self.place.scrubbed(str(failed)),)
            raise failed from None

    async def _stream(self, request: Request, endpoint: Endpoint, total_s: float) -> Received:
        options = _options(request)
        if "stream" in endpoint.unsupported:
            # Silent until it is done: only the total time counts.
            options["timeout"] = httpx2.Timeout(total_s, connect=_connect_s(self.place))
            options["extra_headers"] = {WHOLE: "1"}
        pieces = Pieces()
        stream = self._chat(request.model).astream(
            _messages(request),
            stream_usage="stream_options" not in endpoint.unsupported,
            **options,
        )
        async for chunk in stream:
            if not pieces.begun:
                endpoint.brake.accepted()
            pieces.add(chunk)
        return pieces.received()

    def _chat(self, model: str) -> "_Chat":
        if model not in self._chats:
            self._chats[model] = _Chat(
                model=model,
                base_url=self.place.base_url,
                api_key=SecretStr(self.place.key or NO_KEY),
                max_retries=0,
                stream_chunk_timeout=None,  # bytes that come count as life; we bound the whole
                timeout=httpx2.Timeout(self.place.idle_s, connect=_connect_s(self.place)),
                http_async_client=self._http,
                use_responses_api=False,
                cache=False,
            )
        return self._chats[model]


class _Chat(ChatOpenAI):
    """Keeps what ChatOpenAI drops of a stream: refusals, and tool calls without an index."""

    def _convert_chunk_to_generation_chunk(
        self,
        chunk: dict[str, Any],
        default_chunk_class: type,
        base_generation_info: dict[str, Any] | None,
    ) -> ChatGenerationChunk | None:
        delta = _delta(chunk)
        calls: list[JsonObject] = delta.get("tool_calls") or []
        for place, call in enumerate(calls):
            call["index"] = place if call.get("index") is None else call["index"]
            call["function"] = call.get("function") or {}
        made: ChatGenerationChunk | None = super()._convert_chunk_to_generation_chunk(  # pyright: ignore[reportUnknownMemberType]
            chunk, default_chunk_class, base_generation_info
        )
        if made is not None and delta.get("refusal"):
            made.message.additional_kwargs["refusal"] = delta["refusal"]
        return made


def _delta(chunk: JsonObject) -> JsonObject:
    choices: list[JsonObject] = chunk.get("choices") or []
    return (choices[0].get("delta") or {}) if choices else {}


class _Http(httpx2.AsyncClient):
    """Names refusals before anybody else does, and turns a whole answer to a stream into one."""

    def __init__(self, **options: Any) -> None:
        limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
        super().__init__(limits=limits, follow_redirects=True, verify=_trust(), **options)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        asked = _body(request)
        if request.headers.get(WHOLE):
            request = _without_stream(request, asked)
        response = await super().send(request, **options)
        if response.status_code >= 400:
            await response.aread()
            raise _Refused(response, frozenset(n for n in OPTIONAL_FIELDS if asked.get(n)))
        kind = response.headers.get("content-type", "")
        if "text/event-stream" not in kind:
            await response.aread()
            return _as_stream(response)
        return response


@cache
def _trust() -> ssl.SSLContext:
    """The certificates that are trusted: read once, as reading them blocks for tens of ms."""
    return httpx2.create_ssl_context()


class _Refused(httpx2.HTTPError):
    """An HTTP status of 400 or more, on its way out through the client libraries."""

    def __init__(self, response: httpx2.Response, sent: frozenset[str]) -> None:
        super().__init__(f"HTTP {response.status_code}")
        headers = lower_headers(response.headers)
        self.failure = refusal(
            response.status_code, headers, response.text, sent=sent, now=time.time()
        )


def _body(request: httpx2.Request) -> JsonObject:
    try:
        return json.loads(request.content or b"{}")
    except ValueError:
        return {}


def _without_stream(request: httpx2.Request, body: JsonObject) -> httpx2.Request:
    left = {k: v for k, v in body.items() if k not in ("stream", "stream_options")}
    headers = [
        (name, value)
        for name, value in request.headers.multi_items()
        if name.lower() not in ("content-length", "content-type", WHOLE)
    ]
    return httpx2.Request(
        request.method, request.url, headers=headers, json=left, extensions=request.extensions
    )


def _as_stream(response: httpx2.Response) -> httpx2.Response:
    """A whole answer (a server that ignores `stream`) as the stream that was asked for."""
    try:
        body: JsonObject = json.loads(response.content)
        choice: JsonObject = body["choices"][0]
    except (ValueError, LookupError, TypeError):
        said = message_of(response.text) or "nothing"
        raise _broken(f"the server answered with neither a stream nor an answer: {said}") from None
    delta: JsonObject = choice.get("message") or {}
    calls: list[JsonObject] = delta.get("tool_calls") or []
    for place, call in enumerate(calls):
        call.setdefault("index", place)
    made = {"index": 0, "delta": delta, "finish_reason": choice.get("finish_reason")}
    event = {**body, "object": "chat.completion.chunk", "choices": [made]}
    content = b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n"
    headers = {"content-type": "text/event-stream"}
    return httpx2.Response(200, headers=headers, content=content, request=response.request)


def _options(request: Request) -> dict[str, Any]:
    """What is sent beside model and messages.

    Through `extra_body`: ChatOpenAI renames max_tokens (a name that many servers do not know), and
    would send a response_format down a way that parses the answer itself.
    """
    extra: dict[str, Any] = {"max_tokens": request.max_tokens}
    if request.response_format is not None:
        extra["response_format"] = request.response_format
    tools = {"tools": list(request.tools)} if request.tools else {}
    return {"extra_body": extra, **tools}


def _messages(request: Request) -> list[BaseMessage]:
    plain, _ = clean_json(list(request.messages))
    return convert_to_messages(plain)


def _connect_s(place: Place) -> float:
    return min(CONNECT_S, place.idle_s)


def _broken(message: str) -> CallFailed:
    return CallFailed("broken", "garbage", message)


def _translated(exc: BaseException, place: Place) -> CallFailed:
    """Our name for what a client library raised: the one nearest to the wire counts."""
    chain = [exc]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    for one in reversed(chain):
        if isinstance(one, CallFailed):
            return one
        if isinstance(one, _Refused):
            return one.failure
        if isinstance(one, httpx2.TimeoutException):
            return _timed_out(one, place)
        if isinstance(one, httpx2.HTTPError):
            return _disconnected(one, place)
    said = " ".join(clean_text(str(exc)).split())[:SHOWN_CHARS]
    if isinstance(exc, openai.APIError):
        return CallFailed("broken", "stream_error", f"the server failed in mid-answer: {said}")
    return _broken(f"the answer cannot be read: {said}")


def _timed_out(error: httpx2.TimeoutException, place: Place) -> CallFailed:
    if isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return CallFailed(
            "broken", "connection", f"{place.server} cannot be reached in time", unpaid=True
        )
    return CallFailed("silent", "timeout", f"nothing came for {place.idle_s:g} s")


def _disconnected(error: httpx2.HTTPError, place: Place) -> CallFailed:
    said = " ".join(clean_text(str(error)).split()) or type(error).__name__
    if isinstance(error, httpx2.ConnectError):
        return CallFailed(
            "broken", "connection", f"cannot connect to {place.server}: {said}", unpaid=True
        )
    return CallFailed("broken", "connection", f"the connection broke: {said}")
