"""The channels of the subtask graph (think, act): what an agent's thread saves at every step.

JSON-plain. What grows with the steps is a `DeltaChannel`, so that a step writes what it added.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict, cast

from langgraph.channels.delta import DeltaChannel

from surefoot.graph.agent_ports import Finished, MadeCall
from surefoot.graph.gone_snapshots import is_gone
from surefoot.graph.model_ports import Message
from surefoot.graph.values import ArtifactRef, Failure, Json, StoredValue

SNAPSHOT_EVERY = 100

DELTAS = ("history", "made", "artifacts", "long")
"""Channels that are written as differences."""


def append_calls(
    made: Sequence[MadeCall] | None, writes: Sequence[Sequence[MadeCall]]
) -> list[MadeCall]:
    """The reducer of the calls made: appended, in order."""
    if is_gone(made):
        return cast("list[MadeCall]", made)
    grown = list(made or ())
    for write in writes:
        grown += write or ()
    return grown


def merge_named(named: Mapping[str, Any] | None, writes: Sequence[Any]) -> dict[str, Any]:
    """The reducer of what has a name (messages by step, artifacts): the newest of each name."""
    if is_gone(named):
        return cast("dict[str, Any]", named)
    merged = dict(named or {})
    for write in writes:
        merged.update(write or {})
    return merged


class Wanted(TypedDict):
    """A tool call of the newest reply, waiting to be made; `args` None: unusable, see `fault`."""

    id: str
    name: str
    args: Json
    fault: str


class SubtaskInput(TypedDict, total=False):
    """What a go is entered with: its number. Everything else is in the thread or the order."""

    go: int


class SubtaskState(TypedDict, total=False):
    """One go of an agent.

    `wanted` are the calls of the newest reply and `done` how many of them are answered. `finished`
    or `failure` is set once: then the go is over, and entering the thread again changes nothing.
    """

    go: int
    history: Annotated[
        dict[str, list[Message]], DeltaChannel(merge_named, snapshot_frequency=SNAPSHOT_EVERY)
    ]
    """By step. Not a list: LangGraph turns message-like items of one into objects of its own."""
    made: Annotated[list[MadeCall], DeltaChannel(append_calls, snapshot_frequency=SNAPSHOT_EVERY)]
    artifacts: Annotated[
        dict[str, ArtifactRef], DeltaChannel(merge_named, snapshot_frequency=SNAPSHOT_EVERY)
    ]
    long: Annotated[
        dict[str, StoredValue], DeltaChannel(merge_named, snapshot_frequency=SNAPSHOT_EVERY)
    ]
    wanted: list[Wanted]
    done: int
    step: int
    """Steps that are over: model replies and tool calls."""
    replies: int
    """Model replies that were paid and kept."""
    idle: int
    """Replies in a row without a call."""
    cut: int
    """Replies in a row that ended at the token limit."""
    folded: int
    """The step before which the history was shortened last, -1 never."""
    longest: int
    """Tokens of the longest reply."""
    finished: Finished
    failure: Failure
