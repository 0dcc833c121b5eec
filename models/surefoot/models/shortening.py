"""Making messages shorter, visibly: every cut says how much was left out and how to read on.

Fences stay closed: their content is cut, never their marks. Pure.
"""

import json
from collections.abc import Callable

from surefoot.graph.fencing import fenced_contents, map_fenced, outside_fences
from surefoot.graph.model_ports import Message
from surefoot.graph.reading import READ_MORE
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.values import Json
from surefoot.models.counting import estimate_tokens

FLOOR_CHARS = 80
"""Blocks of data are not cut below this before the largest text around them is."""

HOPELESS = 16
"""Characters per token that no text has: what is longer is cut before it is measured."""


def shorten(text: str, most: int, *, readable: bool = False) -> str:
    """A request's text of at most `most` tokens.

    Blocks of data are cut first, all to one length, so that the longest lose most; only where
    that is not enough the words around them are cut in their middle.

    Args:
        text: perhaps with fences.
        most: tokens, as `estimate_tokens` counts them.
        readable: the tool `read_more` is offered: notes name it.
    """
    if len(text) > HOPELESS * most:
        text = _with_data_cut(text, HOPELESS * most, readable)
    if estimate_tokens(text) <= most:
        return text
    longest = max((len(content) for _, content in fenced_contents(text)), default=0)
    limit = _largest(
        FLOOR_CHARS,
        longest,
        lambda chars: estimate_tokens(_with_data_cut(text, chars, readable)) <= most,
    )
    if longest:
        text = _with_data_cut(text, limit, readable)
    return text if estimate_tokens(text) <= most else _cut_middle(text, most)


def cut_end(text: str, most: int, *, note: str = "") -> str:
    """The beginning of a plain text (no fences) that has at most `most` tokens with its note."""
    if estimate_tokens(text) <= most:
        return text

    def shown(chars: int) -> str:
        said = f"[cut: {len(text) - chars} of {len(text)} characters are left out here{note}]"
        return f"{text[:chars]}\n{said}"

    fits = _largest(0, len(text), lambda chars: estimate_tokens(shown(chars)) <= most)
    return shown(fits)


def shorten_call(message: Message, chars: int) -> Message:
    """An assistant message whose tool calls show long arguments cut; they stay JSON."""
    calls = message.get("tool_calls")
    if not is_array(calls):
        return message
    return {**message, "tool_calls": [_short_call(call, chars) for call in calls]}


def _short_call(call: Json, chars: int) -> Json:
    if not is_object(call) or not is_object(call.get("function")):
        return call
    function = call["function"]
    text = str(function.get("arguments") or "{}")
    if len(text) <= chars:
        return call
    try:
        arguments = json.dumps(_short_value(json.loads(text), chars), ensure_ascii=False)
    except (ValueError, RecursionError):
        arguments = "{}"
    if len(arguments) > 4 * chars:
        arguments = json.dumps({"cut": f"{len(text)} characters of arguments"})
    return {**call, "function": {**function, "arguments": arguments}}


def _short_value(value: Json, chars: int) -> Json:
    if isinstance(value, str) and len(value) > chars:
        return f"{value[:chars]}[cut: {len(value) - chars} characters left out]"
    if is_object(value):
        return {key: _short_value(item, chars) for key, item in value.items()}
    if is_array(value):
        return [_short_value(item, chars) for item in value]
    return value


def _with_data_cut(text: str, chars: int, readable: bool) -> str:
    def cut(name: str, content: str) -> str:
        if len(content) <= chars:
            return content
        how = f"; {READ_MORE}(name={name!r}, offset={chars}) reads on" if readable else ""
        note = f"[cut: {len(content) - chars} of {len(content)} characters are left out here{how}]"
        return f"{content[:chars]}\n{note}"

    return map_fenced(text, cut)


def _cut_middle(text: str, most: int) -> str:
    """Keep both ends of the words: what is asked stands first, how to answer last.

    Blocks of data go first and whole: half a fence would be none.
    """
    blocks = len(fenced_contents(text))
    words = outside_fences(text)
    without = f"; {blocks} blocks of data left out" if blocks else ""

    def shown(chars: int) -> str:
        head, tail = words[: chars - chars // 3], words[len(words) - chars // 3 :]
        left_out = len(words) - chars
        note = f"[cut: {left_out} of {len(words)} characters are left out here{without}]"
        return f"{head}\n{note}\n{tail}"

    return shown(_largest(0, len(words), lambda chars: estimate_tokens(shown(chars)) <= most))


def _largest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The largest number from `low` to `high` that fits (monotone); `low` if none does."""
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
