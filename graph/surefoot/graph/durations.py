"""How long a leaf may take, learnt from what has finished: a small hierarchical model of logs.

Every leaf has a *basis*: its estimate, or its weight (at the seconds per weight seen so far), or
nothing. What finished gives logs of (seconds ÷ basis); their mean is drawn together from the whole
run down to leaves of one family, and the spread between families is kept, so that leaves unlike
anything seen get a wide answer. Random draws come from the caller's generator.
"""

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist, fmean
from typing import Literal

from surefoot.graph.workload import Item

Basis = Literal["estimate", "weight", "none"]

_PRIORS: dict[Basis, tuple[float, float]] = {
    "estimate": (0.35, 0.2),
    "weight": (0.35, 0.2),
    "none": (0.7, 1.5),
}
"""Spread of logs within and between families before anything is known, worth two samples each."""

_PRIOR_SAMPLES = 2.0
_HISTORY_SAMPLES = 8
"""Earlier tasks count as at most this many finished leaves: this run knows better."""

_FLOOR_SHARE = 0.05
"""This share of the mean duration is added before logs, so that tiny leaves do not shout."""

_OVERDUE = 1.5
"""A leaf that runs longer than its like is counted as if it ended at 1.5 times that."""

_BEYOND_LONGEST = 3.0
"""Where durations hang on nothing, none is thought to take more than 3 times the longest seen."""

_FARTHEST = 0.7
"""An unseen family's mean lies at most this (log) above the longest seen one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Durations of one tool in earlier tasks: the mean of log seconds, and its summed squares."""

    n: int
    log_mean: float
    log_m2: float

    def logs(self) -> list[float]:
        """A few log seconds with this mean and about this spread."""
        n = min(self.n, _HISTORY_SAMPLES)
        spread = math.sqrt(self.log_m2 / self.n)
        return [self.log_mean + spread * NormalDist().inv_cdf((i + 0.5) / n) for i in range(n)]


@dataclass(frozen=True, slots=True)
class Sample:
    """One finished leaf under a basis: log of (seconds ÷ basis); `size` is the basis itself."""

    log: float
    family: str
    size: float


class Spread:
    """Mean and spread of samples, family by family; larger ones count more (sums must be right)."""

    def __init__(self, samples: Sequence[Sample], *, centre: float, within: float, between: float):
        """Fit by moments.

        Args:
            samples: may be empty.
            centre: the mean log where there is no sample.
            within: prior spread inside a family, worth two samples.
            between: prior spread between families, worth two families.
        """
        groups: dict[str, list[Sample]] = {}
        for sample in samples:
            groups.setdefault(sample.family, []).append(sample)
        self.means = {k: _mean((s.log, s.size) for s in group) for k, group in groups.items()}
        self.sizes = {k: _effective(s.size for s in group) for k, group in groups.items()}
        self._residuals = [s.log - self.means[s.family] for s in samples]
        self._shares = list(accumulate(s.size for s in samples))
        self.within = self._within(samples, prior=within)
        self.mean, self.mean_sd, self.between = centre, between, between
        if groups:
            roots = {k: math.sqrt(sum(s.size for s in group)) for k, group in groups.items()}
            self._fit_families(roots, n=_effective(s.size for s in samples), prior=between)

    def _within(self, samples: Sequence[Sample], *, prior: float) -> float:
        n = _effective(s.size for s in samples) if samples else 0.0
        mean_square = _mean((r * r, s.size) for r, s in zip(self._residuals, samples, strict=True))
        free = max(0.0, n - len(self.means))
        return math.sqrt((_PRIOR_SAMPLES * prior**2 + mean_square * n) / (_PRIOR_SAMPLES + free))

    def _fit_families(self, roots: Mapping[str, float], *, n: float, prior: float) -> None:
        f = len(self.means)
        self.mean = _mean((m, roots[k]) for k, m in self.means.items())
        square = _mean(((m - self.mean) ** 2, roots[k]) for k, m in self.means.items()) * f
        noise = self.within**2 * sum(1 / size for size in self.sizes.values()) * (f - 1) / f
        squares = _PRIOR_SAMPLES * prior**2 + max(0.0, square - noise)
        self.between = math.sqrt(squares / (_PRIOR_SAMPLES + f - 1))
        self.mean_sd = math.sqrt((self.between**2 + self.within**2 / max(1.0, n / f)) / f)

    def effect(self, family: str, *, mean: float, fate: float, rng: random.Random) -> float:
        """Draw a family's own mean log.

        Args:
            family: a seen one is pulled to the overall mean by what its samples leave open.
            mean: the drawn overall mean.
            fate: what all unseen families share in this draw.
            rng: the generator.
        """
        if family not in self.means:
            farthest = max(self.means.values()) + _FARTHEST if self.means else math.inf
            return min(rng.gauss(mean + fate, self.between), farthest)
        among, noise = self.between**2, self.within**2 / self.sizes[family]
        share = among / (among + noise)
        return rng.gauss(mean + share * (self.means[family] - mean), math.sqrt(share * noise))

    def residuals(self, n: int, rng: random.Random) -> list[float]:
        """Draw `n` leaves' distances from their family: from what was seen, or normal."""
        seen = len(self._residuals)
        drawn = rng.choices(self._residuals, cum_weights=self._shares, k=n) if seen else [0.0] * n
        share = seen / (seen + 4)
        return [
            r if rng.random() < share else max(-2.5, min(2.5, rng.gauss(0.0, 1.0))) * self.within
            for r in drawn
        ]


@dataclass(frozen=True, slots=True)
class Outlook:
    """One open leaf, as far as drawing needs it."""

    key: tuple[Basis, str]
    """Its basis and its family."""
    log_basis: float
    already: float
    """Seconds that it runs already, 0 = it waits."""


class DurationModel:
    """Draws possible durations of leaves, given what finished, what runs and what was estimated."""

    def __init__(self, items: Sequence[Item], history: Mapping[str, History]) -> None:
        """Fit to the leaves among `items` that are completed or running."""
        self._finished = [i for i in items if i.state == "completed" and i.took_s is not None]
        self._running = [i for i in items if i.state == "running" and i.took_s]
        self._open = [i for i in items if i.slot and not i.done]
        likes = {i.like for i in self._open}
        self._history = {k: h for k, h in history.items() if k in likes and h.n > 0}
        self._floor = _FLOOR_SHARE * self._mean_seconds() + 1e-6
        self._rate = self._seconds_per_weight()
        self._by_weight = self._weight_explains()
        self._longest = self._longest_seconds()
        bases: set[Basis] = {self.basis(i) for i in self._open}
        self._spreads: dict[Basis, Spread] = {basis: self._fit(basis) for basis in bases}

    @property
    def finished(self) -> int:
        """Leaves that are completed with a known duration."""
        return len(self._finished)

    @property
    def informed(self) -> bool:
        """Whether there is an estimate or three like leaves, here or in the history."""
        estimated = any(i.estimated_s is not None for i in self._open)
        return estimated or len(self._finished) + sum(h.n for h in self._history.values()) >= 3

    def basis(self, item: Item) -> Basis:
        """What a leaf's duration is compared with."""
        if item.estimated_s is not None:
            return "estimate"
        return "weight" if self._by_weight else "none"

    def prepare(self, items: Sequence[Item]) -> list[Outlook | None]:
        """What `draw` needs of each item, once: None for a gate."""
        return [self._outlook(item) if item.slot else None for item in items]

    def draw(self, outlooks: Sequence[Outlook | None], rng: random.Random) -> list[float]:
        """Draw seconds still to go for each item: 0 for gates, the rest for what runs already."""
        means = {b: rng.gauss(s.mean, s.mean_sd) for b, s in self._spreads.items()}
        fates = {b: rng.gauss(0.0, 0.7 * s.between) for b, s in self._spreads.items()}
        effects: dict[tuple[Basis, str], float] = {}
        residuals = {b: iter(s.residuals(len(outlooks), rng)) for b, s in self._spreads.items()}
        seconds: list[float] = []
        for outlook in outlooks:
            if outlook is None:
                seconds.append(0.0)
                continue
            basis, family = outlook.key
            if outlook.key not in effects:
                effects[outlook.key] = self._spreads[basis].effect(
                    family, mean=means[basis], fate=fates[basis], rng=rng
                )
            centre = outlook.log_basis + effects[outlook.key]
            took = math.exp(min(50.0, centre + next(residuals[basis]))) - self._floor
            if outlook.already:
                seconds.append(self._rest(outlook, centre, took, rng))
            else:
                seconds.append(max(0.0, min(took, self._longest)))
        return seconds

    def _rest(self, outlook: Outlook, centre: float, took: float, rng: random.Random) -> float:
        """Seconds left of a leaf that runs already: draw until one outlasts it."""
        already = outlook.already
        for residual in self._spreads[outlook.key[0]].residuals(8, rng):
            if took > already:
                return min(took, max(self._longest, 2 * already)) - already
            took = math.exp(min(50.0, centre + residual)) - self._floor
        return already * rng.expovariate(2.0)

    def _outlook(self, item: Item) -> Outlook:
        basis = self.basis(item)
        already = (item.took_s or 0.0) if item.state == "running" else 0.0
        key = (basis, self._family(item, basis))
        return Outlook(key=key, log_basis=self._log_basis(item, basis), already=already)

    def _longest_seconds(self) -> float:
        """No leaf without estimate or weight is thought to take more than this."""
        if self._by_weight or any(i.estimated_s is not None for i in self._open):
            return math.inf
        seen = [i.took_s or 0.0 for i in (*self._finished, *self._running)]
        seen += [math.exp(h.logs()[-1]) for h in self._history.values()]
        return _BEYOND_LONGEST * max(seen, default=math.inf)

    def _family(self, item: Item, basis: Basis) -> str:
        known = self._spreads[basis].means
        return item.family if item.family in known or item.like not in known else item.like

    def _fit(self, basis: Basis) -> Spread:
        samples = [self._sample(i, i.took_s or 0.0, basis) for i in self._of(self._finished, basis)]
        if basis == "none":
            samples += [
                Sample(math.log(math.exp(log) + self._floor), like, 1.0)
                for like, history in self._history.items()
                for log in history.logs()
            ]
        fitted = self._spread(samples, basis)
        overdue = [
            sample
            for i in self._of(self._running, basis)
            if (sample := self._sample(i, _OVERDUE * (i.took_s or 0.0), basis)).log
            > fitted.means.get(i.family, fitted.mean)
        ]
        return self._spread(samples + overdue, basis) if overdue else fitted

    def _spread(self, samples: Sequence[Sample], basis: Basis) -> Spread:
        within, between = _PRIORS[basis]
        centre = math.log(self._mean_seconds() + self._floor) if basis == "none" else 0.0
        return Spread(samples, centre=centre, within=within, between=between)

    def _of(self, items: Iterable[Item], basis: Basis) -> list[Item]:
        return [i for i in items if basis != "estimate" or i.estimated_s is not None]

    def _sample(self, item: Item, seconds: float, basis: Basis) -> Sample:
        log = self._log_basis(item, basis)
        return Sample(math.log(seconds + self._floor) - log, item.family, math.exp(log))

    def _log_basis(self, item: Item, basis: Basis) -> float:
        if basis == "none":
            return 0.0
        expected = item.estimated_s if basis == "estimate" else item.weight * self._rate
        return math.log((expected or 0.0) + self._floor)

    def _mean_seconds(self) -> float:
        if self._finished:
            return fmean(i.took_s or 0.0 for i in self._finished)
        known = [i.estimated_s for i in self._open if i.estimated_s is not None]
        known += [math.exp(min(50.0, h.log_mean)) for h in self._history.values()]
        return fmean(known) if known else 1.0

    def _seconds_per_weight(self) -> float:
        weight = sum(i.weight for i in self._finished)
        return sum(i.took_s or 0.0 for i in self._finished) / weight if weight > 0 else 0.0

    def _weight_explains(self) -> bool:
        """Whether weights tell durations better than nothing does, as far as one can see."""
        weights = {i.weight for i in self._finished}
        if self._rate <= 0 or len(weights | {i.weight for i in self._open}) < 2:
            return False
        if len(self._finished) < 3 or len(weights) < 2:
            return True
        return self._variance("weight") < self._variance("none")

    def _variance(self, basis: Basis) -> float:
        logs = [self._sample(i, i.took_s or 0.0, basis).log for i in self._finished]
        mean = fmean(logs)
        return fmean((log - mean) ** 2 for log in logs)


def _mean(pairs: Iterable[tuple[float, float]]) -> float:
    """Weighted mean of (value, weight); 0 of nothing."""
    total = weight = 0.0
    for value, size in pairs:
        total += value * size
        weight += size
    return total / weight if weight else 0.0


def _effective(sizes: Iterable[float]) -> float:
    """How many equal samples tell as much as samples of these sizes (Kish)."""
    listed = list(sizes)
    return sum(listed) ** 2 / sum(size * size for size in listed)
