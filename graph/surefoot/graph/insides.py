"""How a plan reaches into its groups where these do not run: a command, applied to their state.

A group that runs is handed its commands by its own control (`nesting.GroupControl`).
"""

from dataclasses import dataclass
from typing import Protocol

from surefoot.graph.ports import Command, WorkOrder
from surefoot.graph.values import JsonObject, Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """What came of a command inside a group.

    Attributes:
        outcome: what its sender is told, `{"error": {code, message}}` where it was refused.
        failed: the group's plan still stands failed.
        questions: those that are open inside, as everybody outside knows them.
        begun: the group has a thread; it was entered at all.
        unanswered: it was entered and left without an answer: the task is stopped meanwhile.
    """

    outcome: JsonObject
    failed: bool = False
    begun: bool = True
    unanswered: bool = False
    questions: tuple[Question, ...] = ()


class Insides(Protocol):
    """The groups of a task, of which none that is named here runs."""

    async def step_in(self, order: WorkOrder, command: Command) -> Inside:
        """Apply a command inside a group; durable when this returns.

        Args:
            order: the group, as it would be begun or gone on with.
            command: its `subtask` is an id of the group's plan. One that was applied already is
                not applied again: its outcome is returned.

        Raises:
            LeaseLost, DatabaseUnavailable: nothing is known of what came of it.
        """
        ...

    async def state_of(self, group: str) -> JsonObject | None:
        """The saved state of a group's plan, by the group's full id; None where none is begun.

        Of the thread that was written last. Raises DatabaseUnavailable.
        """
        ...


class NoInsides:
    """A graph without groups."""

    async def state_of(self, group: str) -> JsonObject | None:
        """See `Insides.state_of`."""
        del group

    async def step_in(self, order: WorkOrder, command: Command) -> Inside:
        """See `Insides.step_in`."""
        del command
        raise AssertionError(f"there is no group {order.subtask!r}")
