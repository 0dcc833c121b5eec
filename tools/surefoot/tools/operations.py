"""The five things that are asked of a tool's code: call, key, probe, compensate, check.

Each returns what the code returned, perhaps still to be awaited. Who runs it, and for how long,
is not known here.
"""

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

from surefoot.graph.errors import ToolArgumentsInvalid
from surefoot.graph.plain import clean_text
from surefoot.graph.values import Json, JsonObject
from surefoot.tools.context import ToolContext
from surefoot.tools.registry import RegisteredTool, make_importable

Operation = Literal["call", "key", "probe", "compensate", "check"]


class CheckContext(Mapping[str, Any]):
    """What a `python` check sees, as attributes or as keys.

    `task_id`, `subtask`, `workspace` (a Path), `result`, `artifacts` (name -> Path, or a list of
    them for a foreach), `inputs`.
    """

    def __init__(self, context: JsonObject) -> None:
        artifacts = cast("Mapping[str, Json]", context.get("artifacts") or {})
        self._values: dict[str, Any] = {
            "task_id": "",
            "subtask": "",
            "result": None,
            "inputs": {},
            **context,
            "workspace": Path(str(context.get("workspace") or ".")),
            "artifacts": {name: _paths(one) for name, one in artifacts.items()},
        }

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"the context of a check has no {name!r}") from None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def operate(
    operation: Operation, tool: RegisteredTool, args: JsonObject, result: Json, context: ToolContext
) -> object:
    """Ask something of a tool's code.

    Raises:
        ToolArgumentsInvalid: the arguments do not fit; nothing was called.
        BaseException: whatever the code raises.
    """
    if operation == "call":
        return tool.callable.run(args, context)
    declared, plain = tool.effect, tool.callable.plain_arguments(args, context)
    if operation == "key":
        return _declared(declared.key, tool, operation)(plain)
    if operation == "probe":
        return _declared(declared.probe, tool, operation)(plain, context)
    return _declared(declared.compensate, tool, operation)(plain, result, context)


def check(call: str, context: JsonObject, task_dir: Path) -> object:
    """Run a `python` check, `module:function`, found beside the task file or installed."""
    module, _, function = call.partition(":")
    make_importable(task_dir)
    found: Any = importlib.import_module(module)
    return getattr(found, function)(CheckContext(context))


def key_text(returned: object) -> str:
    """A tool's own key as text.

    Raises:
        ToolArgumentsInvalid: it is not a text, or empty.
    """
    if not isinstance(returned, str) or not returned:
        raise ToolArgumentsInvalid(f"key= returned {returned!r:.200}, not a text")
    return clean_text(returned)


def _declared(
    function: Callable[..., object] | None, tool: RegisteredTool, name: str
) -> Callable[..., object]:
    if function is None:
        raise ToolArgumentsInvalid(f"{tool.spec.name} declares no {name}")
    return function


def _paths(value: Json) -> Any:
    if isinstance(value, list):
        return [Path(str(one)) for one in cast("list[Json]", value)]
    return Path(str(value))
