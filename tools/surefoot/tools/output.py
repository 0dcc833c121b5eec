"""What tool processes print, as log lines of the subtask they work for.

Read in the event loop from a pipe, bounded per call; a flood is slowed down, not kept.
"""

import asyncio
import os
from collections.abc import Callable

from surefoot.graph.plain import clean_text

MAX_LINE_CHARS = 4000
MAX_CALL_BYTES = 1024 * 1024
"""What one call may print into the log; the rest is read and dropped."""

_READ_BYTES = 65536
_FLOOD_PAUSE_S = 0.005

Sink = Callable[[str, int, str], None]
"""Takes (subtask, attempt, line)."""


class OutputPipe:
    """The reading end of a pipe that a tool process has as its standard output."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sink: Sink) -> None:
        self._loop = loop
        self._sink = sink
        self._fd, self.write_fd = os.pipe()
        os.set_blocking(self._fd, False)
        self._rest = b""
        self._taken = 0
        self._subtask, self._attempt = "", 0
        self._open = True
        loop.add_reader(self._fd, self._on_readable)

    def attribute(self, subtask: str, attempt: int) -> None:
        """What comes from now on belongs to this attempt."""
        self._subtask, self._attempt, self._taken = subtask, attempt, 0

    def drain(self) -> None:
        """Take what is there now, with an unfinished last line: a call has ended."""
        for _ in range(_READ_BYTES // 4096):
            if not self._read():
                break
        if self._rest:
            self._emit(self._rest)
            self._rest = b""

    def close_write_end(self) -> None:
        """The child has its own copy now."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def close(self) -> None:
        """Take what is left and close; may be called again."""
        if not self._open:
            return
        self.drain()
        self._open = False
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self.close_write_end()

    def _on_readable(self) -> None:
        self._read()
        if self._open and self._taken > MAX_CALL_BYTES:
            # A tool that prints without end must not take the loop from everybody else.
            self._loop.remove_reader(self._fd)
            self._loop.call_later(_FLOOD_PAUSE_S, self._listen_again)

    def _listen_again(self) -> None:
        if self._open:
            self._loop.add_reader(self._fd, self._on_readable)

    def _read(self) -> bool:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(self._fd)
            return False
        self._take(data)
        return True

    def _take(self, data: bytes) -> None:
        before, self._taken = self._taken, self._taken + len(data)
        if before > MAX_CALL_BYTES:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._emit(line)
        if len(self._rest) > MAX_LINE_CHARS:
            self._emit(self._rest)
            self._rest = b""
        if self._taken > MAX_CALL_BYTES:
            self._rest = b""  # its end will not come: the note is the last that is said
            self._emit(f"(more than {MAX_CALL_BYTES} bytes printed: the rest is left out)".encode())

    def _emit(self, line: bytes) -> None:
        text = clean_text(line.rstrip(b"\r").decode(errors="surrogateescape"))
        if len(text) > MAX_LINE_CHARS:
            text = text[:MAX_LINE_CHARS] + f" ... ({len(text)} characters)"
        self._sink(self._subtask, self._attempt, text)
