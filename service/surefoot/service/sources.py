"""Where a task comes from: a file, a mapping, one that was read already; and its further tools."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from surefoot.graph.errors import UsageError
from surefoot.graph.shapes import is_object
from surefoot.graph.values import Json, JsonObject

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from surefoot.graph.task_file import LoadedFile

TaskSource: TypeAlias = "str | Path | Mapping[str, Any] | LoadedFile"
"""A task file's path, its content as a mapping, or a file that was read already."""


class UnreadableTask(UsageError):
    """A task file that could not even be read; `report` says so in the validator's words."""

    def __init__(self, error: UsageError) -> None:
        from surefoot.graph.validation.report import unreadable

        self.report = unreadable(error)
        super().__init__(error.code, str(error))


def load(source: TaskSource, sets: Mapping[str, Json] | None = None) -> "LoadedFile":
    """Read a task, wherever it comes from.

    Raises:
        UnreadableTask: it cannot be read, or is not even a mapping.
        UsageError: `bad_set`.
    """
    from surefoot.graph.task_file import LoadedFile, prepare_mapping, read_task_file

    if isinstance(source, LoadedFile):
        return source
    if isinstance(source, str | Path):
        try:
            return read_task_file(Path(source), sets=sets)
        except UsageError as error:
            if error.code == "bad_set":
                raise
            raise UnreadableTask(error) from error
    here = Path.cwd()
    mapping = prepare_mapping(dict(source), task_dir=here, sets=sets)
    return LoadedFile(mapping=mapping, task_dir=here, path=here / "task")


def given_plan(source: "Path | str | Mapping[str, Any]") -> JsonObject:
    """A plan from a file or mapping that is one, or that is a task file with one.

    Raises:
        UsageError: `unreadable_file` or `schema`.
    """
    from surefoot.graph.task_file import read_document

    found: Json = (
        dict(source) if isinstance(source, Mapping) else read_document(Path(source).expanduser())
    )
    plan = found.get("plan", found) if is_object(found) else None
    if not is_object(plan) or not plan.get("subtasks"):
        raise UsageError("schema", "a plan is a mapping with `subtasks:`, or a task file with one")
    return plan


def absolute(path: Path | str) -> Path:
    """A path against the current folder, `~` expanded.

    Raises:
        UsageError: it is empty (an unset variable in a script), which would be the current folder.
    """
    if path == "":
        raise UsageError("usage", "an empty path names no folder; the current one is '.'")
    return Path(path).expanduser().absolute()


def tool_objects(tools: "Sequence[BaseTool | str | Path]") -> "list[BaseTool]":
    """Those tools that are objects."""
    return [tool for tool in tools if not isinstance(tool, str | Path)]


def tool_modules(tools: "Sequence[BaseTool | str | Path]") -> list[str]:
    """Tool modules by name; paths made absolute against the current folder."""
    named: list[str] = []
    for tool in tools:
        if isinstance(tool, Path) or (isinstance(tool, str) and _looks_like_a_path(tool)):
            named.append(str(absolute(tool)))
        elif isinstance(tool, str):
            named.append(tool)
    return named


def _looks_like_a_path(tool: str) -> bool:
    return tool.endswith(".py") or "/" in tool
