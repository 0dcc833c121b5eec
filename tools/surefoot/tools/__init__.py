"""What a user's tools module imports: `effect`, `NotDone` and `ToolContext`.

`ToolContext` is looked up on first use, because it needs LangChain and the rest does not.
"""

from typing import TYPE_CHECKING

from surefoot.tools.effects import NotDone, effect

if TYPE_CHECKING:
    from surefoot.tools.context import ToolContext

__all__ = ["NotDone", "ToolContext", "effect"]


def __getattr__(name: str) -> object:
    if name == "ToolContext":
        from surefoot.tools.context import ToolContext  # noqa: PLC0415 - start-up speed

        return ToolContext
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
