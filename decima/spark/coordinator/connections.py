"""`Connection`: frames of JSON to and from one driver, after both ends have proved themselves.

Both prove that they have the same secret, which itself is never sent. The coordinator sends a
random number. The driver answers with one of its own and HMAC-SHA256(secret, "driver" + both). The
coordinator then proves itself likewise, so that a program in its place learns nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any

from decima.spark import frames
from decima.spark.coordinator.messages import MessageError
from traces.files.reading import parse_json

DRIVER, COORDINATOR = b"driver", b"coordinator"
HELLO_BYTES = 1_024
"""longest frame before the proof"""
HELLO_S = 5.0
"""time for a proof to come"""
MAX_BYTES = 16 << 20
"""longest frame of a driver"""
_MAX_UNSENT = 1 << 16
"""bytes that a driver may leave unread"""


def proof(secret: bytes, who: bytes, first: str, second: str) -> str:
    """Return the proof of one end for a pair of random numbers: the coordinator's, the driver's."""
    return hmac.new(secret, who + first.encode() + second.encode(), hashlib.sha256).hexdigest()


def is_proof(given: object, secret: bytes, who: bytes, first: str, second: str) -> bool:
    """Return whether a value is the proof of that end, in constant time."""
    if not isinstance(given, str) or not given.isascii():
        return False
    return hmac.compare_digest(given, proof(secret, who, first, second))


class Connection:
    """Connection of a driver."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def is_known(self, secret: bytes) -> bool:
        """Return whether the driver proved in time that it has the secret."""
        first = secrets.token_hex(32)
        self.send({"nonce": first})
        try:
            async with asyncio.timeout(HELLO_S):
                hello = await self.receive(HELLO_BYTES)
        except (TimeoutError, MessageError):
            return False
        second = None if hello is None else hello.get("nonce")
        if hello is None or not isinstance(second, str) or not second.isascii():
            return False
        if not is_proof(hello.get("proof"), secret, DRIVER, first, second):
            return False
        self.send({"proof": proof(secret, COORDINATOR, first, second)})
        return True

    async def receive(self, max_bytes: int = MAX_BYTES) -> dict[str, Any] | None:
        """Wait for the next message; None if the driver is gone.

        Raises:
            MessageError: it is too long, or no JSON object.
        """
        try:
            head = await self._reader.readexactly(frames.LENGTH.size)
            (length,) = frames.LENGTH.unpack(head)
            if length > max_bytes:
                raise MessageError(f"a frame of {length} bytes; at most {max_bytes}")
            data = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        message = parse_json(data, "message of a driver", MessageError)
        if not isinstance(message, dict):
            raise MessageError(f"message of a driver: {message!r:.60} is no JSON object")
        return message

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message without waiting; a driver that does not read is cut off."""
        data = json.dumps(message).encode()
        self._writer.write(frames.LENGTH.pack(len(data)) + data)
        if self._writer.transport.get_write_buffer_size() > _MAX_UNSENT:
            self.close()

    def close(self) -> None:
        """Hang up at once."""
        self._writer.transport.abort()
