"""How many tokens a request has: estimated without a network, corrected by what servers count.

The estimate goes by script and errs upward: a request that is thought too long is only folded
a little early, one that is thought too short is refused by the server.
"""

import json
import math
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, cast

from surefoot.graph.model_ports import Message
from surefoot.graph.values import Json, JsonObject

MESSAGE_TOKENS = 6
"""What the wire adds to each message for its role and its ends."""

TOOL_TOKENS = 10
"""What the wire adds to each function schema."""

CREDIBLE = (0.5, 4.0)
"""Server's count over estimate. Below: the server does not really count. Above: held at that."""

_RANDOM = re.compile(r"[A-Za-z0-9+/=_-]{32,}")
_WORD = re.compile(r"[A-Za-z]+")
_SIGN = re.compile(r"[\x00-\x08\x0e-\x1b!-@\[-`{-\x7f]")  # ASCII, neither letter nor space
_SPACE = re.compile(r"\n+|[ \t\r\f\v]{2,}")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


@lru_cache(maxsize=1024)
def estimate_tokens(text: str) -> int:
    """Tokens of a text, rather too many than too few; never more than its bytes in UTF-8.

    Words of up to five letters count one and longer ones one more for each further five, digits
    and signs one each, unbroken runs of 32 and more (hashes, base64) one for two characters,
    Chinese, Japanese and Korean characters 1.5, other letters beyond ASCII one, emoji three.
    """
    runs = _RANDOM.findall(text)
    rest = _RANDOM.sub(" ", text) if runs else text
    count = sum(len(run) / 2 for run in runs)
    count += sum(1 + (len(word) - 1) // 5 for word in _WORD.findall(rest))
    count += len(_SIGN.findall(rest)) + len(_SPACE.findall(rest))
    if rest.isascii():
        return max(math.ceil(count), math.ceil(len(text) / 4))
    asian, astral = len(_asian().findall(rest)), len(_ASTRAL.findall(rest))
    foreign = len(rest) - len(rest.encode("ascii", errors="ignore")) - astral
    count += 1.5 * asian + 3 * astral + (foreign - asian)
    return min(math.ceil(count), len(text.encode(errors="surrogatepass")))


def message_tokens(message: Message) -> int:
    """Tokens of one message with its tool calls."""
    calls = cast("list[Json]", message.get("tool_calls") or [])
    called = estimate_tokens(_json(calls)) if calls else 0
    return MESSAGE_TOKENS + estimate_tokens(content_text(message)) + called


def messages_tokens(messages: Iterable[Message]) -> int:
    """Tokens of several messages."""
    return sum(message_tokens(message) for message in messages)


def tools_tokens(tools: Iterable[JsonObject]) -> int:
    """Tokens of the function schemas."""
    return sum(TOOL_TOKENS + estimate_tokens(_json(tool)) for tool in tools)


def content_text(message: Message) -> str:
    """A message's content as text; parts and other values as JSON."""
    content: Json = message.get("content")
    if content is None:
        return ""
    return content if isinstance(content, str) else _json(content)


class TokenMeter:
    """The estimates of one task, corrected by the last usage that each model's server reported.

    The next request counts its estimate times the last ratio of counted to estimated: for one
    that only grew, this is the server's last count plus the estimate of what was added.
    """

    def __init__(self) -> None:
        self._ratios: dict[str, float] = {}

    def note(self, model: str, *, estimated: int, counted: int) -> None:
        """The server counted `counted` prompt tokens where `estimated` were expected."""
        if estimated <= 0 or counted <= 0:
            return
        low, high = CREDIBLE
        ratio = counted / estimated
        if ratio >= low:
            self._ratios[model] = min(ratio, high)

    def ratio(self, model: str) -> float:
        """By what estimates must be multiplied for this model; 1 while nothing is known."""
        return self._ratios.get(model, 1.0)


@cache
def _asian() -> re.Pattern[str]:
    """Compiled on first use: wide sets take milliseconds, which every start would pay."""
    return re.compile("[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
