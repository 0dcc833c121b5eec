"""The words of an agent's attempt: what it is about, what came of a call. Pure.

Foreign text (results, artifacts, criticism) is always fenced; what stands outside the fences is
the plan's and the program's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surefoot.graph.agent_ports import FINISH
from surefoot.graph.checks import ResultCheck
from surefoot.graph.criteria_words import check_in_words
from surefoot.graph.fencing import fence
from surefoot.graph.plain import compact_json
from surefoot.graph.plan import Work
from surefoot.graph.ports import ToolSpec, WorkOrder
from surefoot.graph.reading import cut_text
from surefoot.graph.references import Reference, as_text, resolve
from surefoot.graph.values import ARTIFACT_BYTES, Json, JsonObject

LEAST_INPUT_BYTES = 1024
SHOWN_ARTIFACTS = 100
INLINE_CHARS = 300
"""A value without white space up to this long stands in the instructions themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matter:
    """What an attempt is about. `long`: whole texts of which only the beginning is shown."""

    text: str
    long: Mapping[str, str]


def matter_of(
    order: WorkOrder,
    *,
    instructions: str,
    data: Mapping[str, str],
    checks: Sequence[JsonObject],
    artifacts: Sequence[str],
    writes: Sequence[str] | None,
) -> Matter:
    """The user message that every request of an attempt begins with.

    Args:
        order: the attempt.
        instructions: with references put in (`put_in`).
        data: foreign texts by name, shown fenced and, together, at most about 16 KiB long.
        checks: what must hold, resolved.
        artifacts: full names that `read_artifact` knows.
        writes: the workspace paths that may be changed, None = any.
    """
    limit = max(LEAST_INPUT_BYTES, ARTIFACT_BYTES // max(1, len(data)))
    shown = {name: cut_text(name, text, limit_bytes=limit) for name, text in data.items()}
    unit = order.unit
    sections = [
        f"# Subtask {order.subtask}" + (f": {unit.name}" if unit.name else ""),
        unit.description or "",
        f"## Instructions\n\n{instructions}",
        _section("Data", "\n\n".join(fence(name, text) for name, (text, _) in shown.items())),
        _section("Artifacts that can be read", _listed(artifacts[:SHOWN_ARTIFACTS])),
        _ending(order.work, checks, writes),
        _criticism(order.criticism),
    ]
    cut = {name: data[name] for name, (_, is_cut) in shown.items() if is_cut}
    return Matter(text="\n\n".join(one for one in sections if one), long=cut)


def put_in(instructions: str, values: Mapping[str, Json]) -> tuple[str, dict[str, str]]:
    """The instructions with their references put in; what could hold a sentence is put below.

    A short value without white space (a path, an id, a number) stands in the text; the user's own
    inputs always do. Other values are named, and returned as data to be fenced.

    Args:
        instructions: as in the plan.
        values: by the text of the reference.

    Returns:
        The text, and the data by the names it uses.

    Raises:
        ReferenceMissing: a reference is malformed.
    """
    data: dict[str, str] = {}

    def word(reference: Reference) -> str:
        text = as_text(values[reference.text])
        plain = len(text) <= INLINE_CHARS and not any(sign.isspace() for sign in text)
        if plain or reference.head == "inputs":
            return text
        data[reference.text] = text
        return f"(the data `{reference.text}` below)"

    return str(resolve(instructions, word)), data


def schemas_of(work: Work, specs: Sequence[ToolSpec]) -> list[JsonObject]:
    """The function schemas of an agent: its tools, and `finish`."""
    tools = [_function(spec.name, spec.description, spec.schema) for spec in specs]
    return [*tools, _function(FINISH, _FINISH_SAYS, _finish_schema(work))]


def result_words(name: str, value: Json, artifacts: Sequence[str], marks: Sequence[str]) -> str:
    """What a model is told of a call's result (fenced, cut where it is long)."""
    parts = [fence(name, cut_text(name, as_result_text(value))[0])]
    if artifacts:
        parts.append(f"Artifacts put: {', '.join(artifacts)}")
    if marks:
        parts.append(f"Note: {'; '.join(marks)}")
    return "\n".join(parts)


def refusal_words(tool: str, kind: str, why: str) -> str:
    """What a model is told of a call that was not made: the program's own words."""
    return f"{tool} was not called ({kind}): {cut_text('it', why)[0]}"


def failure_words(tool: str, kind: str, message: str) -> str:
    """What a model is told of a call that failed: the tool's words, fenced."""
    return f"{tool} failed ({kind}):\n{fence(f'error of {tool}', cut_text('error', message)[0])}"


def as_result_text(value: Json) -> str:
    """A result as text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else compact_json(value)


_FINISH_SAYS = (
    "End this subtask and hand over its result. Call it once, when everything that was asked for "
    "is done; nothing can be added afterwards."
)


def _finish_schema(work: Work) -> JsonObject:
    whole = [
        check.json_schema
        for check in work.success
        if isinstance(check, ResultCheck) and not check.path and isinstance(check.json_schema, dict)
    ]
    # A schema with references inside cannot be moved to another place.
    result: JsonObject = whole[0] if whole and "$ref" not in compact_json(whole[0]) else {}
    said = {"description": "The result: any JSON value.", **result}
    return {
        "type": "object",
        "properties": {"result": said},
        "required": ["result"],
        "additionalProperties": False,
    }


def _function(name: str, description: str, parameters: JsonObject) -> JsonObject:
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _ending(work: Work, checks: Sequence[JsonObject], writes: Sequence[str] | None) -> str:
    lines = [f"- Work with the tools, step by step; end by calling {FINISH}(result)."]
    names = work.artifact_names()
    if names:
        lines.append(f"- These artifacts must have been put before that: {', '.join(names)}.")
    if writes is not None:
        allowed = f"only {', '.join(writes)}" if writes else "nothing"
        lines.append(f"- In the workspace you may change {allowed}.")
    lines += [f"- Checked by a program or a judge: {check_in_words(check)}" for check in checks]
    return _section("When it is done", "\n".join(lines))


def _criticism(text: str) -> str:
    if not text:
        return ""
    said = "The attempt before this one was not accepted. What was wrong with it, to be done right:"
    return _section("The last attempt", f"{said}\n{fence('criticism', cut_text('it', text)[0])}")


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n{text}" if text else ""


def _listed(names: Sequence[str]) -> str:
    return "\n".join(f"- {name}" for name in names)
