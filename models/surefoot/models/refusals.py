"""What an HTTP answer that is no answer means: its sort, its name, and when to come back. Pure."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from surefoot.graph.plain import clean_text
from surefoot.graph.shapes import is_object
from surefoot.models.calls import CallFailed, FailureSort

BUSY = (429, 503, 529)
TRY_AGAIN = (408, 409, 425)
SHOWN_CHARS = 300
LONGEST_RETRY_AFTER_S = 24 * 3600.0

_CONTEXT = re.compile(
    r"context.?(length|window|size)|maximum context|too many tokens|prompt is too long|"
    r"exceeds? the (available )?context|input tokens exceed",
    re.IGNORECASE,
)
_FIELDS = (
    ("stream_options", re.compile(r"stream_options|include_usage", re.IGNORECASE)),
    (
        "response_format",
        re.compile(
            r"response.?format|json.?schema|structured.?output|guided|grammar", re.IGNORECASE
        ),
    ),
    ("tools", re.compile(r"tool|function.?call", re.IGNORECASE)),
    ("stream", re.compile(r"stream", re.IGNORECASE)),
)


def refusal(
    status: int, headers: Mapping[str, str], body: str, *, sent: frozenset[str], now: float
) -> CallFailed:
    """The failure that an HTTP status of 400 or more stands for.

    Args:
        status: the HTTP status.
        headers: with lower-case names.
        body: of the response.
        sent: the optional fields that the request had (`stream`, `tools`, `response_format` ...).
        now: POSIX seconds, for a Retry-After that is a date.
    """
    said = message_of(body) or "no reason given"
    after = retry_after_s(headers.get("retry-after"), now=now)
    sort = _sort(status, after)
    if sort != "refused":
        return CallFailed(
            sort, str(status), f"HTTP {status}: {said}", retry_after_s=after, unpaid=True
        )
    code, field = _name(status, said, sent)
    return CallFailed(sort, code, f"HTTP {status}: {said}", unpaid=True, field=field)


def retry_after_s(told: str | None, *, now: float) -> float | None:
    """Seconds from `now` that a Retry-After header asks for (seconds or an HTTP date), at least 0.

    Returns:
        At most a day; None where it says nothing that can be understood.
    """
    if told is None:
        return None
    try:
        seconds = float(told)
    except ValueError:
        try:
            moment = parsedate_to_datetime(told)
        except ValueError:
            return None
        # A date without a zone is UTC by the HTTP rules.
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = (aware - datetime.fromtimestamp(now, UTC)).total_seconds()
    if seconds != seconds:
        return None
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_S)


def message_of(body: str) -> str:
    """What the body of a refusal says, in one short line."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = body
    if is_object(value):
        error = value.get("error", value)
        value = error.get("message", error) if is_object(error) else error
    text = value if isinstance(value, str) else json.dumps(value)
    line = " ".join(clean_text(text).split())
    return line if len(line) <= SHOWN_CHARS else f"{line[:SHOWN_CHARS]}..."


def _sort(status: int, after: float | None) -> FailureSort:
    if status in BUSY or (after is not None and (status >= 500 or status in TRY_AGAIN)):
        return "busy"
    return "broken" if status >= 500 or status in TRY_AGAIN else "refused"


def _name(status: int, said: str, sent: frozenset[str]) -> tuple[str, str]:
    """The code of a permanent refusal, and the field that it is about."""
    if status in (401, 403):
        return "unauthorized", ""
    if _CONTEXT.search(said) or status == 413:
        return "context_exceeded", ""
    for field, words in _FIELDS:
        if field in sent and words.search(said):
            return "unsupported", field
    return ("unknown_model" if status == 404 else "bad_request"), ""


def lower_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers by their lower-case names."""
    return {name.lower(): value for name, value in headers.items()}
