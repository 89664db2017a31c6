"""Frames between the plugin and its worker: a length (4 bytes, big endian) and so many bytes."""

from __future__ import annotations

import socket
import struct

MAX_BYTES = 1 << 28
"""longest frame"""
LENGTH = struct.Struct(">I")
"""head of a frame"""


class FrameError(ValueError):
    """Error of a frame that is too long; one line."""


def send(end: socket.socket, data: bytes) -> None:
    """Send a frame, within the timeout of `end`.

    Raises:
        OSError: TimeoutError, or no process listens.
    """
    end.sendall(LENGTH.pack(len(data)) + data)


def receive(end: socket.socket) -> bytes | None:
    """Wait for the next frame; None when the other end is gone.

    Raises:
        FrameError: it is too long.
    """
    head = _exactly(end, LENGTH.size)
    if head is None:
        return None
    (length,) = LENGTH.unpack(head)
    if length > MAX_BYTES:
        raise FrameError(f"a frame of {length} bytes; at most {MAX_BYTES}")
    return _exactly(end, length)


def _exactly(end: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        try:
            part = end.recv(count - len(data))
        except ConnectionError:
            return None
        if not part:
            return None
        data += part
    return bytes(data)
