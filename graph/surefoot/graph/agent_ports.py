"""What an agent's steps may ask of tools: `AgentCalls`, behind it `surefoot.tools.agent_calls`.

The steps themselves (think, act) know a work order and these; how a call is made at most once, what
is prohibited and where results are kept is behind the port.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypedDict

from surefoot.graph.model_ports import ToolUse
from surefoot.graph.values import ArtifactRef, JsonObject, StoredValue

FINISH = "finish"
"""The function by which an agent ends its work: `finish(result)`."""


class MadeCall(TypedDict):
    """One call as an agent's history of calls remembers it."""

    tool: str
    call: str
    """Fingerprint of tool and arguments."""
    result: str
    """Fingerprint of what came back."""
    took: bool
    """It took effect: an identical call after it is another one."""


class Finished(TypedDict):
    """What an agent handed to `finish`, kept; `marks` say what was changed in it."""

    result: StoredValue
    marks: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """What came of one tool call.

    Attributes:
        text: what the model is told: the result as fenced data, or what was wrong.
        made: for the history of calls.
        calls: tool calls really made, 0 where it was refused or the ledger answered.
        artifacts: what it put; visible to later calls of the attempt.
        long: stored texts of which only the beginning is in `text`, by name.
        finished: the call was `finish`, and its result is kept.
    """

    text: str
    made: MadeCall
    ok: bool = True
    calls: int = 0
    artifacts: tuple[ArtifactRef, ...] = ()
    long: Mapping[str, StoredValue] = field(default_factory=dict[str, StoredValue])
    finished: Finished | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What an attempt has done so far, as far as its next call needs it."""

    step: int
    """Number of the step that the call is, from 1."""
    made: Sequence[MadeCall]
    artifacts: Mapping[str, ArtifactRef]
    long: Mapping[str, StoredValue]


class AgentCalls(Protocol):
    """The tools of one attempt of an agent, bound to its order and its stop sign."""

    @property
    def schemas(self) -> Sequence[JsonObject]:
        """The functions that the model may call, `finish` among them."""
        ...

    @property
    def matter(self) -> str:
        """What the attempt is about, in words, its inputs fenced."""
        ...

    async def make(self, use: ToolUse, earlier: Earlier, *, seconds_left: float) -> CallAnswer:
        """Make one call; whatever a model can mend comes back as words.

        Raises what ends the attempt or the go (of `surefoot.tools.outcomes` and `stopping`), and
        LeaseLost, DatabaseUnavailable. What the call may have done then stands in the ledger.
        """
        ...


OnStep = Callable[[str, int, str, str, int], None]
"""(subtask, attempt, step state, tool or `model`, step number): told around every step."""
