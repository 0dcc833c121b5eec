"""What reaches a running task from outside: stop signals, commands, a lost lease."""

from collections.abc import Callable, Sequence
from typing import Literal

from surefoot.graph.ports import Command
from surefoot.graph.values import JsonObject

Stop = Literal["pause", "cancel", "now"]

_STRENGTH: dict[Stop, int] = {"pause": 0, "now": 1, "cancel": 2}


class TaskControl:
    """The control of one task in this process (`ports.Control`); used in the loop's thread.

    A stronger wish replaces a weaker one, never the reverse. `on_change` wakes the runner.
    """

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.on_settled: Callable[[int, JsonObject], None] = lambda command, outcome: None
        self._asked: list[Command] = []
        self._stop: Stop | None = None
        self._by = ""
        self._lost = False

    def stopping(self) -> Stop | None:
        """What was asked for, None = go on."""
        return self._stop

    def stopped_by(self) -> str:
        """Who asked for it by a command, "" for a signal or the program around."""
        return self._by

    def lost(self) -> bool:
        """True once the lease is known to be lost."""
        return self._lost

    def asked(self) -> Sequence[Command]:
        """The commands that the nodes have to apply, oldest first."""
        return tuple(self._asked)

    def ask(self, command: Command) -> None:
        """Hand a command to the nodes."""
        if all(command.id != one.id for one in self._asked):
            self._asked.append(command)
        self.on_change()

    def settle(self, command: int, outcome: JsonObject) -> None:
        """A command was applied or refused, durably: tell its sender."""
        if any(command == one.id for one in self._asked):
            self._asked = [one for one in self._asked if one.id != command]
            self.on_settled(command, outcome)

    def stop(self, how: Stop, by: str = "") -> None:
        """Ask for a stop: `pause` after the smallest unit, `now` at once, `cancel` for good.

        Args:
            how: the wish.
            by: whose command it is, for the history.
        """
        if self._stop is None or _STRENGTH[how] > _STRENGTH[self._stop]:
            self._stop, self._by = how, by
        self.on_change()

    def lose(self) -> None:
        """The lease is lost: stop at once, write nothing."""
        self._lost = True
        self.stop("now")
