"""Asking about content without ever holding up the loop: cheap here, all else in a child.

A child is killed when it does not answer; what is asked is in `content_checks`.
"""

import asyncio
import json
from dataclasses import dataclass

from surefoot.graph.checks import ArtifactCheck
from surefoot.graph.errors import ToolUnavailable
from surefoot.graph.plain import compact_json
from surefoot.graph.ports import ToolHost
from surefoot.graph.values import Json, JsonObject
from surefoot.tools.content_checks import (
    IN_CHILD,
    is_cheap_pattern,
    is_cheap_schema,
    pattern_fault,
    schema_fault,
)

CONTENT_TIMEOUT_S = 60.0
"""A pattern or schema that has not answered by then does not hold."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Looks at text and JSON; each answer is why something does not hold, None when it does."""

    host: ToolHost
    subtask: str = ""
    """Whom a cut must be about to end a question in a child."""

    async def fault(self, check: ArtifactCheck, content: bytes) -> str | None:
        """Why an artifact's content does not satisfy a check."""
        if check.contains is not None and check.contains.encode() not in content:
            return f"it does not contain {shown(check.contains)}"
        if check.regex is not None:
            fault = await self.pattern_fault(check.regex, content.decode(errors="replace"))
            if fault is not None:
                return fault
        if check.json_schema is None:
            return None
        try:
            text = content.decode("utf-8-sig")
            value = await asyncio.to_thread(json.loads, text)
        except (ValueError, RecursionError) as wrong:
            return f"it is not JSON: {wrong}"
        return await self.schema_fault(check.json_schema, value, text)

    async def schema_fault(
        self, schema: JsonObject | bool, value: Json, text: str | None = None
    ) -> str | None:
        """Why a value does not fit a schema; `text` is its JSON where that is at hand."""
        text = compact_json(value) if text is None else text
        if is_cheap_schema(schema, len(text)):
            return schema_fault(schema, value)
        return await self._ask_child({"json_schema": schema, "text": text})

    async def pattern_fault(self, pattern: str, text: str) -> str | None:
        """Why nothing in a text matches a pattern."""
        if is_cheap_pattern(pattern, len(text)):
            return pattern_fault(pattern, text)
        return await self._ask_child({"pattern": pattern, "text": text})

    async def _ask_child(self, context: JsonObject) -> str | None:
        about = {**context, "subtask": self.subtask}
        answer = await ask_host(self.host, IN_CHILD, about, timeout_s=CONTENT_TIMEOUT_S)
        return None if answer is True else str(answer)


async def ask_host(
    host: ToolHost, call: str, context: JsonObject, *, timeout_s: float
) -> bool | str:
    """Run `module:function` in a child, killed at the time limit; a text says what is wrong."""
    try:
        return await host.check(call, {**context, "timeout_seconds": timeout_s})
    except ToolUnavailable as gone:
        return str(gone)


def shown(value: Json) -> str:
    """A value for people, bounded."""
    text = compact_json(value)
    return text if len(text) <= 120 else f"{text[:120]}... ({len(text)} characters)"
