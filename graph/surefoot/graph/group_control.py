"""What reaches the plan of a group from outside: stops of all around it, and commands for it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from surefoot.graph.ports import Command, Control, StopSign
from surefoot.graph.values import JsonObject


class GroupControl:
    """The control of a group (`ports.Control`): its own stop sign and all that stops around it.

    Commands whose `subtask` stands inside the group are its own to apply, under the ids that its
    plan knows, and their senders are told through the plan around.

    Args:
        sign: the group's stop sign.
        outer: the control of the plan around.
        group: the group's id in that plan.
        given: commands that come with the order, not from around; ids are the group's plan's.
        alone: nothing else is to be applied in this go.
    """

    def __init__(
        self,
        sign: StopSign,
        outer: Control,
        *,
        group: str,
        given: Sequence[Command] = (),
        alone: bool = False,
    ) -> None:
        self._sign = sign
        self._outer = outer
        self._prefix = f"{group}/"
        self._given = list(given)
        self._mine = {command.id for command in given}
        self._alone = alone
        self.outcomes: dict[int, JsonObject] = {}
        """What came of the commands that were given."""

    def stopping(self) -> Literal["pause", "cancel", "now"] | None:
        """See `Control.stopping`; a group is never cancelled by itself: its task is."""
        around = self._outer.stopping()
        if self._sign.requested or around in ("cancel", "now"):
            return "now"
        return "pause" if self._sign.easing else around

    def stopped_by(self) -> str:
        """See `Control.stopped_by`."""
        return self._outer.stopped_by()

    def lost(self) -> bool:
        """See `Control.lost`."""
        return self._outer.lost()

    def asked(self) -> Sequence[Command]:
        """See `Control.asked`."""
        if self._alone:
            return tuple(self._given)
        handed = (self._inward(command) for command in self._outer.asked())
        return (*self._given, *(c for c in handed if c is not None and c.id not in self._mine))

    def settle(self, command: int, outcome: JsonObject) -> None:
        """See `Control.settle`."""
        if command in self._mine:
            self._given = [one for one in self._given if one.id != command]
            self.outcomes[command] = outcome
        else:
            self._outer.settle(command, outcome)

    def _inward(self, command: Command) -> Command | None:
        """A command as the group's plan knows it; None where it is about something else."""
        about = str(command.args.get("subtask") or "")
        if not about.startswith(self._prefix):
            return None
        return replace(command, args={**command.args, "subtask": about[len(self._prefix) :]})
