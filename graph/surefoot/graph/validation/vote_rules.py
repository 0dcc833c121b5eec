"""What votes ask of a subtask: tools that a sample may use alone, and red flags that are known."""

import re
from collections.abc import Iterator, Mapping

from surefoot.graph.plan import Votes, Work
from surefoot.graph.ports import ToolSpec
from surefoot.graph.shapes import is_object
from surefoot.graph.validation.wording import listed, short
from surefoot.graph.values import Json, JsonObject

WRITE_ARTIFACT = "write_artifact"
RED_FLAGS = ("max_chars", "max_tokens", "json_schema", "pattern")


def vote_faults(work: Work, tools: Mapping[str, ToolSpec]) -> Iterator[str]:
    """Everything that is wrong with the votes of one work, a sentence each."""
    if work.votes is None:
        return
    if work.votes.max_samples < work.votes.ahead_by:
        yield "`votes.max_samples` is below `votes.ahead_by`, so no vote can be won"
    acting = [name for name in work.tools or () if name in tools and _acts(tools[name])]
    if acting:
        yield (
            f"samples of a vote may only read and put artifacts, but {listed(acting)} would act "
            "once for every sample; let a later subtask act on the result"
        )
    yield from _flag_faults(work.votes)


def _acts(spec: ToolSpec) -> bool:
    return spec.effect != "read" and not (spec.name == WRITE_ARTIFACT and spec.module == "builtin")


def _flag_faults(votes: Votes) -> Iterator[str]:
    flags: JsonObject = votes.red_flags or {}
    unknown = [name for name in flags if name not in RED_FLAGS]
    if unknown:
        yield f"`votes.red_flags` has no {listed(unknown)}; it knows {listed(RED_FLAGS)}"
    for name in ("max_chars", "max_tokens"):
        if name in flags and not _is_count(flags[name]):
            yield f"`votes.red_flags.{name}` must be a whole number above 0"
    schema = flags.get("json_schema", {})
    if not (is_object(schema) or isinstance(schema, bool)):
        yield f"`votes.red_flags.json_schema` must be a JSON Schema, not {short(schema)}"
    if "pattern" in flags and not _is_pattern(flags["pattern"]):
        yield f"`votes.red_flags.pattern` is no regular expression: {short(flags['pattern'])}"


def _is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_pattern(value: Json) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError, RecursionError, OverflowError):
        return False
    return True
