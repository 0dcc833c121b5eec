"""What a user's tools module imports: `effect`, `NotDone` and `ToolContext`.

Each is looked up on first use: the process that runs tools is started from a module of this
package before anything else is imported, and `ToolContext` needs LangChain.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surefoot.tools.context import ToolContext
    from surefoot.tools.effects import NotDone, effect

__all__ = ["NotDone", "ToolContext", "effect"]

_HOMES = {"NotDone": "effects", "ToolContext": "context", "effect": "effects"}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"surefoot.tools.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
