"""Old threads under a new program: pure upgrades of a stored state, one version at a time.

A thread names the graph version that wrote it. An older one is upgraded when it is taken up, in
the first superstep of that go; one that no upgrade leads away from, or that a newer program wrote,
is refused with a text, never restarted. Agents' threads carry no version of their own: they are
continued under their task's, and an upgrade that their shape does not survive takes `go` out of the
records, so that they start from scratch.
"""

from collections.abc import Callable, Mapping
from typing import cast

from surefoot.graph.errors import UsageError
from surefoot.graph.state import GRAPH_VERSION, TaskState

Upgrade = Callable[[TaskState], TaskState]
"""From one version to the next; what came in is not changed."""


def _with_ways_back(state: TaskState) -> TaskState:
    """1 -> 2: rollbacks are counted, and applied commands remembered."""
    return cast("TaskState", {"rollbacks": 0, "applied": [], **state})


UPGRADES: Mapping[int, Upgrade] = {1: _with_ways_back}
"""By the version that each leads away from."""


def upgraded(
    state: TaskState, *, to: int = GRAPH_VERSION, upgrades: Mapping[int, Upgrade] = UPGRADES
) -> TaskState:
    """The state as the present program writes it; the same one where nothing is to be done.

    Args:
        state: as it was stored.
        to: the version that is wanted.
        upgrades: by the version that each leads away from.

    Raises:
        UsageError: `graph_version`: a newer program wrote it, or the way from it is not known.
    """
    version = state.get("graph_version")
    if version == to:
        return state
    if not isinstance(version, int) or version > to:
        raise UsageError(
            "graph_version",
            f"this task was written by graph version {version}, this program runs version {to}: "
            "go on with the newer program that wrote it",
        )
    while version < to:
        step = upgrades.get(version)
        if step is None:
            raise UsageError(
                "graph_version",
                f"this task was written by graph version {version}, and this program (version "
                f"{to}) cannot take it up: finish it with the program that began it",
            )
        version += 1
        state = cast("TaskState", {**step(state), "graph_version": version})
    return state


def changed_channels(before: TaskState, after: TaskState) -> dict[str, object]:
    """What an upgrade has changed, by channel."""
    old, new = cast("Mapping[str, object]", before), cast("Mapping[str, object]", after)
    return {name: value for name, value in new.items() if name not in old or old[name] is not value}
