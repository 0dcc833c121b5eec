"""Samples of a vote: which are thrown away, and what the others vote for.

A sample whose answer breaks a format or runs on is likely wrong in other ways too, so it is thrown
away unread (red flags of MAKER, arXiv 2511.09030). The counting is `surefoot.graph.votes`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from surefoot.graph.plain import NotJson, clean_json
from surefoot.graph.ports import ArtifactStore, ToolHost, WorkOrder
from surefoot.graph.values import ArtifactRef, Json, JsonObject
from surefoot.graph.votes import ballot
from surefoot.tools.agent_words import as_result_text
from surefoot.tools.agent_work import GoEnd
from surefoot.tools.bindings import ValueCache
from surefoot.tools.contents import Contents

COMPARED_BYTES = 1024 * 1024
"""A longer output is compared by its hash alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Looks at the finished samples of one task."""

    host: ToolHost
    values: ValueCache
    store: ArtifactStore

    async def red_flag(self, order: WorkOrder, end: GoEnd) -> str | None:
        """Why a sample is thrown away; None where it may vote."""
        if end.finished is None:
            return end.failure["message"] if end.failure else "it did not finish"
        put = end.artifacts.keys()
        missing = [name for name in order.work.artifact_names() if name not in put]
        if missing:
            return f"it did not put {', '.join(missing)}"
        flags = (order.work.votes.red_flags if order.work.votes else None) or {}
        value = await self.values.load(end.finished["result"])
        return _too_long(flags, value, end.longest) or await self._malformed(order, flags, value)

    async def ballot(self, order: WorkOrder, end: GoEnd) -> str:
        """What a sample votes for: its result, and the declared outputs it put, normalised."""
        if end.finished is None:
            raise AssertionError("only finished samples vote")
        value = await self.values.load(end.finished["result"])
        outputs = {name: await self._output(end.artifacts, name) for name in _names(order)}
        return ballot([value, outputs])

    async def _malformed(self, order: WorkOrder, flags: JsonObject, value: Json) -> str | None:
        contents = Contents(self.host, order.subtask)
        schema, pattern = flags.get("json_schema"), flags.get("pattern")
        if schema is not None:
            fault = await contents.schema_fault(schema, value)
            if fault is not None:
                return fault
        if pattern is None:
            return None
        return await contents.pattern_fault(pattern, as_result_text(value))

    async def _output(self, artifacts: Mapping[str, ArtifactRef], name: str) -> Json:
        ref = artifacts[name]
        if ref["size"] > COMPARED_BYTES:
            return ref["sha256"]
        content = await self.store.get_bytes(ref["sha256"])
        try:
            return clean_json(json.loads(content))[0]
        except (ValueError, NotJson, RecursionError):
            return content.decode(errors="backslashreplace")


def _names(order: WorkOrder) -> list[str]:
    return sorted(order.work.artifact_names())


def _too_long(flags: JsonObject, value: Json, longest: int) -> str | None:
    chars, tokens = flags.get("max_chars"), flags.get("max_tokens")
    length = len(as_result_text(value))
    if chars is not None and length > chars:
        return f"its result has {length} characters, more than {chars}"
    if tokens is not None and longest > tokens:
        return f"a reply of it has {longest} tokens, more than {tokens}"
    return None
