"""Database addresses as text: parsed, completed, and kept out of messages."""

import contextlib
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from surefoot.graph.errors import UsageError

CONNECT_SECONDS = 10


def conninfo(url: str, options: str = "") -> str:
    """The connection string of a URL with our session settings added to its own.

    Raises:
        UsageError: `database_url`: it is not one. The text does not repeat it: it may be a secret.
    """
    parsed = _parsed(url)
    own = f"{parsed.pop('options', None) or ''} -c timezone=UTC {options}".strip()
    parsed.setdefault("connect_timeout", CONNECT_SECONDS)
    parsed.setdefault("application_name", "surefoot")
    return make_conninfo("", options=own, **parsed)


def _parsed(url: str) -> dict[str, Any]:
    with contextlib.suppress(psycopg.ProgrammingError):
        parsed = conninfo_to_dict(url)
        # A password with a bare `@` or `/` in it slips into host or port, and from there into the
        # server library's messages.
        host, port = str(parsed.get("host") or ""), str(parsed.get("port") or "")
        if "@" not in host and port.replace(",", "").isdigit() == bool(port):
            return parsed
    raise UsageError(
        "database_url",
        "SUREFOOT_DATABASE_URL is not a PostgreSQL address: write "
        "postgresql://USER:PASSWORD@HOST:5432/DATABASE (special characters percent-encoded)",
    )


def describe(exc: BaseException, url: str) -> str:
    """The first line of an error, with the URL's password blotted out."""
    lines = str(exc).strip().splitlines()
    text = lines[0].strip() if lines else type(exc).__name__
    try:
        password = conninfo_to_dict(url).get("password")
    except psycopg.ProgrammingError:
        return "the address cannot be read"
    return text.replace(str(password), "***") if password else text
