"""Where in a task file something is: from a parser's location to words and ids."""

from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.values import Json, JsonObject

Step = str | int

_NAMED = {
    "subtasks": "subtask",
    "phases": "phase",
    "milestones": "milestone",
    "objectives": "objective",
    "acceptance": "acceptance",
}
"""Lists whose items are called by their id."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a mapping.

    Attributes:
        path: the steps that exist, from the root.
        labels: the location's steps that are no keys: names of alternatives.
        missing: the last step, when it is a key that is not there.
        value: what is at `path`.
        label_at: length of `path` where the first alternative that is a choice of types begins.
    """

    path: tuple[Step, ...]
    labels: tuple[str, ...]
    missing: str | None
    value: Json
    label_at: int | None


def locate(
    mapping: JsonObject, loc: Sequence[Step], *, tags: frozenset[str], absent: bool
) -> Place:
    """Follow a parser's location as far as the data goes.

    Args:
        mapping: the data.
        loc: keys, indexes, and between them the names of alternatives.
        tags: alternatives chosen by the data itself (a check's `type`), not by trying.
        absent: the last step is a key that is not there.
    """
    value: Json = mapping
    path: list[Step] = []
    labels: list[str] = []
    label_at: int | None = None
    missing: str | None = None
    for n, step in enumerate(loc):
        if is_object(value) and step in value:
            value = value[str(step)]
            path.append(step)
        elif is_array(value) and isinstance(step, int) and step < len(value):
            value = value[step]
            path.append(step)
        elif absent and n == len(loc) - 1:
            missing = str(step)
        else:
            labels.append(str(step))
            if label_at is None and step not in tags:
                label_at = len(path)
    return Place(tuple(path), tuple(labels), missing, value, label_at)


def at(mapping: JsonObject, path: Sequence[Step]) -> Json:
    """The value at an existing path."""
    value: Json = mapping
    for step in path:
        value = value[step]
    return value


def ids_at(mapping: JsonObject, path: Sequence[Step]) -> tuple[str, ...]:
    """The id a place is about: the innermost named item on the way, inner ones as `outer/inner`."""
    prefix = ""
    found: tuple[str, ...] = ()
    for n in range(1, len(path)):
        if path[n - 1] not in _NAMED or not isinstance(path[n], int):
            continue
        name = _id_of(at(mapping, path[: n + 1]))
        if name is None:
            found = ()
            continue
        found = (prefix + name,)
        if path[n - 1] == "subtasks":
            prefix = f"{prefix}{name}/"
            if "each" in path[n + 1 : n + 2]:
                prefix += "*/"
    return found


def words_for(mapping: JsonObject, path: Sequence[Step]) -> str:
    """A place in words: `subtask 'review', each.success[0]`."""
    words = ""
    rest = ""
    for n, step in enumerate(path):
        if isinstance(step, int) and n and path[n - 1] in _NAMED:
            before = str(path[n - 1])
            name = _id_of(at(mapping, path[: n + 1]))
            called = f"{_NAMED[before]} {name!r}" if name is not None else f"{before}[{step}]"
            words = f"{words}, {called}" if words else called
            rest = ""
        else:
            rest += f"[{step}]" if isinstance(step, int) else f".{step}"
    rest = rest.lstrip(".")
    return f"{words}, {rest}" if words and rest else words or rest or "the task file"


def _id_of(item: Json) -> str | None:
    name = item.get("id") if is_object(item) else None
    return name if isinstance(name, str) else None
