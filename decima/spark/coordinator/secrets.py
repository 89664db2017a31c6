"""Proof that both ends of a connection have the same secret, which itself is never sent.

The coordinator sends a random number. The driver answers with one of its own and
HMAC-SHA256(secret, "driver" + both). The coordinator then proves itself likewise, so that a program
that listens in its place learns nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from decima.spark.errors import AttachError
from traces.files.private import read_private

_BYTES = 32
_LEAST = 16
DRIVER, COORDINATOR = b"driver", b"coordinator"


def nonce() -> str:
    """Return a random number as text."""
    return secrets.token_hex(_BYTES)


def proof(secret: bytes, who: bytes, first: str, second: str) -> str:
    """Return the proof of one end for a pair of random numbers: the coordinator's, the driver's."""
    return hmac.new(secret, who + first.encode() + second.encode(), hashlib.sha256).hexdigest()


def is_proof(given: object, secret: bytes, who: bytes, first: str, second: str) -> bool:
    """Return whether a value is the proof of that end, in constant time."""
    if not isinstance(given, str):
        return False
    return hmac.compare_digest(given.encode(), proof(secret, who, first, second).encode())


def read_secret(path: Path) -> bytes:
    """Read a secret from a file that only its owner can have written.

    Raises:
        AttachError: there is no such file, others may read or write it, or it is too short.
    """
    found = read_private(path)
    if found is None or path.stat().st_mode & 0o077:
        raise AttachError(
            f"{path}: a file of yours is needed that no other user may read (mode 0600)"
        )
    secret = found.strip()
    if len(secret) < _LEAST:
        raise AttachError(f"{path}: a secret of {_LEAST} bytes or more is needed")
    return secret
