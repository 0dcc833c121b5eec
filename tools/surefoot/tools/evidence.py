"""What checks are asked about: one attempt's result and artifacts, or a milestone's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from surefoot.graph.model_ports import Brief
from surefoot.graph.values import ArtifactRef, StoredValue
from surefoot.tools.bindings import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What checks are asked about.

    Attributes:
        scope: resolves `${...}` in the checks.
        result: the result as stored; None = there is none.
        skipping: positions in the result's list that stand for skipped children, left out.
        artifacts: the versions that an artifact's name means; each must hold; None = unknown.
        names: the artifact names that `python` checks are shown.
        subtask: whose attempt is checked, '' at milestones and acceptance.
        fresh: also look whether the content is still there and intact.
    """

    scope: Scope
    result: StoredValue | None
    artifacts: Callable[[str], Sequence[ArtifactRef] | None]
    names: tuple[str, ...] = ()
    skipping: frozenset[int] = frozenset()
    subtask: str = ""
    attempt: int = 0
    fresh: bool = False
    brief: Brief | None = None
    """What a judge's request says first."""
    results: Mapping[str, StoredValue] = field(default_factory=dict[str, StoredValue])
    """Further results that a judge is shown, by subtask (milestones and acceptance)."""
