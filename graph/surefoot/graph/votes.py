"""Votes: first to be ahead by k among independent samples, and what that costs.

A sample is one run of an agent to its `finish`. Samples agree when their results are the same
after normalising; what differs only in spelling of numbers, case, width or white space agrees.

Source of the rule and the formulas: E. Meyerson et al., "Solving a Million-Step LLM Task with
Zero Errors" (MAKER), arXiv 2511.09030, 2025: voting as the gambler's ruin. The formulas take all
wrong samples as one rival, which is the worst case.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Literal

from surefoot.graph.plain import canonical_json
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.values import Json

_EXACT = Context(prec=1000)
_LONGEST_NUMBER = 300


# --- the rule --------------------------------------------------------------------------------


def ballot(value: Json) -> str:
    """What a result votes for: the canonical JSON of its normalised value.

    Text: NFKC, case folded, white space as single blanks, none at the ends. A number, also one
    written as text, is its shortest exact decimal. Keys of mappings stay as they are.
    """
    return canonical_json(_normal(value))


@dataclass(frozen=True, slots=True)
class Tally:
    """Where an election stands. `winner` is a ballot once it is ahead by enough."""

    state: Literal["open", "won", "no_majority"]
    winner: str | None = None
    lead: int = 0


def tally(ballots: Sequence[str], *, ahead_by: int, left: int) -> Tally:
    """Count: won once a ballot is `ahead_by` before the next; lost once that is out of reach.

    Args:
        ballots: of the samples that were not thrown away, in any order.
        ahead_by: k, at least 1.
        left: samples that may still be taken.
    """
    first, second = (*Counter(ballots).most_common(2), ("", 0), ("", 0))[:2]
    lead = first[1] - second[1]
    if lead >= ahead_by:
        return Tally("won", first[0], lead)
    return Tally("open" if lead + left >= ahead_by else "no_majority", None, lead)


def _normal(value: Json) -> Json:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        return _normal_text(value)
    if isinstance(value, int | float):
        return _number(repr(value)) or str(value)
    if is_object(value):
        return {key: _normal(one) for key, one in value.items()}
    return [_normal(one) for one in value] if is_array(value) else value


def _normal_text(text: str) -> str:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    plain = " ".join(folded.split())
    return _number(plain) or plain


def _number(text: str) -> str | None:
    """The shortest exact decimal of a number's text; None where it is no number."""
    if not 0 < len(text) <= _LONGEST_NUMBER or text[-1] not in "0123456789.":
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if not number.is_finite() or abs(number.adjusted()) > _LONGEST_NUMBER:
        return None
    return "0" if number == 0 else f"{_EXACT.create_decimal(number).normalize(_EXACT):f}"


# --- what it is worth, and what it costs -----------------------------------------------------


def chance_of_right(p: float, k: int) -> float:
    """Chance that the right answer wins one vote: ``1 / (1 + ((1 - p) / p) ** k)``.

    Args:
        p: chance that a sample is right, 0 to 1.
        k: how far ahead the winner must be, at least 1.
    """
    if p in (0.0, 1.0):
        return p
    return 1.0 / (1.0 + ((1.0 - p) / p) ** k)


def chance_of_all(p: float, k: int, steps: int) -> float:
    """Chance that every one of `steps` votes is won by the right answer."""
    return chance_of_right(p, k) ** steps


def expected_votes(p: float, k: int) -> float:
    """Expected samples until one answer is `k` ahead: ``k (2P - 1) / (2p - 1)``, at p = 1/2 k².

    P is `chance_of_right`. It is the duration of the gambler's ruin from 0 to ±k.
    """
    if math.isclose(p, 0.5):
        return float(k * k)
    return k * (2.0 * chance_of_right(p, k) - 1.0) / (2.0 * p - 1.0)


def expected_cost(
    p: float, k: int, *, steps: int = 1, cost: float = 1.0, valid: float = 1.0
) -> float:
    """Expected cost of `steps` votes: ``steps * cost * expected_votes / valid``.

    Args:
        p: chance that a sample that was not thrown away is right.
        k: how far ahead the winner must be.
        steps: subtasks voted on.
        cost: of one sample, in any unit.
        valid: share of the samples that no red flag throws away, above 0.
    """
    return steps * cost * expected_votes(p, k) / valid


def least_ahead_by(p: float, target: float, steps: int) -> int:
    """The smallest k with which all `steps` votes are right with chance `target`.

    ``ceil(ln(target ** (-1 / steps) - 1) / ln((1 - p) / p))``, at least 1.

    Raises:
        ValueError: p is not above 1/2 (no k is enough), or target not between 0 and 1.
    """
    if not 0.5 < p <= 1.0 or not 0.0 < target < 1.0 or steps < 1:
        raise ValueError(f"no k reaches {target} with p = {p} over {steps} steps")
    if p == 1.0:
        return 1
    odds = math.expm1(-math.log(target) / steps)
    return max(1, math.ceil(math.log(odds) / math.log((1.0 - p) / p)))
