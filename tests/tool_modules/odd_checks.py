"""Checks that answer oddly."""

from typing import Any

from surefoot.tools.operations import CheckContext


async def good(context: CheckContext) -> bool:
    return context.result["n"] == 3 and context["artifacts"]["a.txt"].name == "a.txt"


def said(_context: CheckContext) -> str:
    return "too few"


def raises(context: CheckContext) -> Any:
    return context.nothing


def odd(_context: CheckContext) -> int:
    return 3


def silent(_context: CheckContext) -> bool:
    return False


def writes(context: CheckContext) -> bool | str:
    return (context.workspace / "x").exists() or f"no x in {context.task_id}"
