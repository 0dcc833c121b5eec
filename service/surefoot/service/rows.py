"""What the table rows say, in the words of the pure modules."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from surefoot.graph.values import JsonObject, SubtaskState
from surefoot.graph.workload import Seen

Row = Mapping[str, Any]
"""A row as psycopg's `dict_row` gives it: timestamptz as aware datetime, jsonb as plain values."""


def iso(moment: datetime | float | None) -> str | None:
    """A moment as ISO 8601 in UTC with milliseconds and Z."""
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def posix(moment: datetime | None) -> float | None:
    """A moment as POSIX seconds."""
    return None if moment is None else moment.timestamp()


def states_of(subtasks: Iterable[Row]) -> dict[str, SubtaskState]:
    """State by subtask id."""
    return {row["id"]: row["state"] for row in subtasks}


def children_of(subtasks: Iterable[Row]) -> dict[str, int]:
    """Number of children of every expanded foreach."""
    return {row["id"]: row["n"] for row in subtasks if row["n"] is not None}


def seen_of(subtasks: Iterable[Row]) -> dict[str, Seen]:
    """What the estimate of the remaining time needs of every touched subtask."""
    return {
        row["id"]: Seen(
            state=row["state"],
            started=posix(row["started_at"]),
            finished=posix(row["ended_at"]),
            children=row["n"],
        )
        for row in subtasks
    }


def without_nothing(facts: JsonObject, *, keep: Iterable[str] = ()) -> JsonObject:
    """The facts that apply; `keep` stay even when they are None."""
    kept = set(keep)
    return {name: value for name, value in facts.items() if value is not None or name in kept}
