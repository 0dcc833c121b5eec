"""The fingerprint of where a task runs: what a snapshot says of the programs that made it."""

import functools
import platform
from importlib import metadata

from surefoot.graph.values import JsonObject

PROGRAMS = ("surefoot", "langgraph", "langgraph-checkpoint-postgres", "langchain-core")


def fingerprint_of(*, tools: JsonObject, models: JsonObject) -> JsonObject:
    """The environment of a snapshot.

    Args:
        tools: digest of each tools module.
        models: the models by role, as the task names them.
    """
    return {**_machine(), "tools": tools, "models": models}


@functools.cache
def _machine() -> JsonObject:
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "programs": {name: _version(name) for name in PROGRAMS},
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
