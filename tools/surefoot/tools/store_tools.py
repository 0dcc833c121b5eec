"""Built-in tools for artifacts: write_artifact, read_artifact."""

from typing import Annotated, Any, TypedDict

from langchain_core.tools import BaseTool, tool
from pydantic import BaseModel, Field

from surefoot.graph.plain import clean_json, compact_json
from surefoot.tools.context import ToolContext, check_artifact_name
from surefoot.tools.effects import Refused, effect
from surefoot.tools.files import decode
from surefoot.tools.limits import MAX_TEXT_BYTES


class WrittenArtifact(TypedDict):
    """An artifact that was put; others see it once the subtask is accepted."""

    name: str
    bytes: int


class ArtifactText(TypedDict):
    """An artifact's text; `bytes` is its whole size."""

    name: str
    text: str
    bytes: int
    truncated: bool


class WriteArtifact(BaseModel):
    """Arguments of write_artifact; `json` would hide a method of pydantic, hence the alias."""

    name: str = Field(description="The artifact's name, without `/`.")
    text: str | None = Field(default=None, description="Its content as text.")
    value: Any = Field(default=None, alias="json", description="Its content as a JSON value.")


@effect("idempotent")
@tool(args_schema=WriteArtifact)
def write_artifact(
    context: ToolContext, name: str, text: str | None = None, value: Any = None
) -> WrittenArtifact:
    """Write an artifact of this subtask, from `text` or from a `json` value."""
    try:
        check_artifact_name(name)
    except ValueError as exc:
        raise Refused("bad_arguments", str(exc)) from None
    if (text is None) == (value is None):
        raise Refused("bad_arguments", "give either text or json")
    written = text if text is not None else compact_json(clean_json(value)[0])
    content = written.encode(errors="surrogateescape")
    context.artifacts.put(name, content)
    return {"name": name, "bytes": len(content)}


@effect("read")
@tool
def read_artifact(
    context: ToolContext,
    name: Annotated[str, Field(description="A bare name, or SUBTASK/NAME.")],
    max_bytes: Annotated[
        int, Field(description="Read at most this many bytes.", ge=0, le=MAX_TEXT_BYTES * 4)
    ] = MAX_TEXT_BYTES,
) -> ArtifactText:
    """Read the text of an artifact of this task."""
    try:
        content = context.artifacts.get(name)
    except KeyError as exc:
        raise Refused("bad_arguments", str(exc.args[0])) from None
    text = decode(content[:max_bytes])
    cut = len(content) > max_bytes
    return {"name": name, "text": text, "bytes": len(content), "truncated": cut}


TOOLS: list[BaseTool] = [write_artifact, read_artifact]
