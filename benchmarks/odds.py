"""What is to be expected of `reliability`: by formulas, and by going through the draws. Pure."""

from dataclasses import dataclass

from benchmarks import wrong_answers
from surefoot.graph.votes import chance_of_all, chance_of_right, expected_votes, tally

ATTEMPTS = 5
MAX_SAMPLES = 9

Ended = tuple[bool, int]
"""Whether a run was completed (a subtask is right), and how often the model was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One way of dealing with errors: `checked`, `unchecked` or `votes-K`."""

    name: str
    seed: int
    e: float
    subtasks: int

    @property
    def checked(self) -> bool:
        """Whether a check sees that an answer is wrong."""
        return self.name == "checked"

    @property
    def ahead_by(self) -> int:
        """K of the votes, 0 = none."""
        return int(self.name.partition("votes-")[2] or 0)

    @property
    def attempts(self) -> int:
        """Allowed for a subtask."""
        return 1 if self.name == "unchecked" else ATTEMPTS


def drawn(scenario: Scenario, run: int) -> Ended:
    """How a run ends by the draws alone."""
    found = [_subtask_drawn(scenario, run, n) for n in range(scenario.subtasks)]
    return all(right for right, _ in found), sum(times for _, times in found)


def _subtask_drawn(scenario: Scenario, run: int, n: int) -> Ended:
    question = wrong_answers.name_of(scenario.name, run, n)
    times = 0

    def right() -> bool:
        nonlocal times
        times += 1
        return not wrong_answers.is_wrong(scenario.seed, question, times, scenario.e)

    for _ in range(scenario.attempts):
        if not scenario.ahead_by:
            good = right()
            if good or not scenario.checked:
                return good, times
            continue
        ballots: list[str] = []
        for sample in range(1, MAX_SAMPLES + 1):
            ballots.append(str(right()))
            count = tally(ballots, ahead_by=scenario.ahead_by, left=MAX_SAMPLES - sample)
            if count.state == "won":
                return count.winner == "True", times
            if count.state == "no_majority":
                break
    return False, times


def formulas(scenario: Scenario) -> dict[str, float]:
    """Chance that a run is completed, and the answers that a subtask is expected to take."""
    e, n, k = scenario.e, scenario.subtasks, scenario.ahead_by
    if k:
        right, samples = with_bound(1 - e, k, most=MAX_SAMPLES, attempts=scenario.attempts)
        return {
            "subtask": chance_of_right(1 - e, k),
            "run": chance_of_all(1 - e, k, n),
            "answers_a_subtask": expected_votes(1 - e, k),
            "run_with_bound": right**n,
            "answers_a_subtask_with_bound": samples,
        }
    tries = scenario.attempts
    return {
        "subtask": 1 - e**tries,
        "run": (1 - e**tries) ** n,
        "answers_a_subtask": (1 - e**tries) / (1 - e),
    }


def with_bound(p: float, k: int, *, most: int, attempts: int) -> tuple[float, float]:
    """(chance that a vote is right, expected samples) when at most `most` samples are taken.

    The walk of the lead from 0 to ±k is gone through sample by sample; where nobody can win any
    more the attempt ends and the next one votes anew.
    """
    right = none = samples = 0.0
    leads = {0: 1.0}
    for sample in range(1, most + 1):
        samples += sum(leads.values())
        after: dict[int, float] = {}
        for lead, chance in leads.items():
            for step, share in ((1, p), (-1, 1 - p)):
                after[lead + step] = after.get(lead + step, 0.0) + chance * share
        right += after.pop(k, 0.0)
        after.pop(-k, None)
        lost = [lead for lead in after if abs(lead) + most - sample < k]
        none += sum(after.pop(lead) for lead in lost)
        leads = after
    again = sum(none**n for n in range(attempts))
    return right * again, samples * again
