"""What a person gives a subtask by hand, made ready for the command: kept in the store, by content.

A command's row stays small; the holder of the task takes what is given from the same store.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from surefoot.graph.errors import UsageError
from surefoot.graph.given import NOT_GIVEN, NotGiven
from surefoot.graph.plain import NotJson, TooLarge, clean_json, clean_text
from surefoot.graph.ports import ArtifactStore
from surefoot.graph.values import ArtifactRef, Json, JsonObject
from surefoot.tools.context import RESULT_ARTIFACT, media_type_of
from surefoot.tools.kept_values import keep_value, result_artifact, too_large


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A result and artifacts by name, or arguments instead of the plan's."""

    result: "Json | NotGiven" = NOT_GIVEN
    artifacts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    args: JsonObject | None = None


async def kept_edit(edit: Edit, store: ArtifactStore) -> JsonObject:
    """The arguments of the command `edit`, besides its subtask; durable when this returns.

    Raises:
        UsageError: nothing was given, too much, or what could never be a result or artifact.
    """
    values = not isinstance(edit.result, NotGiven) or bool(edit.artifacts)
    if values == (edit.args is not None):
        raise UsageError(
            "usage",
            "give a result (--result FILE), artifacts (--artifact NAME=FILE) or both, or else"
            " arguments (--args JSON)",
        )
    if edit.args is not None:
        return {"args": _plain(edit.args)}
    given: JsonObject = {}
    refs = [await _kept(name, content, store) for name, content in edit.artifacts.items()]
    if not isinstance(edit.result, NotGiven):
        stored = await keep_value(store, _plain(edit.result))
        failure = too_large(stored.get("size", 0))
        if failure is not None:
            raise UsageError(failure["kind"], failure["message"])
        given["result"] = stored
        text = result_artifact(stored)
        refs += [text] if text is not None else []
    return {**given, "artifacts": refs} if refs else given


def _plain(value: Json) -> Json:
    try:
        plain, _ = clean_json(value)
    except NotJson as wrong:
        raise UsageError("not_json", f"what is given is not JSON: {wrong}") from None
    except (TooLarge, MemoryError):
        raise UsageError("result_too_large", "what is given is larger than 64 MiB") from None
    return plain


async def _kept(name: str, content: bytes, store: ArtifactStore) -> ArtifactRef:
    if not name or "/" in name or name in (".", "..", RESULT_ARTIFACT) or clean_text(name) != name:
        raise UsageError("bad_artifact", f"{name!r} cannot be the name of an artifact")
    sha256 = await store.put_bytes(content)
    size, media_type = len(content), media_type_of(name)
    return ArtifactRef(name=name, sha256=sha256, size=size, media_type=media_type)
