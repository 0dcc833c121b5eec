"""The board: where a task stands, in a few lines for a model. Kept up to date record by record.

It is asked for with every agent's order of a plan of thousands, so nothing here looks at the
whole plan after it was built. Derived and process-local, like the ready set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from surefoot.graph.index import PlanIndex, container_of
from surefoot.graph.plain import clean_text
from surefoot.graph.values import Decision, EffectiveLimits, Record, Usage

MAX_BYTES = 1536
"""The whole board is at most this long, in UTF-8."""

SHOWN_FAILURES = 5
SHOWN_PHASES = 8
SHOWN_IDS = 6
FAILURE_CHARS = 140
_DONE = ("completed", "skipped")


@dataclass(slots=True)
class Briefing:
    """What a task's briefs are made of, kept between them as long as it stays the same."""

    board: "Board"
    decisions: Mapping[str, Decision] = field(default_factory=dict[str, Decision])
    before: tuple[Decision, ...] = ()
    """Of the plan around, for a group."""
    ordered: tuple[Decision, ...] = ()


class Board:
    """What is done and what failed lately, of one plan version."""

    def __init__(self, index: PlanIndex, records: Mapping[str, Record]) -> None:
        self.index = index
        self._phase = {id: str(raw.get("phase") or "-") for id, raw in index.raw.items()}
        self._total: dict[str, int] = dict.fromkeys(index.phases, 0)
        for phase in self._phase.values():
            self._total[phase] = self._total.get(phase, 0) + 1
        self._done: dict[str, int] = dict.fromkeys(self._total, 0)
        self._is_done: set[str] = set()
        self._failures: dict[str, str] = {}
        for id in sorted(records, key=lambda id: records[id].get("finished", 0.0)):
            self.update(id, records[id])

    def update(self, id: str, record: Record) -> None:
        """A record changed: its new value."""
        if id in self._phase:
            self._count(id, record.get("state") in _DONE)
        failure = record.get("failure")
        if failure:
            self._failures.pop(id, None)
            words = " ".join(clean_text(failure["message"]).split())[:FAILURE_CHARS]
            self._failures[id] = f"{id} ({failure['kind']}): {words}"
            if len(self._failures) > SHOWN_FAILURES:
                del self._failures[next(iter(self._failures))]

    def _count(self, id: str, done: bool) -> None:
        if done == (id in self._is_done):
            return
        phase = self._phase[id]
        self._done[phase] += 1 if done else -1
        (self._is_done.add if done else self._is_done.discard)(id)

    def text(
        self, *, limits: EffectiveLimits, usage: Usage, seconds: float, subtask: str | None
    ) -> str:
        """The board as one subtask (None: the task itself) sees it, at most `MAX_BYTES` long.

        Args:
            limits: in force.
            usage: so far.
            seconds: the task was held so long.
            subtask: id, perhaps of a child.
        """
        lines = [
            self._phases(subtask),
            *([self._place(subtask)] if subtask else []),
            _left(limits, usage, seconds),
            *self._failed(),
        ]
        return _bounded(lines)

    def _phases(self, subtask: str | None) -> str:
        here = self._phase.get(container_of(subtask) or subtask) if subtask else None
        names = list(self._total)
        start = max(0, min(_at(names, here) - SHOWN_PHASES // 2, len(names) - SHOWN_PHASES))
        shown = [self._phase_words(name, here) for name in names[start : start + SHOWN_PHASES]]
        left_out = len(names) - len(shown)
        more = f"; and {left_out} phases more" if left_out else ""
        return f"Phases: {'; '.join(shown)}{more}"

    def _phase_words(self, name: str, here: str | None) -> str:
        done, total = self._done[name], self._total[name]
        state = "done" if done == total else f"{done} of {total} done"
        return f"{name} ({state}{', here' if name == here else ''})"

    def _place(self, subtask: str) -> str:
        own = container_of(subtask) or subtask
        if own not in self._phase:
            return f"This subtask: {subtask}"
        part = f" (one item of {own})" if own != subtask else ""
        needs = _some(list(self.index.needs(own)))
        waiting = _some(self.index.dependants.get(own, []))
        return f"This subtask: {subtask}{part}; it depends on: {needs}; waiting for it: {waiting}"

    def _failed(self) -> list[str]:
        if not self._failures:
            return []
        newest = list(self._failures.values())[::-1]
        return ["Recent failures, newest first:", *(f"- {line}" for line in newest)]


def _left(limits: EffectiveLimits, usage: Usage, seconds: float) -> str:
    steps = max(0, limits["max_steps"] - usage["steps"])
    tokens = max(0, limits["max_tokens"] - usage["tokens"])
    left = max(0.0, limits["max_seconds"] - seconds)
    text = f"Left of the budget: {steps} steps, {tokens} tokens, {left:.0f} seconds"
    cost = limits["max_cost_usd"]
    return text if cost is None else f"{text}, {max(0.0, cost - usage['cost_usd']):.4f} USD"


def _some(ids: Sequence[str]) -> str:
    shown = ", ".join(ids[:SHOWN_IDS]) or "nothing"
    return shown if len(ids) <= SHOWN_IDS else f"{shown} and {len(ids) - SHOWN_IDS} more"


def _at(names: Sequence[str], name: str | None) -> int:
    return names.index(name) if name in names else 0


def _bounded(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    content = text.encode()
    if len(content) <= MAX_BYTES:
        return text
    return content[: MAX_BYTES - 4].decode(errors="ignore") + " ..."
