"""What the rules of one contract fill in, language by language."""

from dataclasses import dataclass, field

from contract_rules.spans import Quote


@dataclass(slots=True)
class Found:
    """None and False mean: not found. Every value is supported by a quote of its clause."""

    parties: list[tuple[str, str | None]] = field(default_factory=list)
    """(name, what the contract calls it)"""
    agreement_date: str | None = None
    effective_date: str | None = None
    ambiguous_date: bool = False
    governing_law: str | None = None
    length: str | None = None
    perpetual: bool = False
    expires: str | None = None
    renewal: str | None = None
    """`automatic` or `by agreement`"""
    renewal_notice: str | None = None
    convenience: bool = False
    one_sided: bool = False
    """Only one side may end the contract at will."""
    convenience_notice: str | None = None
    cause: bool = False
    cure_period: str | None = None
    cap: str | None = None
    excludes_indirect: bool = False
    unlimited: bool = False
    quotes: list[Quote] = field(default_factory=list)

    def add(self, quote: Quote, *, most: int = 4) -> None:
        """Keep a quote, at most `most` of its clause and no sentence twice."""
        same = [q for q in self.quotes if q.clause == quote.clause]
        if len(same) < most and not any(q.start == quote.start for q in same):
            self.quotes.append(quote)
