"""What a reader should look at first: flags worked out from what was found, nothing else."""

import re
from collections.abc import Iterator
from typing import TypedDict

from contract_rules.found import Found

LONG_NOTICE_DAYS = 120
SHORT_NOTICE_DAYS = 10
_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}


class Risk(TypedDict):
    """One flag: `level` is high, medium or low; `clause` names the quotes that belong to it."""

    code: str
    level: str
    text: str
    clause: str


def risks_of(found: Found) -> list[Risk]:
    """All flags of a contract, the gravest first."""
    order = {"high": 0, "medium": 1, "low": 2}
    flags = [
        Risk(code=code, level=level, text=text, clause=clause)
        for code, level, text, clause in (
            *_about_form(found),
            *_about_end(found),
            *_about_money(found),
        )
    ]
    return sorted(flags, key=lambda flag: order[flag["level"]])


_Flag = tuple[str, str, str, str]


def _about_form(found: Found) -> Iterator[_Flag]:
    if len(found.parties) < 2:
        yield ("parties_unclear", "high", "Fewer than two parties could be read.", "parties")
    if found.agreement_date is None and found.effective_date is None:
        yield ("no_date", "medium", "No date of agreement or effect.", "agreement_date")
    elif found.agreement_date and len(found.agreement_date) < 10 and not found.effective_date:
        yield (
            "incomplete_date",
            "medium",
            f"The date is incomplete ({found.agreement_date}).",
            "agreement_date",
        )
    if found.ambiguous_date:
        yield (
            "ambiguous_date",
            "low",
            "Day and month of a date could be swapped.",
            "agreement_date",
        )
    if found.governing_law is None:
        yield ("no_governing_law", "high", "No governing law is agreed.", "governing_law")


def _about_end(found: Found) -> Iterator[_Flag]:
    if found.length is None and found.expires is None and not found.perpetual:
        yield ("no_term", "medium", "No length or end of the term.", "term")
    if found.perpetual and not found.convenience:
        yield ("perpetual", "medium", "Runs without end and cannot be ended at will.", "term")
    if found.renewal == "automatic":
        days = _days(found.renewal_notice)
        if days is not None and days >= LONG_NOTICE_DAYS:
            text = f"Renews itself unless stopped {found.renewal_notice} before."
            yield ("auto_renewal_long_notice", "high", text, "renewal")
        else:
            notice = (
                f" unless stopped {found.renewal_notice} before" if found.renewal_notice else ""
            )
            yield ("auto_renewal", "medium", f"Renews itself{notice}.", "renewal")
    yield from _about_termination(found)


def _about_termination(found: Found) -> Iterator[_Flag]:
    clause = "termination_for_convenience"
    if not found.convenience:
        yield (
            "no_termination_for_convenience",
            "medium",
            "Cannot be ended without a reason.",
            clause,
        )
        return
    if found.one_sided:
        yield (
            "one_sided_termination",
            "medium",
            "Only one side may end it without a reason.",
            clause,
        )
    days = _days(found.convenience_notice)
    if days is not None and days < SHORT_NOTICE_DAYS:
        yield (
            "short_notice",
            "medium",
            f"May be ended on {found.convenience_notice} notice.",
            clause,
        )


def _about_money(found: Found) -> Iterator[_Flag]:
    if found.unlimited:
        yield (
            "unlimited_liability",
            "high",
            "Liability is unlimited in whole or part.",
            "unlimited_liability",
        )
    elif found.cap is None:
        yield ("no_liability_cap", "high", "Liability has no cap.", "liability_cap")


def _days(period: str | None) -> int | None:
    match = re.match(r"(\d+) (day|week|month|year)", period or "")
    return int(match[1]) * _DAYS[match[2]] if match else None
