"""The SQL of this package, kept in `sql/*.sql` as named queries.

A query starts at a line `-- name: NAME`; comment lines after it describe it and are dropped.
"""

import functools
from importlib.resources import files


@functools.cache
def queries(room: str) -> dict[str, bytes]:
    """All queries of `sql/ROOM.sql` by name, as bytes (psycopg takes those as they are)."""
    text = (files("surefoot.checkpointing") / "sql" / f"{room}.sql").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("-- name: "):
            lines = found.setdefault(line.removeprefix("-- name: ").strip(), [])
        elif not line.lstrip().startswith("--"):
            lines.append(line.strip())
    # On one line: psycopg remembers how it prepared a query only up to 4 kB of text.
    return {name: " ".join(body).strip().encode() for name, body in found.items()}
