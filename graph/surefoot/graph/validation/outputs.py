"""Two makers of one thing: artifacts of one name, and workspace paths of unordered subtasks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from surefoot.graph.references import find_references
from surefoot.graph.validation.arguments import literal
from surefoot.graph.validation.globs import Segments, literal_head, overlap, segments
from surefoot.graph.validation.outline import Case, Node, Scope
from surefoot.graph.validation.reachability import unordered
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.result_types import declared_artifacts
from surefoot.graph.validation.wording import listed

MOST_COMPARED = 100_000
"""Subtasks looked at in comparing globs pair by pair; what is beyond is left out (a warning)."""


def check_outputs(case: Case, findings: Findings) -> None:
    """Note `output_conflict` in every plan."""
    for scope in case.scopes:
        _check_artifacts(scope, findings)
        _check_writes(scope, findings)


def _check_artifacts(scope: Scope, findings: Findings) -> None:
    makers: dict[str, list[str]] = {}
    for node in scope.nodes:
        for name in declared_artifacts(node):
            makers.setdefault(name, []).append(node.id)
    for name, ids in makers.items():
        distinct = list(dict.fromkeys(ids))
        if len(distinct) > 1:
            findings.fault(
                "output_conflict",
                f"the output {name!r} is declared by {listed(distinct)}; "
                "an artifact has one maker, give them different names",
                distinct,
            )


# --- workspace paths -------------------------------------------------------------------------


MOST_TOLD = 100
"""Conflicting pairs told one by one; those beyond share a fault."""


@dataclass(slots=True)
class _Claim:
    """A glob and the positions of the subtasks that may write there."""

    pattern: str
    parts: Segments
    positions: list[int] = field(default_factory=list[int])


def _check_writes(scope: Scope, findings: Findings) -> None:
    claims = _claims(scope)
    claimed = {position for claim in claims for position in claim.positions}
    if len(claimed) < 2:
        return
    rank = _ranks(scope)
    if not _gaps(scope, sorted(claimed, key=rank.__getitem__)):
        return  # all that write at all come one after the other
    groups = [({claim.pattern}, claim.positions) for claim in claims]
    pairs, complete = _overlapping(claims)
    groups += [
        ({one.pattern, other.pattern}, one.positions + other.positions) for one, other in pairs
    ]
    _note_conflicts(scope, groups, rank, findings)
    if not complete:
        findings.warn(
            "output_conflict",
            "too many `writes` with wildcards to compare them all; state narrower ones",
        )


def _claims(scope: Scope) -> list[_Claim]:
    found: dict[str, _Claim] = {}
    for position, node in enumerate(scope.nodes):
        for pattern in dict.fromkeys(_patterns(node)):
            claim = found.get(pattern)
            if claim is None:
                claim = found[pattern] = _Claim(pattern, segments(pattern))
            if claim.positions[-1:] != [position]:
                claim.positions.append(position)
    return list(found.values())


def _patterns(node: Node) -> Iterator[str]:
    """The known globs a subtask may write, those of rungs, children and inner plan included."""
    stack = [node]
    while stack:
        top = stack.pop()
        for _, work in top.works():
            for glob in work.writes or []:
                known = literal(top.scope, glob) if find_references(glob) else glob
                if known is not None:
                    yield known
        if top.each is not None:
            stack.append(top.each)
        if top.inner is not None:
            stack += top.inner.nodes


def _ranks(scope: Scope) -> dict[int, int]:
    """Each position's place in an order in which needs come first."""
    flat = [position for component in scope.order for position in component]
    return {position: rank for rank, position in enumerate(flat)}


def _gaps(scope: Scope, positions: Sequence[int]) -> set[tuple[int, int]]:
    """Neighbours, in an order where needs come first, of which neither needs the other.

    None at all means that the positions form a chain.
    """
    questions = [(later, earlier) for earlier, later in pairwise(positions)]
    return unordered(scope.needs, scope.order, questions)


def _overlapping(claims: Sequence[_Claim]) -> tuple[list[tuple[_Claim, _Claim]], bool]:
    """Pairs of different globs that share a path, and whether all pairs were compared.

    Only globs of which one's literal head begins the other's can share one, so each is compared
    with those at and above its own head in a tree of heads.
    """
    by_head: dict[Segments, list[_Claim]] = {}
    found: list[tuple[_Claim, _Claim]] = []
    compared = 0
    for claim in sorted(claims, key=lambda c: len(literal_head(c.parts))):
        head = literal_head(claim.parts)
        for length in range(len(head) + 1):
            for other in by_head.get(head[:length], ()):
                compared += 1
                if compared > MOST_COMPARED:
                    return found, False
                if overlap(claim.parts, other.parts):
                    compared += len(other.positions) + len(claim.positions)
                    found.append((other, claim))
        by_head.setdefault(head, []).append(claim)
    return found, True


def _note_conflicts(
    scope: Scope,
    groups: Sequence[tuple[set[str], list[int]]],
    rank: dict[int, int],
    findings: Findings,
) -> None:
    """Ask about all groups at once, and note those in which somebody is unordered."""
    chains = [sorted(set(positions), key=rank.__getitem__) for _, positions in groups]
    questions = {(later, earlier) for chain in chains for earlier, later in pairwise(chain)}
    late = unordered(scope.needs, scope.order, questions)
    told: set[tuple[int, int]] = set()
    rest: set[int] = set()
    for (patterns, _), chain in zip(groups, chains, strict=True):
        gaps = {pair for pair in zip(chain[1:], chain, strict=False) if pair in late}
        if not gaps - told:
            continue
        told |= gaps
        involved = {n for pair in gaps for n in pair}
        meeting = [n for n in chain if n in involved]
        if len(told) > MOST_TOLD and len(meeting) == 2:
            rest.update(meeting)
            continue
        _note_conflict([scope.nodes[n].id for n in meeting], sorted(patterns), findings)
    if rest:
        _note_conflict([scope.nodes[n].id for n in sorted(rest)], [], findings)


def _note_conflict(ids: Sequence[str], patterns: Sequence[str], findings: Findings) -> None:
    where = f" ({listed(patterns)})" if patterns else ""
    findings.fault(
        "output_conflict",
        f"{listed(ids)} may write the same paths{where} at the same time; order them with "
        "depends_on or let them write elsewhere",
        ids,
    )
