"""Where an id that a person gave stands: a subtask of this plan, a child, or inside a group."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from surefoot.graph.index import PlanIndex
from surefoot.graph.values import Record

MOST_NEAR = 3


@dataclass(frozen=True, slots=True)
class Place:
    """A subtask or child of this plan; `inner` is the rest of an id that goes on inside it."""

    id: str
    inner: str = ""


def place_of(id: str, index: PlanIndex, records: Mapping[str, Record]) -> Place | None:
    """The place of an id, None where the plan (as far as it is expanded) has none.

    What stands inside a group is not looked at.
    """
    head, *rest = id.split("/")
    if head not in index.raw:
        return None
    place, kind = head, index.raw[head]["kind"]
    if kind == "foreach" and rest:
        children = (records.get(head) or Record()).get("n", 0)
        if not _is_number_below(rest[0], children):
            return None
        place, kind = f"{head}/{rest[0]}", index.raw[head]["each"]["kind"]
        rest = rest[1:]
    if not rest:
        return Place(place)
    return Place(place, "/".join(rest)) if kind == "group" else None


def near_names(id: str, index: PlanIndex, records: Mapping[str, Record]) -> str:
    """What could have been meant by an unknown id, as the end of a sentence; '' for nothing."""
    head, slash, _ = id.partition("/")
    if slash and head in index.raw and index.raw[head]["kind"] == "foreach":
        children = (records.get(head) or Record()).get("n")
        if children is None:
            return f"; {head!r} has no children yet: its list is read when its turn comes"
        return f"; {head!r} has {children} children, numbered from 0"
    if slash and head in index.raw:
        return f"; {head!r} has no children"
    near = get_close_matches(head, index.raw, n=MOST_NEAR)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def _is_number_below(text: str, end: int) -> bool:
    """Whether it is a child's number, written as its id is."""
    return text.isdecimal() and text.isascii() and str(int(text)) == text and int(text) < end
