"""Messages between the main process and its tool processes: JSON, each after its length.

Four bytes of length (big-endian) and that many bytes of UTF-8 JSON. Both ends are ours.
"""

import json
import socket
from typing import cast

from surefoot.graph.values import JsonObject

_LENGTH = 4
_encode = json.JSONEncoder(separators=(",", ":")).encode


def frame(text: bytes) -> bytes:
    """A message as it goes over the wire."""
    return len(text).to_bytes(_LENGTH, "big") + text


def message(content: JsonObject) -> bytes:
    """A mapping as a framed message."""
    return frame(_encode(content).encode())


class Frames:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[JsonObject]:
        """Take in what arrived; returns the messages that are complete now."""
        if not self._rest and len(data) >= _LENGTH:
            size = int.from_bytes(data[:_LENGTH], "big")
            if len(data) == _LENGTH + size:  # the usual case: one whole message
                return [_parse(data[_LENGTH:])]
        self._rest += data
        return self._cut()

    def _cut(self) -> list[JsonObject]:
        found: list[JsonObject] = []
        while len(self._rest) >= _LENGTH:
            end = _LENGTH + int.from_bytes(self._rest[:_LENGTH], "big")
            if len(self._rest) < end:
                break
            found.append(_parse(bytes(self._rest[_LENGTH:end])))
            del self._rest[:end]
        return found


def receive(sock: socket.socket) -> JsonObject | None:
    """Wait for one whole message; None when the other end is gone."""
    head = _receive_exactly(sock, _LENGTH)
    body = None if head is None else _receive_exactly(sock, int.from_bytes(head, "big"))
    return None if body is None else _parse(body)


def _receive_exactly(sock: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        try:
            part = sock.recv(min(size - len(data), 1 << 20))
        except ConnectionError:
            return None
        if not part:
            return None
        data += part
    return bytes(data)


def _parse(text: bytes) -> JsonObject:
    return cast("JsonObject", json.loads(text))
