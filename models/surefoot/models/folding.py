"""Folding a history that no longer fits: old messages become one summary, decisions never do.

Pure, but for nobody: the client asks the `summary` call in between. Where that call fails, or
says more than there is room for, a summary made by program takes its place.
"""

from dataclasses import dataclass

from surefoot.graph.fencing import fence
from surefoot.graph.model_ports import Ask, Message, Turn
from surefoot.graph.values import JsonObject
from surefoot.models.counting import message_tokens, messages_tokens
from surefoot.models.history import (
    SUMMARY_SHARE,
    flat,
    is_summary,
    program_summary,
    split,
    summary_message,
    transcript,
    units,
)
from surefoot.models.requests import Window, as_data, build_request

SUMMARY_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}

LEAST_SUMMARY = 96
"""Tokens that a summary may always take."""

WORTH = 4
"""Folding must free at least one part in this many of the room, or it is not worth a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """What is to be folded: `old` into one summary of at most `most` tokens, `kept` stays."""

    old: tuple[Message, ...]
    kept: tuple[Message, ...]
    most: int


def fold_of(turn: Turn, window: Window) -> Fold | None:
    """What to fold before this step; None while the request fits, or nothing old is there.

    Raises: as `build_request`.
    """
    request = build_request(turn.brief, turn.matter, turn.messages, window=window, tools=turn.tools)
    if not request.overflow:
        return None
    history = flat(units(turn.messages))
    parts = split(as_data(history), request.room // 2)
    sent = flat(parts.old)
    if all(is_summary(message) for message in sent):
        return None
    if messages_tokens(sent) < request.room // WORTH:
        return None
    most = max(LEAST_SUMMARY, request.room // SUMMARY_SHARE)
    return Fold(old=tuple(history[: len(sent)]), kept=tuple(history[len(sent) :]), most=most)


def summary_ask(turn: Turn, fold: Fold, window: Window) -> Ask:
    """The `summary` call about the old messages, built like every other request."""
    words = max(20, fold.most // 2)
    said = transcript(fold.old, window.prompt // 2)
    matter = (
        "The messages below are the older part of the work on this subtask and will be removed. "
        f"Summarise them in at most {words} words for whoever goes on: what was found (exact "
        "names, numbers, places), what was done with which result, what failed and why, what is "
        "still open. Leave out what is of no use any more.\n\n"
        f"# The subtask\n{turn.matter}\n\n# The messages\n{fence('messages', said)}"
    )
    return Ask(
        call="summary",
        role="executor",
        brief=turn.brief,
        matter=matter,
        schema=SUMMARY_SCHEMA,
        rounds=1,
        subtask=turn.subtask,
        attempt=turn.attempt,
    )


def folded(fold: Fold, text: str | None) -> list[Message]:
    """The history after folding.

    Args:
        fold: what is folded.
        text: the model's summary; None (the call failed), empty or too long: the program's.
    """
    count = len(fold.old)
    if text and text.strip():
        made = summary_message(text.strip(), count)
        if message_tokens(made) <= fold.most:
            return [made, *fold.kept]
    return [program_summary(fold.old, fold.most), *fold.kept]
