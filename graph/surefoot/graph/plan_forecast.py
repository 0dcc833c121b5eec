"""What a plan will ask of models: how many runs of agents, and what votes cost. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from surefoot.graph.plan import Plan, Unit
from surefoot.graph.votes import expected_votes

RIGHT_SAMPLE = 0.9
"""How often a sample is taken to be right, where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteForecast:
    """One subtask that votes: samples expected while a sample is right nine times out of ten."""

    subtask: str
    ahead_by: int
    max_samples: int
    expected: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Of a whole plan.

    Attributes:
        leaves: subtasks that work; a foreach counts once, its list is not known yet.
        agents: those of them that a model does.
        samples: independent samples expected of them, one where nobody votes.
        votes: those that vote.
        open_lists: foreach subtasks whose children a model does: each counts once above.
    """

    leaves: int
    agents: int
    samples: float
    votes: tuple[VoteForecast, ...]
    open_lists: int


def forecast(plan: Plan) -> Forecast:
    """Count what a plan will ask of models."""
    leaves = list(_leaves(plan))
    agents = [(id, unit) for id, unit in leaves if unit.kind == "agent"]
    votes = tuple(
        VoteForecast(
            subtask=id,
            ahead_by=unit.votes.ahead_by,
            max_samples=unit.votes.max_samples,
            expected=min(
                expected_votes(RIGHT_SAMPLE, unit.votes.ahead_by), float(unit.votes.max_samples)
            ),
        )
        for id, unit in agents
        if unit.votes is not None
    )
    return Forecast(
        leaves=len(leaves),
        agents=len(agents),
        samples=len(agents) - len(votes) + sum(vote.expected for vote in votes),
        votes=votes,
        open_lists=sum(1 for id, _ in agents if id.endswith("/*")),
    )


def forecast_lines(found: Forecast) -> list[str]:
    """The forecast for a person."""
    if not found.agents:
        return ["no subtask needs a model"]
    each = f", {found.open_lists} of them for every item of a list" if found.open_lists else ""
    first = (
        f"a model works on {found.agents} of {found.leaves} subtasks{each}: "
        f"about {found.samples:.3g} runs of an agent, each of several calls"
    )
    return [first, *map(_vote_line, found.votes)]


def _vote_line(vote: VoteForecast) -> str:
    return (
        f"{vote.subtask} votes until one answer is {vote.ahead_by} ahead: about "
        f"{vote.expected:.1f} samples, {vote.max_samples} at most (if {RIGHT_SAMPLE:.0%} of "
        "samples are right)"
    )


def _leaves(plan: Plan, prefix: str = "") -> Iterator[tuple[str, Unit]]:
    for subtask in plan.subtasks:
        yield from _inside(prefix + subtask.id, subtask)


def _inside(id: str, unit: Unit) -> Iterator[tuple[str, Unit]]:
    if unit.kind == "foreach" and unit.each is not None:
        yield from _inside(f"{id}/*", unit.each)
    elif unit.kind == "group" and unit.plan is not None:
        yield from _leaves(unit.plan, f"{id}/")
    else:
        yield id, unit
