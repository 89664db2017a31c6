"""Proof that both ends of a connection have the same secret, which itself is never sent.

The coordinator sends a random number. The driver answers with one of its own and
HMAC-SHA256(secret, "driver" + both). The coordinator then proves itself likewise, so that a program
that listens in its place learns nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

_BYTES = 32
DRIVER, COORDINATOR = b"driver", b"coordinator"


def nonce() -> str:
    """Return a random number as text."""
    return secrets.token_hex(_BYTES)


def proof(secret: bytes, who: bytes, first: str, second: str) -> str:
    """Return the proof of one end for a pair of random numbers: the coordinator's, the driver's."""
    return hmac.new(secret, who + first.encode() + second.encode(), hashlib.sha256).hexdigest()


def is_proof(given: object, secret: bytes, who: bytes, first: str, second: str) -> bool:
    """Return whether a value is the proof of that end, in constant time."""
    if not isinstance(given, str) or not given.isascii():
        return False
    return hmac.compare_digest(given, proof(secret, who, first, second))
