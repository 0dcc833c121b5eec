"""A scripted OpenAI-compatible server on loopback: real HTTP, streaming and not, with faults.

    with ModelServer() as models:                     # models.url ends in /v1
        models.on("plan", say_json(plan))             # one answer, used once
        models.on("agent", call_tool("read", {"path": "a"}), finish({"n": 1}))   # in this order
        models.always("verdict", say_json({"pass": True, "confidence": 1, "reasons": []}))
        models.always("agent", lambda seen: finish(len(seen.messages)))   # by the request
        models.on("plan", refuse(429, retry_after=3), silent(after=3), say_json(plan))
        ...
        assert [seen.kind for seen in models.seen] == ["plan", ...]

Kinds of requests: the name of `response_format` (`goal plan reflection verdict summary`), else
`agent` when the request has tools, else `text`. For a request the queue of its kind (`on`) comes
first, then its rule (`always`), then the rule for `any`, else a 500 that says so. An answer may be
a function of the request (`Seen`). Point the product at it with OPENAI_BASE_URL=models.url and any
OPENAI_API_KEY (`models.environment()`).

Answers: `say(text)`, `say_json(value)`, `call_tool(name, args)`, `calls([(name, args), ...])`,
`finish(result)`; `cut(answer)` ends with finish_reason length, `whole(answer)` is sent as one JSON
document even when a stream was asked for. Usage is 1 token per 4 characters unless `usage=` says
otherwise (`usage=None`: none is told). Faults: `refuse(status, ...)`, `reset()`, `silent(...)`,
`drip(...)`, `no_end(...)`, `raw(text)`.
"""

import json
import socket
import struct
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

Silence = Literal["before headers", "after headers", "after chunks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request as it arrived."""

    body: dict[str, Any]
    headers: dict[str, str]
    at: float
    """time.monotonic()"""
    kind: str

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body["messages"]

    @property
    def model(self) -> str:
        return self.body["model"]

    def says(self, text: str) -> bool:
        """Whether a text occurs in any message."""
        return any(text in str(message.get("content") or "") for message in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One answer of the model, or what goes wrong instead of it."""

    content: str | None = None
    tool_calls: tuple[dict[str, Any], ...] = ()
    finish_reason: str | None = "stop"
    refusal: str | None = None
    usage: tuple[int, int] | Literal["count"] | None = "count"
    """(prompt tokens, answer tokens)"""
    streams: bool = True
    after_s: float = 0.0
    """Wait so long before the headers."""
    status: int = 200
    error: str = ""
    retry_after: str | None = None
    resets: bool = False
    silence: Silence | None = None
    chunks: int = 0
    """Send so many pieces, then the silence (or the end without an end mark)."""
    ends: bool = True
    drip_s: float | None = None
    """One byte of the body every so many seconds."""
    document: str | None = None
    """The body as it is, whatever it is."""


Script = Said | Callable[[Seen], Said]


# --- answers ---------------------------------------------------------------------------------


def say(text: str | None, **changed: Any) -> Said:
    """A plain text."""
    return Said(content=text, **changed)


def say_json(value: Any, **changed: Any) -> Said:
    """A structured answer."""
    return say(json.dumps(value), **changed)


def calls(wanted: Sequence[tuple[str, Any]], *, text: str | None = None, **changed: Any) -> Said:
    """Tool calls; arguments that are text are sent as they are (to be broken)."""
    made = tuple(
        {
            "id": f"call_{number}_{time.monotonic_ns()}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": args if isinstance(args, str) else json.dumps(args),
            },
        }
        for number, (name, args) in enumerate(wanted)
    )
    return Said(content=text, tool_calls=made, finish_reason="tool_calls", **changed)


def call_tool(name: str, args: Any, **changed: Any) -> Said:
    """One tool call."""
    return calls([(name, args)], **changed)


def finish(result: Any, **changed: Any) -> Said:
    """The end of an agent's subtask."""
    return call_tool("finish", {"result": result}, **changed)


def cut(answer: Said) -> Said:
    """The same, ended by the token limit."""
    return replace(answer, finish_reason="length")


def whole(answer: Said) -> Said:
    """The same as one JSON document, whatever was asked for."""
    return replace(answer, streams=False)


# --- faults ----------------------------------------------------------------------------------


def refuse(status: int, *, error: str = "", retry_after: float | str | None = None) -> Said:
    """An HTTP status; `retry_after` in seconds or as an HTTP date."""
    told = None if retry_after is None else str(retry_after)
    return Said(status=status, error=error or f"status {status}", retry_after=told)


def reset() -> Said:
    """The connection is reset before any answer."""
    return Said(resets=True)


def silent(when: Silence = "before headers", *, after: int = 0, text: str = "x" * 400) -> Said:
    """Nothing more comes, and nothing is closed. `after` n pieces of the text."""
    return Said(content=text, silence="after chunks" if after else when, chunks=after)


def drip(answer: Said, *, every_s: float) -> Said:
    """One byte at a time."""
    return replace(answer, drip_s=every_s)


def no_end(answer: Said, *, chunks: int = 3) -> Said:
    """Closed in the middle: neither finish_reason nor end mark."""
    return replace(answer, ends=False, chunks=chunks)


def raw(document: str) -> Said:
    """A body that is no answer."""
    return Said(document=document)


# --- the server ------------------------------------------------------------------------------


@dataclass
class ModelServer:
    """The server; use it with `with`, or `start` and `close`."""

    refuses: frozenset[str] = frozenset()
    """Request fields that it answers 400 to: `stream`, `stream_options`, `response_format` ..."""
    key: str | None = None
    """The key it wants, None = any."""
    seen: list[Seen] = field(default_factory=list[Seen])
    busy: int = 0
    most_busy: int = 0

    def __post_init__(self) -> None:
        self._queues: dict[str, deque[Script]] = defaultdict(deque)
        self._rules: dict[str, Script] = {}
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.models = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def environment(self) -> dict[str, str]:
        """What the product must find in its environment."""
        return {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": self.key or "test-key"}

    def on(self, kind: str, *answers: Script) -> Self:
        """Queue answers, each used once, in this order."""
        with self._lock:
            self._queues[kind].extend(answers)
        return self

    def always(self, kind: str, answer: Script) -> Self:
        """What is answered when the queue of the kind is empty; `any` for every kind."""
        with self._lock:
            self._rules[kind] = answer
        return self

    def of(self, kind: str) -> list[Seen]:
        """The requests of one kind, in order."""
        return [seen for seen in self.seen if seen.kind == kind]

    def start(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, seen: Seen) -> Said:
        """Note the request and choose what is said."""
        with self._lock:
            self.seen.append(seen)
            for name in self.refuses & seen.body.keys():
                if seen.body[name]:
                    return refuse(400, error=f"{name} is not supported by this server")
            if self.key is not None and seen.headers.get("authorization") != f"Bearer {self.key}":
                return refuse(401, error="wrong API key")
            queue = self._queues[seen.kind]
            nothing = refuse(500, error=f"the script has no answer to {seen.kind!r}")
            rule = self._rules.get(seen.kind) or self._rules.get("any") or nothing
            chosen = queue.popleft() if queue else rule
        return chosen if isinstance(chosen, Said) else chosen(seen)

    def enter(self, by: int) -> None:
        with self._lock:
            self.busy += by
            self.most_busy = max(self.most_busy, self.busy)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    models: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of ours."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: Any) -> None:
        del format, args

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(body=body, headers=headers, at=time.monotonic(), kind=_kind(body))
        models = self.server.models
        models.enter(1)
        try:
            self._send(models.answer(seen), seen)
        finally:
            models.enter(-1)

    def _send(self, said: Said, seen: Seen) -> None:
        if said.after_s:
            self.server.models.closing.wait(said.after_s)
        if said.resets:
            self._reset()
        elif said.silence == "before headers":
            self._silence()
        elif said.status != 200:
            self._document(json.dumps({"error": {"message": said.error}}), said)
        elif said.document is not None:
            self._document(said.document, said)
        elif seen.body.get("stream") and said.streams:
            self._stream(said, seen)
        else:
            self._document(json.dumps(_completion(said, seen)), said)

    def _document(self, text: str, said: Said) -> None:
        content = text.encode("utf-8", "surrogatepass")
        self.send_response(said.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        if said.retry_after is not None:
            self.send_header("retry-after", said.retry_after)
        self.end_headers()
        self._write(content, said)

    def _stream(self, said: Said, seen: Seen) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        if said.silence == "after headers":
            self._silence()
            return
        events = _events(said, seen)
        if said.silence == "after chunks" or not said.ends:
            events = events[: said.chunks]
        for event in events:
            self._write(b"data: " + event.encode() + b"\n\n", said)
        if said.silence:
            self._silence()

    def _write(self, content: bytes, said: Said) -> None:
        if said.drip_s is None:
            self.wfile.write(content)
            self.wfile.flush()
            return
        for byte in content:
            if self.server.models.closing.wait(said.drip_s):
                return
            self.wfile.write(bytes([byte]))
            self.wfile.flush()

    def _silence(self) -> None:
        self.server.models.closing.wait()
        self.close_connection = True

    def _reset(self) -> None:
        # Closing with a zero linger sends RST instead of FIN.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()


def _kind(body: dict[str, Any]) -> str:
    form: dict[str, Any] = body.get("response_format") or {}
    named: dict[str, Any] = form.get("json_schema") or {}
    return named.get("name") or ("agent" if body.get("tools") else "text")


def _usage(said: Said, seen: Seen) -> dict[str, int] | None:
    if said.usage is None:
        return None
    if said.usage == "count":
        answer = len(said.content or "") + len(json.dumps(said.tool_calls))
        prompt, completion = len(json.dumps(seen.body)) // 4, max(1, answer // 4)
    else:
        prompt, completion = said.usage
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def _completion(said: Said, seen: Seen) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.content}
    if said.tool_calls:
        message["tool_calls"] = list(said.tool_calls)
    if said.refusal is not None:
        message["refusal"] = said.refusal
    choice = {"index": 0, "message": message, "finish_reason": said.finish_reason}
    whole_answer: dict[str, Any] = {**_frame(seen, "chat.completion"), "choices": [choice]}
    usage = _usage(said, seen)
    return whole_answer | ({"usage": usage} if usage else {})


def _events(said: Said, seen: Seen) -> list[str]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    text = said.content or ""
    size = max(20, len(text) // 1000)
    deltas += [{"content": text[at : at + size]} for at in range(0, len(text), size)]
    for index, call in enumerate(said.tool_calls):
        deltas += _call_pieces(index, call)
    if said.refusal is not None:
        deltas.append({"refusal": said.refusal})
    frame = _frame(seen, "chat.completion.chunk")
    events = [
        {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": said.finish_reason}
    events.append({**frame, "choices": [last]})
    usage = _usage(said, seen)
    options: dict[str, Any] = seen.body.get("stream_options") or {}
    if usage and options.get("include_usage"):
        events.append({**frame, "choices": [], "usage": usage})
    return [*map(json.dumps, events), "[DONE]"]


def _call_pieces(index: int, call: dict[str, Any]) -> list[dict[str, Any]]:
    arguments: str = call["function"]["arguments"]
    named = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
    pieces = [arguments[at : at + 30] for at in range(0, len(arguments), 30)]
    return [
        {"tool_calls": [named]},
        *({"tool_calls": [{"index": index, "function": {"arguments": p}}]} for p in pieces),
    ]


def _frame(seen: Seen, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": seen.body.get("model")}
