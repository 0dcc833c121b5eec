"""Whether what covers a criterion also shows it: asked of plans that a model made.

A label in `covers` is only a claim. It counts where the subtask itself produces or checks
something: a declared artifact, or a check that a program evaluates.
"""

from collections.abc import Iterator

from surefoot.graph.checks import PROGRAM_CHECKS, Check, FileCheck, ResultCheck
from surefoot.graph.plan import Work
from surefoot.graph.references import find_references
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.validation.arguments import literal
from surefoot.graph.validation.globs import overlap, segments
from surefoot.graph.validation.outline import Case, Node
from surefoot.graph.values import Json


def has_evidence(node: Node) -> bool:
    """Whether anything a subtask produces or checks, it or what is inside it, can be verified."""
    inside = [node, *([node.each] if node.each else []), *(node.inner.nodes if node.inner else [])]
    return any(_shows(one.unit) or (one is not node and has_evidence(one)) for one in inside)


def touches(case: Case, check: FileCheck) -> bool:
    """Whether some subtask writes, checks or names the file that a criterion is about."""
    if find_references(check.path):
        return True
    return any(_touches(node, work, check.path) for node in case.nodes for _, work in node.works())


def _shows(work: Work) -> bool:
    if work.artifact_names() or (is_object(work.outputs) and work.outputs):
        return True
    return any(_proves(work, check) for check in work.success)


def _proves(work: Work, check: Check) -> bool:
    """A program's check proves something; that an agent said anything at all is only its word."""
    if check.type not in PROGRAM_CHECKS:
        return False
    bare = isinstance(check, ResultCheck) and check.model_fields_set <= {"type", "id"}
    return not (bare and work.kind == "agent")


def _touches(node: Node, work: Work, path: str) -> bool:
    if any(isinstance(check, FileCheck) and check.path == path for check in work.success):
        return True
    for glob in work.writes or ():
        known = literal(node.scope, glob)
        if known is None or overlap(segments(known), segments(path)):
            return True
    return any(path in text for text in _texts([work.args, work.instructions]))


def _texts(value: Json) -> Iterator[str]:
    stack: list[Json] = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            yield top
        elif is_object(top):
            stack.extend(top.values())
        elif is_array(top):
            stack.extend(top)
