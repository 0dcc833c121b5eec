"""What is logged while a command runs, one line each: a traceback is shown to who asks for it."""

import logging
import sys

from surefoot.service.words import one_line

MOST = 2000
"""Characters of a line."""


class _Line(logging.Formatter):
    """`surefoot: MESSAGE: ERROR`, without what led to it."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        why = f": {type(error).__name__}: {error}" if error is not None else ""
        return f"surefoot: {one_line(record.getMessage() + why, most=MOST)}"


def log_in_lines(*, debug: bool) -> None:
    """Write warnings and errors to stderr in lines; with `debug` as they are, with tracebacks.

    An application that embeds Surefoot and has set up its logging is left alone.
    """
    if debug:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_Line())
    logging.lastResort = handler
